"""Tool calls that wait for the owner: their answers, and what the transcript records of them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

from nacre.prompts import quoted, render
from nacre.record import Record
from nacre.runtime.agent.opening.agent_parts import AgentParts
from nacre.runtime.agent.opening.sub_agents import is_sub_agent_key
from nacre.runtime.commands.registry import Called
from nacre.runtime.commands.session_commands import DENY
from nacre.runtime.contracts.errors import ApprovalNotFound, SessionInUse
from nacre.runtime.contracts.events import Emit, ReplyReady, Silence, Warned
from nacre.runtime.contracts.inbound import Reply
from nacre.runtime.contracts.policy import ChatPolicy, notes_folder_of
from nacre.runtime.hooks.hooks import run_outbound_hooks, without_streamed_text
from nacre.runtime.open_sessions.routing import Route
from nacre.runtime.tools.approvals.store import Approval
from nacre.runtime.turn.loop import TurnBounds, run_tool
from nacre.runtime.turn.tool_guard import denied_text, waiting_text
from nacre.runtime.turn.turn import Turn
from nacre.sessions.contracts.messages import Message, Text, ToolCall, ToolResultMessage, message_text
from nacre.sessions.entries.entries import CustomMessage, Entry
from nacre.sessions.index.record import Origin

APPROVAL_TYPE = "nacre.approval"
SHOWN_ARGUMENT_CHARS = 4_000


async def settle(turn: Turn, left_over: Sequence[Approval], *, runs: bool) -> bool:
    """Records in the session's transcript what became of its waiting calls, which are `left_over`.

    With `runs`, approved calls are run. That takes as long as the tool does, so write the person's message
    down first. Calls that still wait get a result that says so, if a kill left them without one. Returns
    `True` when the transcript has something new that a model should read.

    Raises:
        SessionError: the disk refused; what is missing is recorded the next time.
    """
    has_news = False
    for approval in left_over:
        has_news = await _settled(turn, approval, runs=runs) or has_news
    return has_news


async def _settled(turn: Turn, approval: Approval, *, runs: bool) -> bool:
    approvals, branch = turn.parts.approvals, turn.session.branch
    if approval.state in ("asked", "approved") and _is_told(branch, approval):
        # An older copy that somebody brought back: it ran, or was denied.
        await approvals.store.remove(approval.id)
        return False
    waits = approval.state in ("asked", "approved") and not approval.is_expired(turn.now_ms())
    result = result_of(branch, approval)
    if waits and not (runs and approval.state == "approved"):
        if result is None and is_open(branch, approval):
            await turn.record(_result(turn, approval, waiting_text(approval), is_error=True))
        return False
    if result is not None and result != waiting_text(approval):
        await approvals.store.remove(approval.id)
        return False
    if approval.state == "approved":
        claimed = await approvals.claim(approval.id)
        if claimed is None:
            return False
        approval = await _run(turn, claimed)
    text, is_error = outcome_of(approval)
    if result is None and is_open(branch, approval):
        await turn.record(_result(turn, approval, text, is_error=is_error))
    elif not _is_told(branch, approval):
        await _tell(turn, approval, text, is_error=is_error)
    await approvals.store.remove(approval.id)
    return True


async def _run(turn: Turn, approval: Approval) -> Approval:
    context = await turn.context()
    context.guard.let_pass(approval)
    call = ToolCall(id=approval.call_id, name=approval.tool_name, arguments=approval.arguments)
    outcome = await run_tool(context.every_tool, call, turn.emit)
    return replace(
        approval,
        state="done",
        result=message_text(outcome.message),
        is_error=outcome.message.is_error,
    )


def outcome_of(approval: Approval) -> tuple[str, bool]:
    """The result that the model gets for a call, and whether it is an error."""
    match approval.state:
        case "done":
            return approval.result, approval.is_error
        case "denied":
            return denied_text(approval), True
        case "running":
            return (
                "The owner approved this call, and the program ended while it ran. It may have done its work "
                "or a part of it, and is not run again. Check that before you call it again."
            ), True
        case _:
            return "Not run: the owner did not answer in time.", True


def is_open(branch: Sequence[Entry], approval: Approval) -> bool:
    """Whether a result can still follow the call directly: only results have come after it."""
    for entry in reversed(branch):
        if entry.id == approval.message_id:
            return True
        if isinstance(entry.body, Message | CustomMessage) and not isinstance(entry.body, ToolResultMessage):
            return False
    return False


def result_of(branch: Sequence[Entry], approval: Approval) -> str | None:
    """The text of the call's result; `None` while it has none on this branch."""
    found: str | None = None
    for entry in reversed(branch):
        if entry.id == approval.message_id:
            return found
        if isinstance(entry.body, ToolResultMessage) and entry.body.tool_call_id == approval.call_id:
            found = message_text(entry.body)
    return None  # the call is not on this branch, so that a result with its id belongs to another call


