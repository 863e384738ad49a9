"""A session while its lane is held.

The journal is the truth: what a cycle was flushed, how many compactions there were and what the model saw
last are read from it. `sessions.json` mirrors these for other programs and for listings.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from nacre.memory.files.sources.proposed_write import WaitsForReview
from nacre.memory.files.sources.sources import Sources
from nacre.records.record import Record
from nacre.runtime.contracts.clock import Clock, epoch_ms
from nacre.runtime.contracts.events import FlushStatus
from nacre.runtime.contracts.ids import NewId
from nacre.runtime.contracts.policy import ChatPolicy, WorkspaceAccess
from nacre.runtime.open_sessions.lanes import Route
from nacre.runtime.tools.function import ToolChat
from nacre.runtime.tools.session_sources import SessionSources, Voices
from nacre.sessions.compaction.cut import CompactionPlan
from nacre.sessions.contracts.errors import SessionError
from nacre.sessions.contracts.keys import EndedSession
from nacre.sessions.contracts.messages import (
    AssistantMessage,
    Message,
    ToolResultMessage,
    UserMessage,
    message_from_json,
    message_text,
)
from nacre.sessions.entries.entries import Compaction, Entry, SessionOwner, begun_private
from nacre.sessions.index.record import (
    Origin,
    SessionRecord,
    next_session,
    unknown_usage,
    usage_fields,
    with_model_override,
    with_origin,
)
from nacre.sessions.stores.store import SessionLines, SessionStore, Transcript
from nacre.sessions.view.sent_view import PrunedView, model_messages
from nacre.sessions.view.transcript import Follower, TranscriptItem, newest_turns


class OpenSession:
    """One session of an agent, open for one turn. Made by `SessionOpener`.

    `route` is where its message came from, and `policy` what it may show: less than the route's policy
    where others have spoken in it, or where the settings grant less `access`. `view` is what a model is sent,
    `flushes` what is known of its flushes, `line` its line in the index.
    """

    def __init__(
        self,
        route: Route,
        journal: Transcript,
        record: SessionRecord,
        *,
        index: SessionLines,
        now: Clock,
        history_turns: int | None = None,
        is_read_by_others: bool = False,
        access: WorkspaceAccess = "rw",
        notices: tuple[str, ...] = (),
    ) -> None:
        self.route = route
        self.policy: ChatPolicy = route.policy
        if is_read_by_others or access != route.policy.access:
            is_private = route.policy.session_key_is_private and not is_read_by_others
            self.policy = replace(route.policy, access=access, session_key_is_private=is_private)
        self.journal = journal
        self.line = IndexLine(route.key, record, index=index, now=now)
        self.view = ModelView(journal, history_turns=history_turns)
        self.flushes = FlushRecords(journal, self.line)
        self._now = now
        self._notices = notices
        self._chat: ToolChat | None = None
        self._waiting: list[WaitsForReview] = []

    @property
    def key(self) -> str:
        """The session key."""
        return self.route.key

    @property
    def session_id(self) -> str:
        """The id that names the transcript's file."""
        return self.line.record.session_id

    @property
    def notices(self) -> tuple[str, ...]:
        """Sentences for the owner about what was lost, repaired or set aside of the transcript."""
        return (*self._notices, *self.journal.notices)

    def chat(self, place: str, sources: Sources) -> ToolChat:
        """What tools and hooks are told of this chat; `place` is where the notes are, `sources` theirs."""
        if self._chat is None:
            self._chat = ToolChat(
                session_key=self.key,
                session_id=self.session_id,
                channel=self.route.origin.channel,
                policy=self.policy,
                workspace=Path(place),
                origin=self.route.origin,
                sources=self.sources(sources),
            )
        return self._chat

    def sources(self, sources: Sources) -> SessionSources:
        """What gives the lines that are written in this session their sources."""
        origin = self.route.origin
        named = origin.chat_name.strip() or ("" if self.policy.is_private else origin.reply_to)
        return SessionSources(
            sources=sources,
            voices=self._voices,
            policy=self.policy,
            session_key=self.key,
            session_id=self.session_id,
            chat=" ".join(filter(None, (origin.channel, origin.chat_kind, "chat", named))),
            now=self._now,
            owner_id=origin.sender_id.strip() if self.policy.is_owner is True else "",
            waits=self._waiting.append,
        )

    def take_waiting(self) -> tuple[WaitsForReview, ...]:
        """The writes that began to wait for the owner since this was last asked."""
        waiting, self._waiting[:] = tuple(self._waiting), ()
        return waiting

    def _voices(self) -> Voices:
        voices = self.journal.kept(Voices)
        voices.follow(self.journal.tree.entries)
        return voices

    @property
    def branch(self) -> Sequence[Entry]:
        """The entries from the root to the newest one."""
        return self.journal.branch()

    @property
    def compaction_count(self) -> int:
        """How many compactions this session has had; also the number of its present cycle."""
        return self.journal.tree.compaction_count

    @property
    def has_messages(self) -> bool:
        """Whether anybody has said anything yet."""
        return any(isinstance(entry.body, Message) for entry in self.branch)

    def now_ms(self) -> int:
        """The present moment in milliseconds since the epoch."""
        return epoch_ms(self._now())

    async def say(self, message: UserMessage) -> None:
        """Puts what a person said on disk."""
        await self.journal.append(message)
        await self.line.said()

    async def write(self, message: Message) -> None:
        """Puts a message on disk."""
        await self.journal.append(message)

    async def compact(self, summary: str, plan: CompactionPlan, *, tokens_after: int) -> None:
        """Replaces, in the model's view, everything before the plan's first kept entry by a summary."""
        await self.journal.append(
            Compaction(
                summary=summary,
                first_kept_entry_id=plan.first_kept_entry_id,
                tokens_before=plan.tokens_before,
                details=plan.details(),
            )
        )
        await self.line.compacted(count=self.compaction_count, tokens_after=tokens_after)


