"""A session that is open for a turn, and the sessions of an agent that can be opened.

The journal is the source of truth for flushed cycles, compaction counts and the model's last view.
`sessions.json` mirrors them for listings and other programs.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from nacre.memory.files.sources.proposed_write import WaitsForReview
from nacre.memory.files.sources.sources import Sources
from nacre.record import Record
from nacre.runtime.contracts.clock import Clock, NewId, epoch_ms
from nacre.runtime.contracts.events import Emit, FlushStatus, Warned
from nacre.runtime.contracts.policy import ChatPolicy, WorkspaceAccess
from nacre.runtime.open_sessions.routing import Route
from nacre.runtime.tools.function import ToolChat
from nacre.runtime.tools.session_sources import SessionSources, SpeakerLog
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
from nacre.sessions.entries.entries import Compaction, Entry, KnownBody, SessionOwner, started_in_private
from nacre.sessions.index.record import (
    Origin,
    RecordChange,
    SessionRecord,
    next_session,
    unknown_usage,
    usage_fields,
    with_model_override,
    with_origin,
)
from nacre.sessions.stores.store import SessionRecords, SessionStore, Transcript
from nacre.sessions.view.sent_view import PrunedView, model_messages
from nacre.sessions.view.transcript import BranchFollower, TranscriptItem, newest_turns

log = logging.getLogger(__name__)


class OpenSession:
    """One session of an agent, open for one turn. Created by `SessionOpener`.

    `route` is the route of its message. `policy` grants less than the route's policy if other people have
    spoken in the session or if the settings grant less `access`. `view` are the messages for a model,
    `flushes` are its flush records, and `line` is its record in the index.
    """

    def __init__(
        self,
        route: Route,
        journal: Transcript,
        record: SessionRecord,
        *,
        index: SessionRecords,
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
        self._index = index
        self._notices = notices
        self._chat: ToolChat | None = None
        self._waiting: list[WaitsForReview] = []

    @property
    def key(self) -> str:
        return self.route.key

    @property
    def session_id(self) -> str:
        return self.line.record.session_id

    @property
    def notices(self) -> tuple[str, ...]:
        """Sentences for the owner about lost, repaired and set-aside parts of the transcript."""
        return (*self._notices, *self.journal.notices)

    def chat(self, place: str, sources: Sources) -> ToolChat:
        """The chat as tools and hooks see it. `place` is the workspace, `sources` are its sources."""
        if self._chat is None:
            self._chat = ToolChat(
                session_key=self.key,
                session_id=self.session_id,
                channel=self.route.origin.channel,
                policy=self.policy,
                workspace=Path(place),
                origin=self.route.origin,
                sources=self.sources(sources),
                context=self.route.context,
            )
        return self._chat

    def sources(self, sources: Sources) -> SessionSources:
        """Attributes the lines that this session writes to their authors."""
        origin = self.route.origin
        named = origin.chat_name.strip() or ("" if self.policy.is_private else origin.reply_to)
        return SessionSources(
            sources=sources,
            speakers=self._speakers,
            policy=self.policy,
            session_key=self.key,
            session_id=self.session_id,
            chat=" ".join(filter(None, (origin.channel, origin.chat_kind, "chat", named))),
            now=self._now,
            owner_id=origin.sender_id.strip() if self.policy.is_owner is True else "",
            waits=self._waiting.append,
        )

    def take_waiting(self) -> tuple[WaitsForReview, ...]:
        """The writes that began to wait for the owner's approval since the last call."""
        waiting, self._waiting[:] = tuple(self._waiting), ()
        return waiting

    def _speakers(self) -> SpeakerLog:
        speakers = self.journal.views.cached(SpeakerLog)
        speakers.follow(self.journal.tree.entries)
        return speakers

    @property
    def branch(self) -> Sequence[Entry]:
        return self.journal.tree.branch()

    @property
    def compaction_count(self) -> int:
        """The number of compactions of this session, which is also the number of its current cycle."""
        return self.journal.tree.compaction_count

    @property
    def has_messages(self) -> bool:
        return any(isinstance(entry.body, Message) for entry in self.branch)

    def now_ms(self) -> int:
        return epoch_ms(self._now())

    async def say(self, message: UserMessage) -> None:
        """Stores a user's message, and the session's record if it is new."""
        if self.line.record.system_sent:
            await self.journal.append(message)
        else:
            flushed = asyncio.ensure_future(self._index.flush())
            try:
                await self.journal.append(message)
            finally:
                await flushed
        await self.line.save_message_time()

    async def compact(self, summary: str, plan: CompactionPlan, *, tokens_after: int) -> None:
        """Replaces everything before the plan's first kept entry with a summary in the model's view."""
        await self.journal.append(
            Compaction(
                summary=summary,
                first_kept_entry_id=plan.first_kept_entry_id,
                tokens_before=plan.tokens_before,
                details=plan.details(),
            )
        )
        await self.line.save_compaction(count=self.compaction_count, tokens_after=tokens_after)


