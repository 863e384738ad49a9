"""`nacre import claude` on a data export."""

from __future__ import annotations

from pathlib import Path

from tests.extensions.importers import exports
from tests.extensions.importers.results import branch_messages, import_report, numbers, transcripts, workspace


def test_an_export_comes_over_and_adds_up(tmp_path: Path) -> None:
    """Conversations become sessions, memories and projects become notes; a second import finds all of it."""
    source = exports.claude(tmp_path / "export")
    told = import_report(tmp_path, "claude", source)
    assert numbers(told, "files") == (len(list(source.iterdir())), 3, 0, 1)
    assert numbers(told, "notes") == (3, 3, 0, 0)
    assert numbers(told, "sessions") == (2, 2, 0, 0)
    assert numbers(told, "messages") == (5, 4, 0, 1)
    assert numbers(told, "attachments") == (2, 1, 0, 1)
    notes = workspace(tmp_path)
    assert "Keeps nine hives." in notes["memory/imports/claude/memories.md"]
    folder = "memory/imports/claude/projects/Honey-shop-aa11bb22"
    assert "Write short labels." in notes[f"{folder}/project.md"]
    assert notes[f"{folder}/01-prices.md"] == "A jar costs 9 euros."
    again = import_report(tmp_path, "claude", source)
    assert all(counts["imported"] == 0 for counts in again["counts"].values())


def test_tools_and_attachments_stand_where_they_were(tmp_path: Path) -> None:
    """A call comes before its result and the answer behind it; an attachment's text is in the question."""
    import_report(tmp_path, "claude", exports.claude(tmp_path / "export"))
    words = branch_messages(transcripts(tmp_path)["Hives"])
    assert [role for role, _ in words] == ["user", "assistant", "toolResult", "assistant"]
    assert "Hive 3 is loud." in words[0][1]
    assert "photo.jpg" in words[0][1]
    assert words[1][1].endswith("web_search")
    assert words[2:] == [("toolResult", "May"), ("assistant", "In May, on warm days.")]