def _is_told(branch: Sequence[Entry], approval: Approval) -> bool:
    return any(
        isinstance(entry.body, CustomMessage)
        and entry.body.custom_type == APPROVAL_TYPE
        and (entry.body.details or {}).get("approvalId") == approval.id
        for entry in branch
    )


async def _tell(turn: Turn, approval: Approval, text: str, *, is_error: bool) -> None:
    # As data in the conversation: a tool result can no longer follow the call.
    fitted = await (await turn.context()).results.fitted(_result(turn, approval, text, is_error=is_error))
    if approval.state == "done":
        verdict = "It failed" if is_error else "It ran"
        result = quoted(message_text(fitted))
        outcome = f"The owner approved it. {verdict}, and this is its result:\n\n{result}"
    else:
        outcome = text
    shown = json.dumps(approval.arguments, ensure_ascii=False)
    if len(shown) > SHOWN_ARGUMENT_CHARS:
        shown = f"{shown[:SHOWN_ARGUMENT_CHARS]} […]"
    content = render("session/approval", name=approval.tool_name, arguments=quoted(shown), outcome=outcome)
    details = {"approvalId": approval.id, "callId": approval.call_id, "state": approval.state}
    await turn.session.journal.append(
        CustomMessage(custom_type=APPROVAL_TYPE, content=content, details=details)
    )


def _result(turn: Turn, approval: Approval, text: str, *, is_error: bool) -> ToolResultMessage:
    return ToolResultMessage(
        tool_call_id=approval.call_id,
        tool_name=approval.tool_name,
        content=(Text(text=text),),
        is_error=is_error,
        timestamp_ms=turn.now_ms(),
    )


BUSY_SECONDS = 1.0
"""How long to wait for a turn of another process. If it goes on, it or the next turn runs the call."""


class PendingApprovals(Record):
    """The tool calls of an agent that wait for its owner."""

    parts: AgentParts

    async def list(self) -> tuple[Approval, ...]:
        """The calls that can be approved, oldest first."""
        return await self.parts.turn.approvals.pending()

    async def approve(self, approval_id: str) -> Reply | None:
        """Approves a call by its id, or the beginning of it.

        The call runs once, with the arguments that were shown. Returns the reply of the turn that follows, or
        `None` for silence and when a turn that waits for the answer continues.

        Raises:
            ApprovalNotFound: no such call waits.
            AgentError: the turn that follows failed; what was done and said is on disk.
        """
        found = await self.parts.turn.approvals.find(approval_id)
        ending = await approved(self.parts, found, emit=lambda _event: None)
        return ending.reply if isinstance(ending, ReplyReady) else None

    async def deny(self, approval_id: str, reason: str = "") -> None:
        """Denies a call; the model gets the reason as its result.

        Raises:
            ApprovalNotFound: no such call waits.
        """
        found = await self.parts.turn.approvals.find(approval_id)
        await self.parts.turn.approvals.answer(found.id, approved=False, reason=reason)

    async def withdraw(self, session_key: str) -> None:
        """Withdraws the unanswered calls of a session, because its user stopped the turn.

        Raises:
            SessionError: the disk refused.
        """
        await self.parts.turn.approvals.withdraw(session_key)


