"""One search with qmd: which commands are run, and what is shown of the places that they name.

qmd says where; the words come from the notes themselves. So a place is shown only if it is a file of the
collection that was asked, and nothing that qmd writes reaches the model.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from datetime import date
from itertools import zip_longest
from pathlib import Path

from nacre.extensions.qmd.home import Collection
from nacre.extensions.qmd.program import (
    Place,
    Program,
    Said,
    as_argument,
    misses_collection,
    places,
    refuses_option,
)
from nacre.memory.contracts.notes import NoteBytes
from nacre.memory.contracts.records import SearchHit
from nacre.memory.contracts.workspace import ReadFailed
from nacre.memory.files.note_files import content_lines
from nacre.memory.text.chunker import day_in_path
from nacre.memory.workspace.folder import FolderWorkspace
from nacre.record import Record
from nacre.runtime.settings.sections.memory import QmdLimits

AT_ONCE = 4
"""How many processes a search may have at one time."""
QUERY = "query"
"""The command that every build of qmd has."""


class Wanted(Record):
    """What a search is limited to. `below` is a folder of the workspace, empty for everything."""

    most: int
    min_score: float = 0.0
    after: date | None = None
    before: date | None = None
    below: str = ""

    def has(self, shown: str, day: date | None) -> bool:
        """Whether a note of this path may be shown at all."""
        if self.below and not shown.startswith(f"{self.below}/"):
            return False
        if self.after is None and self.before is None:
            return True
        return day is not None and (self.after or date.min) <= day <= (self.before or date.max)


async def found_places(
    program: Program,
    mode: str,
    questions: Sequence[str],
    collections: Sequence[Collection],
    *,
    most: int,
    seconds: float,
    mend: Callable[[], Coroutine[None, None, None]],
) -> list[Place]:
    """The best places of all questions in these collections, best first, one for a document.

    Each question is asked of each collection. A build that does not know the mode, or an option of it, is
    asked with `query`; a collection that qmd has lost is made again by `mend`, once.

    Raises:
        QmdFailed: an answer did not come, or is none.
    """

    at_once = asyncio.Semaphore(AT_ONCE)
    mending: list[asyncio.Task[None]] = []

    async def run(command: str, question: str, name: str) -> Said:
        async with at_once:
            return await program.run(
                command, question, "--json", "-n", str(most), "-c", name, seconds=seconds
            )

    async def ask(question: str, name: str) -> list[Place]:
        command = mode
        said = await run(command, question, name)
        if command != QUERY and refuses_option(said):
            command = QUERY
            said = await run(command, question, name)
        if misses_collection(said):
            if not mending:
                mending.append(asyncio.create_task(mend()))
            await asyncio.shield(mending[0])
            said = await run(command, question, name)
        said.or_failed(f"qmd {command}")
        # a collection answers for itself alone
        return [place for place in places(said, command) if place.collection == name]

    asked = dict.fromkeys(filter(None, map(as_argument, questions)))
    tasks = [asyncio.create_task(ask(question, each.name)) for question in asked for each in collections]
    try:
        answers = await asyncio.gather(*tasks)
    finally:
        for task in (*tasks, *mending):
            task.cancel()
        await asyncio.gather(*tasks, *mending, return_exceptions=True)
    best: dict[tuple[str, str], Place] = {}
    for place in (place for answer in answers for place in answer):
        key = (place.collection, place.path)
        if key not in best or best[key].score < place.score:
            best[key] = place
    return sorted(best.values(), key=lambda place: -place.score)


async def shown_hits(
    found: Sequence[Place],
    collections: Sequence[Collection],
    wanted: Wanted,
    limits: QmdLimits,
    *,
    lock_dir: Path,
) -> tuple[SearchHit, ...]:
    """What the notes say at these places now, within the limits; what is no note of theirs is left out."""
    by_name = {each.name: each for each in collections}
    hits: list[tuple[Collection, SearchHit]] = []
    for place in found:
        collection = by_name[place.collection]
        shown = collection.shown(place.path)
        if shown is None or place.score < wanted.min_score or not wanted.has(shown, day_in_path(shown)):
            continue
        note = await read_note(collection, place.path, lock_dir=lock_dir)
        if isinstance(note, NoteBytes):
            hit = _hit(collection, place, shown, content_lines(note.data), limits)
            hits += [(collection, hit)] if hit is not None else []
    memory = [hit for collection, hit in hits if collection.kind != "sessions"]
    sessions = [hit for collection, hit in hits if collection.kind == "sessions"]
    # conversations are long and many: in turn, so that they do not push out what was noted
    pairs = zip_longest(memory, sessions) if sessions else ((hit,) for hit in memory)
    mixed = [hit for pair in pairs for hit in pair if hit is not None]
    return tuple(_within(mixed[: wanted.most], limits.max_injected_chars))


async def read_note(collection: Collection, path: str, *, lock_dir: Path) -> NoteBytes | ReadFailed:
    """A file of a collection, or why it is not read. No symbolic link below the root is followed."""
    return (await FolderWorkspace(collection.root, lock_dir=lock_dir).read_notes([path]))[path]


def _hit(
    collection: Collection, place: Place, shown: str, lines: Sequence[str], limits: QmdLimits
) -> SearchHit | None:
    end = min(place.end_line, len(lines))
    start = next((at for at in range(place.start_line, end + 1) if lines[at - 1].strip()), 0)
    if not start:
        return None
    snippet = "\n".join(lines[start - 1 : end]).rstrip()[: limits.max_snippet_chars]
    return SearchHit(
        path=shown,
        start_line=start,
        end_line=end,
        score=place.score,
        snippet=snippet,
        source="sessions" if collection.kind == "sessions" else "memory",
        citation=f"{shown}#L{start}" if start == end else f"{shown}#L{start}-L{end}",
    )


def _within(hits: Sequence[SearchHit], most_chars: int) -> list[SearchHit]:
    """The first hits whose snippets, each with its `Source:` line, fit; the last of them may be cut."""
    kept: list[SearchHit] = []
    left = most_chars
    for hit in hits:
        left -= len(f"\n\nSource: {hit.citation}")
        if left <= 0:
            break
        kept.append(replace(hit, snippet=hit.snippet[:left]))
        left -= len(hit.snippet)
    return kept
