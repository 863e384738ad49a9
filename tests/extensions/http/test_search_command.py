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