SAID_EVERY_MS = 3_600_000
"""The most that the recorded time of the last message may lag behind during a turn."""


class IndexLine:
    """One session's record in the index. If the key refers to another session now, nothing is changed."""

    def __init__(self, key: str, record: SessionRecord, *, index: SessionRecords, now: Clock) -> None:
        self._key = key
        self._index = index
        self._now = now
        self._pending: dict[str, Any] = {}
        self.record = record

    async def save_message_time(self) -> None:
        """Records that a person said something now.

        It is written with the next change or by `save_pending`, or at once if the recorded time is old.
        """
        at_ms = epoch_ms(self._now())
        self._pending = {"last_interaction_at_ms": at_ms, "system_sent": True}
        indexed_ms = self.record.last_interaction_at_ms or self.record.session_started_at_ms or 0
        if not 0 <= at_ms - indexed_ms < SAID_EVERY_MS:
            await self.save_pending()

    async def save_pending(self) -> None:
        """Writes pending changes, at the end of a turn."""
        if self._pending:
            await self._mirror()

    async def try_save_pending(self) -> None:
        """Like `save_pending`, but logs a failure, because the turn's own error matters more."""
        try:
            await self.save_pending()
        except SessionError as error:
            log.warning("the index record of %s is older than its transcript: %s", self._key, error)

    async def save_flush(self, *, cycle: int) -> None:
        await self._mirror(memory_flush_at_ms=epoch_ms(self._now()), memory_flush_compaction_count=cycle)

    async def save_compaction(self, *, count: int, tokens_after: int) -> None:
        """Records a compaction, the `count`th, and replaces the outdated token total."""
        total = {"total_tokens": tokens_after or None, "total_tokens_fresh": tokens_after > 0}
        await self._mirror(**unknown_usage() | total, compaction_count=count)

    def answered(self, answer: AssistantMessage, *, window_tokens: int, compactions: int) -> RecordChange:
        """Makes the model, context window and usage of a turn's last call pending; returns the change."""
        usage = answer.usage
        self._pending = {
            **self._pending,
            **(usage_fields(usage) if usage is not None and usage.context_tokens else {}),
            "model_provider": answer.provider,
            "model": answer.model,
            "context_tokens": window_tokens,
            "compaction_count": compactions,
            "aborted_last_run": False,
            "updated_at_ms": epoch_ms(self._now()),
        }
        return partial(self._with, self._pending)

    async def choose_model(self, name: str) -> None:
        """Records the owner's model choice for this chat; an empty name means the default."""

        def chosen(record: SessionRecord | None) -> SessionRecord | None:
            if record is None or self._ours(record) is None:
                return record
            return with_model_override(replace(record, updated_at_ms=epoch_ms(self._now())), name)

        current = await self._index.update(self._key, chosen)
        self.record = self._ours(current) or with_model_override(self.record, name)

    async def save_abort(self) -> None:
        await self._mirror(aborted_last_run=True)

    async def _mirror(self, **fields: Any) -> None:
        fields = {"updated_at_ms": epoch_ms(self._now()), **self._pending, **fields}
        change = partial(self._with, fields)
        self.record = self._ours(await self._index.mirror(self._key, change)) or change(self.record)
        self._pending = {}

    def _with(self, fields: Mapping[str, Any], record: SessionRecord) -> SessionRecord:
        return record if self._ours(record) is None else replace(record, **fields)

    def _ours(self, record: SessionRecord | None) -> SessionRecord | None:
        """The record if it still belongs to this session."""
        return record if record is not None and record.session_id == self.record.session_id else None


