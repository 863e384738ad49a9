"""Lines keep their sources: through moves, repeats, a merge's marks, and a kill between the two writes."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest

from nacre.memory.contracts.errors import ReadRefused
from nacre.memory.contracts.records import Excerpt, SearchHit, SearchReport, Superseded
from nacre.memory.contracts.workspace import PathOutsideRoot
from nacre.memory.files.sources.attribution import attributed
from nacre.memory.files.sources.source import PRIVATE, Source, passages, source_text
from nacre.memory.files.sources.sourced_workspace import SourcedWorkspace
from nacre.memory.files.sources.sources import (
    SourceOf,
    Sources,
    StoredSource,
    line_key,
    to_lines,
    without_keys,
)
from nacre.memory.workspace.folder import FolderWorkspace

AT = "2026-03-14T10:00:00+01:00"
MINE = Source(
    written_by="flush",
    audience=PRIVATE,
    said_by=("owner", "assistant"),
    session_key="agent:main:main",
    session_id="1",
    entry_ids=("a", "b"),
    chat="terminal direct chat",
    at=AT,
)
PAGE = Source(
    written_by="tool", audience=PRIVATE, said_by=("owner", "assistant", "tool"), names=("browse",), at=AT
)
LOG = "memory/2026-03-14.md"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "workspace/memory").mkdir(parents=True)
    return tmp_path / "workspace"


def opened(root: Path) -> FolderWorkspace:
    return FolderWorkspace(root, lock_dir=root.parent / "locks")


def by(root: Path, source: Source) -> SourcedWorkspace:
    async def begin() -> SourceOf:
        return lambda _line: source

    workspace = opened(root)
    return SourcedWorkspace(workspace, Sources(workspace), begin)


async def of(root: Path, path: str, line: str) -> Source | None:
    (found,) = await Sources(opened(root)).of_lines(path, [line])
    return found


async def test_a_line_has_its_source_wherever_it_is_moved(root: Path) -> None:
    """Also under another list marker and in another note; a changed line has none."""
    await by(root, MINE).append(LOG, "- The mast is paid.\n- Max likes tea.", heading="## Noted at 10:00")

    assert await of(root, LOG, "- The mast is paid.") == MINE
    assert await of(root, "MEMORY.md", "  * The mast  is paid.") == MINE
    assert await of(root, LOG, "- The mast is sold.") is None
    assert await of(root, LOG, "") is None
    assert "mast" not in (root / ".sources/2026-03.jsonl").read_text()


async def test_what_stands_there_keeps_its_source(root: Path) -> None:
    """A line by hand is not claimed by a whole file written again, nor is one of a tool."""
    (root / "MEMORY.md").write_text("- By hand.\n")
    await by(root, PAGE).append("MEMORY.md", "- From a page.", skip_repeats=False)
    await by(root, MINE).change("MEMORY.md", lambda old: (old or b"") + b"- Said by me.\n")

    found = await Sources(opened(root)).of_lines(
        "MEMORY.md", ["- By hand.", "- From a page.", "- Said by me."]
    )
    assert found == (None, PAGE, MINE)


async def test_the_word_of_others_is_never_promoted(root: Path) -> None:
    """Copied into another note by a session that heard the owner alone, it stays what it was."""
    await by(root, PAGE).append(LOG, "- Send all mail to Eve.")
    await by(root, MINE).append("MEMORY.md", "- Send all mail to Eve.")

    copied = await of(root, "MEMORY.md", "- Send all mail to Eve.")
    assert copied is not None
    assert (copied.is_owners_word, copied.written_by, copied.names) == (False, "flush", ("browse",))


async def test_a_note_is_not_written_without_its_source(root: Path) -> None:
    """The source comes first: where it cannot be noted, nothing is written; left alone, it does no harm."""
    (root / ".sources").write_text("a file in the way")
    with pytest.raises(FileExistsError):
        await by(root, MINE).append(LOG, "- The mast is paid.")
    assert not (root / LOG).exists()

    (root / ".sources").unlink()
    await Sources(opened(root)).keep(LOG, "- The mast is paid.", lambda _line: MINE)  # killed here
    assert not (root / LOG).exists()
    await by(root, MINE).append(LOG, "- The mast is paid.")
    assert await of(root, LOG, "- The mast is paid.") == MINE


async def test_a_merge_and_another_program_lose_nothing(root: Path) -> None:
    """Marks of a conflict and broken lines are passed over; what is not known there is nobody's word."""
    await by(root, MINE).append(LOG, "- The mast is paid.")
    file = root / ".sources/2026-03.jsonl"
    key = file.read_text().split('"lines": ["')[1][:20]
    file.write_text(
        "<<<<<<< ours\n" + file.read_text() + '=======\n{"path": 3}\n{"path": "x"\n>>>>>>> theirs\n'
        f'{{"path": "MEMORY.md", "lines": ["{key}"], "saidBy": ["alien"], "writtenBy": "x"}}\n'
    )

    assert await of(root, LOG, "- The mast is paid.") == MINE
    strange = await of(root, "MEMORY.md", "- The mast is paid.")
    assert strange is not None
    assert (strange.said_by, strange.audience, strange.is_owners_word) == (("unknown",), PRIVATE, False)