log = logging.getLogger(__name__)

SAID_EVERY_MS = 3_600_000
"""How far behind the time of the last words may be while they are answered; the transcript tells it."""


class IndexLine:
    """The line of one session under its key; a line that meanwhile names another session stays as it is."""

    def __init__(self, key: str, record: SessionRecord, *, index: SessionLines, now: Clock) -> None:
        self._key = key
        self._index = index
        self._now = now
        self._said_at_ms: int | None = None
        self.record = record

    async def said(self) -> None:
        """Notes that a person said something now.

        Together with what is noted next, or by `settle`; at once where the line would seem long unused.
        """
        self._said_at_ms = at_ms = epoch_ms(self._now())
        told_ms = self.record.last_interaction_at_ms or 0
        if not self.record.system_sent or not 0 <= at_ms - told_ms < SAID_EVERY_MS:
            await self.settle()

    async def settle(self) -> None:
        """Notes what waits to be noted, for a turn that ends without an answer."""
        if self._said_at_ms is not None:
            await self._mirror()

    async def settle_if_it_can(self) -> None:
        """The same, where a refusal is logged: why there is no answer matters more."""
        try:
            await self.settle()
        except SessionError as error:
            log.warning("the line of %s is behind its transcript: %s", self._key, error)

    async def flushed(self, *, cycle: int) -> None:
        """Notes an attempt to flush in this cycle."""
        at_ms = epoch_ms(self._now())
        await self._mirror(memory_flush_at_ms=at_ms, memory_flush_compaction_count=cycle)

    async def compacted(self, *, count: int, tokens_after: int) -> None:
        """Notes a compaction, the `count`th; the old total would speak of a context that is gone."""
        total = {"total_tokens": tokens_after or None, "total_tokens_fresh": tokens_after > 0}
        await self._mirror(**unknown_usage() | total, compaction_count=count)

    async def answered(self, answer: AssistantMessage, *, window_tokens: int, compactions: int) -> None:
        """Mirrors the last call of a turn: its model, that model's window, and its usage."""
        usage = answer.usage
        await self._mirror(
            **usage_fields(usage) if usage is not None and usage.context_tokens else {},
            model_provider=answer.provider,
            model=answer.model,
            context_tokens=window_tokens,
            compaction_count=compactions,
            aborted_last_run=False,
        )

    async def choose_model(self, name: str) -> None:
        """Notes which model this chat's owner wants; empty is the settings' own."""
        at_ms = epoch_ms(self._now())

        def chosen(record: SessionRecord | None) -> SessionRecord | None:
            if record is None or self._ours(record) is None:
                return record
            return with_model_override(replace(record, updated_at_ms=at_ms), name)

        there = await self._index.update(self._key, chosen)
        self.record = self._ours(there) or with_model_override(self.record, name)

    async def aborted(self) -> None:
        """Notes that the last turn was broken off."""
        await self._mirror(aborted_last_run=True)

    async def _mirror(self, **fields: Any) -> None:
        """Changes fields that the transcript tells as well, and notes when a person spoke."""
        if self._said_at_ms is not None:
            fields |= {"last_interaction_at_ms": self._said_at_ms, "system_sent": True}
        at_ms = epoch_ms(self._now())

        def mirrored(record: SessionRecord) -> SessionRecord:
            if self._ours(record) is None:
                return record
            return replace(record, updated_at_ms=at_ms, **fields)

        there = await self._index.mirror(self._key, mirrored)
        self.record = self._ours(there) or replace(self.record, **fields)
        self._said_at_ms = None

    def _ours(self, record: SessionRecord | None) -> SessionRecord | None:
        """A record of the key if it is this session's."""
        return record if record is not None and record.session_id == self.record.session_id else None


