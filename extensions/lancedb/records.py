"""A memory: its origin, its audience, and how a model and people read it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime, tzinfo
from typing import Any, Literal, NamedTuple, TypeAlias

from nacre.memory.files.sources.source import PRIVATE, Audience, Speaker
from nacre.record import Record
from nacre.runtime.tools.function import ToolChat

Vector: TypeAlias = Sequence[float]
Category: TypeAlias = Literal["preference", "fact", "decision", "entity", "other"]
"""What a memory is about."""
Writer: TypeAlias = Literal["tool", "capture", "import"]
"""How a memory was stored: by `memory_store`, by auto-capture, or in a table of another program."""

DEFAULT_IMPORTANCE = 0.7


class Origin(Record):
    """Where a memory came from. `entry_id` is the transcript entry that contains it or its beginning.

    `said_by` is `unknown` for rows of another program's table.
    """

    session_key: str
    session_id: str
    channel: str
    said_by: Speaker
    written_by: Writer
    entry_id: str = ""

    @property
    def is_of_others(self) -> bool:
        """Whether the words may be someone else's: people in other chats, a page, a tool, an import."""
        return self.said_by in ("others", "tool", "unknown")


class Memory(Record):
    """One row. `importance` is 0 to 1, `created_at_ms` milliseconds since the epoch, `id` a UUID."""

    id: str
    text: str
    importance: float
    category: Category
    created_at_ms: int
    audience: Audience
    origin: Origin


class Recalled(Record):
    """A memory that was found, and how well it fits, 0 to 1."""

    memory: Memory
    score: float


class FoundByWords(NamedTuple):
    """A row found by words: its BM25 score, all its words, and its vector if it has one."""

    memory: Memory
    bm25: float
    words: str
    vector: Vector | None


class FoundNear(NamedTuple):
    """A row found by its vector, with all its words."""

    memory: Memory
    cosine: float
    words: str


class Scope(Record):
    """Rows of one agent, and of one audience unless it is `None`."""

    agent_id: str
    audience: Audience | None


async def origin_in(chat: ToolChat, text: str, written_by: Writer) -> Origin:
    """The origin of a text that is stored in a chat.

    The text is a person's if one of their messages contains all of its words. Otherwise it may be someone
    else's once a tool or other people have been heard in the session.
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


def to_json(item: Recalled, zone: tzinfo | None) -> dict[str, Any]:
    """A found memory, for the model and `--json`."""
    return {**memory_json(item.memory, zone), "score": round(item.score, 4)}


def memory_json(memory: Memory, zone: tzinfo | None) -> dict[str, Any]:
    """A memory with its source: `entry` if known, `audience` if it is not private."""
    origin = memory.origin
    value: dict[str, Any] = {
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
    value |= {"entry": origin.entry_id} if origin.entry_id else {}
    return value if memory.audience == PRIVATE else {**value, "audience": memory.audience}


def recalled_lines(found: Sequence[Recalled], zone: tzinfo | None) -> str:
    """Memories recalled before a turn, one numbered line each, so that no text can pose as several."""
    return "\n".join(
        f"{number}. [{item.memory.category}] {' '.join(item.memory.text.split())}"
        f" ({moment_of(item.memory, zone).date().isoformat()})"
        for number, item in enumerate(found, 1)
    )


def memory_line(memory: Memory, zone: tzinfo | None, *, score: float | None = None) -> str:
    """A memory as one line for a terminal, with its full ID."""
    day = moment_of(memory, zone).date().isoformat()
    score_text = "" if score is None else f"{score:.2f}  "
    audience_text = "" if memory.audience == PRIVATE else f" · {memory.audience}"
    return (
        f"{score_text}{memory.id}  {day}  [{memory.category}]  {' '.join(memory.text.split())}{audience_text}"
    )


def counts(memories: Sequence[Memory]) -> Mapping[str, Mapping[str, int]]:
    """The number of memories per category, audience and writer."""
    return {
        "category": Counter(memory.category for memory in memories),
        "audience": Counter(memory.audience for memory in memories),
        "writtenBy": Counter(memory.origin.written_by for memory in memories),
    }


def moment_of(memory: Memory, zone: tzinfo | None) -> datetime:
    """When a memory was stored, in the owner's zone; the epoch for an impossible time."""
    try:
        return datetime.fromtimestamp(memory.created_at_ms / 1000, zone)
    except (OverflowError, OSError, ValueError):
        return datetime.fromtimestamp(0, zone)
