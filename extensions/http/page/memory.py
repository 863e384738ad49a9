"""The views of the notes: by month, at a glance, one note with its history, a timeline, and waiting notes."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Collection, Sequence
from contextlib import suppress
from datetime import date, datetime, tzinfo
from itertools import groupby
from typing import Any
from urllib.parse import quote

from starlette.responses import RedirectResponse, Response

from nacre.extensions.http.page.access import HEADERS
from nacre.extensions.http.page.home import (
    LineHistory,
    NoteChanged,
    NoteCommit,
    OpenNote,
    latest_commits,
    line_history,
    undo_commit,
    undo_note_line,
)
from nacre.extensions.http.page.rendering import LineMark, day_name, diff_lines, diff_of
from nacre.extensions.http.page.visit import Visit
from nacre.memory.contracts.notes import FoundNote
from nacre.memory.files.proposals import ProposalConflict, ProposalUnknown
from nacre.memory.files.sources.source import audience_text
from nacre.memory.workspace.history.history_keeper import commit_notes
from nacre.memory.workspace.history.undo import Commit, HistoryUnusable
from nacre.record import Record
from nacre.runtime.agent.insight.memory_overview import memory_overview
from nacre.runtime.contracts.policy import readers_of
from nacre.runtime.storage.storage import review_queue

MOST_EXCERPTS = 60
MOST_LEARNED_LINES = 12
MOST_LINES = 2_000
_DAY = re.compile(r"(\d{4}-\d{2})-\d{2}")
_MARKUP = re.compile(r"`|\*\*|<!--.*?-->")


async def memory(visit: Visit) -> Response:
    """All notes by month, the latest with their first lines."""
    notes = await visit.home.list_notes()
    groups = by_month(notes)
    shown = [note.name for _month, run in groups for note in run][:MOST_EXCERPTS]
    texts = await visit.home.note_texts(shown)
    today = visit.home.now().date()
    cards = [
        (month, [(note, *_heading(note.name, texts.get(note.name, ""), today)) for note in run])
        for month, run in groups
    ]
    return await visit.page("memory.html", groups=cards, view="notes", waiting=await _waiting(visit))


async def overview(visit: Visit) -> Response:
    """What is known, at a glance."""
    home = visit.home
    found = await memory_overview(home.config, home.now)
    today = home.now().date()
    return await visit.page(
        "overview.html",
        overview=found,
        learned=[
            (name, list(run))
            for name, run in groupby(
                found.learned[:MOST_LEARNED_LINES], lambda line: day_name(line.day, today) if line.day else ""
            )
        ],
        view="overview",
        waiting=len(found.waiting),
    )


async def note(visit: Visit) -> Response:
    return await _note_page(visit, await visit.home.note(visit.query_value("path")))


async def undo_line(visit: Visit) -> Response:
    """Undoes what a commit changed in one line of a note."""
    found = await visit.home.note(visit.field("path"))
    number = visit.field("line")
    try:
        notice = await asyncio.to_thread(
            undo_note_line,
            visit.home.config,
            found.name,
            int(number) if number.isascii() and number.isdigit() else 0,
            visit.field("commit"),
        )
    except HistoryUnusable as error:
        return await _note_page(visit, found, notice=str(error), status=409)
    visit.home.notes_changed()
    return await _note_page(visit, await visit.home.note(found.name), notice=notice)


async def _note_page(visit: Visit, found: OpenNote, *, status: int = 200, **given: Any) -> Response:
    home = visit.home
    today = home.now().date()
    lines: list[LineHistory] = []
    if found.is_text and found.text and "conflict" not in given:
        with suppress(HistoryUnusable):  # a note without a history is read all the same
            lines = await asyncio.to_thread(
                line_history, home.config, found.name, found.text, home.now().tzinfo
            )
    lines = lines[:MOST_LINES]
    values: dict[str, Any] = {"text": found.text, "conflict": None, "diff": "", "notice": "", **given}
    title, _excerpt = _heading(found.name, "", today)
    return await visit.page(
        "note.html",
        status=status,
        note=found,
        title=title,
        lines=lines,
        marks=_marks(lines, today),
        titles=await _session_titles(visit, {line.commit.session_id for line in lines if line.commit}),
        readers=audience_text(readers_of(found.name)),
        view="notes",
        waiting=await _waiting(visit),
        **values,
    )


def _marks(lines: Sequence[LineHistory], today: date) -> dict[int, LineMark]:
    """The marks of lines in the margin; a line from the same commit as the line above has a dot."""
    marks: dict[int, LineMark] = {}
    last = ""
    for line in lines:
        commit = line.commit
        day = day_name(line.at, today) if line.at else "New"
        name = commit.commit if commit else "new"
        text = "•" if name == last else _short_day(day)
        last = name
        marks[line.number - 1] = LineMark(
            target=f"line-{line.number}", text=text, label=f"{day}, history of line {line.number}"
        )
    return marks


def _short_day(day: str) -> str:
    """A day in the margin: 24 Nov, Mon, Today."""
    if day[:1].isdigit():
        return day.rsplit(" ", 1)[0]
    return day if day in ("New", "Today", "Yesterday") else day[:3]


async def write(visit: Visit) -> Response:
    """Writes a note. If it has changed since it was shown, shows both texts instead."""
    name, text = visit.field("path"), visit.field("text")
    try:
        await visit.home.write_note(name, text, visit.field("stamp"))
    except NoteChanged as error:
        diff = diff_of(error.now, text.replace("\r\n", "\n"), name)
        found = await visit.home.note(name)
        return await _note_page(visit, found, status=409, text=text, conflict=error, diff=diff)
    return RedirectResponse(f"/memory/note?path={quote(name)}", status_code=303, headers=HEADERS)


async def undo(visit: Visit) -> Response:
    try:
        notice = await asyncio.to_thread(undo_commit, visit.home.config, visit.field("commit"))
    except HistoryUnusable as error:
        return await changes(visit, str(error), status=409)
    visit.home.notes_changed()
    return await changes(visit, notice)


class TimelineEntry(Record):
    """A commit in the timeline. `notes` are the changed notes with their added and removed lines, without
    headings and blank lines; `count` is the number of these lines. Some commits only change sources."""

    commit: Commit
    at: datetime
    diff: str
    is_undone: bool
    touches_notes: bool
    notes: tuple[tuple[str, tuple[str, ...], tuple[str, ...]], ...]
    count: int


async def changes(visit: Visit, notice: str = "", *, status: int = 200) -> Response:
    """What was learned and changed, day by day, the newest first."""
    home = visit.home
    # Recent notes are committed after their turn; commit them now so that they are listed.
    if home.config.settings.memory.history.commits != "off":
        problem = await commit_notes(home.workspace, state_dir=home.config.state_dir)
        notice = notice or problem
    offset = visit.query_value("skip", "0")
    skip = int(offset) if offset.isascii() and offset.isdigit() else 0
    commits: tuple[NoteCommit, ...] = ()
    has_more = False
    try:
        commits, has_more = await asyncio.to_thread(latest_commits, home.config, skip=skip)
    except HistoryUnusable as error:
        notice = notice or str(error)
    today = home.now().date()
    entries = [_timeline_entry(each, home.now().tzinfo) for each in commits]
    entries = [each for each in entries if each.touches_notes]
    return await visit.page(
        "changes.html",
        status=status,
        days=[(name, list(run)) for name, run in groupby(entries, lambda each: day_name(each.at, today))],
        titles=await _session_titles(visit, {each.commit.session_id for each in entries}),
        is_learned=bool(skip) or any(each.commit.session_key for each in entries),
        notice=notice,
        older=skip + len(commits) if has_more else 0,
        skip=skip,
        view="changes",
        waiting=await _waiting(visit),
    )


def _timeline_entry(found: NoteCommit, zone: tzinfo | None) -> TimelineEntry:
    notes: dict[str, dict[str, list[str]]] = {}
    name, touches_notes = "", False
    for line in diff_lines(found.diff):
        name = line.text if line.kind == "file" else name
        touches_notes = touches_notes or name.endswith(".md")
        is_told = line.kind in ("added", "gone") and name.endswith(".md") and not line.text.startswith("#")
        if is_told and any(map(str.isalnum, line.text)):
            lines = notes.setdefault(name, {"added": [], "gone": []})
            lines[line.kind].append(line.text.strip().removeprefix("- "))
    return TimelineEntry(
        commit=found.commit,
        at=datetime.fromisoformat(found.commit.at).astimezone(zone),
        diff=found.diff,
        is_undone=found.is_undone,
        touches_notes=touches_notes or bool(found.commit.session_key),
        notes=tuple((name, tuple(lines["added"]), tuple(lines["gone"])) for name, lines in notes.items()),
        count=sum(len(each) for lines in notes.values() for each in lines.values()),
    )


async def _session_titles(visit: Visit, ids: Collection[str]) -> dict[str, str]:
    if not any(ids):
        return {}
    return await visit.home.titles([each for each in await visit.home.sessions() if each.session_id in ids])


async def _waiting(visit: Visit) -> int:
    return len(await review_queue(visit.home.config).waiting())


def _heading(name: str, text: str, today: date) -> tuple[str, str]:
    """A note's title, the day of a daily log or the name, and its first items or else lines."""
    title = name.rsplit("/", 1)[-1]
    stem = title.removesuffix(".md")
    lines = [line.strip() for line in text.splitlines()]
    lines = [line for line in lines if line.startswith(("- ", "* "))] or [
        line for line in lines if not line.startswith("#")
    ]
    plain = (" ".join(_MARKUP.sub("", line).strip(" #>*-|\t").split()) for line in lines)
    excerpt = " · ".join([line for line in plain if line and line != stem][:6])
    if _DAY.fullmatch(stem):
        with suppress(ValueError):
            day = date.fromisoformat(stem)
            named = day_name(day, today)
            title = named if named[:1].isdigit() else f"{named}, {day.day} {day:%b}"
    return title, excerpt


