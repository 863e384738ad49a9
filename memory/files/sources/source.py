"""Where a memory comes from: who said it, in which chat, what wrote it down, and who may be told it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, TypeAlias

from nacre.records.record import Record

Speaker: TypeAlias = Literal["owner", "assistant", "others", "tool", "unknown"]
"""Whose words: the owner's, the assistant's, other people's, what a tool gave (a web page), nobody knows."""

Writer: TypeAlias = Literal["flush", "tool", "hook", "capture", "reflection", "import", "code", "hand"]
"""What wrote it down. `code` is a program that Nacre is a part of, outside of any chat; `hand` is the owner,
and everything of which no source was kept."""

Audience: TypeAlias = str
"""Who may be told: `PRIVATE`, `EVERYBODY`, or the folder of a chat, such as `chats/telegram-group-7`, which
means the people of that chat. The owner may be told everything."""

PRIVATE: Audience = "private"
EVERYBODY: Audience = "everybody"

_OF_THE_OWNER: frozenset[Speaker] = frozenset({"owner", "assistant"})


class Source(Record):
    """Where one line, fact or row comes from.

    `said_by` are all who may have said it; `names` say who exactly, as far as that is known: ids of people,
    names of tools. `entry_ids` are entries of the session's transcript: the one that says it, or the first
    and the last of those that it was made of. `chat` is the chat in words, `at` an ISO time with its zone.
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
        """Whether the owner and their assistant alone have said it; what nobody knows is not."""
        return bool(self.said_by) and _OF_THE_OWNER.issuperset(self.said_by)

    @property
    def is_by_owner(self) -> bool:
        """Whether the owner wrote it down, or accepted it word for word."""
        return self.written_by == "hand" and self.said_by == ("owner",)


def narrowest(audiences: Iterable[Audience]) -> Audience:
    """Who may be told what was made of texts with these audiences: whoever may be told each of them.

    Two chats have nobody but the owner in common. Of nothing at all nobody knows, so it is private.
    """
    found = set(audiences)
    if found == {EVERYBODY}:
        return EVERYBODY
    found.discard(EVERYBODY)
    return found.pop() if len(found) == 1 else PRIVATE


def may_hear(listeners: Audience, audience: Audience) -> bool:
    """Whether a chat with these listeners may be told what has this audience."""
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
