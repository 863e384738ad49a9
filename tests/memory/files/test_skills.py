"""Skills of a workspace: which are found, and what is said of those that break the format."""

from __future__ import annotations

from pathlib import Path

import pytest

from nacre.memory.files.skills import Skill, SkillBroken, Skills, parsed_skill
from nacre.memory.workspace.folder import FolderWorkspace

GOOD = "---\nname: brew-tea\ndescription: Brews tea.\nlicense: MIT\n---\n\n# How\n"


def write(workspace: Path, folder: str, text: str) -> Path:
    """A skill's file."""
    file = workspace / "skills" / folder / "SKILL.md"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    return file


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("# Brew tea\n", "front matter between two lines"),
        ("---\nname: brew-tea\n", "front matter between two lines"),
        ("---\ndescription: x\n---\n", "has no name"),
        ("---\nname: Brew_Tea\ndescription: x\n---\n", "a-z, 0-9 and single hyphens"),
        ("---\nname: brew--tea\ndescription: x\n---\n", "a-z, 0-9 and single hyphens"),
        ("---\nname: make-tea\ndescription: x\n---\n", "both must be the same"),
        ("---\nname: brew-tea\ndescription: ' '\n---\n", "has no description"),
        (f"---\nname: brew-tea\ndescription: {'x' * 1025}\n---\n", "has 1025 characters"),
        ("---\nname: brew-tea\ndescription: Use it: for tea\n---\n", "not YAML in line 3"),
        ("---\n- brew-tea\n---\n", "no keys"),
        ("---\nname: !!python/object/apply:os.getcwd []\n---\n", "not YAML"),
    ],
)
def test_what_breaks_the_format_is_said_in_a_sentence(text: str, problem: str) -> None:
    """Each rule of the format has its own."""
    with pytest.raises(SkillBroken, match=problem):
        parsed_skill(text, folder="brew-tea", path="skills/brew-tea/SKILL.md")


async def test_skills_are_found_and_followed(tmp_path: Path) -> None:
    """A folder without a skill is told; a changed, a new and a removed file are seen at the next look."""
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    skills = Skills(FolderWorkspace(workspace, lock_dir=tmp_path / "locks"))
    assert (await skills.found()).skills == ()
    file = write(workspace, "brew-tea", GOOD.replace("\n", "\r\n"))
    write(workspace, "broken", "nothing")
    (workspace / "skills" / "empty").mkdir()
    found = await skills.found()
    path = "skills/brew-tea/SKILL.md"
    assert found.skills == (Skill(name="brew-tea", description="Brews tea.", path=path),)
    assert [line.split(".")[0] for line in found.problems] == [
        "The skill skills/broken is left out",
        "The skill skills/empty is left out",
    ]
    write(workspace, "brew-tea", GOOD.replace("Brews tea.", "Brews green tea."))
    assert (await skills.found()).skills[0].description == "Brews green tea."
    file.unlink()
    assert (await skills.found()).skills == ()


async def test_a_link_out_of_the_workspace_is_no_skill(tmp_path: Path) -> None:
    """Neither a folder nor a file of elsewhere comes in through a link."""
    workspace, elsewhere = tmp_path / "workspace", tmp_path / "elsewhere"
    write(elsewhere, "brew-tea", GOOD)
    (workspace / "skills" / "tea").mkdir(parents=True)
    (workspace / "skills/brew-tea").symlink_to(elsewhere / "skills/brew-tea")
    (workspace / "skills/tea/SKILL.md").symlink_to(elsewhere / "skills/brew-tea/SKILL.md")
    found = await Skills(FolderWorkspace(workspace, lock_dir=tmp_path / "locks")).found()
    assert found.skills == ()
    assert len(found.problems) == 2
    assert all("SKILL.md cannot be read" in line for line in found.problems)
    assert not any(line.endswith("..") for line in found.problems)
