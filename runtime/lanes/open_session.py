"""A session while its lane is held: its journal, its line in the index, and what it may see.

The journal is the truth: what a cycle was flushed, how many compactions there were and what the
model saw last are read from it. `sessions.json` mirrors these for other tools and for listings.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from nacre.runtime.contracts.clock import Clock, epoch_ms
from nacre.runtime.contracts.events import FlushStatus
from nacre.runtime.contracts.ids import NewId
from nacre.runtime.contracts.policy import ChatPolicy
from nacre.runtime.lanes import flush_records
from nacre.runtime.lanes.journals import Journals
from nacre.runtime.lanes.routing import Route
from nacre.sessions.compaction.cut import CompactionPlan
from nacre.sessions.contracts.messages import AssistantMessage, Message, UserMessage
from nacre.sessions.entries.entries import Compaction, CustomMessage, Entry
from nacre.sessions.entries.owner import SessionOwner, begun_private
from nacre.sessions.index.changes import (
    next_session,
    with_model_override,
    with_origin,
    with_usage,
    without_usage,
)
from nacre.sessions.index.index import SessionIndex, SessionRecord
from nacre.sessions.journal.journal import Journal
from nacre.sessions.view.pruned_view import PrunedView
from nacre.sessions.view.transcript import RECALL_TYPE, TranscriptItem, newest_turns


class OpenSession:
    """One session of an agent, open for one turn. Made by `open_session`."""

    def __init__(
        self,
        key: str,
        *,
        policy: ChatPolicy,
        journal: Journal,
        record: SessionRecord,
        index: SessionIndex,
        now: Clock,
        notices: tuple[str, ...] = (),
    ) -> None:
        self.key = key
        self.history_turns: int | None = None
        self.policy = policy
        self.journal = journal
        self.record = record
        self._index = index
        self._now = now
        self._notices = notices
        self._pruned = PrunedView()

    @property
    def notices(self) -> tuple[str, ...]:
        """Sentences for the owner about what was lost, repaired or set aside of the transcript."""
        return (*self._notices, *self.journal.notices)

    @property
    def session_id(self) -> str:
        """The id that names the transcript's file."""
        return self.record.session_id

    @property
    def branch(self) -> Sequence[Entry]:
        """The entries from the root to the newest one."""
        return self.journal.branch()

    @property
    def unpruned(self) -> Sequence[TranscriptItem]:
        """What the branch says: its newest `history_turns`, or all of it."""
        items = self.journal.transcript()
        return newest_turns(items, self.history_turns, is_compacted=self.compaction_count > 0)

    @property
    def transcript(self) -> Sequence[TranscriptItem]:
        """What a model is sent of that."""
        return self._pruned.of(self.unpruned, self.branch)

    @property
    def compaction_count(self) -> int:
        """How many compactions this session has had; also the number of its present cycle."""
        return self.journal.tree.compaction_count

    @property
    def has_messages(self) -> bool:
        """Whether anybody has said anything yet."""
        return any(isinstance(entry.body, Message) for entry in self.branch)

    @property
    def last_flush(self) -> Entry | None:
        """The newest attempt to flush, whatever came of it."""
        return flush_records.last_flush(self.branch)

    @property
    def flush_is_spent(self) -> bool:
        """Whether this cycle has had its flush, or nothing was said since the last one."""
        return flush_records.flush_is_spent(self.branch)

    @property
    def has_unflushed_messages(self) -> bool:
        """Whether anything was said after the latest flush."""
        return flush_records.has_unflushed_messages(self.branch)

    def unflushed_bytes(self, *, most: int) -> int:
        """How much text was said after the latest flush, counted up to `most`."""
        return flush_records.unflushed_bytes(self.branch, most=most)

    @property
    def wants_recall(self) -> bool:
        """Whether daily logs are due: before the first answer, and before the first after a compaction."""
        for entry in reversed(self.branch):
            if isinstance(entry.body, Compaction):
                return True
            if isinstance(entry.body, CustomMessage) and entry.body.custom_type == RECALL_TYPE:
                return False
            if isinstance(entry.body, AssistantMessage):
                return False
        return True

    def now_ms(self) -> int:
        """The present moment in milliseconds since the epoch."""
        return epoch_ms(self._now())

    async def say(self, message: UserMessage) -> None:
        """Puts what a person said on disk."""
        await self.journal.append(message)
        self.record = await self._updated(
            lambda record: replace(record, last_interaction_at_ms=self.now_ms(), system_sent=True)
        )

    async def write(self, message: Message) -> None:
        """Puts a message on disk."""
        await self.journal.append(message)

    async def write_recall(self, text: str) -> None:
        """Puts recalled notes into the transcript, marked as recalled."""
        await self.journal.append(CustomMessage(custom_type=RECALL_TYPE, content=text))

    async def write_flush_message(self, message: Message) -> None:
        """Keeps a message of a flush turn for the record; the model does not see it again."""
        await self.journal.append_custom(flush_records.FLUSH_MESSAGE_ENTRY, message.to_json())

    async def write_flush(
        self, status: FlushStatus, *, path: str, problem: str, is_forced: bool = False
    ) -> None:
        """Records an attempt, on success and on failure; a forced one is not the cycle's."""
        cycle = self.compaction_count
        data = flush_records.flush_data(cycle, status, path=path, problem=problem, is_forced=is_forced)
        await self.journal.append_custom(flush_records.FLUSH_ENTRY, data)
        at_ms = self.now_ms()
        self.record = await self._updated(
            lambda record: replace(record, memory_flush_at_ms=at_ms, memory_flush_compaction_count=cycle)
        )

    async def write_compaction(self, summary: str, plan: CompactionPlan, *, tokens_after: int) -> None:
        """Replaces, in the model's view, everything before the plan's first kept entry by a summary.

        The index learns `tokens_after`: the old total would speak of a context that is gone.
        """
        await self.journal.append(
            Compaction(
                summary=summary,
                first_kept_entry_id=plan.first_kept_entry_id,
                tokens_before=plan.tokens_before,
                details=plan.details(),
            )
        )
        count = self.compaction_count
        self.record = await self._updated(
            lambda record: replace(
                without_usage(record),
                compaction_count=count,
                total_tokens=tokens_after or None,
                total_tokens_fresh=tokens_after > 0,
            )
        )

    async def settle(self, answer: AssistantMessage, *, window_tokens: int) -> None:
        """Mirrors the last call's usage into the index, for listings and other tools."""
        usage, count = answer.usage, self.compaction_count

        def settled(record: SessionRecord) -> SessionRecord:
            record = replace(
                record,
                model_provider=answer.provider,
                model=answer.model,
                context_tokens=window_tokens,
                compaction_count=count,
                aborted_last_run=False,
            )
            return record if usage is None or not usage.context_tokens else with_usage(record, usage)

        self.record = await self._updated(settled)

    async def choose_model(self, name: str) -> None:
        """Notes in the index which model this chat's owner wants; empty is the settings' own."""
        self.record = await self._updated(lambda record: with_model_override(record, name))

    async def mark_aborted(self) -> None:
        """Notes in the index that the last turn was broken off."""
        self.record = await self._updated(lambda record: replace(record, aborted_last_run=True))

    async def _updated(self, change: Callable[[SessionRecord], SessionRecord]) -> SessionRecord:
        """The session's line in the index after a change; the key's line is another's once it is over."""

        def checked(record: SessionRecord | None) -> SessionRecord | None:
            if record is None or record.session_id != self.session_id:
                return record
            return change(replace(record, updated_at_ms=self.now_ms()))

        now_there = await self._index.update(self.key, checked)
        if now_there is not None and now_there.session_id == self.session_id:
            return now_there
        return change(self.record)


