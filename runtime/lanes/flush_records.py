"""What a session's entries say about its flushes: had this cycle its own, what came after it. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from nacre.runtime.contracts.events import FlushStatus
from nacre.sessions.contracts.messages import Message, message_text
from nacre.sessions.entries.entries import Compaction, Entry

FLUSH_ENTRY = "nacre.flush"
FLUSH_MESSAGE_ENTRY = "nacre.flush_message"


def flush_data(
    cycle: int, status: FlushStatus, *, path: str, problem: str, is_forced: bool
) -> dict[str, object]:
    """What is recorded of an attempt; a forced one does not count as the cycle's."""
    data: dict[str, object] = {"cycle": cycle, "status": status, "path": path, "problem": problem}
    return {**data, "forced": True} if is_forced else data


def is_flush(entry: Entry) -> bool:
    """Whether an entry records an attempt to flush."""
    return entry.custom_data(FLUSH_ENTRY) is not None


def last_flush(branch: Sequence[Entry]) -> Entry | None:
    """The newest attempt to flush, whatever came of it."""
    return next((entry for entry in reversed(branch) if is_flush(entry)), None)


def has_unflushed_messages(branch: Sequence[Entry]) -> bool:
    """Whether anything was said after the latest flush."""
    for entry in reversed(branch):
        if is_flush(entry):
            return False
        if isinstance(entry.body, Message):
            return True
    return False


def flush_is_spent(branch: Sequence[Entry]) -> bool:
    """Whether this cycle has had its flush, or nothing was said since the last one.

    A compaction begins a new cycle, but what it kept was flushed with what it took away.
    """
    if not has_unflushed_messages(branch):
        return True
    for entry in reversed(branch):
        if is_flush(entry) and not _is_forced(entry):
            return True
        if isinstance(entry.body, Compaction):
            return False
    return False


def unflushed_bytes(branch: Sequence[Entry], *, most: int) -> int:
    """How much text stands in the messages since the latest flush, as UTF-8; images do not count.

    From `most` on nothing more is counted, so that a long session without flushes costs no more.
    """
    size = 0
    for entry in reversed(branch):
        if is_flush(entry) or size >= most:
            break
        if isinstance(entry.body, Message):
            size += len(message_text(entry.body).encode("utf-8", "surrogatepass"))
    return size


def _is_forced(entry: Entry) -> bool:
    return (entry.custom_data(FLUSH_ENTRY) or {}).get("forced") is True
