"""Small conversations for the tests of this room: messages, branches, a clock and ids."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path

from nacre.sessions.contracts.messages import (
    AssistantMessage,
    Message,
    StopReason,
    Text,
    ToolCall,
    ToolResultMessage,
    Usage,
    UserMessage,
    user_message,
)
from nacre.sessions.disk.durable import Sync
from nacre.sessions.entries.entries import Body, Compaction, CustomMessage, CustomRecord, Entry
from nacre.sessions.journal.journal import Journal

START = datetime(2026, 3, 1, 9, 0, tzinfo=UTC)
FIXTURES = Path(__file__).parents[1] / "fixtures" / "sessions"
STAMP = "2026-03-01T09:00:00.000Z"


def ticking_clock() -> Callable[[], datetime]:
    """A clock that moves on by one second at each look."""
    seconds = count()
    return lambda: START + timedelta(seconds=next(seconds))


def counted_ids(name: str = "id") -> Callable[[], str]:
    """Ids that are never the same."""
    numbers = count(1)
    return lambda: f"{name}-{next(numbers)}"


def words(text: str) -> int:
    """A token counter that a reader can check: one token a word."""
    return len(text.split())


def user(text: str = "hello") -> UserMessage:
    return user_message(text, timestamp_ms=1)


def answer(
    text: str = "",
    *calls: str,
    stop_reason: StopReason | None = None,
    usage: Usage | None = None,
    **arguments: str,
) -> AssistantMessage:
    """An answer of `text` and one call of `read` for each id in `calls`."""
    blocks = [ToolCall(id=call, name=arguments.get("tool", "read"), arguments=arguments) for call in calls]
    return AssistantMessage(
        content=(*((Text(text=text),) if text else ()), *blocks),
        api="test",
        provider="test",
        model="test-1",
        usage=usage,
        stop_reason=stop_reason or ("toolUse" if calls else "stop"),
        timestamp_ms=2,
    )


def result(call: str, text: str = "done", *, is_error: bool = False) -> ToolResultMessage:
    return ToolResultMessage(
        tool_call_id=call, tool_name="read", content=(Text(text=text),), is_error=is_error, timestamp_ms=3
    )


class Branch:
    """Builds a chain of entries `e1`, `e2`, …"""

    def __init__(self, messages: Iterable[Message] = ()) -> None:
        self.entries: list[Entry] = []
        for message in messages:
            self.say(message)

    def say(self, message: Message) -> str:
        return self._add(message)

    def compact(self, first_kept: str, summary: str = "Long ago.", **more: object) -> str:
        return self._add(Compaction(summary=summary, first_kept_entry_id=first_kept, tokens_before=9, **more))

    def record(self, custom_type: str = "nacre.flush", data: object = None) -> str:
        return self._add(CustomRecord(custom_type=custom_type, data=data))

    def recall(self, text: str = "notes", custom_type: str = "nacre.recall") -> str:
        return self._add(CustomMessage(custom_type=custom_type, content=text))

    def _add(self, body: Body) -> str:
        parent = self.entries[-1].id if self.entries else None
        entry = Entry(id=f"e{len(self.entries) + 1}", parent_id=parent, timestamp=STAMP, body=body)
        self.entries.append(entry)
        return entry.id


def set_aside_in(folder: Path) -> list[bytes]:
    """What was set aside in a folder so far."""
    return [copy.read_bytes() for copy in sorted(folder.glob("*.corrupt-*"))]


async def opened(path: Path, *, ids: str = "id", sync: Sync = os.fsync) -> Journal:
    """A journal on `path` with a ticking clock and counted ids."""
    return await Journal.open(
        path, session_id="s-1", cwd=path.parent, now=ticking_clock(), new_id=counted_ids(ids), sync=sync
    )


class HeldDisk:
    """A disk that is done with nothing while it is held."""

    def __init__(self) -> None:
        self._free = threading.Event()
        self._free.set()

    def sync(self, descriptor: int) -> None:
        assert self._free.wait(timeout=30), "nobody released the disk"
        os.fsync(descriptor)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Holds the disk, and lets it go in any case."""
        self._free.clear()
        try:
            yield
        finally:
            self._free.set()


def said(entries: Iterable[Entry]) -> list[str]:
    """The texts of the message entries."""
    return [
        "".join(block.text for block in entry.body.content if isinstance(block, Text))
        for entry in entries
        if isinstance(entry.body, Message)
    ]
