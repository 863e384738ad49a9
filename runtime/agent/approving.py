"""`agent.approvals`: the owner's answers to calls that wait, by code and in a chat.

An answer is heard although a turn holds the session's lane: the turn that waits goes on by itself. Where none
waits any more, what was approved is run here, and a turn follows in which the model reads the result.
"""

from __future__ import annotations

from nacre.records.record import Record
from nacre.runtime.agent.opening.parts import AgentParts
from nacre.runtime.agent.opening.sub_agents import is_sub_agent_key
from nacre.runtime.commands.contract.command import Command
from nacre.runtime.commands.waiting.approvals import APPROVE, DENY
from nacre.runtime.contracts.errors import ApprovalNotFound, SessionInUse
from nacre.runtime.contracts.events import Emit, ReplyReady, Silence, Warned
from nacre.runtime.contracts.inbound import Reply
from nacre.runtime.contracts.policy import ChatPolicy, notes_folder_of
from nacre.runtime.hooks.around import leaving, without_text
from nacre.runtime.lanes.routing import Route
from nacre.runtime.tools.approvals.approval import Approval
from nacre.runtime.turn.loop.limits import TurnBounds
from nacre.runtime.turn.settling import settle
from nacre.runtime.turn.turn import Turn
from nacre.sessions.index.record import Origin

BUSY_SECONDS = 1.0
"""How long to wait for another process, whose turn goes on with the call, or else the next turn does."""


class ApprovalDoor(Record):
    """The calls of one agent that wait for its owner."""

    parts: AgentParts

    async def list(self) -> tuple[Approval, ...]:
        """The calls that may be approved, the oldest first."""
        return await self.parts.turn.approvals.pending()

    async def approve(self, approval_id: str) -> Reply | None:
        """Approves a call by its id, or the beginning of it.

        The call runs once, with the arguments that were shown. `None` when a turn that waits goes on with it;
        otherwise the reply of the turn that follows, `None` for silence.

        Raises:
            ApprovalNotFound: no such call waits.
            AgentError: the turn that follows failed; what was done and said is on disk.
        """
        found = await self.parts.turn.approvals.find(approval_id)
        ending = await approved(self.parts, found, emit=lambda _event: None)
        return ending.reply if isinstance(ending, ReplyReady) else None

    async def deny(self, approval_id: str, reason: str = "") -> None:
        """Denies a call; the model is told, with the reason.

        Raises:
            ApprovalNotFound: no such call waits.
        """
        found = await self.parts.turn.approvals.find(approval_id)
        await self.parts.turn.approvals.answer(found.id, approved=False, reason=reason)

    async def withdraw(self, session_key: str) -> None:
        """Makes void what the turns of a session ask and nobody has answered: whoever spoke there said stop.

        Raises:
            SessionError: the disk refused.
        """
        await self.parts.turn.approvals.withdraw(session_key)


async def approved(parts: AgentParts, approval: Approval, *, emit: Emit) -> ReplyReady | Silence | None:
    """Approves a call, and runs it where no turn waits for it; the ending of the turn that follows.

    `None` when somebody else goes on with it.

    Raises:
        ApprovalNotFound: it does not wait any more, or a sub-agent asked that has ended.
    """
    approvals = parts.turn.approvals
    await approvals.answer(approval.id, approved=True)
    if approvals.is_awaited(approval.id):
        return None
    where = _route(approval)
    try:
        async with parts.lanes.enter(
            where.key, on_wait=lambda text: emit(Warned(message=text)), wait_seconds=BUSY_SECONDS
        ):
            if is_sub_agent_key(where.key):
                # Its lane is free, so it has ended; the agent would go on there with tools of its own.
                await approvals.forget(approval.id)
                raise ApprovalNotFound(
                    f"The sub-agent that asked for {approval.tool_name} has ended. Ask for its task anew."
                )
            return await _told(parts, where, emit)
    except SessionInUse:
        return None


async def _told(parts: AgentParts, where: Route, emit: Emit) -> ReplyReady | Silence | None:
    session = await parts.turn.sessions.open(where)
    hooks, chat = parts.turn.hooks, session.chat(parts.turn.workspace.place, parts.turn.window.sources)
    turn = parts.chosen.applied(
        Turn(session, parts.turn, without_text(hooks, emit), TurnBounds(parts.limits))
    )
    if not await settle(turn, await parts.turn.approvals.left_over(where.key), runs=True):
        return None
    reply = await turn.answer()
    parts.turn.on_said()
    return turn.ending(None if reply is None else await leaving(hooks, chat, reply))


def _route(approval: Approval) -> Route:
    """Where the call was asked, with the policy that held there; whoever approves it lends it no other."""
    policy = ChatPolicy(
        chat_kind=approval.chat_kind,
        is_owner=approval.is_owner,
        session_key_is_private=approval.is_private_key,
        notes_folder=notes_folder_of(approval.session_key),
    )
    return Route(key=approval.session_key, policy=policy, origin=Origin(**approval.origin))


async def answered_in_chat(parts: AgentParts, text: str, where: Route, emit: Emit) -> bool:
    """Whether a message was the owner's answer to a call that waits; then it is carried out, and told."""
    called = parts.commands.called(text, where.policy)
    if called is None or called.command not in (APPROVE, DENY):
        return False
    approval_id, _, reason = called.rest.partition(" ")
    try:
        said = await _answer(parts, called.command, approval_id, reason, where, emit)
    except ApprovalNotFound as error:
        said = str(error)
    if isinstance(said, str):
        emit(ReplyReady(reply=Reply(text=said, session_key=where.key, session_id="", is_command=True)))
    else:
        emit(said)
    return True


async def _answer(
    parts: AgentParts, command: Command, approval_id: str, reason: str, where: Route, emit: Emit
) -> str | ReplyReady | Silence:
    approvals = parts.turn.approvals
    if not approval_id:
        pending = [each for each in await approvals.pending() if _may_answer(each, where)]
        return waiting_list(pending)
    found = await approvals.find(approval_id)
    if not _may_answer(found, where):
        return "This call was asked elsewhere. Answer it there, or in a private chat with the assistant."
    if command is DENY:
        await approvals.answer(found.id, approved=False, reason=reason)
        return f"Denied: {found.tool_name}. The assistant is told."
    ending = await approved(parts, found, emit=emit)
    return ending or f"Approved: {found.tool_name}. The turn that asked goes on with it."


def _may_answer(approval: Approval, where: Route) -> bool:
    """Whether the owner may answer here: in private, or where it was asked."""
    return where.policy.is_owner and (where.policy.is_private or where.key == approval.session_key)


def waiting_list(pending: list[Approval]) -> str:
    """The answer to `/approve` alone."""
    if not pending:
        return "No call waits for your approval."
    lines = [f"{each.id}  {each.tool_name} in {each.session_key}: {each.why}" for each in pending]
    return "\n".join([*lines, "/approve ID lets a call run, /deny ID [reason] does not."])