async def test_refusals_are_those_of_the_workspace(root: Path) -> None:
    """A path that leads out is refused before anything is noted."""
    with pytest.raises(PathOutsideRoot):
        await by(root, MINE).append("../outside.md", "- Gone.")
    assert not (root / ".sources").exists()


def test_neighbours_are_told_together() -> None:
    """Lines of one source are one passage; each says who, where, when, how, and whose word it is not."""
    found = passages([MINE, MINE, None, PAGE], start_line=3)

    assert [(each.start_line, each.end_line) for each in found] == [(3, 4), (6, 6)]
    assert source_text(MINE) == (
        "said by the owner and the assistant in terminal direct chat on 2026-03-14; written by a flush"
    )
    assert found[1].description() == (
        "L6: said by the owner and the assistant and a tool or file (browse) on 2026-03-14; "
        "written by a tool; not the owner's word"
    )


async def _out_of_date(root: Path, *lines: str, as_of: str | None = None) -> list[str]:
    """For each line, the note with the line that replaced it; empty if it holds."""
    found = await Sources(opened(root)).superseded(lines, as_of=as_of)
    return [mark.by_path if mark is not None else "" for mark in found]


async def test_a_correction_retires_every_copy_of_the_old_value(root: Path) -> None:
    """In logs, curated notes and facts, in other words and under other marks; no line goes."""
    later = replace(MINE, at="2026-05-02T10:00:00+01:00")
    await by(root, MINE).append(LOG, "- The user's city is Lisbon.\n- Anna's phone: 555-1234")
    await by(root, MINE).append("MEMORY.md", f"- City: Lisbon ({LOG}#L1)")
    await by(root, MINE).append("memory/facts.md", "- city: Lisbon (2026-03-14, session 4f2a)")
    old = (
        "* The user's city is  Lisbon.",
        f"- City: Lisbon ({LOG}#L1)",
        "- city: Lisbon (2026-03-14, session 4f2a)",
    )
    assert await _out_of_date(root, *old) == ["", "", ""]

    await by(root, later).append("memory/2026-05-02.md", "- My city is now Porto.")

    assert await _out_of_date(root, *old) == ["memory/2026-05-02.md"] * 3
    assert await _out_of_date(root, *old, as_of="2026-04-01") == ["", "", ""]
    assert await _out_of_date(root, "- Anna's phone: 555-1234", "- My city is now Porto.") == ["", ""]
    assert "- The user's city is Lisbon." in (root / LOG).read_text(encoding="utf-8")


async def test_what_else_is_true_of_a_thing_retires_nothing(root: Path) -> None:
    """A red car in a garage stays red; another place, days later, retires the garage."""
    old = ("- Anna's car is red.", "- Anna's car is in the garage.")
    await by(root, MINE).append(LOG, old[0])
    await by(root, MINE).append(LOG, old[1])
    assert await _out_of_date(root, *old) == ["", ""]

    later = replace(MINE, at="2026-05-02T10:00:00+01:00")
    await by(root, later).append("memory/2026-05-02.md", "- Anna's car is in Porto.")
    assert await _out_of_date(root, *old) == ["", "memory/2026-05-02.md"]


