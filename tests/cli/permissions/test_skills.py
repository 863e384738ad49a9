"""`nacre admin extensions skills`, and what `nacre doctor` says of skills and tool servers."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.program import run_here
from tests.runtime.agents import write_settings


def test_skills_are_listed_and_checked(tmp_path: Path) -> None:
    """One that can be used, one that is switched off, and one that is broken, which ends with 1."""
    assert "There are no skills" in run_here(tmp_path, "admin", "extensions", "skills").stdout
    for name in ("brew-tea", "bake-bread"):
        folder = tmp_path / ".nacre/workspace/skills" / name
        folder.mkdir(parents=True)
        (folder / "SKILL.md").write_text(f"---\nname: {name}\ndescription: Does it.\n---\n")
    server = {"command": "no-such-program"}
    write_settings(
        tmp_path / ".nacre",
        {"skills": {"entries": {"brew-tea": {"enabled": False}}}, "mcp": {"servers": {"gone": server}}},
    )
    ended = run_here(tmp_path, "admin", "extensions", "skills")
    assert ended.returncode == 0
    assert "bake-bread (on)  skills/bake-bread/SKILL.md\n    Does it.\nbrew-tea (off)" in ended.stdout

    (tmp_path / ".nacre/workspace/skills/brew-tea/SKILL.md").write_text("tea")
    ended = run_here(tmp_path, "admin", "extensions", "skills", "--json")
    assert ended.returncode == 1
    told = json.loads(ended.stdout)
    assert [skill["name"] for skill in told["skills"]] == ["bake-bread"]
    assert "skills/brew-tea is left out" in told["problems"][0]

    said = run_here(tmp_path, "doctor").stdout
    assert "'no-such-program'" in said
    assert "The skill skills/brew-tea is left out" in said
