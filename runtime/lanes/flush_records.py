"""What a session's entries say about its flushes: whether this cycle had its own, and what came after it."""

from __future__ import annotations

from collections.abc import Sequence

from nacre.runtime.contracts.events import FlushStatus
from nacre.runtime.lanes.index_line import IndexLine
from nacre.sessions.contracts.messages import AssistantMessage, Message, UserMessage, message_text
from nacre.sessions.entries.entries import Compaction, Entry
from nacre.sessions.stores.store import Transcript
from nacre.sessions.view.following import Follower

FLUSH_ENTRY = "nacre.flush"
FLUSH_MESSAGE_ENTRY = "nacre.flush_message"


class FlushRecords:
    """The flushes of one open session."""

    def __init__(self, journal: Transcript, line: IndexLine) -> None:
        self._journal = journal
        self._line = line

    @property
    def last(self) -> Entry | None:
        """The newest attempt to flush, whatever came of it."""
        return self._facts().last

    @property
    def is_spent(self) -> bool:
        """Whether this cycle has had its flush, or nothing was said since the last one.

        A compaction begins a new cycle, but what it kept was flushed with what it took away.
        """
        facts = self._facts()
        return facts.is_cycle_flushed or not facts.has_unflushed_messages

    @property
    def has_unflushed_messages(self) -> bool:
        """Whether anything was said after the latest flush."""
        return self._facts().has_unflushed_messages

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

    @property
    def unflushed_bytes(self) -> int:
        """How much text stands in the messages since the latest flush, as UTF-8; images do not count."""
        return self._facts().unflushed_bytes

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

    def _facts(self) -> FlushFacts:
        facts = self._journal.kept(FlushFacts)
        facts.follow(self._journal.branch())
        return facts


class FlushFacts:
    """The same of one branch after the other of a session's tree; a step costs what is new of it."""

    def __init__(self) -> None:
        self._follower = Follower()
        self._begin()

    def follow(self, branch: Sequence[Entry]) -> None:
        """Takes what is new of a branch."""
        fresh = self._follower.fresh(branch)
        if fresh is None:
            self._begin()
        for entry in branch if fresh is None else fresh:
            self._take(entry)

    def _begin(self) -> None:
        self.last: Entry | None = None
        self.is_cycle_flushed = False
        self.has_unflushed_messages = False
        self.unflushed_bytes = 0

    def _take(self, entry: Entry) -> None:
        if isinstance(entry.body, Message):
            self.has_unflushed_messages = True
            self.unflushed_bytes += len(message_text(entry.body).encode("utf-8", "surrogatepass"))
        elif isinstance(entry.body, Compaction):
            self.is_cycle_flushed = False
        elif _is_flush(entry):
            self.last = entry
            self.is_cycle_flushed = self.is_cycle_flushed or not _is_forced(entry)
            self.has_unflushed_messages = False
            self.unflushed_bytes = 0


def has_unflushed_messages(branch: Sequence[Entry]) -> bool:
    """Whether anything was said on a branch after its latest flush."""
    facts = FlushFacts()
    facts.follow(branch)
    return facts.has_unflushed_messages


def _is_flush(entry: Entry) -> bool:
    return entry.custom_data(FLUSH_ENTRY) is not None


def _is_forced(entry: Entry) -> bool:
    return (entry.custom_data(FLUSH_ENTRY) or {}).get("forced") is True
