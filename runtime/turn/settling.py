"""What became of calls that waited for the owner, told to the conversation by the holder of its lane.

A call that was approved while no turn waited is run here, once. Whatever a kill left half done is found here
too: each call gets a result, and none is run a second time.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from dataclasses import replace

from nacre.prompts import quoted, render
from nacre.runtime.tools.approvals.approval import Approval
from nacre.runtime.turn.guard import denied_text, waiting_text
from nacre.runtime.turn.loop.loop import run_tool
from nacre.runtime.turn.turn import Turn
from nacre.sessions.contracts.messages import Message, Text, ToolCall, ToolResultMessage, message_text
from nacre.sessions.entries.entries import CustomMessage, Entry

log = logging.getLogger(__name__)

APPROVAL_TYPE = "nacre.approval"
SHOWN_ARGUMENT_CHARS = 4_000


async def settle(turn: Turn, left_over: Sequence[Approval], *, runs: bool) -> bool:
    """Tells the session's conversation what became of its calls that waited, which are `left_over`.

    With `runs` approved ones are run; that takes as long as a tool does, so a person's words are written
    down before. Calls that still wait get a result that says so, where a kill left them without one.
    `True` when a model should hear of it: something new stands in the transcript.

    Raises:
        SessionError: the disk refused; what is not told yet will be told the next time.
    """
    has_news = False
    for approval in left_over:
        has_news = await _settled(turn, approval, runs=runs) or has_news
    return has_news


async def _settled(turn: Turn, approval: Approval, *, runs: bool) -> bool:
    approvals, branch = turn.parts.approvals, turn.session.branch
    if approval.state in ("asked", "approved") and _is_told(branch, approval):
        await approvals.forget(approval.id)  # an older copy that somebody brought back: it ran, or was denied
        return False
    waits = approval.state in ("asked", "approved") and not approval.is_expired(turn.now_ms())
    result = result_of(branch, approval)
    if waits and not (runs and approval.state == "approved"):
        if result is None and is_open(branch, approval):
            await turn.record(_result(turn, approval, waiting_text(approval), is_error=True))
        return False
    if result is not None and result != waiting_text(approval):
        await approvals.forget(approval.id)
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
    await approvals.forget(approval.id)
    return True


async def _run(turn: Turn, approval: Approval) -> Approval:
    """Runs a claimed call as it was shown, and keeps what came of it."""
    context = await turn.context()
    context.guard.let_pass(approval)
    call = ToolCall(id=approval.call_id, name=approval.tool_name, arguments=approval.arguments)
    outcome = await run_tool(context.toolbox, call, turn.emit)
    return replace(
        approval,
        state="done",
        result=message_text(outcome.message),
        is_error=outcome.message.is_error,
    )


def outcome_of(approval: Approval) -> tuple[str, bool]:
    """What the model is told of a call, and whether that is a failure. Pure."""
    match approval.state:
        case "done":
            return approval.result, approval.is_error
        case "denied":
            return denied_text(approval), True
        case "running":
            return (
                "The owner approved this call, and the program ended while it ran. It may have done its work "
                "or a part of it, and is not run again. Look whether it did before you call it anew."
            ), True
        case _:
            return "Not run: the owner did not answer in time.", True


def is_open(branch: Sequence[Entry], approval: Approval) -> bool:
    """Whether a result can still follow the call directly: nothing but results came behind it. Pure."""
    for entry in reversed(branch):
        if entry.id == approval.message_id:
            return True
        if isinstance(entry.body, Message | CustomMessage) and not isinstance(entry.body, ToolResultMessage):
            return False
    return False


def result_of(branch: Sequence[Entry], approval: Approval) -> str | None:
    """The text of the call's result, `None` while it has none on this branch. Pure."""
    found: str | None = None
    for entry in reversed(branch):
        if entry.id == approval.message_id:
            return found
        if isinstance(entry.body, ToolResultMessage) and entry.body.tool_call_id == approval.call_id:
            found = message_text(entry.body)
    return None  # the call itself is not here: whatever bears its id belongs to another


def _is_told(branch: Sequence[Entry], approval: Approval) -> bool:
    return any(
        isinstance(entry.body, CustomMessage)
        and entry.body.custom_type == APPROVAL_TYPE
        and (entry.body.details or {}).get("approvalId") == approval.id
        for entry in branch
    )


async def _tell(turn: Turn, approval: Approval, text: str, *, is_error: bool) -> None:
    """Puts the outcome into the conversation as data: behind the call there is no room for it any more."""
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