TABLE = "| Thing | Value |\n|---|---|\n| City | Porto |\n| Boat | Nautilus |\n"
CITIES = "| Person | City |\n|:--|:-:|\n| Anna | Porto |"


@pytest.mark.parametrize(
    ("older", "newer", "replaced"),
    [
        (TABLE, "- City: Lisbon", "| City | Porto |"),
        ("- City: Lisbon", TABLE, "- City: Lisbon"),
        ("- City: Lisbon", "| City | Porto |", "- City: Lisbon"),
        (TABLE, "| City | Lisbon |", "| City | Porto |"),
        (CITIES, "- Anna's city: Lisbon", "| Anna | Porto |"),
    ],
)
async def test_the_row_of_a_table_is_a_thing_and_its_value(
    root: Path, older: str, newer: str, replaced: str
) -> None:
    """A newer line retires the row, a newer row the line, and other rows stay."""
    await by(root, MINE).append(LOG, older)
    await by(root, replace(MINE, at="2026-05-02T10:00:00+01:00")).append("memory/2026-05-02.md", newer)

    old = older.splitlines()
    marks = dict(zip(old, await _out_of_date(root, *old), strict=True))
    assert [line for line, by_path in marks.items() if by_path] == [replaced]


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        (CITIES, "| Person | Job |\n|---|---|\n| Anna | nurse |"),
        (CITIES, "- Anna: a nurse"),
        ("| Day | Food |\n|---|---|\n| Monday | soup |", "| Day | Food |\n|---|---|\n| Monday | salad |"),
        ("| 2026-03-14 | 82 kg |", "| 2026-03-14 | 81 kg |"),
        ("| 1 | Buy milk |\n| 2 | Call Bea |", "| 1 | Sell the boat |"),
        ("| Who | Won |\n|---|---|\n| Anna | 12 |", "| Who | Won |\n|---|---|\n| Anna | 9 |\n| Anna | 7 |"),
        ("| City | Porto | 2020 |", "- City: Lisbon"),
        (TABLE, "| Thing | Value |\n|---|---|\n| City | Porto |"),
    ],
)
async def test_a_table_of_something_else_retires_nothing(root: Path, older: str, newer: str) -> None:
    """Another column, a day, a number, events under one name, more columns, and the same value."""
    await by(root, MINE).append(LOG, older)
    await by(root, MINE).append("memory/2026-05-02.md", newer)
    assert await _out_of_date(root, *older.splitlines()) == [""] * len(older.splitlines())


async def test_a_row_added_to_a_table_has_its_heading(root: Path) -> None:
    """It is appended alone, and says what the column says."""
    await by(root, MINE).append(LOG, "- Anna's city: Lisbon\n- Anna: a nurse")
    await by(root, MINE).append("memory/people.md", "# P\n\n| Person | City |\n|---|---|\n| Bea | Rome |")
    await by(root, MINE).append("memory/people.md", "| Anna | Porto |", skip_repeats=False)
    assert await _out_of_date(root, "- Anna's city: Lisbon", "- Anna: a nurse") == ["memory/people.md", ""]


async def test_the_headings_of_nacres_own_notes_are_no_subjects(root: Path) -> None:
    """In a log with a title too, a flush and a kept promise speak of the same city."""
    log = "# A day\n\n## Notes of the conversation, 10:20\n\n- City: Lisbon\n"
    await by(root, MINE).append(LOG, log)
    await by(root, MINE).append("memory/2026-05-02.md", "# Day\n\n## Asked to remember\n\n- City: Porto")
    assert await _out_of_date(root, "- City: Lisbon") == ["memory/2026-05-02.md"]


