"""A session while its lane is held.

The journal is the truth: what a cycle was flushed, how many compactions there were and what the model saw
last are read from it. `sessions.json` mirrors these for other programs and for listings.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from nacre.memory.files.sources.proposed import WaitsForReview
from nacre.memory.files.sources.sources import Sources
from nacre.runtime.contracts.clock import Clock, epoch_ms
from nacre.runtime.contracts.policy import ChatPolicy, WorkspaceAccess
from nacre.runtime.lanes.flush_records import FlushRecords
from nacre.runtime.lanes.index_line import IndexLine
from nacre.runtime.lanes.model_view import ModelView
from nacre.runtime.lanes.routing import Route
from nacre.runtime.tools.function import ToolChat
from nacre.runtime.tools.session_sources import SessionSources, Voices
from nacre.sessions.compaction.cut import CompactionPlan
from nacre.sessions.contracts.messages import Message, UserMessage
from nacre.sessions.entries.entries import Compaction, Entry
from nacre.sessions.index.record import SessionRecord
from nacre.sessions.stores.store import SessionLines, Transcript


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
