"""What a session's entries say about its flushes: whether this cycle had its own, and what came after it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from nacre.records.record import Record
from nacre.runtime.contracts.events import FlushStatus
from nacre.runtime.lanes.index_line import IndexLine
from nacre.sessions.contracts.messages import (
    AssistantMessage,
    Message,
    ToolResultMessage,
    UserMessage,
    message_from_json,
    message_text,
)
from nacre.sessions.entries.entries import Compaction, Entry
from nacre.sessions.stores.store import Transcript
from nacre.sessions.view.transcript import Follower

FLUSH_ENTRY = "nacre.flush"
FLUSH_MESSAGE_ENTRY = "nacre.flush_message"


class UnfinishedFlush(Record):
    """The messages of a flush turn that has no record; `later_entry_ids` are what was said behind it."""

    messages: tuple[Message, ...]
    later_entry_ids: frozenset[str]


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
        bodies = [entry.body for entry in self._facts().unflushed]
        return [body for body in bodies if isinstance(body, UserMessage | AssistantMessage)]

    @property
    def unflushed_range(self) -> tuple[str, ...]:
        """The ids of the first and the last entry that was said after the latest flush."""
        unflushed = self._facts().unflushed
        return tuple(dict.fromkeys(entry.id for entry in (*unflushed[:1], *unflushed[-1:])))

    def has_unflushed_before(self, entry_id: str) -> bool:
        """Whether anything was said between the latest flush and the entry `entry_id`."""
        said = (entry for entry in self._facts().unflushed if not isinstance(entry.body, ToolResultMessage))
        first = next(said, None)
        is_before = False
        for entry in reversed(self._journal.branch() if first is not None else ()):
            is_before = is_before or entry.id == entry_id
            if entry is first:
                return is_before and entry.id != entry_id
        return False

    def unflushed_turns(self, *, most: int) -> int:
        """How many messages of people stand after the latest flush, at most `most`."""
        turns = 0
        for entry in reversed(self._facts().unflushed):
            if turns >= most:
                break
            turns += isinstance(entry.body, UserMessage)
        return turns

    @property
    def unfinished(self) -> UnfinishedFlush | None:
        """The flush that wrote, or was about to write, when it was cut off by a kill or a stop."""
        facts = self._facts()
        messages = [message for data in facts.begun if (message := message_from_json(data)) is not None]
        kept = [message for message in messages if not _is_broken(message)]
        if not any(isinstance(message, AssistantMessage) and message.tool_calls for message in kept):
            return None
        later = frozenset(entry.id for entry in facts.unflushed[facts.covered :])
        return UnfinishedFlush(messages=tuple(kept), later_entry_ids=later)

    @property
    def unflushed_bytes(self) -> int:
        """How much text stands in the messages since the latest flush, as UTF-8; images do not count."""
        return self._facts().unflushed_bytes

    async def keep_message(self, message: Message) -> None:
        """Keeps a message of a flush turn for the record; the model does not see it again."""
        await self._journal.append_custom(FLUSH_MESSAGE_ENTRY, message.to_json())

    async def record(
        self, status: FlushStatus, *, path: str, problem: str, is_forced: bool, is_resumed: bool = False
    ) -> None:
        """Records an attempt, on success and on failure; a forced one is not the cycle's.

        One that `is_resumed` has seen what was said before it was cut off, and nothing behind that.
        """
        cycle = self._journal.tree.compaction_count
        data: dict[str, object] = {"cycle": cycle, "status": status, "path": path, "problem": problem}
        if is_forced:
            data["forced"] = True
        if is_resumed:
            data["resumed"] = True
        await self._journal.append_custom(FLUSH_ENTRY, data)
        await self._line.flushed(cycle=cycle)

    def _facts(self) -> FlushFacts:
        facts = self._journal.kept(FlushFacts)
        facts.follow(self._journal.branch())
        return facts


class FlushFacts:
    """The same of one branch after the other of a session's tree; a step costs what is new of it.

    `unflushed` are the messages after the latest flush. `begun` are those of a flush that is not recorded
    yet, and `covered` is how many of `unflushed` stand before it.
    """

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
        self._cover(None)

    @property
    def has_unflushed_messages(self) -> bool:
        """Whether anything was said after the latest flush."""
        return bool(self.unflushed)

    def _take(self, entry: Entry) -> None:
        if isinstance(entry.body, Message):
            self.unflushed.append(entry)
            self.unflushed_bytes += _size_bytes(entry.body)
        elif isinstance(entry.body, Compaction):
            self.is_cycle_flushed = False
        elif (data := entry.custom_data(FLUSH_MESSAGE_ENTRY)) is not None:
            if not self.begun:
                self.covered = len(self.unflushed)
            self.begun.append(data)
        elif (record := entry.custom_data(FLUSH_ENTRY)) is not None:
            self.last = entry
            self.is_cycle_flushed = self.is_cycle_flushed or record.get("forced") is not True
            # A fork may begin with the record alone; then all that stands before it was seen.
            self._cover(self.covered if record.get("resumed") is True and self.begun else None)

    def _cover(self, count: int | None) -> None:
        """Takes the first `count` unflushed messages, or all of them, for seen by a flush."""
        self.unflushed: list[Entry] = [] if count is None else self.unflushed[count:]
        bodies = (entry.body for entry in self.unflushed)
        self.unflushed_bytes = sum(_size_bytes(body) for body in bodies if isinstance(body, Message))
        self.begun: list[Mapping[str, Any]] = []
        self.covered = 0


def has_unflushed_messages(branch: Sequence[Entry]) -> bool:
    """Whether anything was said on a branch after its latest flush."""
    facts = FlushFacts()
    facts.follow(branch)
    return facts.has_unflushed_messages


def _size_bytes(message: Message) -> int:
    return len(message_text(message).encode("utf-8", "surrogatepass"))


def _is_broken(message: Message) -> bool:
    return isinstance(message, AssistantMessage) and message.stop_reason in ("error", "aborted")
