"""One memory, where it came from, and who may see it. Pure values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from nacre.runtime.contracts.policy import ChatPolicy

Category: TypeAlias = Literal["preference", "fact", "decision", "entity", "other"]
"""What a memory is about (seed 003)."""
Speaker: TypeAlias = Literal["owner", "others", "assistant", "unknown"]
"""Whose words they are."""
Writer: TypeAlias = Literal["tool", "capture", "import"]
"""How they came in: by `memory_store`, by auto-capture, or with a table of another program."""

PRIVATE = "private"
"""The audience of what the owner alone may hear; any other is the folder of a chat, such as
`chats/telegram-group-7`, and means the people of that chat."""
DEFAULT_IMPORTANCE = 0.7


@dataclass(frozen=True, kw_only=True)
class Origin:
    """Where a memory came from."""

    session_key: str
    session_id: str
    channel: str
    said_by: Speaker
    written_by: Writer


@dataclass(frozen=True, kw_only=True)
class Memory:
    """One row. `importance` is 0…1, `created_at_ms` milliseconds since the epoch, `id` a UUID."""

    id: str
    text: str
    importance: float
    category: Category
    created_at_ms: int
    audience: str
    origin: Origin


@dataclass(frozen=True, kw_only=True)
class Recalled:
    """A memory that was found, and how well it fits, 0…1."""

    memory: Memory
    score: float


@dataclass(frozen=True, kw_only=True)
class Scope:
    """Which rows of a table are meant: those of one agent, and of one audience unless that is `None`."""

    agent_id: str
    audience: str | None


def audience_of(policy: ChatPolicy) -> str:
    """Who may hear what is stored in this chat."""
    return PRIVATE if policy.is_private else policy.notes_folder