async def open_session(
    route: Route, *, index: SessionIndex, journals: Journals, now: Clock, new_id: NewId, fresh: bool = False
) -> OpenSession:
    """Opens the session of a route, or begins one; `fresh` begins a new one under the same key.

    The index learns of a new session before its file exists, so a file is never without a key.

    A session is the owner's alone from its first turn on, or never. One in which others have spoken
    shows the owner no private memory, because they read its answers; and whoever comes with a
    private session's key and is not the owner gets a fresh session instead of its transcript.
    """

    async def opened(*, fresh: bool) -> tuple[SessionRecord, Journal]:
        record = await _record(route, index=index, now=now, new_id=new_id, fresh=fresh)
        path = index.transcript_path(record)
        return record, await journals.open(path, session_id=record.session_id)

    record, journal = await opened(fresh=fresh)
    notices: tuple[str, ...] = ()
    if record.system_sent and not journal.tree.entries:
        notices = (
            f"The transcript {journal.path.name} of this session is gone, so it begins anew; "
            "of what was said before, only the notes are left.",
        )
    policy = route.policy
    in_private = begun_private(journal.tree)
    if in_private and not policy.is_private:
        record, journal = await opened(fresh=True)
        in_private = None
    if in_private is None:
        owner = SessionOwner(key=route.key, chat_kind=policy.chat_kind, is_private=policy.is_private)
        await journal.append(owner.to_record())
    elif not in_private:
        policy = replace(policy, session_key_is_private=False)
    return OpenSession(
        route.key, policy=policy, journal=journal, record=record, index=index, now=now, notices=notices
    )


async def _record(
    route: Route, *, index: SessionIndex, now: Clock, new_id: NewId, fresh: bool
) -> SessionRecord:
    """The key's line in the index, a new one where there is none or a fresh session is wanted."""

    def begun(record: SessionRecord | None) -> SessionRecord:
        at_ms = epoch_ms(now())
        if record is None:
            record = SessionRecord(
                session_id=new_id(), updated_at_ms=at_ms, session_started_at_ms=at_ms, compaction_count=0
            )
        elif fresh:
            record = next_session(record, session_id=new_id(), at_ms=at_ms)
        return with_origin(record, route.origin)

    record = await index.update(route.key, begun)
    if record is None:
        raise RuntimeError(f"the index gave no record for {route.key!r} although one was written")
    return record
