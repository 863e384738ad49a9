"""A source in words, and the sources of a passage. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from nacre.memory.files.sources.source import EVERYBODY, PRIVATE, Audience, Source, Speaker, Writer
from nacre.record import Record

_SPEAKERS: dict[Speaker, str] = {
    "owner": "the owner",
    "assistant": "the assistant",
    "others": "others",
    "tool": "a tool or file",
    "unknown": "nobody knows whom",
}
_WRITERS: dict[Writer, str] = {
    "flush": "a flush",
    "tool": "a tool",
    "hook": "a hook",
    "capture": "capture",
    "reflection": "reflection",
    "import": "an import",
    "code": "a program",
    "hand": "hand",
}
NOT_THE_OWNERS = "not the owner's word"


class SourcedLines(Record):
    """Neighbouring lines of a note, from 1 and inclusive, with one source."""

    start_line: int
    end_line: int
    source: Source

    def told(self) -> str:
        """Them and their source in words."""
        several = "" if self.start_line == self.end_line else f"-L{self.end_line}"
        return f"L{self.start_line}{several}: {told(self.source)}"


def told(source: Source) -> str:
    """A source in one sentence without its end."""
    said = " and ".join(_SPEAKERS[speaker] for speaker in source.said_by)
    names = f" ({', '.join(source.names)})" if source.names else ""
    chat = f" in {source.chat}" if source.chat else ""
    day = f" on {source.at[:10]}" if source.at else ""
    mark = "" if source.is_owners_word else f"; {NOT_THE_OWNERS}"
    return f"said by {said}{names}{chat}{day}; written by {_WRITERS[source.written_by]}{mark}"


def told_audience(audience: Audience) -> str:
    """Who may be told, in words."""
    if audience == PRIVATE:
        return "the owner alone"
    return "every chat" if audience == EVERYBODY else f"the chat of {audience}"


def passages(sources: Sequence[Source | None], *, start_line: int) -> tuple[SourcedLines, ...]:
    """Lines with their sources, those of one source together; lines without a source are left out."""
    found: list[SourcedLines] = []
    for number, source in enumerate(sources, start_line):
        last = found[-1] if found else None
        if source is None:
            continue
        if last is not None and last.source == source:
            found[-1] = SourcedLines(start_line=last.start_line, end_line=number, source=source)
        else:
            found.append(SourcedLines(start_line=number, end_line=number, source=source))
    return tuple(found)
