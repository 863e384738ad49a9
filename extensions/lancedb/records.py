"""One memory: where it came from, who may hear it, and how the model and people read it. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, tzinfo
from typing import Any, Literal, NamedTuple, TypeAlias

from nacre.record import Record
from nacre.runtime.contracts.policy import ChatPolicy
from nacre.runtime.tools.function import ToolChat

Vector: TypeAlias = Sequence[float]
Category: TypeAlias = Literal["preference", "fact", "decision", "entity", "other"]
"""What a memory is about (seed 003)."""
Speaker: TypeAlias = Literal["owner", "others", "assistant", "tool", "unknown"]
"""Whose words they are, or may be; `unknown` are those of another program's table."""
Writer: TypeAlias = Literal["tool", "capture", "import"]
"""How they came in: by `memory_store`, by auto-capture, or with a table of another program."""

PRIVATE = "private"
"""The audience of what the owner alone may hear; any other is the folder of a chat, such as
`chats/telegram-group-7`, and means the people of that chat."""
DEFAULT_IMPORTANCE = 0.7


class Origin(Record):
    """Where a memory came from. `entry_id` is the entry of the transcript that says it, or begins to."""

    session_key: str
    session_id: str
    channel: str
    said_by: Speaker
    written_by: Writer
    entry_id: str = ""

    @property
    def is_of_others(self) -> bool:
        """Whether somebody else may have a part in it: people of other chats, a page, a tool, an import."""
        return self.said_by in ("others", "tool", "unknown")


class Memory(Record):
    """One row. `importance` is 0…1, `created_at_ms` milliseconds since the epoch, `id` a UUID."""

    id: str
    text: str
    importance: float
    category: Category
    created_at_ms: int
    audience: str
    origin: Origin


class Recalled(Record):
    """A memory that was found, and how well it fits, 0…1."""

    memory: Memory
    score: float


class FoundByWords(NamedTuple):
    """A row that has some of the words: how well (BM25), all its words, and its vector if it has one."""

    memory: Memory
    bm25: float
    words: str
    vector: Vector | None


class FoundNear(NamedTuple):
    """A row whose vector is near, with all its words."""

    memory: Memory
    cosine: float
    words: str


class Scope(Record):
    """Which rows of a table are meant: those of one agent, and of one audience unless that is `None`."""

    agent_id: str
    audience: str | None


async def origin_in(chat: ToolChat, text: str, written_by: Writer) -> Origin:
    """Where a text comes from that is stored in a chat: whoever may have said it.

    It is a person's word if one message of theirs has every word of it. Else others have a part in it as soon
    as a tool or they were heard in the session.
    """
    said_by: Speaker = "assistant" if chat.policy.is_private else "others"
    entry_id = ""
    if chat.sources is not None:
        source = (await chat.sources.begin(written_by))(text)
        entry_id = source.entry_ids[0] if source.entry_ids else ""
        if not source.is_owners_word:
            said_by = "tool" if chat.policy.is_private and "tool" in source.said_by else "others"
        elif source.said_by == ("owner",):
            said_by = "owner"
    return Origin(
        session_key=chat.session_key,
        session_id=chat.session_id,
        channel=chat.channel,
        said_by=said_by,
        written_by=written_by,
        entry_id=entry_id,
    )


def audience_of(policy: ChatPolicy) -> str:
    """Who may hear what is stored in this chat."""
    return PRIVATE if policy.is_private else policy.notes_folder


def to_json(item: Recalled, zone: tzinfo | None) -> dict[str, Any]:
    """A memory that was found, as the model and `--json` get it."""
    return {**memory_json(item.memory, zone), "score": round(item.score, 4)}


def memory_json(memory: Memory, zone: tzinfo | None) -> dict[str, Any]:
    """A memory with its source: `entry` where it is known, `audience` where others may hear it too."""
    origin = memory.origin
    told: dict[str, Any] = {
        "id": memory.id,
        "text": memory.text,
        "category": memory.category,
        "importance": memory.importance,
        "createdAt": moment_of(memory, zone).isoformat(timespec="seconds"),
        "saidBy": origin.said_by,
        "writtenBy": origin.written_by,
        "session": origin.session_key,
        "channel": origin.channel,
    }
    told |= {"entry": origin.entry_id} if origin.entry_id else {}
    return told if memory.audience == PRIVATE else {**told, "audience": memory.audience}


def recalled_lines(found: Sequence[Recalled], zone: tzinfo | None) -> str:
    """What is recalled before a turn: a numbered line each, so that no text can pose as several."""
    return "\n".join(
        f"{number}. [{item.memory.category}] {' '.join(item.memory.text.split())}"
        f" ({moment_of(item.memory, zone).date().isoformat()})"
        for number, item in enumerate(found, 1)
    )


def memory_line(memory: Memory, zone: tzinfo | None, *, score: float | None = None) -> str:
    """A memory as one line of a terminal, with its whole id."""
    day = moment_of(memory, zone).date().isoformat()
    worth = "" if score is None else f"{score:.2f}  "
    whose = "" if memory.audience == PRIVATE else f" · {memory.audience}"
    return f"{worth}{memory.id}  {day}  [{memory.category}]  {' '.join(memory.text.split())}{whose}"


def counts(memories: Sequence[Memory]) -> Mapping[str, Mapping[str, int]]:
    """How many memories there are of each category, audience and way in."""
    counted: dict[str, dict[str, int]] = {"category": {}, "audience": {}, "writtenBy": {}}
    for memory in memories:
        for name, value in zip(
            counted, (memory.category, memory.audience, memory.origin.written_by), strict=True
        ):
            counted[name][value] = counted[name].get(value, 0) + 1
    return counted


def moment_of(memory: Memory, zone: tzinfo | None) -> datetime:
    """When it was stored, in the owner's zone; the first moment that there is for a time that cannot be."""
    try:
        return datetime.fromtimestamp(memory.created_at_ms / 1000, zone)
    except (OverflowError, OSError, ValueError):
        return datetime.fromtimestamp(0, zone)