class SessionOpener:
    """Opens the sessions of one agent, for whoever holds their lane.

    `history_turns` says how many turns of a route's session a model is sent; `None` is all. `access` says
    what a session of this key may do with the workspace.
    """

    def __init__(
        self,
        store: SessionStore,
        *,
        now: Clock,
        new_id: NewId,
        history_turns: Callable[[Route], int | None] = lambda _route: None,
        access: Callable[[str], WorkspaceAccess] = lambda _key: "rw",
    ) -> None:
        self.store = store
        self.index = store.index
        self.journals = Journals(store)
        self._now = now
        self._new_id = new_id
        self._history_turns = history_turns
        self._access = access

    async def open(self, route: Route, *, fresh: bool = False) -> OpenSession:
        """The session of a route, or a new one; `fresh` begins a new one under the same key.

        The index learns of a new session before its file exists, so a file is never without a key.

        A session is the owner's alone from its first turn on, or never. One in which others have spoken
        shows the owner no private memory, because they read its answers; and whoever comes with a
        private session's key and is not the owner gets a fresh session instead of its transcript.

        Raises:
            SessionError: the index or the transcript cannot be read or written.
        """
        record, journal = await self._journal(route, fresh=fresh)
        notices: tuple[str, ...] = ()
        if record.system_sent and not journal.tree.entries:
            notices = (
                f"The transcript {journal.name} of this session is gone, so it begins anew; "
                "of what was said before, only the notes are left.",
            )
        policy = route.policy
        in_private = begun_private(journal.tree)
        if in_private and not policy.is_private:
            record, journal = await self._journal(route, fresh=True)
            in_private = None
        if in_private is None:
            owner = SessionOwner(key=route.key, chat_kind=policy.chat_kind, is_private=policy.is_private)
            await journal.append(owner.to_record())
        return OpenSession(
            route,
            journal,
            record,
            index=self.index,
            now=self._now,
            history_turns=self._history_turns(route),
            is_read_by_others=in_private is False,
            access=self._access(route.key),
            notices=notices,
        )

    async def open_ended(self, ended: EndedSession) -> OpenSession | None:
        """A session that has ended, with the policy that it had; `None` when its transcript is gone.

        Raises:
            SessionError: the transcript cannot be read.
        """
        record = SessionRecord(
            session_id=ended.session_id, updated_at_ms=ended.ended_at_ms, session_file=ended.transcript
        )
        if not await self.store.has_transcript(record):
            return None
        journal = await self.journals.open(record)
        private = begun_private(journal.tree) is True
        chat_kind = "direct" if private else "group"
        policy = ChatPolicy(chat_kind=chat_kind, is_owner=private, session_key_is_private=private)
        origin = Origin(chat_kind=chat_kind, channel=ended.channel)
        route = Route(key=ended.key, policy=policy, origin=origin)
        access = self._access(ended.key)
        return OpenSession(route, journal, record, index=self.index, now=self._now, access=access)

    async def _journal(self, route: Route, *, fresh: bool) -> tuple[SessionRecord, Transcript]:
        record = await self._record(route, fresh=fresh)
        return record, await self.journals.open(record)

    async def _record(self, route: Route, *, fresh: bool) -> SessionRecord:
        """The key's line in the index, a new one where there is none or a fresh session is wanted."""
        there = await self.index.get(route.key)
        if there is None or not await self.store.has_transcript(there):
            there = await self.index.found_again(route.key)
        if not fresh and there is not None and there is with_origin(there, route.origin):
            return there

        def begun(record: SessionRecord | None) -> SessionRecord:
            at_ms = epoch_ms(self._now())
            if record is None:
                record = SessionRecord(
                    session_id=self._new_id(),
                    updated_at_ms=at_ms,
                    session_started_at_ms=at_ms,
                    compaction_count=0,
                )
            elif fresh:
                record = next_session(record, session_id=self._new_id(), at_ms=at_ms)
            return with_origin(record, route.origin)

        record = await self.index.update(route.key, begun)
        if record is None:
            raise RuntimeError(f"the index gave no record for {route.key!r} although one was written")
        return record


