"""`nacre import hermes` on Hermes Agent's folder."""

from __future__ import annotations

from pathlib import Path

from tests.cli.program import run_here
from tests.extensions.importers import sources
from tests.extensions.importers.results import (
    branch_messages,
    import_report,
    numbers,
    reasons,
    transcripts,
    workspace,
)


def test_a_folder_comes_over_and_adds_up(tmp_path: Path) -> None:
    """Notes, sessions, the model and its key come over; a second import finds all of it."""
    source = sources.hermes(tmp_path / "hermes")
    database = (source / "state.db").read_bytes()
    told = import_report(tmp_path, "hermes", source)
    assert numbers(told, "files") == (7, 6, 0, 1)
    assert numbers(told, "notes") == (3, 3, 0, 0)
    assert numbers(told, "sessions") == (2, 2, 0, 0)
    assert numbers(told, "messages") == (7, 5, 0, 2)
    assert numbers(told, "settings") == (5, 3, 0, 2)
    assert "it was undone there" in reasons(told, "messages")
    assert (source / "state.db").read_bytes() == database
    assert workspace(tmp_path)["MEMORY.md"] == "- Runs a bakery in Faro\n- Oven is a Miwe\n"
    model = run_here(tmp_path, "config", "get", "agents.defaults.model.primary").stdout
    assert "openrouter/anthropic/claude-opus-4.6" in model
    again = import_report(tmp_path, "hermes", source)
    assert all(counts["imported"] == 0 for counts in again["counts"].values())


def test_what_others_could_read_is_a_group_here(tmp_path: Path) -> None:
    """A session of the terminal is private, one of a chat with others is not."""
    import_report(tmp_path, "hermes", sources.hermes(tmp_path / "hermes"))
    found = transcripts(tmp_path)
    owners = {name: lines[1]["data"] for name, lines in found.items()}
    assert owners["Sourdough times"]["private"] is True
    assert owners["Team"] == {
        "key": owners["Team"]["key"],
        "chatKind": "group",
        "private": False,
    }
    assert owners["Team"]["key"].startswith("agent:main:hermes:group:hermes-team-")
    assert branch_messages(found["Team"]) == [("user", "Who opens on Sunday?")]
    assert [role for role, _ in branch_messages(found["Sourdough times"])] == [
        "user",
        "assistant",
        "toolResult",
        "assistant",
    ]