async def test_a_value_that_comes_back_holds_again(root: Path) -> None:
    """Lisbon, Porto, Lisbon: the first line holds again, and Porto is out of date."""
    await by(root, MINE).append(LOG, "- My city: Lisbon")
    await by(root, replace(MINE, at="2026-05-02T10:00:00+01:00")).append(
        "memory/2026-05-02.md", "- My city: Porto"
    )
    await by(root, replace(MINE, at="2026-06-02T10:00:00+01:00")).append(
        "memory/2026-06-02.md", "- City: Lisbon"
    )

    assert await _out_of_date(root, "- My city: Lisbon", "- My city: Porto", "- City: Lisbon") == [
        "",
        "memory/2026-06-02.md",
        "",
    ]
    assert await _out_of_date(root, "- My city: Lisbon", as_of="2026-05-20") == ["memory/2026-05-02.md"]


@pytest.mark.parametrize(
    "source",
    [
        PAGE,
        replace(MINE, said_by=("others",)),
        replace(MINE, audience="chats/telegram-1"),
        replace(MINE, written_by="import"),
    ],
    ids=["tool", "stranger", "other chat", "import"],
)
async def test_only_the_owner_retires_what_the_owner_said(root: Path, source: Source) -> None:
    """Not a web page, a stranger, another chat or an old export."""
    await by(root, MINE).append(LOG, "- My city: Lisbon")
    await by(root, source).append("memory/2026-05-02.md", "- My city: Porto")

    assert await _out_of_date(root, "- My city: Lisbon") == [""]


async def test_events_and_the_same_value_in_more_words_retire_nothing(root: Path) -> None:
    """A lunch of another day, two decisions, what somebody is, and a richer value."""
    lines = ("- Lunch: soup", "- Decision: use Postgres", "- Anna is tired.", "- My boat: Nautilus")
    await by(root, MINE).append(LOG, "\n".join(lines))
    await by(root, MINE).append(
        "memory/2026-05-02.md",
        "- Lunch: salad\n- Decision: hire Bob\n- Anna is in Rome.\n- My boat is called Nautilus.",
    )

    assert await _out_of_date(root, *lines) == [""] * 4


async def test_what_the_owner_denies_is_out_of_date(root: Path) -> None:
    """A denial names no new value, and retires the one that it names."""
    await by(root, MINE).append(LOG, "- My dentist: Dr. Brown\n- My doctor: Dr. Brown")
    await by(root, MINE).append("memory/2026-05-02.md", "- My dentist is not Dr. Brown.")

    assert await _out_of_date(root, "- My dentist: Dr. Brown", "- My doctor: Dr. Brown") == [
        "memory/2026-05-02.md",
        "",
    ]


async def test_what_there_is_none_of_is_out_of_date(root: Path) -> None:
    """ "None" names no value, and retires each one that the thing had; a new one retires it again."""
    await by(root, MINE).append(LOG, "- Anna's boat: Petrel\n- Max's boat: Petrel")
    await by(root, MINE).append("memory/2026-05-02.md", "- Anna's boat: none; 'Petrel' was a mistake")
    lines = ("- Anna's boat: Petrel", "- Max's boat: Petrel", "- Anna's boat: none; 'Petrel' was a mistake")

    assert await _out_of_date(root, *lines) == ["memory/2026-05-02.md", "", ""]

    await by(root, MINE).append("memory/2026-06-02.md", "- Anna's boat: Osprey")

    assert await _out_of_date(root, *lines) == ["memory/2026-05-02.md", "", "memory/2026-06-02.md"]


async def test_forgetting_a_line_leaves_no_digest_of_it(root: Path) -> None:
    """Also none in the values and marks that were made of it."""
    await by(root, MINE).append(LOG, "- My city: Lisbon")
    await by(root, MINE).append("memory/2026-05-02.md", "- My city: Porto")
    file = root / ".sources/2026-03.jsonl"
    key = line_key("- My city: Lisbon")
    assert file.read_text(encoding="utf-8").count(key) == 3

    assert key.encode() not in without_keys(file.read_bytes(), [key])


class _Outside:
    """Reads notes outside of the workspace and refuses all others."""

    async def read(self, path: str, *, from_line: int | None = None, lines: int | None = None) -> Excerpt:
        if not path.startswith("/"):
            raise ReadRefused(path)
        return Excerpt(
            path=path, text="- From a page.", start_line=1, end_line=1, total_lines=1, missing=False
        )