MOST_KEPT_BYTES = 64_000_000
"""So many bytes of transcripts are kept, those used last, and always the one in use. In memory a transcript
takes nearly twice its JSON lines."""
LEAST_BYTES = 8_000
"""What a transcript takes that says nothing yet; each counts for so much more than its lines."""


class Journals:
    """Opens transcripts of a store for the holder of their session's lane."""

    def __init__(self, store: SessionStore) -> None:
        self._store = store
        self._kept: dict[str, Transcript] = {}
        self._counted: dict[str, int] = {}
        self._kept_bytes = 0

    async def open(self, record: SessionRecord) -> Transcript:
        """The transcript of a line's session, with what other processes appended to it since.

        Raises:
            SessionError: it cannot be read or begun, or the line names something that cannot be it.
        """
        name = self._store.transcript_name(record)
        journal = await self._caught_up(self._kept.get(name)) or await self._store.transcript(record)
        self._keep(name, journal)
        while len(self._kept) > 1 and self._kept_bytes > MOST_KEPT_BYTES:
            self._forget(next(iter(self._kept)))
        return journal

    def _keep(self, name: str, journal: Transcript) -> None:
        """Counts it as it is now, as the one that was used last."""
        self._forget(name)
        self._kept[name] = journal
        self._counted[name] = journal.size_bytes + LEAST_BYTES
        self._kept_bytes += self._counted[name]

    def _forget(self, name: str) -> None:
        self._kept.pop(name, None)
        self._kept_bytes -= self._counted.pop(name, 0)

    async def _caught_up(self, journal: Transcript | None) -> Transcript | None:
        if journal is None:
            return None
        try:
            await journal.refresh()
        except SessionError:
            # Gone or broken since: opening it anew says what is the matter.
            return None
        return journal


class ModelView:
    """The view of one journal. `history_turns` is how many turns are sent; `None`, zero and less are all.

    All of them cost what is new since the last look, a limited number what they are.
    """

    def __init__(self, journal: Transcript, *, history_turns: int | None) -> None:
        self.history_turns = history_turns
        self._journal = journal
        self._pruned = PrunedView()

    def unpruned(self) -> Sequence[TranscriptItem]:
        """What the branch says: its newest turns, or all of it."""
        return newest_turns(self._journal.transcript(), self.history_turns, is_compacted=self._is_compacted)

    def transcript(self) -> Sequence[TranscriptItem]:
        """What a model is sent of that."""
        if self.history_turns is None:
            return self._journal.sent().items()
        return self._pruned.of(self.unpruned(), self._journal.branch())

    def messages(self) -> tuple[Message, ...]:
        """The messages of that, in the order in which the model reads them."""
        if self.history_turns is None:
            return self._journal.sent().messages()
        return model_messages(self.transcript(), is_compacted=self._is_compacted)

    def messages_without(self, entry_ids: Collection[str]) -> tuple[Message, ...]:
        """The same without the messages of these entries."""
        items = [item for item in self.transcript() if item.entry_id not in entry_ids]
        return model_messages(items, is_compacted=self._is_compacted)

    @property
    def _is_compacted(self) -> bool:
        return self._journal.tree.compaction_count > 0


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