class SessionOpener:
    """Opens the sessions of one agent. The caller holds the session's lock.

    `history_turns` returns the number of a session's turns that a model is sent; `None` means all. `access`
    returns the access of a session to the workspace.
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
        """Opens the session of a route, or creates one; `fresh` starts a new session under the same key.

        A new session is added to the index before its file exists, so a file always has a key.

        A session is private to its owner from its first turn on, or never. A session in which others have
        spoken shows the owner no private memory, because they read its answers. Another person with a private
        session's key gets a new session instead of its transcript.

        Raises:
            SessionError: the index or the transcript cannot be read or written.
        """
        policy = route.policy
        owner = SessionOwner(key=route.key, chat_kind=policy.chat_kind, is_private=policy.is_private)
        record, journal = await self._journal(route, owner, fresh=fresh)
        notices: tuple[str, ...] = ()
        if record.system_sent and not journal.tree.entries:
            notices = (
                f"The transcript {journal.name} of this session is missing, so the session starts again. "
                "Only the notes of the earlier conversation are left.",
            )
        in_private = started_in_private(journal.tree)
        if in_private and not policy.is_private:
            record, journal = await self._journal(route, owner, fresh=True)
            in_private = started_in_private(journal.tree)
        if in_private is None:
            await journal.append(owner.to_record(), durable=False)  # the first message is durable
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
        """Opens an ended session with the policy that it had; `None` if its transcript is missing.

        Raises:
            SessionError: the transcript cannot be read.
        """
        record = SessionRecord(
            session_id=ended.session_id, updated_at_ms=ended.ended_at_ms, session_file=ended.transcript
        )
        if not await self.store.has_transcript(record):
            return None
        journal = await self.journals.open(record)
        private = started_in_private(journal.tree) is True
        chat_kind = "direct" if private else "group"
        policy = ChatPolicy(chat_kind=chat_kind, is_owner=private, session_key_is_private=private)
        origin = Origin(chat_kind=chat_kind, channel=ended.channel)
        route = Route(key=ended.key, policy=policy, origin=origin)
        access = self._access(ended.key)
        return OpenSession(route, journal, record, index=self.index, now=self._now, access=access)

    async def _journal(
        self, route: Route, owner: SessionOwner, *, fresh: bool
    ) -> tuple[SessionRecord, Transcript]:
        record = await self._record(route, fresh=fresh)
        # A missing transcript of an old session stays empty, unlike a new session's.
        first = None if record.system_sent else owner.to_record()
        return record, await self.journals.open(record, first=first)

    async def _record(self, route: Route, *, fresh: bool) -> SessionRecord:
        """The key's record in the index; a new one if there is none or `fresh` is set."""
        current = await self.index.get(route.key)
        if current is None or not (
            await self.store.has_transcript(current) or self.journals.is_begun(current)
        ):
            current = await self.index.recover(route.key)
        if not fresh and current is not None and current is with_origin(current, route.origin):
            return current

        def started(record: SessionRecord | None) -> SessionRecord:
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

        # Until the first message, a power failure may remove a new session and its record.
        record = await self.index.update(route.key, started, durable=current is not None)
        if record is None:
            raise RuntimeError(f"the index returned no record for {route.key!r} although one was written")
        return record


MAX_CACHED_BYTES = 64_000_000
"""The size of the most recently used transcripts that stay in memory; the one in use always stays. In memory,
a transcript takes nearly twice the size of its JSON lines."""
LEAST_BYTES = 8_000
"""The size of an empty transcript in memory, which is added to the size of its lines."""


class Journals:
    """Opens transcripts and caches the most recently used ones. The caller holds the session's lock."""

    def __init__(self, store: SessionStore) -> None:
        self._store = store
        self._cached: dict[str, Transcript] = {}
        self._sizes: dict[str, int] = {}
        self._cached_bytes = 0

    async def open(self, record: SessionRecord, *, first: KnownBody | None = None) -> Transcript:
        """The transcript of a session, including what other processes have appended. A new one begins with
        `first`.

        Raises:
            SessionError: it cannot be read or created, or the record's transcript name is invalid.
        """
        name = self._store.transcript_name(record)
        journal = self._cached.get(name)
        if journal is not None:
            try:
                await journal.refresh()
            except SessionError:
                journal = None  # missing or damaged now: opening it again reports the problem
        if journal is None:
            journal = await self._store.transcript(record, first=first)
        self._forget(name)
        self._cached[name] = journal
        self._sizes[name] = journal.size_bytes + LEAST_BYTES
        self._cached_bytes += self._sizes[name]
        while len(self._cached) > 1 and self._cached_bytes > MAX_CACHED_BYTES:
            self._forget(next(iter(self._cached)))
        return journal

    def is_begun(self, record: SessionRecord) -> bool:
        """Whether a session is open here without a message yet, so that nothing is stored."""
        journal = self._cached.get(self._store.transcript_name(record))
        return journal is not None and not journal.size_bytes

    def _forget(self, name: str) -> None:
        self._cached.pop(name, None)
        self._cached_bytes -= self._sizes.pop(name, 0)


