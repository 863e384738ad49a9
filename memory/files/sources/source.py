"""Where a line of memory comes from and who may see it, as values and in words."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, TypeAlias

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
    said = " and ".join(_SPEAKERS[speaker] for speaker in source.said_by)
    names = f" ({', '.join(source.names)})" if source.names else ""
    chat = f" in {source.chat}" if source.chat else ""
    day = f" on {source.at[:10]}" if source.at else ""
    mark = "" if source.is_owners_word else f"; {NOT_THE_OWNERS}"
    return f"said by {said}{names}{chat}{day}; written by {_WRITERS[source.written_by]}{mark}"


def audience_text(audience: Audience) -> str:
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


def stems_of(text: str) -> frozenset[str]:
    """The stems of the significant words of a text."""
    from nacre.memory.text.claims import claim_of  # slow, and only a flush or a search needs it

    return frozenset(claim_of(text).stems)


def restated(line: str, said: Sequence[tuple[str, frozenset[str]]], heard: str) -> int | None:
    """Which of the texts that somebody `said` a line states in other words: the number of the latest.

    `said` has each text and its stems, `heard` what others said. The text has the value that the line gives a
    thing, and another of its significant words. Nobody else said one of the others, so that nothing in the
    line comes from them alone. A line denies something only if the text does.
    """
    from nacre.memory.text.claims import Claim, addresses  # slow, and only such a line needs it
    from nacre.memory.text.forms.spelling import fold, stem

    claim, value = Claim(line), frozenset(word for each in addresses(line) for word in each.value)
    heard = fold(heard) if value else ""
    others = {stem(word.rstrip("'\u2019")) for word in claim.stems} - value  # without the "'s" of Ada's
    only_heard = {word for word in others if word in heard}
    for at in reversed(range(len(said) if value else 0)):
        text, stems = said[at]
        if value <= stems and others & stems and only_heard <= stems:
            denies = (any(is_denied for _, is_denied in each.words) for each in (claim, Claim(text)))
            return at if not next(denies) or next(denies) else None
    return None
