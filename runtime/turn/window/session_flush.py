"""The flushes of one open session: where notes go, and how much of the conversation a model is given."""

from __future__ import annotations

from datetime import datetime
from pathlib import PurePosixPath

from nacre.memory.files.bank.retain import said_in
from nacre.memory.workspace.workspace import MEMORY_FOLDER, daily_log_path
from nacre.runtime.contracts.clock import stored_moment
from nacre.runtime.contracts.events import FlushEnded
from nacre.runtime.contracts.model import Ask
from nacre.runtime.hooks.heard_window import HeardWindow
from nacre.runtime.tools.file_tools.files import FLUSH_HEADING
from nacre.runtime.turn.window.flush import FlushLimits, run_extract, run_flush
from nacre.runtime.turn.window.notes_file import NotesFile
from nacre.runtime.turn.window.parts import WindowTurn
from nacre.runtime.turn.window.resuming import resume_flush


class SessionFlush:
    """Saves notes of one session; `heard` tells hooks."""

    def __init__(self, turn: WindowTurn, heard: HeardWindow) -> None:
        self._turn = turn
        self._session = turn.session
        self._parts = turn.parts
        self._budget = turn.budget
        self._heard = heard

    @property
    def is_forced(self) -> bool:
        """Whether much was said since the last flush."""
        limit_bytes = self._parts.settings.memory_flush.force_flush_transcript_bytes
        if not limit_bytes or not self._budget.flush_enabled:
            return False
        return self._session.flushes.unflushed_bytes >= limit_bytes

    async def run(self, tokens: int, *, has_overflowed: bool = False, is_forced: bool = False) -> None:
        """Asks a model for notes of a context of `tokens` tokens; a forced flush is not the cycle's.

        One that was cut off goes on instead. Nobody is asked for notes that could not be written: the owner
        is told once, and nothing is recorded, so that a flush comes when they can be.
        """
        parts, budget = self._parts, self._budget
        if not self._may_write(self._notes_file(parts.now()).path):
            return
        await self._heard.flush_begins()
        await self._turn.frame.drop_deleted()
        # A context that the provider refuses, or will, is not sent again: its newest half is.
        is_too_long = has_overflowed or tokens > budget.window_tokens - budget.summary_tokens
        limits = self._limits(budget.compact_at // 2 if is_too_long else None)
        ask = self._heard.ask(
            self._turn.models.asking(parts.flush_model, self._turn.emit),
            model_name=(parts.flush_model or self._turn.models.first.model).name,
        )
        if await self._has_resumed(ask, limits):
            return
        notes = self._notes_file(parts.now())
        ended = await run_flush(
            self._session,
            system=await self._turn.frame.system(),
            notes=notes,
            settings=parts.settings.memory_flush,
            ask=ask,
            ask_offline=parts.offline.stream,
            limits=limits,
            is_forced=is_forced,
        )
        await self._ended(notes, ended)

    async def _has_resumed(self, ask: Ask, limits: FlushLimits) -> bool:
        unfinished = self._session.flushes.unfinished
        if unfinished is None:
            return False
        parts, begun_at_ms = self._parts, unfinished.messages[0].timestamp_ms
        notes = self._notes_file(stored_moment(begun_at_ms, parts.now().tzinfo) or parts.now())
        ended = await resume_flush(
            self._session,
            unfinished,
            system=await self._turn.frame.system(),
            notes=notes,
            settings=parts.settings.memory_flush,
            ask=ask,
            limits=limits,
        )
        if ended is not None:
            await self._ended(notes, ended)
        return ended is not None

    async def cover_rest(self) -> None:
        """Extracts notes of what was said since the last flush, if anything was."""
        if self._session.flushes.has_unflushed_messages:
            await self._extract()

    async def cover_before(self, first_kept_entry_id: str) -> None:
        """Extracts notes of what was said after the cycle's flush, if some of it stands before that entry.

        It is about to leave the model's view, and no flush has seen it.
        """
        if self._session.flushes.has_unflushed_before(first_kept_entry_id):
            await self._extract()

    async def cover_hidden(self) -> None:
        """Extracts notes of what was said since the last flush, if a limit of turns hides some of it."""
        turns = self._session.view.history_turns
        if turns and turns > 0 and self._session.flushes.unflushed_turns(most=turns + 1) > turns:
            await self._extract()

    async def _extract(self) -> None:
        if not self._budget.flush_enabled:
            return
        parts, notes = self._parts, self._notes_file(self._parts.now())
        if not self._may_write(notes.path):
            return
        await self._heard.flush_begins()
        ended = await run_extract(
            self._session,
            system=await self._turn.frame.system(),
            notes=notes,
            settings=parts.settings.memory_flush,
            ask_offline=parts.offline.stream,
            limits=self._limits(None),
        )
        await self._ended(notes, ended)

    def _may_write(self, path: str) -> bool:
        """Whether notes can be written there; if not, that is told once in each session."""
        parts, session = self._parts, self._session
        if not session.policy.may_write(PurePosixPath(path)):
            reason = "the settings make the workspace read-only (agents.defaults.sandbox.workspaceAccess)."
        elif parts.workspace.is_there and not parts.workspace.may_change(path):
            reason = f"{path} may not be written: it is mounted read-only, or its permissions forbid it."
        else:
            return True
        parts.told.once(
            session.session_id, (f"No notes are saved of this conversation: {reason}",), self._turn.emit
        )
        return False

    def _notes_file(self, now: datetime) -> NotesFile:
        parts, policy = self._parts, self._session.policy
        folder = MEMORY_FOLDER if policy.is_private else policy.notes_folder
        sources = self._session.sources(parts.sources)
        return NotesFile(
            sources.workspace(
                parts.workspace,
                "flush",
                entry_ids=lambda: self._session.flushes.unflushed_range,
                words_of=said_in,
            ),
            daily_log_path(now.date(), folder=folder),
            heading=f"{FLUSH_HEADING}, {now:%H:%M}"
            if policy.is_private
            else f"## Notes from {self._session.key}",
            # Pages are the owner's alone: nobody else's chat is asked for lines of them.
            is_for_bank=parts.has_bank and policy.is_private,
        )

    def _limits(self, fitting_tokens: int | None) -> FlushLimits:
        return FlushLimits(
            max_output_tokens=self._budget.summary_tokens,
            fitting_tokens=fitting_tokens,
            count_tokens=self._parts.count_tokens,
        )

    async def _ended(self, notes: NotesFile, ended: FlushEnded) -> None:
        if notes.wrote:
            self._parts.on_notes(notes.path)
        self._turn.emit(ended)
        await self._heard.flush_ended(ended)