class ModelView:
    """The messages of one journal for a model: the last `history_turns` turns; all for `None` or below one.

    With all turns, a call only processes new entries.
    """

    def __init__(self, journal: Transcript, *, history_turns: int | None) -> None:
        self.history_turns = history_turns
        self._journal = journal
        self._pruned = PrunedView()

    def unpruned(self) -> Sequence[TranscriptItem]:
        """The items of the branch, or of its newest turns, before pruning."""
        return newest_turns(self._journal.transcript(), self.history_turns, is_compacted=self._is_compacted)

    def transcript(self) -> Sequence[TranscriptItem]:
        if self.history_turns is None:
            return self._journal.sent().items()
        return self._pruned.of(self.unpruned(), self._journal.tree.branch())

    def messages(self) -> tuple[Message, ...]:
        """The messages in the order in which the model reads them."""
        if self.history_turns is None:
            return self._journal.sent().messages()
        return model_messages(self.transcript(), is_compacted=self._is_compacted)

    def messages_without(self, entry_ids: Collection[str]) -> tuple[Message, ...]:
        """Like `messages`, without the messages of these entries."""
        items = [item for item in self.transcript() if item.entry_id not in entry_ids]
        return model_messages(items, is_compacted=self._is_compacted)

    @property
    def _is_compacted(self) -> bool:
        return self._journal.tree.compaction_count > 0


FLUSH_ENTRY = "nacre.flush"
FLUSH_MESSAGE_ENTRY = "nacre.flush_message"


class UnfinishedFlush(Record):
    """The messages of a flush turn without a record; `later_entry_ids` are the entries after it."""

    messages: tuple[Message, ...]
    later_entry_ids: frozenset[str]


class FlushRecords:
    """The flushes of one open session."""

    def __init__(self, journal: Transcript, line: IndexLine) -> None:
        self._journal = journal
        self._line = line

    @property
    def last(self) -> Entry | None:
        """The newest attempt to flush, whatever its result."""
        return self._facts().last

    @property
    def is_spent(self) -> bool:
        """Whether this cycle has been flushed, or nothing was said since the last flush.

        A compaction starts a new cycle, but the messages that it kept were flushed with those it removed.
        """
        facts = self._facts()
        return facts.is_cycle_flushed or not facts.has_unflushed_messages

    @property
    def has_unflushed_messages(self) -> bool:
        return self._facts().has_unflushed_messages

    def unflushed_messages(self) -> list[Message]:
        """The messages of people and the assistant after the latest flush, in order."""
        bodies = [entry.body for entry in self._facts().unflushed]
        return [body for body in bodies if isinstance(body, UserMessage | AssistantMessage)]

    @property
    def unflushed_range(self) -> tuple[str, ...]:
        """The ids of the first and the last entry after the latest flush."""
        unflushed = self._facts().unflushed
        return tuple(dict.fromkeys(entry.id for entry in (*unflushed[:1], *unflushed[-1:])))

    def has_unflushed_before(self, entry_id: str) -> bool:
        """Whether anything was said between the latest flush and the entry `entry_id`."""
        said = (entry for entry in self._facts().unflushed if not isinstance(entry.body, ToolResultMessage))
        first = next(said, None)
        is_before = False
        for entry in reversed(self._journal.tree.branch() if first is not None else ()):
            is_before = is_before or entry.id == entry_id
            if entry is first:
                return is_before and entry.id != entry_id
        return False

    def unflushed_turns(self, *, most: int) -> int:
        """The number of user messages after the latest flush, at most `most`."""
        turns = 0
        for entry in reversed(self._facts().unflushed):
            if turns >= most:
                break
            turns += isinstance(entry.body, UserMessage)
        return turns

    @property
    def unfinished(self) -> UnfinishedFlush | None:
        """A flush that had written, or was about to write, when it was interrupted."""
        facts = self._facts()
        messages = [message for data in facts.started if (message := message_from_json(data)) is not None]
        kept = [each for each in messages if not (isinstance(each, AssistantMessage) and each.is_broken_off)]
        if not any(isinstance(message, AssistantMessage) and message.tool_calls for message in kept):
            return None
        later = frozenset(entry.id for entry in facts.unflushed[facts.covered :])
        return UnfinishedFlush(messages=tuple(kept), later_entry_ids=later)

    @property
    def unflushed_bytes(self) -> int:
        """The size of the messages' text after the latest flush, in UTF-8 and without images."""
        return self._facts().unflushed_bytes

    async def keep_message(self, message: Message) -> None:
        """Stores a message of a flush turn, which the model does not see again."""
        await self._journal.append_custom(FLUSH_MESSAGE_ENTRY, message.to_json())

    async def record(
        self, status: FlushStatus, *, path: str, problem: str, is_forced: bool, is_resumed: bool = False
    ) -> None:
        """Records a successful or failed attempt. A forced one does not count for the cycle.

        A resumed one (`is_resumed`) covers only the messages before its interruption.
        """
        cycle = self._journal.tree.compaction_count
        data: dict[str, object] = {"cycle": cycle, "status": status, "path": path, "problem": problem}
        if is_forced:
            data["forced"] = True
        if is_resumed:
            data["resumed"] = True
        await self._journal.append_custom(FLUSH_ENTRY, data)
        await self._line.save_flush(cycle=cycle)

    def _facts(self) -> FlushFacts:
        facts = self._journal.views.cached(FlushFacts)
        facts.follow(self._journal.tree.branch())
        return facts


