"""What an agent's settings may not reach: the places of every other agent of the list."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from nacre.runtime.contracts.errors import ConfigError
from nacre.runtime.settings.config import load_config
from tests.faults.apart.isolation import listed, with_secrets


def refused(state_dir: Path, agent_id: str = "main") -> str:
    """Why an agent cannot be opened."""
    with pytest.raises(ConfigError) as caught:
        load_config({"HOME": str(state_dir / "home")}, state_dir=state_dir, agent_id=agent_id)
    return str(caught.value)


@pytest.mark.parametrize(
    "path",
    [
        "{state}/workspace-work",
        "{state}/workspace-work/memory/2026-03-14.md",
        "../workspace-work/memory",
        "{state}",
        "{state}/*/MEMORY.md",
        "{state}/work*/**/*.md",
        "../workspace-*/*.md",
        "~/../workspace-work",
        "{state}/workspace/linked",
        "linked/memory",
        "{state}/agents/work/sessions",
        "{state}/agents",
        "{state}/memory/work.sqlite",
    ],
)
async def test_extra_paths_into_another_agent_are_refused(tmp_path: Path, path: str) -> None:
    """Absolute, relative, above it, by pattern, through a link: the sentence names both and the way out."""
    listed(tmp_path, {"memorySearch": {"extraPaths": [path.format(state=tmp_path)]}}, {})
    await with_secrets(tmp_path)
    (tmp_path / "home").mkdir()
    (tmp_path / "workspace").mkdir()
    (tmp_path / "workspace" / "linked").symlink_to(tmp_path / "workspace-work")

    text = refused(tmp_path)

    assert "in memorySearch.extraPaths of agent 'main' reaches the" in text
    assert "of agent 'work'" in text
    assert "allowPaths" in text


@pytest.mark.parametrize(
    "path", ["{state}/home/notes", "{state}/home-*/*.md", "{state}/h*/**/*.md", "~/notes"]
)
def test_other_extra_paths_are_fine(tmp_path: Path, path: str) -> None:
    """What lies beside the other agent's folders, and a pattern that leads elsewhere, is fine."""
    (tmp_path / "home" / "notes").mkdir(parents=True)
    listed(tmp_path, {"memorySearch": {"extraPaths": [path.format(state=tmp_path)]}}, {})

    assert load_config({"HOME": str(tmp_path / "home")}, state_dir=tmp_path).notices == ()


QMD = [
    ("{state}/workspace-work", "**/*.md"),
    ("{state}/workspace-work/MEMORY.md", "**/*.md"),
    ("../workspace-work/memory", "**/*.md"),
    ("{state}", "**/*.md"),
    ("{state}", "{{agents,chats}}/**/*.md"),
    ("{state}", "**work/*.md"),
    ("~/..", "*/*.md"),
    ("linked", "**/*.md"),
    ("{state}/agents/work", "**/*.md"),
]


@pytest.mark.parametrize(("path", "pattern"), QMD)
def test_paths_of_qmd_into_another_agent_are_refused(tmp_path: Path, path: str, pattern: str) -> None:
    """As extra paths are, where qmd is what is asked."""
    (tmp_path / "home").mkdir()
    (tmp_path / "workspace").mkdir()
    (tmp_path / "workspace" / "linked").symlink_to(tmp_path / "workspace-work")
    asked = {"path": path.format(state=tmp_path), "pattern": pattern.format()}
    listed(tmp_path, {}, {}, memory={"backend": "qmd", "qmd": {"paths": [asked]}})

    text = refused(tmp_path)

    assert "in memory.qmd.paths of agent 'main' reaches the" in text
    assert "of agent 'work'" in text
    listed(tmp_path, {}, {}, memory={"qmd": {"paths": [asked]}})
    assert load_config({"HOME": str(tmp_path / "home")}, state_dir=tmp_path).notices == ()


