"""`nacre sessions search`: conversations found by what was said in them."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.program import run_here


def test_conversations_are_found_by_words_of_one_message(tmp_path: Path) -> None:
    """In any case and order, also in an ended session; words of two messages find nothing."""
    for words in ("Remember that my boat is called Halcyon.", "/new", "Hello, harbor."):
        assert run_here(tmp_path, "send", "-m", words).returncode == 0

    found = json.loads(run_here(tmp_path, "sessions", "search", "halcyon", "My boat", "--json").stdout)
    assert [each["current"] for each in found] == [False]
    assert "Halcyon" in found[0]["passage"]
    assert run_here(tmp_path, "sessions", "search", "harbor").stdout.startswith("main · ")
    nothing = run_here(tmp_path, "sessions", "search", "boat", "harbor")
    assert nothing.stdout.startswith("No conversation has all these words")


def test_a_search_that_no_note_answers_looks_in_the_conversations(tmp_path: Path) -> None:
    """The conversation is named with its passage; a note that fits is shown alone."""
    for words in ("Which knot is a bowline?", "Remember that my boat is called Halcyon."):
        assert run_here(tmp_path, "send", "-m", words).returncode == 0

    for _ in range(2):  # the second one reads what the first one kept of the settings
        found = run_here(tmp_path, "search", "bowline knot").stdout.splitlines()
        assert found[1].startswith("main · ")
        assert found[2] == "  Which knot is a bowline?"
    assert "main · " not in run_here(tmp_path, "search", "Halcyon").stdout
    assert run_here(tmp_path, "search", "orchid bowline").stdout.startswith("No matches.")
