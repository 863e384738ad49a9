"""The sources of what a search found: of each hit, those of its lines as they stand in the note now."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Protocol

from nacre.memory.contracts.errors import MemoryIndexError
from nacre.memory.contracts.records import Excerpt, SearchHit
from nacre.memory.files.sources.source import PRIVATE, Audience, may_hear
from nacre.memory.files.sources.sources import Sources
from nacre.memory.files.sources.telling import SourcedLines, passages


class Notes(Protocol):
    """What gives lines of notes."""

    async def read(self, path: str, *, from_line: int | None = None, lines: int | None = None) -> Excerpt:
        """Lines of a note."""


async def sources_of_lines(
    notes: Notes, sources: Sources, path: str, start_line: int, end_line: int
) -> tuple[SourcedLines, ...]:
    """The sources of lines of a note, those without one left out; none of a note that cannot be read."""
    try:
        excerpt = await notes.read(path, from_line=start_line, lines=end_line - start_line + 1)
    except MemoryIndexError:
        return ()
    found = await sources.of_lines(path, excerpt.text.split("\n"))
    return passages(found, start_line=start_line)


async def sources_of_hits(
    notes: Notes, sources: Sources, hits: Sequence[SearchHit], *, listeners: Audience = PRIVATE
) -> Mapping[str, tuple[SourcedLines, ...]]:
    """The sources of hits by their citations, as far as `listeners` may hear of them."""
    of_notes = [hit for hit in hits if hit.source == "memory"]
    found = await asyncio.gather(
        *(sources_of_lines(notes, sources, hit.path, hit.start_line, hit.end_line) for hit in of_notes)
    )
    return {
        hit.citation: tuple(each for each in lines if may_hear(listeners, each.source.audience))
        for hit, lines in zip(of_notes, found, strict=True)
    }
