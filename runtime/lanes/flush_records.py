"""What a session's entries say about its flushes: whether this cycle had its own, and what came after it."""

from __future__ import annotations

from collections.abc import Sequence

from nacre.runtime.contracts.events import FlushStatus
from nacre.runtime.lanes.index_line import IndexLine
from nacre.sessions.contracts.messages import AssistantMessage, Message, UserMessage, message_text
from nacre.sessions.entries.entries import Compaction, Entry
from nacre.sessions.journal.journal import Journal

FLUSH_ENTRY = "nacre.flush"
FLUSH_MESSAGE_ENTRY = "nacre.flush_message"


class FlushRecords:
    """The flushes of one open session."""

    def __init__(self, journal: Journal, line: IndexLine) -> None:
        self._journal = journal
        self._line = line

    @property
    def last(self) -> Entry | None:
        """The newest attempt to flush, whatever came of it."""
        return next((entry for entry in reversed(self._journal.branch()) if _is_flush(entry)), None)

    @property
    def is_spent(self) -> bool:
        """Whether this cycle has had its flush, or nothing was said since the last one.

        A compaction begins a new cycle, but what it kept was flushed with what it took away.
        """
        if not self.has_unflushed_messages:
            return True
        for entry in reversed(self._journal.branch()):
            if _is_flush(entry) and not _is_forced(entry):
                return True
            if isinstance(entry.body, Compaction):
                return False
        return False

    @property
    def has_unflushed_messages(self) -> bool:
        """Whether anything was said after the latest flush."""
        return has_unflushed_messages(self._journal.branch())

    def unflushed_messages(self) -> list[Message]:
        """What people and the assistant said after the latest flush, in order."""
        said: list[Message] = []
        for entry in reversed(self._journal.branch()):
            if _is_flush(entry):
                break
            if isinstance(entry.body, UserMessage | AssistantMessage):
                said.append(entry.body)
        return said[::-1]

    def has_unflushed_before(self, entry_id: str) -> bool:
        """Whether anything was said between the latest flush and the entry `entry_id`."""
        is_before = False
        for entry in reversed(self._journal.branch()):
            if _is_flush(entry):
                return False
            if is_before and isinstance(entry.body, UserMessage | AssistantMessage):
                return True
            is_before = is_before or entry.id == entry_id
        return False

    def unflushed_turns(self, *, most: int) -> int:
        """How many messages of people stand after the latest flush, at most `most`."""
        turns = 0
        for entry in reversed(self._journal.branch()):
            if _is_flush(entry) or turns >= most:
                break
            turns += isinstance(entry.body, UserMessage)
        return turns

    def unflushed_bytes(self, *, most: int) -> int:
        """How much text stands in the messages since the latest flush, as UTF-8; images do not count.

        From `most` on nothing more is counted, so that a long session without flushes costs no more.
        """
        size = 0
        for entry in reversed(self._journal.branch()):
            if _is_flush(entry) or size >= most:
                break
            if isinstance(entry.body, Message):
                size += len(message_text(entry.body).encode("utf-8", "surrogatepass"))
        return size

    async def keep_message(self, message: Message) -> None:
        """Keeps a message of a flush turn for the record; the model does not see it again."""
        await self._journal.append_custom(FLUSH_MESSAGE_ENTRY, message.to_json())

    async def record(self, status: FlushStatus, *, path: str, problem: str, is_forced: bool) -> None:
        """Records an attempt, on success and on failure; a forced one is not the cycle's."""
        cycle = self._journal.tree.compaction_count
        data: dict[str, object] = {"cycle": cycle, "status": status, "path": path, "problem": problem}
        if is_forced:
            data["forced"] = True
        await self._journal.append_custom(FLUSH_ENTRY, data)
        await self._line.flushed(cycle=cycle)


def has_unflushed_messages(branch: Sequence[Entry]) -> bool:
    """Whether anything was said on a branch after its latest flush."""
    for entry in reversed(branch):
        if _is_flush(entry):
            return False
        if isinstance(entry.body, Message):
            return True
    return False


def _is_flush(entry: Entry) -> bool:
    return entry.custom_data(FLUSH_ENTRY) is not None


def _is_forced(entry: Entry) -> bool:
    return (entry.custom_data(FLUSH_ENTRY) or {}).get("forced") is True
