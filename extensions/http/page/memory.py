"""The views of the notes: by month, search, editing, changes with undo, and notes that wait for the owner."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from itertools import groupby
from urllib.parse import quote

from starlette.responses import RedirectResponse, Response

from nacre.extensions.http.page.access import HEADERS
from nacre.extensions.http.page.home import HistoryUnusable, NoteChanged, latest_commits, undo_commit
from nacre.extensions.http.page.rendering import diff_of
from nacre.extensions.http.page.visit import Visit
from nacre.memory.contracts.notes import FoundNote
from nacre.memory.contracts.records import HitExplanation
from nacre.memory.files.proposals import ProposalConflict, ProposalUnknown, ReviewQueue
from nacre.memory.workspace.history.history_keeper import commit_notes

_DAY = re.compile(r"(\d{4}-\d{2})-\d{2}")


async def memory(visit: Visit) -> Response:
    """All notes by month, or the results of a search."""
    query = visit.query_value("q").strip()
    report = await visit.home.search(query) if query else None
    hits = [(hit, reason(hit.explain)) for hit in report.hits] if report else []
    groups = [] if query else by_month(await visit.home.list_notes())
    return visit.page("memory.html", query=query, report=report, hits=hits, groups=groups, view="notes")


async def note(visit: Visit) -> Response:
    found = await visit.home.note(visit.query_value("path"))
    return visit.page("note.html", note=found, text=found.text, conflict=None, diff="", view="notes")


async def write(visit: Visit) -> Response:
    """Writes a note. If it has changed since it was shown, shows both texts instead."""
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
    """What was written to the notes, the newest first."""
    return await _changes_page(visit, "")


async def undo(visit: Visit) -> Response:
    try:
        notice = await asyncio.to_thread(undo_commit, visit.home.config, visit.field("commit"))
    except HistoryUnusable as error:
        return await _changes_page(visit, str(error), status=409)
    return await _changes_page(visit, notice)


async def _changes_page(visit: Visit, notice: str, *, status: int = 200) -> Response:
    home = visit.home
    # Recent notes are committed after their turn; commit them now so that they are listed.
    if home.config.settings.memory.history.commits != "off":
        problem = await commit_notes(home.workspace, state_dir=home.config.state_dir)
        notice = notice or problem
    try:
        commits = await asyncio.to_thread(latest_commits, visit.home.config)
    except HistoryUnusable as error:
        commits, notice = (), notice or str(error)
    return visit.page("changes.html", status=status, commits=commits, notice=notice, view="changes")


def by_month(notes: Sequence[FoundNote]) -> list[tuple[str, list[FoundNote]]]:
    """Notes without a date first, then the months, the newest first."""

    def month(note: FoundNote) -> str:
        found = _DAY.search(note.name)
        return found[1] if found else ""

    dated = sorted((note for note in notes if month(note)), key=lambda note: note.name, reverse=True)
    dated.sort(key=month, reverse=True)
    undated = [note for note in notes if not month(note)]
    groups = [("Long-term notes", undated)] if undated else []
    return groups + [(name, list(run)) for name, run in groupby(dated, month)]


def reason(why: HitExplanation | None) -> str:
    if why is None:
        return ""
    reasons = (
        f"place {why.lexical_rank} by words" if why.lexical_rank else "",
        f"place {why.vector_rank} by meaning (cosine {why.cosine:.2f})"
        if why.vector_rank and why.cosine is not None
        else "",
        f"re-ranked at {why.relevance:.2f}" if why.relevance is not None else "",
        f"age counts ×{why.decay_factor:.2f}" if why.decay_factor != 1 else "",
    )
    return ", ".join(filter(None, reasons))


async def review(visit: Visit) -> Response:
    """All waiting notes, the oldest first."""
    return await _review_page(visit, "")


async def answer_review(visit: Visit) -> Response:
    """Accepts a waiting note, possibly edited, or rejects it."""
    queue = _queue(visit)
    try:
        found = await queue.find(visit.field("proposal"))
        if visit.field("answer") == "reject":
            await queue.reject(found)
            return await _review_page(visit, f"Rejected: {found.write.path} stays as it is.")
        text = visit.field("text").replace("\r\n", "\n")
        edited = text if "text" in visit.form and text != found.write.text else None
        await queue.accept(found, visit.home.workspace, edited=edited)
        visit.home.notes_changed()
        return await _review_page(visit, f"Written into {found.write.path}.")
    except (ProposalConflict, ProposalUnknown) as error:
        return await _review_page(visit, str(error), status=409)


async def _review_page(visit: Visit, notice: str, *, status: int = 200) -> Response:
    queue = _queue(visit)
    waiting = [(each, await queue.diff(each, visit.home.workspace)) for each in await queue.waiting()]
    is_on = visit.home.config.settings.memory.writes == "review"
    return visit.page(
        "review.html", status=status, waiting=waiting, notice=notice, is_on=is_on, view="review"
    )


def _queue(visit: Visit) -> ReviewQueue:
    config = visit.home.config
    return ReviewQueue(config.folders.proposals, lock_dir=config.state_dir / "locks")