def by_month(notes: Sequence[FoundNote]) -> list[tuple[str, list[FoundNote]]]:
    """Notes without a date first, then the months by their names, the newest first."""

    def month(note: FoundNote) -> str:
        found = _DAY.search(note.name)
        return found[1] if found else ""

    dated = sorted((note for note in notes if month(note)), key=lambda note: note.name, reverse=True)
    dated.sort(key=month, reverse=True)
    undated = [note for note in notes if not month(note)]
    groups = [("Long-term notes", undated)] if undated else []
    return groups + [(_month_name(name), list(run)) for name, run in groupby(dated, month)]


def _month_name(month: str) -> str:
    """`March 2026` for `2026-03`."""
    with suppress(ValueError):
        return f"{date.fromisoformat(f'{month}-01'):%B %Y}"
    return month


async def answer_review(visit: Visit) -> Response:
    """Accepts a waiting note, possibly edited, or rejects it."""
    queue = review_queue(visit.home.config)
    try:
        found = await queue.find(visit.field("proposal"))
        if visit.field("answer") == "reject":
            await queue.reject(found, visit.home.workspace)
            return await review(visit, f"Rejected: {found.write.path} stays as it is.")
        text = visit.field("text").replace("\r\n", "\n")
        edited = text if "text" in visit.form and text != found.write.text else None
        await queue.accept(found, visit.home.workspace, edited=edited)
        visit.home.notes_changed()
        return await review(visit, f"Written into {found.write.path}.")
    except (ProposalConflict, ProposalUnknown) as error:
        return await review(visit, str(error), status=409)


async def review(visit: Visit, notice: str = "", *, status: int = 200) -> Response:
    """All waiting notes, the oldest first."""
    queue = review_queue(visit.home.config)
    today = visit.home.now().date()
    proposals = [
        (each, _heading(each.write.path, "", today)[0], await queue.diff(each, visit.home.workspace))
        for each in await queue.waiting()
    ]
    return await visit.page(
        "review.html",
        status=status,
        proposals=proposals,
        waiting=len(proposals),
        notice=notice,
        is_on=visit.home.config.settings.memory.writes == "review",
        view="review",
    )
