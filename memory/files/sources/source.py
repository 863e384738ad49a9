"""Where a line of memory comes from and who may see it, as values and in words."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import date
from typing import Literal, TypeAlias

from nacre.memory.contracts.records import Address, SearchHit, SearchReport, Superseded, citation
from nacre.record import Record

Speaker: TypeAlias = Literal["owner", "assistant", "others", "tool", "unknown"]
"""Who said something: the owner, the assistant, other people, a tool (for example a web page), or unknown."""

Writer: TypeAlias = Literal["flush", "tool", "hook", "capture", "reflection", "import", "code", "hand"]
"""What wrote a line. `code` is a program that embeds Nacre, outside of any chat. `hand` is the owner, and
also stands for lines without a stored source."""

Audience: TypeAlias = str
"""Who may see a line: `PRIVATE`, `EVERYBODY`, or the folder of a chat, such as `chats/telegram-group-7`, for
the people in that chat. The owner may see everything."""

PRIVATE: Audience = "private"
EVERYBODY: Audience = "everybody"

ALIKE = 0.85
"""The share of its score from which another hit is about as good."""

_POSSESSIVE = re.compile(r"([^\W_]+)['\u2019]s\b")
_OF_THE_OWNER: frozenset[Speaker] = frozenset({"owner", "assistant"})


class Source(Record):
    """Where one line, fact or row comes from.

    `said_by` are all who may have said it; `names` identify them as far as known, by ids of people or names
    of tools. `entry_ids` are entries of the session's transcript: the one that says it, or the first and the
    last of those that it was made from. `chat` describes the chat; `at` is an ISO time with a zone.
    """

    written_by: Writer
    audience: Audience
    said_by: tuple[Speaker, ...] = ("unknown",)
    names: tuple[str, ...] = ()
    session_key: str = ""
    session_id: str = ""
    entry_ids: tuple[str, ...] = ()
    chat: str = ""
    at: str = ""

    @property
    def is_owners_word(self) -> bool:
        """Whether only the owner and the assistant said it; unknown speakers do not count as the owner."""
        return bool(self.said_by) and _OF_THE_OWNER.issuperset(self.said_by)

    @property
    def is_by_owner(self) -> bool:
        """Whether the owner wrote it, or accepted it word for word."""
        return self.written_by == "hand" and self.said_by == ("owner",)


def narrowest(audiences: Iterable[Audience]) -> Audience:
    """Who may see a text made from texts with these audiences: those who may see all of them.

    Only the owner is in two different chats for certain, and no audience at all is private.
    """
    found = set(audiences)
    if found == {EVERYBODY}:
        return EVERYBODY
    found.discard(EVERYBODY)
    return found.pop() if len(found) == 1 else PRIVATE


def may_see(listeners: Audience, audience: Audience) -> bool:
    """Whether a chat with these listeners may see something with this audience."""
    return audience == EVERYBODY or listeners in (PRIVATE, audience)


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
    """Neighboring lines of a note with one source, counted from 1 and inclusive."""

    start_line: int
    end_line: int
    source: Source

    def description(self) -> str:
        """The lines and their source in words."""
        several = "" if self.start_line == self.end_line else f"-L{self.end_line}"
        return f"L{self.start_line}{several}: {source_text(self.source)}"


def source_text(source: Source) -> str:
    """A source as a clause."""
    said = " and ".join(_SPEAKERS[speaker] for speaker in source.said_by)
    names = f" ({', '.join(source.names)})" if source.names else ""
    chat = f" in {source.chat}" if source.chat else ""
    day = f" on {source.at[:10]}" if source.at else ""
    mark = "" if source.is_owners_word else f"; {NOT_THE_OWNERS}"
    return f"said by {said}{names}{chat}{day}; written by {_WRITERS[source.written_by]}{mark}"


def audience_text(audience: Audience) -> str:
    """An audience in words."""
    if audience == PRIVATE:
        return "the owner alone"
    return "every chat" if audience == EVERYBODY else f"the chat of {audience}"


def passages(sources: Sequence[Source | None], *, start_line: int) -> tuple[SourcedLines, ...]:
    """The lines with a source, grouped into runs with the same source."""
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


def owners_first(report: SearchReport, lines: Mapping[str, Sequence[SourcedLines]]) -> SearchReport:
    """The report without what others' words would supersede of the owner's.

    A search compares texts, and does not know who said them: `lines` are the sources of each hit by its
    citation. A hit that only others said stands behind the owner's hits that are about as good.
    """
    foreign = {
        citation(hit.path, number, number)
        for hit in report.hits
        for each in lines.get(hit.citation, ())
        if not each.source.is_owners_word
        for number in range(each.start_line, each.end_line + 1)
    }
    hits = [_without_marks(hit, foreign) for hit in report.hits] if foreign else list(report.hits)
    for hit in reversed(hits[:]):
        said = [each.source for each in lines.get(hit.citation, ())]
        if said and not any("owner" in source.said_by for source in said):
            better = [each for each in hits if each is not hit and each.score >= ALIKE * hit.score]
            at, last = hits.index(hit), max((hits.index(each) for each in better), default=-1)
            if last > at:
                hits.insert(last, replace(hits.pop(at), score=min(hit.score, hits[last - 1].score)))
    return replace(report, hits=tuple(_with_marked_copies(hits)))


def _with_marked_copies(hits: Sequence[SearchHit]) -> list[SearchHit]:
    """The hits with marks also on lines that say a superseded value in other words.

    "Ada lives in Kiel" is a copy of "Ada's city: Kiel" if a hit has "Ada's city: Graz" without a mark.
    """
    from nacre.memory.text.chunker import day_in_path
    from nacre.memory.text.claims import Claim, addresses

    marks: dict[str, dict[int, Superseded]] = {
        hit.citation: {old.line: old for old in hit.superseded} for hit in hits
    }
    if not any(marks.values()):
        return list(hits)
    lines = [each for hit in hits for each in _numbered(hit)]
    said: list[tuple[str, Address, date | None, Superseded | None]] = [
        (owner[1].casefold(), address, day_in_path(hit.path), marks[hit.citation].get(number))
        for hit, number, text in lines
        if (owner := _POSSESSIVE.search(text))
        for address in addresses(text)
    ]
    changes = [
        (name, old.value, new.value, day, mark)
        for _, old, _, mark in said
        for name, new, day, other in said
        if mark is not None and other is None and day is not None and new.replaces(old)
    ]
    for hit, number, text in lines if changes else ():
        told, folded = day_in_path(hit.path), text.casefold()
        later = [change for change in changes if told and told <= change[3] and change[0] in folded]
        stems = Claim(text).stems.keys() if later else frozenset()
        for _, was, now, _, mark in later:
            if was <= stems and not now & stems:
                marks[hit.citation].setdefault(number, replace(mark, line=number))
    return [
        replace(hit, superseded=tuple(found[line] for line in sorted(found)))
        for hit in hits
        for found in (marks[hit.citation],)
    ]


def _numbered(hit: SearchHit) -> list[tuple[SearchHit, int, str]]:
    """The lines of a hit that is shown as a whole, with their numbers."""
    lines = hit.snippet.split("\n")
    is_whole = len(lines) == hit.end_line - hit.start_line + 1
    return [(hit, number, text) for number, text in enumerate(lines, hit.start_line)] if is_whole else []


def _without_marks(hit: SearchHit, foreign: Collection[str]) -> SearchHit:
    kept = tuple(
        old
        for old in hit.superseded
        if old.by not in foreign or citation(hit.path, old.line, old.line) in foreign
    )
    return hit if len(kept) == len(hit.superseded) else replace(hit, superseded=kept)