@pytest.mark.parametrize(
    ("path", "pattern"), [("~/notes", "**/*.md"), ("{state}", "*.md"), ("{state}/workspace-work", "**/*.md")]
)
def test_other_paths_of_qmd_are_fine(tmp_path: Path, path: str, pattern: str) -> None:
    """What lies elsewhere, a pattern that leads nowhere of another's, and what `allowPaths` names."""
    asked = {"path": path.format(state=tmp_path), "pattern": pattern}
    allowed = {"allowPaths": [str(tmp_path / "workspace-work")]}
    listed(tmp_path, allowed, {}, memory={"backend": "qmd", "qmd": {"paths": [asked]}})

    assert load_config({"HOME": str(tmp_path / "home")}, state_dir=tmp_path).notices == ()


@pytest.mark.parametrize(
    ("main", "work"),
    [
        ({"workspace": "{state}/notes"}, {"workspace": "{state}/notes/work"}),
        ({"workspace": "{state}/notes"}, {"workspace": "{state}/notes"}),
        ({"workspace": "{state}/linked"}, {"workspace": "{state}/real"}),
        ({"workspace": "{state}"}, {}),
        ({"workspace": "{state}/agents/work"}, {}),
        ({"workspace": "{state}/agents/work/sessions/notes"}, {}),
        ({"agentDir": "{state}/x"}, {"agentDir": "{state}/x"}),
        ({"agentDir": "{state}/workspace-work"}, {}),
    ],
)
def test_a_workspace_that_holds_what_is_anothers_is_refused(
    tmp_path: Path, main: dict[str, str], work: dict[str, str]
) -> None:
    """One folder for two, one inside the other, by a link, around the state folder."""
    (tmp_path / "real").mkdir()
    (tmp_path / "linked").symlink_to(tmp_path / "real")
    entries = [{key: text.format(state=tmp_path) for key, text in entry.items()} for entry in (main, work)]
    listed(tmp_path, *entries)

    assert "reaches the" in refused(tmp_path)


def test_the_inner_one_of_two_nested_workspaces_is_told(tmp_path: Path) -> None:
    """It reaches nothing of the other's and opens, with a notice about the outer one, until that may."""
    inner = {"workspace": str(tmp_path / "notes" / "work")}
    listed(tmp_path, {"workspace": str(tmp_path / "notes")}, inner)

    config = load_config({"HOME": str(tmp_path)}, state_dir=tmp_path, agent_id="work")

    assert "is in the workspace" in config.notices[0]
    listed(tmp_path, {"workspace": str(tmp_path / "notes"), "allowPaths": [inner["workspace"]]}, inner)
    assert load_config({"HOME": str(tmp_path)}, state_dir=tmp_path).notices == ()


@pytest.mark.parametrize(
    "settings",
    [
        {"session": {"store": "{state}/chats/sessions.json"}},
        {"session": {"store": "{state}/chats/{agentId}.json"}},
    ],
)
def test_one_folder_of_sessions_for_two_agents_is_refused(tmp_path: Path, settings: dict[str, Any]) -> None:
    """Transcripts lie beside their index, so two indexes in one folder would share them."""
    settings["session"]["store"] = settings["session"]["store"].replace("{state}", str(tmp_path))
    listed(tmp_path, {}, {}, **settings)

    assert "folder of sessions" in refused(tmp_path)
    assert "{agentId}" in refused(tmp_path)


def test_one_index_for_two_agents_is_refused(tmp_path: Path) -> None:
    """Without `{agentId}` a search of one would find the notes of the other."""
    one = {"memorySearch": {"store": {"path": str(tmp_path / "index.sqlite")}}}
    listed(tmp_path, one, one)

    assert "reaches the index" in refused(tmp_path)
    own = {"memorySearch": {"store": {"path": str(tmp_path / "{agentId}.sqlite")}}}
    listed(tmp_path, own, own, session={"store": str(tmp_path / "chats" / "{agentId}" / "index.json")})
    config = load_config({"HOME": str(tmp_path)}, state_dir=tmp_path, agent_id="work")
    assert config.folders.index_file == tmp_path / "work.sqlite"
    assert config.folders.sessions_file == tmp_path / "chats" / "work" / "index.json"
