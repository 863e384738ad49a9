"""The notes: by day, searched, changed with a look at what others changed, and what sessions wrote."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from itertools import groupby
from urllib.parse import quote

from starlette.responses import RedirectResponse, Response

from nacre.extensions.http.page.access import HEADERS
from nacre.extensions.http.page.diff_lines import diff_of
from nacre.extensions.http.page.home import NoteChanged
from nacre.extensions.http.page.note_history import HistoryUnusable, latest_commits, take_back
from nacre.extensions.http.page.visit import Visit
from nacre.memory.contracts.notes import FoundNote
from nacre.memory.contracts.records import HitExplanation
from nacre.memory.workspace.history.history_keeper import commit_notes

_DAY = re.compile(r"(\d{4}-\d{2})-\d{2}")


async def memory(visit: Visit) -> Response:
    """All notes by month, or what a search finds."""
    query = visit.asked("q").strip()
    report = await visit.home.search(query) if query else None
    hits = [(hit, reason(hit.explain)) for hit in report.hits] if report else []
    groups = [] if query else by_month(await visit.home.list_notes())
    return visit.page("memory.html", query=query, report=report, hits=hits, groups=groups, view="notes")


async def note(visit: Visit) -> Response:
    """One note, to read and to change."""
    found = await visit.home.note(visit.asked("path"))
    return visit.page("note.html", note=found, text=found.text, conflict=None, diff="", view="notes")


async def write(visit: Visit) -> Response:
    """Writes a note, unless it was changed since it was shown; then both texts are."""
    name, text = visit.field("path"), visit.field("text")
    try:
        await visit.home.write_note(name, text, visit.field("stamp"))
    except NoteChanged as error:
        diff = diff_of(error.now, text.replace("\r\n", "\n"), name)
        found = await visit.home.note(name)
        return visit.page(
            "note.html", status=409, note=found, text=text, conflict=error, diff=diff, view="notes"
        )
    return RedirectResponse(f"/memory/note?path={quote(name)}", status_code=303, headers=HEADERS)


async def changes(visit: Visit) -> Response:
    """What sessions and hands wrote into the notes, the newest first."""
    return await _changes(visit, "")


async def undo(visit: Visit) -> Response:
    """Takes one of the changes back."""
    try:
        told = await asyncio.to_thread(take_back, visit.home.config, visit.field("commit"))
    except HistoryUnusable as error:
        return await _changes(visit, str(error), status=409)
    return await _changes(visit, told)


async def _changes(visit: Visit, told: str, *, status: int = 200) -> Response:
    home = visit.home
    # What was noted a moment ago is committed behind its turn: it shall stand here all the same.
    if home.config.settings.memory.history.commits != "off":
        problem = await commit_notes(home.workspace, state_dir=home.config.state_dir)
        told = told or problem
    try:
        commits = await asyncio.to_thread(latest_commits, visit.home.config)
    except HistoryUnusable as error:
        commits, told = (), told or str(error)
    return visit.page("changes.html", status=status, commits=commits, told=told, view="changes")


def by_month(notes: Sequence[FoundNote]) -> list[tuple[str, list[FoundNote]]]:
    """Notes that have no day first, then the months, the newest first. Pure."""

    def month(note: FoundNote) -> str:
        found = _DAY.search(note.name)
        return found[1] if found else ""

    dated = sorted((note for note in notes if month(note)), key=lambda note: note.name, reverse=True)
    dated.sort(key=month, reverse=True)
    undated = [note for note in notes if not month(note)]
    groups = [("Long-term notes", undated)] if undated else []
    return groups + [(name, list(run)) for name, run in groupby(dated, month)]


def reason(why: HitExplanation | None) -> str:
    """Why a place was found, in words. Pure."""
    if why is None:
        return ""
    told = (
        f"place {why.lexical_rank} by words" if why.lexical_rank else "",
        f"place {why.vector_rank} by meaning (cosine {why.cosine:.2f})"
        if why.vector_rank and why.cosine is not None
        else "",
        f"re-ranked at {why.relevance:.2f}" if why.relevance is not None else "",
        f"age counts ×{why.decay_factor:.2f}" if why.decay_factor != 1 else "",
    )
    return ", ".join(filter(None, told))
