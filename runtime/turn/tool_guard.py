"""Guards the tool calls of one turn: hooks, the owner's approval, and the sources of what tools write."""

from __future__ import annotations

import asyncio
import copy
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import asdict
from typing import Any

from pydantic import BaseModel

from nacre.memory.contracts.notes import FoundNote, NoteMarks, WantedNotes
from nacre.memory.contracts.workspace import Workspace
from nacre.memory.files.sources.sources import line_key
from nacre.runtime.contracts.events import ApprovalAsked, Emit, Warned
from nacre.runtime.hooks.events import AfterTool, Ask, BeforeTool, Deny
from nacre.runtime.hooks.hooks import run_tool_hooks
from nacre.runtime.open_sessions.open_session import OpenSession
from nacre.runtime.tools.approvals.store import Approval
from nacre.runtime.tools.function import ToolChat
from nacre.runtime.tools.session_sources import NOTE_TOOLS, SessionSources
from nacre.runtime.tools.toolbox import Tool, ToolFailed, ToolOutcome
from nacre.runtime.turn.turn_parts import TurnParts
from nacre.sessions.contracts.messages import AssistantMessage, ToolCall, message_text

log = logging.getLogger(__name__)

WITHDRAWN = "Not run: the request for approval was withdrawn, so the call can no longer be approved."
"""The result of a call whose turn was stopped while it waited."""


class TurnGuard:
    """Guards the tool calls of one turn. `pause` stops the turn's deadline while the owner decides."""

    def __init__(
        self,
        session: OpenSession,
        parts: TurnParts,
        chat: ToolChat,
        emit: Emit,
        *,
        pause: Callable[[], AbstractContextManager[None]],
    ) -> None:
        self._session = session
        self._chat = chat
        self._hooks = parts.hooks
        self._approvals = parts.approvals
        self._writes = ToolWrites(parts.workspace, session.sources(parts.sources))
        self._emit = emit
        self._pause = pause
        self._paused = ExitStack()
        self._waiting = 0
        self._answered: dict[str, str] = {}
        self._claimed: set[str] = set()

    def let_pass(self, approval: Approval) -> None:
        """Lets the call of a claimed approval run without asking."""
        self._answered[approval.call_id] = approval.id
        self._claimed.add(approval.call_id)

    async def before(self, call: ToolCall, tool: Tool, arguments: BaseModel) -> bool:
        if call.name not in NOTE_TOOLS:
            await self._writes.before()
        if call.id in self._claimed:
            return True
        why = await self._why(call, tool, arguments)
        if not why:
            return False
        approval = await self._approvals.ask(
            lambda approval_id, now_ms, last_ms: _approval(
                self._session, call, why, approval_id=approval_id, now_ms=now_ms, last_ms=last_ms
            )
        )
        self._emit(
            ApprovalAsked(
                approval_id=approval.id,
                call_id=call.id,
                tool_name=call.name,
                arguments=copy.deepcopy(dict(call.arguments)),
                why=why,
            )
        )
        with self._pausing():
            answered = await self._approvals.wait(approval)
        if answered is not None and answered.state == "denied":
            self._answered[call.id] = approval.id
            raise ToolFailed(denied_text(answered))
        if answered is None:
            raise ToolFailed(WITHDRAWN)
        if await self._approvals.claim(approval.id) is None:
            raise ToolFailed(waiting_text(approval))
        self.let_pass(approval)
        return True

    async def after(self, call: ToolCall, outcome: ToolOutcome) -> None:
        """Records the source of notes that the tool wrote, keeps an approved result, and runs the hooks."""
        text, is_error = message_text(outcome.message), outcome.message.is_error
        if call.name not in NOTE_TOOLS:
            await self._writes.after(call.name)
        for waiting in self._session.take_waiting():
            if waiting.proposal_id and waiting.because and self._session.policy.is_private:
                notice = (
                    f"A change of {waiting.path} waits for you as proposal {waiting.proposal_id}, because of "
                    f"{waiting.because}: /review shows it."
                )
                self._emit(Warned(message=notice))
        if call.id in self._claimed:
            await self._approvals.done(self._answered[call.id], text, is_error=is_error)
        if not self._hooks.hears("after_tool"):
            return
        await self._hooks.trigger(
            AfterTool(
                chat=self._chat,
                call_id=call.id,
                tool_name=call.name,
                arguments=copy.deepcopy(dict(call.arguments)),
                text=text,
                is_error=is_error,
                error=outcome.error,
            )
        )

    async def recorded(self, call_id: str) -> None:
        """Deletes the approval of a call whose result is on disk."""
        if call_id in self._answered:
            self._claimed.discard(call_id)
            await self._approvals.store.remove(self._answered.pop(call_id))

    async def _why(self, call: ToolCall, tool: Tool, arguments: BaseModel) -> str:
        """Why the owner has to approve the call; may be empty. Raises `ToolFailed` if a hook denies it."""
        answer: Deny | Ask | None = None
        if self._hooks.hears("before_tool"):
            # A copy: a handler cannot change what the tool or the transcript gets.
            event = BeforeTool(
                chat=self._chat,
                call_id=call.id,
                tool_name=call.name,
                arguments=copy.deepcopy(dict(call.arguments)),
            )
            answer = await run_tool_hooks(self._hooks, event)
        if isinstance(answer, Deny):
            raise ToolFailed(f"Not run: {answer.reason}")
        return answer.why if answer is not None else _asked_by(tool, arguments)

    @contextmanager
    def _pausing(self) -> Iterator[None]:
        if not self._waiting:
            self._paused.enter_context(self._pause())
        self._waiting += 1
        try:
            yield
        finally:
            self._waiting -= 1
            if not self._waiting:
                self._paused.close()