async def approved(parts: AgentParts, approval: Approval, *, emit: Emit) -> ReplyReady | Silence | None:
    """Approves a call, and runs it unless a turn waits for it. Returns how the turn that follows ends.

    Returns `None` if another turn continues with the result.

    Raises:
        ApprovalNotFound: it no longer waits, or the sub-agent that asked has ended.
    """
    approvals = parts.turn.approvals
    await approvals.answer(approval.id, approved=True)
    if approvals.is_awaited(approval.id):
        return None
    # The route of the message that led to the call. Approval does not widen its policy.
    policy = ChatPolicy(
        chat_kind=approval.chat_kind,
        is_owner=approval.is_owner,
        session_key_is_private=approval.is_private_key,
        notes_folder=notes_folder_of(approval.session_key),
    )
    route = Route(key=approval.session_key, policy=policy, origin=Origin(**approval.origin))
    try:
        async with parts.locks.enter(
            route.key, on_wait=lambda text: emit(Warned(message=text)), wait_seconds=BUSY_SECONDS
        ):
            if is_sub_agent_key(route.key):
                # No turn runs there, so it has ended; continuing would use the agent's tools, not its own.
                await approvals.store.remove(approval.id)
                raise ApprovalNotFound(
                    f"The sub-agent that asked for {approval.tool_name} has ended. Ask for its task again."
                )
            return await _continued(parts, route, emit)
    except SessionInUse:
        return None


async def _continued(parts: AgentParts, route: Route, emit: Emit) -> ReplyReady | Silence | None:
    session = await parts.turn.sessions.open(route)
    hooks, chat = parts.turn.hooks, parts.turn.chat(session)
    turn = parts.chosen.applied(
        Turn(session, parts.turn, without_streamed_text(hooks, emit), TurnBounds(parts.limits))
    )
    if not await settle(turn, await parts.turn.approvals.of_session(route.key), runs=True):
        return None
    reply = await turn.answer()
    parts.turn.memory.transcripts_changed()
    return turn.ending(None if reply is None else await run_outbound_hooks(hooks, chat, reply))


async def answer_in_chat(parts: AgentParts, called: Called, route: Route, emit: Emit) -> None:
    """Carries out `/approve` or `/deny`, and emits the reply."""
    approvals = parts.turn.approvals
    approval_id, _, reason = called.rest.partition(" ")
    ending: str | ReplyReady | Silence
    try:
        if not approval_id:
            ending = _waiting_list([each for each in await approvals.pending() if _may_answer(each, route)])
        elif not _may_answer(found := await approvals.find(approval_id), route):
            ending = (
                "This call was asked elsewhere. Answer it there, or in a private chat with the assistant."
            )
        elif called.command is DENY:
            await approvals.answer(found.id, approved=False, reason=reason)
            ending = f"Denied: {found.tool_name}. The assistant is told."
        else:
            ending = await approved(parts, found, emit=emit) or (
                f"Approved: {found.tool_name}. The turn that asked for it continues."
            )
    except ApprovalNotFound as error:
        ending = str(error)
    if isinstance(ending, str):
        ending = ReplyReady(reply=Reply(text=ending, session_key=route.key, session_id="", is_command=True))
    emit(ending)


def _may_answer(approval: Approval, route: Route) -> bool:
    return route.policy.is_owner and (route.policy.is_private or route.key == approval.session_key)


def _waiting_list(pending: list[Approval]) -> str:
    if not pending:
        return "No call waits for your approval."
    lines = [f"{each.id}  {each.tool_name} in {each.session_key}: {each.why}" for each in pending]
    return "\n".join([*lines, "/approve ID lets a call run, /deny ID [reason] does not."])
