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


async def sources_of_hits(
    notes: Notes, sources: Sources, hits: Sequence[SearchHit], *, listeners: Audience = PRIVATE
) -> Mapping[str, tuple[SourcedLines, ...]]:
    """The sources of hits by their citations, as far as `listeners` may hear of them.

    Lines without one are left out, and hits without any, and what cannot be read now.
    """
    of_notes = [hit for hit in hits if hit.source == "memory"]
    if not of_notes or not await sources.knows_any():
        return {}
    lines = await asyncio.gather(*(_lines(notes, hit) for hit in of_notes))
    found = await sources.of_notes([(hit.path, of_hit) for hit, of_hit in zip(of_notes, lines, strict=True)])
    return {
        hit.citation: told
        for hit, of_hit in zip(of_notes, found, strict=True)
        if (told := _heard(passages(of_hit, start_line=hit.start_line), listeners))
    }


async def _lines(notes: Notes, hit: SearchHit) -> Sequence[str]:
    count = hit.end_line - hit.start_line + 1
    try:
        excerpt = await notes.read(hit.path, from_line=hit.start_line, lines=count)
    except MemoryIndexError:
        return ()
    return excerpt.text.split("\n")


def _heard(passages: Sequence[SourcedLines], listeners: Audience) -> tuple[SourcedLines, ...]:
    return tuple(each for each in passages if may_hear(listeners, each.source.audience))