class FlushFacts:
    """The flush state of the current branch, updated incrementally.

    `unflushed` are the messages after the latest flush. `started` are the messages of a flush without a
    record, and `covered` is the number of `unflushed` messages before it.
    """

    def __init__(self) -> None:
        self._follower = BranchFollower()
        self._reset()

    def follow(self, branch: Sequence[Entry]) -> None:
        fresh = self._follower.fresh(branch)
        if fresh is None:
            self._reset()
        for entry in branch if fresh is None else fresh:
            self._take(entry)

    def _reset(self) -> None:
        self.last: Entry | None = None
        self.is_cycle_flushed = False
        self._cover(None)

    @property
    def has_unflushed_messages(self) -> bool:
        return bool(self.unflushed)

    def _take(self, entry: Entry) -> None:
        if isinstance(entry.body, Message):
            self.unflushed.append(entry)
            self.unflushed_bytes += _size_bytes(entry.body)
        elif isinstance(entry.body, Compaction):
            self.is_cycle_flushed = False
        elif (data := entry.custom_data(FLUSH_MESSAGE_ENTRY)) is not None:
            if not self.started:
                self.covered = len(self.unflushed)
            self.started.append(data)
        elif (record := entry.custom_data(FLUSH_ENTRY)) is not None:
            self.last = entry
            self.is_cycle_flushed = self.is_cycle_flushed or record.get("forced") is not True
            # A fork may begin with the record alone, which then covers everything before it.
            self._cover(self.covered if record.get("resumed") is True and self.started else None)

    def _cover(self, count: int | None) -> None:
        """Marks the first `count` unflushed messages, or all of them, as covered by a flush."""
        self.unflushed: list[Entry] = [] if count is None else self.unflushed[count:]
        bodies = (entry.body for entry in self.unflushed)
        self.unflushed_bytes = sum(_size_bytes(body) for body in bodies if isinstance(body, Message))
        self.started: list[Mapping[str, Any]] = []
        self.covered = 0


def has_unflushed_messages(branch: Sequence[Entry]) -> bool:
    """Whether anything was said on a branch after its latest flush."""
    facts = FlushFacts()
    facts.follow(branch)
    return facts.has_unflushed_messages


def _size_bytes(message: Message) -> int:
    text = message_text(message)
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


class NoticeLog:
    """The notices that an agent has already given, per session."""

    def __init__(self) -> None:
        self._told: set[tuple[str, str]] = set()

    def once(self, session_id: str, notices: Sequence[str], emit: Emit) -> None:
        """Warns of each notice that this session has not been given; an empty id means the whole agent."""
        for notice in notices:
            if (session_id, notice) not in self._told:
                self._told.add((session_id, notice))
                log.warning("%s", notice)
                emit(Warned(message=notice))
