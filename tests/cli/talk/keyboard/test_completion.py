"""What Tab makes of what was typed."""

from __future__ import annotations

from pathlib import Path

import pytest
from prompt_toolkit.document import Document

from nacre.cli.talk.keyboard.completion import Known, MessageCompleter


@pytest.mark.parametrize(
    ("typed", "completed"),
    [
        ("/st", ["/status"]),
        ("say /st", []),
        ("/resume 3f", ["/resume 3f2a77b0"]),
        ("see @no", ['see @"notes on boats.txt"', "see @notes/"]),
        ("see @notes/", ["see @notes/a.md"]),
        ('see @"notes on', ['see @"notes on boats.txt"']),
        ("mail me@no", []),
        ("see @.h", ["see @.hidden"]),
        ("see @gone/", []),
    ],
)
def test_commands_sessions_and_files(tmp_path: Path, typed: str, completed: list[str]) -> None:
    """A command that is all of the message, an earlier session behind /resume, a file behind an @."""
    (tmp_path / "notes").mkdir()
    for name in ("notes/a.md", "notes on boats.txt", ".hidden"):
        (tmp_path / name).touch()
    known = Known(commands={"/status": "how it is", "/new": ""}, sessions={"3f2a77b0": "the boat"})
    found = MessageCompleter(known, tmp_path).get_completions(Document(typed))

    assert [typed[: len(typed) + item.start_position] + item.text for item in found] == completed