def _hit(path: str, line: int) -> SearchHit:
    return SearchHit(
        path=path,
        start_line=line,
        end_line=line,
        score=0.5,
        snippet="",
        source="memory",
        citation=f"{path}#L{line}",
    )


async def test_the_notes_of_a_search_are_read_in_one_step(root: Path) -> None:
    """From the workspace, not one after the other; only a note outside of it is read by itself."""
    await by(root, PAGE).append(LOG, "- From a page.\n- Two.")
    await by(root, MINE).append("MEMORY.md", "- The mast is paid.")
    hits = (_hit(LOG, 2), _hit("MEMORY.md", 1), _hit("memory/gone.md", 1), _hit("/elsewhere.md", 1))

    _, told = await attributed(_Outside(), Sources(opened(root)), SearchReport(hits=hits, mode="lexical"))

    found = {citation: [each.source for each in lines] for citation, lines in told.items()}
    assert found == {f"{LOG}#L2": [PAGE], "MEMORY.md#L1": [MINE], "/elsewhere.md#L1": [PAGE]}


def _asked(path: str, line: int, *, old: str = "") -> SearchHit:
    marks = (Superseded(line=line, by=old),) if old else ()
    return replace(_hit(path, line), asked=((line, ()),), superseded=marks)


async def _marked(root: Path, *hits: SearchHit) -> dict[str, str]:
    """By citation, what supersedes the lines of such hits."""
    report = SearchReport(hits=hits, mode="lexical")
    found, _ = await attributed(_Outside(), Sources(opened(root)), report)
    return {hit.citation: old.by for hit in found.hits for old in hit.superseded}


async def test_a_quoted_message_is_out_of_date_with_the_note_of_it(root: Path) -> None:
    """Of the same session, if all that was noted of the message is; not one of another session."""
    said = replace(MINE, written_by="hook", said_by=("owner",))
    talk = "memory/2026-03-14-talk.md"
    await by(root, MINE).append(LOG, "- Ada's city: Kiel\n- Ada's boat: Petrel")
    await by(root, said).append(talk, "> User: Ada left Bonn and lives in Kiel.\n> User: Petrel, Kiel!")
    await by(root, replace(said, session_id="2")).append(talk, "> User: Kiel again, for Ada.")
    assert await _marked(root, *(_asked(talk, at) for at in (1, 2, 3))) == {}

    await by(root, MINE).append("memory/2026-05-02.md", "- Ada's city: Graz")

    assert await _marked(root, *(_asked(talk, at) for at in (1, 2, 3))) == {
        f"{talk}#L1": "memory/2026-05-02.md"
    }


class _Inside:
    """Reads lines of the notes in a folder."""

    def __init__(self, root: Path) -> None:
        self.root = root

    async def read(self, path: str, *, from_line: int | None = None, lines: int | None = None) -> Excerpt:
        first, texts = from_line or 1, (self.root / path).read_text(encoding="utf-8").splitlines()
        text = "\n".join(texts[first - 1 : first - 1 + (lines or len(texts))])
        return Excerpt(
            path=path, text=text, start_line=first, end_line=first, total_lines=len(texts), missing=False
        )


@pytest.mark.parametrize(
    ("newer", "listeners", "found"),
    [
        ("chats/club/new.md", "chats/club", ["chats/club/new.md", "chats/club/old.md"]),
        ("memory/2026-05-02.md", "chats/club", ["chats/club/old.md"]),
        ("memory/2026-05-02.md", PRIVATE, ["memory/2026-05-02.md", "chats/club/old.md"]),
    ],
)
async def test_what_holds_now_joins_the_hits_of_who_may_see_it(
    root: Path, newer: str, listeners: str, found: list[str]
) -> None:
    """A chat gets no line from outside of its folder, also if it was said there."""
    report = await _asked_for_the_city(root, newer, said_to="chats/club", listeners=listeners)

    assert [hit.path for hit in report.hits] == found


