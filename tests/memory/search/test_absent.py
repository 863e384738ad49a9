"""A name that stands nowhere is said to be absent, and what is like it is no answer."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from nacre.memory.contracts.records import SearchReport
from nacre.memory.contracts.settings import resolve_settings
from nacre.memory.engine import MemoryEngine
from nacre.memory.workspace.folder import FolderWorkspace

NOTES = {
    "memory/2026-03-04.md": "- Paid invoice INV-2026-00417 of the carpenter, 1,249.00 €.\n",
    "memory/2026-03-05.md": "- The fix is commit 9fceb02, for issue #204.\n- Order 88123470 came broken.\n",
    "memory/2026-03-06.md": "- The proxy reads /etc/nginx/sites-available/atelier.conf at each start.\n",
    "chats/irc-den/2026-03-07.md": "- Somebody quoted INV-2026-00999 here.\n",
}


async def asked(tmp_path: Path, question: str, *, below: str = "", **options: float) -> SearchReport:
    workspace = tmp_path / "workspace"
    for path, text in NOTES.items():
        (workspace / path).parent.mkdir(parents=True, exist_ok=True)
        (workspace / path).write_text(text, encoding="utf-8")
    engine = await MemoryEngine.open(
        workspace=FolderWorkspace(workspace, lock_dir=tmp_path / "locks"),
        index_path=tmp_path / "index.sqlite",
        settings=resolve_settings({"sync": {"watch": False, "onSearch": False}}),
        embedder=None,
        now=lambda: datetime(2026, 3, 8, 12, tzinfo=UTC),
    )
    try:
        await engine.sync(reason="test")
        return await engine.search(question, below=below, **options)  # type: ignore[arg-type]
    finally:
        await engine.close()


@pytest.mark.parametrize(
    ("question", "name"),
    [
        ("INV-2026-09999", "INV-2026-09999"),
        ("what did INV-2026-09999 cost?", "INV-2026-09999"),
        ("commit 9fceb77", "9fceb77"),
        ("what came of #205?", "#205"),
        ("what came of order 88123471?", "88123471"),
        ('who said "the moose has landed"?', "the moose has landed"),
    ],
)
async def test_a_name_that_stands_nowhere_is_said_to_be_absent(
    tmp_path: Path, question: str, name: str
) -> None:
    """It is named, nothing is shown at the usual least score, and what is like it scores little."""
    report = await asked(tmp_path, question)
    assert report.absent == (name,)
    assert name in report.absent_sentence
    assert report.hits == ()
    alike = await asked(tmp_path, question, min_score=0)
    assert all(hit.score <= 0.3 for hit in alike.hits)


@pytest.mark.parametrize(
    "marks",
    [
        *('""', "“”", "„“", "„”", "””", "«»", "»«", "‹›", "「」", "『』", "〝〟", "‘’", "‚‘", "''", "``"),
        *("\uff02\uff02", "««»»", "''''"),
    ],
)
@pytest.mark.parametrize("question", ["which order came broken?", "who sent the carpenter's invoice"])
async def test_a_question_in_quotation_marks_is_a_question(tmp_path: Path, marks: str, question: str) -> None:
    """It finds what it finds without them, in whatever marks, and nothing is said to be absent."""
    opening, closing = marks[: len(marks) // 2], marks[len(marks) // 2 :]
    plain = await asked(tmp_path, question)
    quoted = await asked(tmp_path, f"{opening}{question}{closing}")
    behind = await asked(tmp_path, f"{opening}{question.rstrip('?')}{closing}?")

    assert plain.hits
    assert [hit.path for hit in quoted.hits] == [hit.path for hit in plain.hits]
    assert [hit.path for hit in behind.hits] == [hit.path for hit in plain.hits]
    assert quoted.absent == behind.absent == ()


async def test_words_that_stand_as_they_are_quoted_come_first(tmp_path: Path) -> None:
    """Who quotes all of a question gets the note with these words in this order before one with them all."""
    words = ("the red door of the barn", "of the barn, the door: red. A red barn door, the red barn door")
    folder = tmp_path / "workspace/memory"
    folder.mkdir(parents=True)
    for name, text in zip("ab", words, strict=True):
        (folder / f"{name}.md").write_text(f"- {text}\n", encoding="utf-8")
    quoted = await asked(tmp_path, '"red door of the barn"')

    assert quoted.hits[0].path == "memory/a.md"
    assert quoted.hits[0].score > quoted.hits[1].score


@pytest.mark.parametrize(
    ("question", "name"),
    [
        ("who said 'the moose has landed'?", "the moose has landed"),
        ("wer sagte „der Elch ist da“?", "der Elch ist da"),
        ("«who said “the moose has landed”?»", "the moose has landed"),
    ],
)
async def test_a_quoted_part_of_a_question_is_a_phrase(tmp_path: Path, question: str, name: str) -> None:
    """In the marks of any language; an apostrophe makes none."""
    assert (await asked(tmp_path, question)).absent == (name,)
    assert (await asked(tmp_path, "the dogs' house and Anna's cats' garden in the '90s")).absent == ()


@pytest.mark.parametrize(
    ("question", "path"),
    [
        ("INV-2026-00417", "memory/2026-03-04.md"),
        ("inv 2026 00417", "memory/2026-03-04.md"),
        ("9fceb0277a1e4d5f00aa11bb22cc33dd44ee55ff", "memory/2026-03-05.md"),
        ("#204", "memory/2026-03-05.md"),
        ("order 88123470", "memory/2026-03-05.md"),
        ("/etc/nginx/sites-available/atelier.conf", "memory/2026-03-06.md"),
    ],
)
async def test_a_name_that_stands_somewhere_is_not_absent(tmp_path: Path, question: str, path: str) -> None:
    """Also in the other spellings that are found."""
    report = await asked(tmp_path, question)
    assert report.absent == ()
    assert report.absent_sentence == ""
    assert report.hits[0].path == path


async def test_a_name_of_known_words_is_absent_but_may_be_meant(tmp_path: Path) -> None:
    """A path that is written otherwise in the notes is shown, with a word that it does not stand there so."""
    report = await asked(tmp_path, "/etc/atelier.conf/nginx")
    assert report.absent == ("etc/atelier.conf/nginx",)
    assert report.hits[0].path == "memory/2026-03-06.md"


async def test_what_stands_in_other_notes_is_absent_too(tmp_path: Path) -> None:
    """Who may see one chat's notes alone does not learn whether a name stands in the others."""
    report = await asked(tmp_path, "INV-2026-00417", below="chats/irc-den")
    assert report.absent == ("INV-2026-00417",)
    assert (await asked(tmp_path, "INV-2026-00999", below="chats/irc-den")).absent == ()