def waiting_text(approval: Approval) -> str:
    return (
        f"Not run yet: this call waits for the owner's approval ({approval.id}). Once approved, it runs by "
        "itself, and you receive its result. Do not call it again."
    )


def denied_text(approval: Approval) -> str:
    return f"Not run: the owner denied this call. {approval.reason or 'They gave no reason.'}"


def _asked_by(tool: Tool, arguments: BaseModel) -> str:
    asks = tool.needs_approval
    try:
        needs = asks(arguments) if callable(asks) else asks
    except Exception:
        log.exception("needs_approval of the tool %s failed", tool.name)
        return f"The check whether {tool.name!r} needs your approval failed."
    if isinstance(needs, str):
        return needs.strip()
    return f"{tool.name!r} needs your approval." if needs else ""


def _approval(
    session: OpenSession, call: ToolCall, why: str, *, approval_id: str, now_ms: int, last_ms: int
) -> Approval:
    asking = next(
        (entry for entry in reversed(session.branch) if isinstance(entry.body, AssistantMessage)), None
    )
    origin: Mapping[str, Any] = asdict(session.route.origin)
    return Approval(
        id=approval_id,
        session_key=session.key,
        session_id=session.session_id,
        message_id="" if asking is None else asking.id,
        call_id=call.id,
        tool_name=call.name,
        arguments=dict(call.arguments),
        why=" ".join(why.split()),
        asked_at_ms=now_ms,
        expires_at_ms=last_ms,
        chat_kind=session.policy.chat_kind,
        is_owner=session.policy.is_owner,
        is_private_key=session.policy.session_key_is_private,
        origin=origin,
    )


MOST_READ_BYTES = 4 << 20
"""The most bytes of notes read before a turn's first call of a foreign tool, newest first. If an unread note
changes, all its lines without a source count as the tool's."""


class ToolWrites:
    """Records the source of lines that the tools of one turn write to notes without Nacre's file tools."""

    def __init__(self, workspace: Workspace, sources: SessionSources) -> None:
        self._workspace = workspace
        self._sources = sources
        self._seen: Mapping[str, NoteMarks] | None = None
        self._keys: dict[str, frozenset[str]] = {}
        self._lock = asyncio.Lock()

    async def before(self) -> None:
        """Reads the notes before the first tool runs."""
        async with self._lock:
            if self._seen is not None or self._workspace.folder is None or not self._workspace.is_there:
                return
            notes = await self._notes()
            self._seen = {note.name: note.marks for note in notes}
            # Files at the top of the workspace come first, because they are in the prompt.
            left_bytes, names = MOST_READ_BYTES, []
            for note in sorted(notes, key=lambda note: ("/" in note.name, -note.marks.modified_ns)):
                if note.marks.size_bytes <= left_bytes:
                    left_bytes -= note.marks.size_bytes
                    names.append(note.name)
            read = await self._workspace.read_notes(names)
            self._keys = {
                name: _keys_of(found.text) for name, found in read.items() if not isinstance(found, Exception)
            }

    async def after(self, tool_name: str) -> None:
        """Records the source of new lines without one."""
        async with self._lock:
            if self._seen is None:
                return
            seen = {note.name: note.marks for note in await self._notes()}
            changed = [name for name, marks in seen.items() if self._seen.get(name) != marks]
            before, self._seen = self._seen, seen
            if not changed:
                return
            source_of = await self._sources.of_tool(tool_name)
            for name, found in (await self._workspace.read_notes(changed)).items():
                if isinstance(found, Exception):
                    continue
                text = found.text
                known = self._keys.get(name, frozenset())
                lines = [line for line in text.splitlines() if line_key(line) not in known]
                await self._sources.sources.keep_written(name, lines, source_of)
                if name in self._keys or name not in before:
                    self._keys[name] = _keys_of(text)

    async def _notes(self) -> Sequence[FoundNote]:
        return (await self._workspace.list_notes([WantedNotes(name=".", is_required=True)])).notes


def _keys_of(text: str) -> frozenset[str]:
    return frozenset(map(line_key, text.splitlines()))