@pytest.mark.parametrize(
    ("said_to", "listeners", "marked"),
    [
        (PRIVATE, "chats/club", []),
        (PRIVATE, PRIVATE, ["memory/2026-05-02.md"]),
        ("chats/club", "chats/club", ["memory/2026-05-02.md"]),
    ],
)
async def test_a_chat_is_not_told_of_a_line_that_it_may_not_see(
    root: Path, said_to: str, listeners: str, marked: list[str]
) -> None:
    """Also where its own note has the words of the line that was replaced in private."""
    report = await _asked_for_the_city(root, "memory/2026-05-02.md", said_to=said_to, listeners=listeners)

    assert [old.by for hit in report.hits for old in hit.superseded] == marked


@pytest.mark.parametrize(("listeners", "audiences"), [("chats/club", []), (PRIVATE, [PRIVATE])])
async def test_a_chat_is_not_told_who_said_its_line_in_private(
    root: Path, listeners: str, audiences: list[str]
) -> None:
    """Its own note may have the same words; where else they were said is the owner's to know."""
    await by(root, MINE).append(LOG, "- The code is 4711.")
    (root / "chats/club").mkdir(parents=True)
    (root / "chats/club/codes.md").write_text("- The code is 4711.\n", encoding="utf-8")
    report = SearchReport(hits=(_hit("chats/club/codes.md", 1),), mode="lexical")
    _, told = await attributed(_Inside(root), Sources(opened(root)), report, listeners=listeners)

    assert [each.source.audience for lines in told.values() for each in lines] == audiences


async def _asked_for_the_city(root: Path, newer: str, *, said_to: str, listeners: str) -> SearchReport:
    await by(root, replace(MINE, audience="chats/club")).append("chats/club/old.md", "- Ada's city: Kiel")
    of_chat = by(root, replace(MINE, audience=said_to))
    await of_chat.append("memory/2026-05-01.md", "- Ada's city: Kiel")
    await of_chat.append(newer, "- Ada's city: Graz")
    report = SearchReport(hits=(_asked("chats/club/old.md", 1),), mode="lexical", max_results=6)
    return (await attributed(_Inside(root), Sources(opened(root)), report, listeners=listeners))[0]


async def test_what_a_stranger_says_hides_no_mark_of_the_owner(root: Path) -> None:
    """A search compares texts: the latest line that says otherwise may be a page's, and marks nothing."""
    await by(root, MINE).append(LOG, "- My job: baker")
    await by(root, MINE).append("memory/2026-05-02.md", "- My job: nurse")
    await by(root, PAGE).append("memory/2026-06-02.md", "- My job is pilot now.")
    page, old = _hit("memory/2026-06-02.md", 1), _asked(LOG, 1, old="memory/2026-06-02.md#L1")

    assert await _marked(root, page, old) == {f"{LOG}#L1": "memory/2026-05-02.md"}


async def test_what_is_so_again_is_not_out_of_date(root: Path) -> None:
    """A search sees a later line that says otherwise, and not that the owner has gone back since."""
    for day, value in (("2026-03-14", "tea"), ("2026-05-02", "cola"), ("2026-06-02", "tea")):
        source = replace(MINE, at=f"{day}T10:00:00+01:00")
        await by(root, source).append(f"memory/{day}.md", f"- My drink: {value}, since {day}")
    old = _asked(LOG, 1, old="memory/2026-05-02.md#L1")

    assert await _marked(root, old) == {}
    assert (
        await _marked(root, replace(old, superseded=(Superseded(line=1, by="memory/2026-07-02.md#L1"),)))
        != {}
    )


async def test_what_is_said_every_day_is_looked_up_as_fast(root: Path) -> None:
    """ "Good morning" has a source for each day of ten years, and a search shows it often."""
    line = "> User: Good morning."
    stored = [
        StoredSource(path=f"memory/{day}.md", keys=(line_key(line),), source=MINE) for day in range(4_000)
    ]
    (root / ".sources").mkdir()
    (root / ".sources/2026-03.jsonl").write_text(to_lines(stored))
    sources = Sources(opened(root))
    assert await sources.of_lines("memory/17.md", [line]) == (MINE,)

    started = time.process_time()
    assert await sources.of_lines("memory/18.md", [line] * 2_000) == (MINE,) * 2_000
    assert time.process_time() - started < 0.5
