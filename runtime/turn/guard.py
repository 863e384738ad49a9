"""What stands between a model's tool call and the tool: the hooks of the agent, and its owner."""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import asdict
from typing import Any

from pydantic import BaseModel

from nacre.memory.files.sources.proposed import WaitsForReview
from nacre.runtime.contracts.events import ApprovalAsked, Emit, Warned
from nacre.runtime.hooks.around import guarded
from nacre.runtime.hooks.events import AfterTool, Ask, BeforeTool, Deny
from nacre.runtime.hooks.hooks import Hooks
from nacre.runtime.lanes.open_session import OpenSession
from nacre.runtime.tools.approvals.approval import Approval
from nacre.runtime.tools.approvals.approvals import Approvals
from nacre.runtime.tools.function import ToolChat
from nacre.runtime.tools.session_sources import NOTE_TOOLS
from nacre.runtime.tools.toolbox import Tool, ToolFailed, ToolOutcome
from nacre.runtime.turn.tool_writes import ToolWrites
from nacre.sessions.contracts.messages import AssistantMessage, ToolCall, message_text

WITHDRAWN = "Not run: the question whether it may was withdrawn, and it cannot be approved any more."
"""The result of a call whose turn was stopped while it waited."""

log = logging.getLogger(__name__)


class TurnGuard:
    """The guard of one turn's calls. `pause` stops the turn's deadline while the owner thinks.

    `writes` sees what tools write into the folder of the notes by themselves.
    """

    def __init__(
        self,
        session: OpenSession,
        chat: ToolChat,
        *,
        hooks: Hooks,
        approvals: Approvals,
        writes: ToolWrites,
        emit: Emit,
        pause: Callable[[], AbstractContextManager[None]],
    ) -> None:
        self._session = session
        self._chat = chat
        self._hooks = hooks
        self._approvals = approvals
        self._writes = writes
        self._emit = emit
        self._pause = pause
        self._paused = ExitStack()
        self._waiting = 0
        self._answered: dict[str, str] = {}
        self._claimed: set[str] = set()

    def let_pass(self, approval: Approval) -> None:
        """Lets the call of a claimed approval run, with no question asked."""
        self._answered[approval.call_id] = approval.id
        self._claimed.add(approval.call_id)

    async def before(self, call: ToolCall, tool: Tool, arguments: BaseModel) -> bool:
        """Returns when the call may run, and whether the owner approved it.

        Raises:
            ToolFailed: a hook or the owner said no, or the owner has not answered.
        """
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
        """Keeps what came of an approved call, and tells the hooks how a call ended.

        What the tool wrote into notes by itself has a source then.
        """
        text, is_error = message_text(outcome.message), outcome.message.is_error
        if call.name not in NOTE_TOOLS:
            await self._writes.after(call.name)
        for waiting in self._session.take_waiting():
            if waiting.proposal_id and waiting.because and self._session.policy.is_private:
                self._emit(Warned(message=waiting_for_review(waiting)))
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
            )
        )

    async def recorded(self, call_id: str) -> None:
        """The call's result is on disk, so nothing more is to be kept of its approval."""
        if call_id in self._answered:
            self._claimed.discard(call_id)
            await self._approvals.forget(self._answered.pop(call_id))

    async def _why(self, call: ToolCall, tool: Tool, arguments: BaseModel) -> str:
        """Why the owner has to approve the call; empty when they need not.

        Raises:
            ToolFailed: a hook said no.
        """
        answer: Deny | Ask | None = None
        if self._hooks.hears("before_tool"):
            # A copy: what a handler does to it reaches neither the tool nor the transcript.
            event = BeforeTool(
                chat=self._chat,
                call_id=call.id,
                tool_name=call.name,
                arguments=copy.deepcopy(dict(call.arguments)),
            )
            answer = await guarded(self._hooks, event)
        if isinstance(answer, Deny):
            raise ToolFailed(f"Not run: {answer.reason}")
        return answer.why if answer is not None else _asked_by(tool, arguments)

    @contextmanager
    def _pausing(self) -> Iterator[None]:
        """Stops the deadline while at least one call waits."""
        if not self._waiting:
            self._paused.enter_context(self._pause())
        self._waiting += 1
        try:
            yield
        finally:
            self._waiting -= 1
            if not self._waiting:
                self._paused.close()


def waiting_for_review(waiting: WaitsForReview) -> str:
    """What the owner is told of a write that waits."""
    return (
        f"A change of {waiting.path} waits for you as proposal {waiting.proposal_id}, because of "
        f"{waiting.because}: /review shows it."
    )


def waiting_text(approval: Approval) -> str:
    """The result of a call that the owner has not answered yet."""
    return (
        f"Not run yet: this call waits for the owner's approval ({approval.id}). Once it is approved it runs "
        "by itself, and you are told its result. Do not call it again."
    )


def denied_text(approval: Approval) -> str:
    """The result of a call that the owner denied."""
    return f"Not run: the owner denied this call. {approval.reason or 'They gave no reason.'}"


def _asked_by(tool: Tool, arguments: BaseModel) -> str:
    """What the tool says of a call of it; one that cannot tell asks."""
    asks = tool.needs_approval
    try:
        needs = asks(arguments) if callable(asks) else asks
    except Exception:
        log.exception("needs_approval of the tool %s failed", tool.name)
        return f"Whether {tool.name!r} needs your approval here could not be found out."
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
