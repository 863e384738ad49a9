"""The story of one message in an agent:

route ─► lane ─► open the session ─► a command ─► its reply
                                 └─► words ─► (a session whose time has come ends) ─► on disk ─► answer
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from nacre.memory.contracts.errors import MemoryIndexError
from nacre.memory.contracts.workspace import PathOutsideRoot
from nacre.runtime.agent.approving import answered_in_chat
from nacre.runtime.agent.opening.parts import AgentParts
from nacre.runtime.agent.triggered import heartbeat_ended, worded
from nacre.runtime.commands.contract.command import CommandRun, Outcome, said
from nacre.runtime.commands.status import STATUS
from nacre.runtime.contracts.errors import AgentError, TurnBroken, TurnCancelled
from nacre.runtime.contracts.events import Emit, Event, MessageJoined, ReplyReady, Silence, TurnFailed, Warned
from nacre.runtime.contracts.inbound import Attachment, Inbound
from nacre.runtime.hooks.around import arrived, leaving, without_text
from nacre.runtime.lanes.routing import Route
from nacre.runtime.turn.inbound.inbound_message import heard, joined
from nacre.runtime.turn.loop.limits import TurnBounds
from nacre.runtime.turn.settling import settle
from nacre.runtime.turn.turn import Turn
from nacre.sessions.contracts.errors import SessionError

log = logging.getLogger(__name__)

INTERRUPTED_COMMAND = (
    "The program ended when {name} was given, and it may have been carried out or not. Look at /status, and "
    "give it again if you need it."
)


async def run_turn(parts: AgentParts, inbound: Inbound, where: Route, emit: Emit, bounds: TurnBounds) -> None:
    """One turn, which ends in one way or another: whatever goes wrong is told and not raised."""
    try:
        await _answer(parts, inbound, where, emit, bounds)
    except asyncio.CancelledError:
        emit(TurnFailed(error=TurnCancelled("The turn was stopped.")))
        raise
    except Exception as error:  # noqa: BLE001 - a bug must end in an answer, not in a chat that hangs
        emit(TurnFailed(error=failure_of(parts.settings_file.unseen(error))))


async def refuse(error: Exception, emit: Emit) -> None:
    """The turn of a message that belongs to no session."""
    emit(TurnFailed(error=failure_of(error)))


def stopped() -> TurnFailed:
    """How a turn ends that was stopped before its first step, so that no line of `run_turn` could say so."""
    return TurnFailed(error=TurnCancelled("The turn was stopped before it began."))


async def ending_of(task: asyncio.Task[None], heard: Sequence[Event]) -> ReplyReady | Silence | TurnFailed:
    """Waits for a turn's task; the event that it ended with, the last of those that were `heard`.

    Cancelling the caller stops the turn.
    """
    try:
        await task
    except asyncio.CancelledError:
        caller = asyncio.current_task()
        if caller is not None and caller.cancelling():
            raise
    last = heard[-1] if heard else None
    return last if isinstance(last, ReplyReady | Silence | TurnFailed) else stopped()


async def _answer(parts: AgentParts, inbound: Inbound, where: Route, emit: Emit, bounds: TurnBounds) -> None:
    """Answers one message in the lane of its session; an answer to a call that waits is heard without it."""
    worded_inbound = await worded(parts, inbound, where)
    if worded_inbound is None:
        emit(Silence(session_key=where.key, session_id=""))
        return
    inbound = worded_inbound
    parts.reread_settings()
    if not inbound.trigger:
        for sentence in parts.settings_file.to_tell(where.policy):
            emit(Warned(message=sentence))
    if not inbound.trigger and await answered_in_chat(parts, inbound.text, where, emit):
        return
    if parts.lanes.is_busy(where.key) and _asks_for_status(parts, inbound, where):
        emit(await _status_meanwhile(parts, inbound, where, emit))
        return
    async with parts.lanes.enter(where.key, on_wait=lambda text: emit(Warned(message=text))):
        session = await parts.turn.sessions.open(where)
        told = parts.turn.told
        told.once(
            "", (*parts.turn.sessions.index.notices, *parts.upkeep.notices, *parts.history.notices), emit
        )
        told.once(session.session_id, session.notices, emit)
        try:
            hooks, window = parts.turn.hooks, parts.turn.window
            chat = session.chat(window.workspace.place, window.sources)
            turn = parts.chosen.applied(Turn(session, parts.turn, without_text(hooks, emit), bounds))
            left_over = await parts.turn.approvals.left_over(where.key)
            await settle(turn, left_over, runs=False)
            message = await arrived(hooks, chat, inbound)
            turn, reply = await _outcome(parts, message, turn, has_left_over=bool(left_over))
            if inbound.trigger == "heartbeat":
                reply = await heartbeat_ended(turn, inbound, reply)
            parts.turn.on_said()
            reply = None if reply is None else await leaving(hooks, chat, reply)
            emit(turn.ending(reply))
        finally:
            parts.history.turn_ended()
            parts.lifecycle.finish(where.key)
            parts.upkeep.start_if_due(parts.running.keys)


def _asks_for_status(parts: AgentParts, inbound: Inbound, where: Route) -> bool:
    called = parts.commands.called(inbound.text, where.policy)
    return called is not None and called.command == STATUS


async def _status_meanwhile(
    parts: AgentParts, inbound: Inbound, where: Route, emit: Emit
) -> ReplyReady | Silence:
    """The answer to `/status` while a turn holds the lane: it only looks, so it need not wait."""
    session = await parts.turn.sessions.open(where)
    turn = parts.chosen.applied(Turn(session, parts.turn, emit))
    turn, reply = await _outcome(parts, inbound, turn, has_left_over=False)
    return turn.ending(reply)


async def _outcome(parts: AgentParts, inbound: Inbound, turn: Turn, *, has_left_over: bool) -> Outcome:
    """What comes of a message, and the turn that it ended in: a command may have changed the session."""
    policy, turn.trigger = turn.session.policy, inbound.trigger
    called = None if inbound.trigger else parts.commands.called(inbound.text, policy)
    if called is not None and inbound.redelivered:
        return turn, said(turn.session, INTERRUPTED_COMMAND.format(name=called.command.called_by[0]))
    if called is not None:
        run = CommandRun(
            rest=called.rest,
            attachments=inbound.attachments,
            quoted=inbound.quoted,
            turn=turn,
            chosen=parts.chosen,
            lifecycle=parts.lifecycle,
            offered=parts.commands.offered(policy),
        )
        return await called.command.run(run)
    if not inbound.text.strip() and not inbound.has_foreign_words:
        return turn, None
    before = None
    if inbound.redelivered:
        branch = turn.session.branch
        before = heard(branch, inbound.inbound_id, inbound.joined_by)
        for inbound_id in joined(branch, inbound.joined_by):
            turn.emit(MessageJoined(inbound_id=inbound_id))
    if before is not None and before.answer is not None:
        return turn, turn.reply(before.answer, before.said)
    if before is None:
        turn = await _written_down(parts, inbound, turn)
    else:
        turn.words = inbound.text
    if has_left_over:
        # Listed again: the owner may have answered since. Nothing else can have come, the lane is ours.
        await settle(turn, await parts.turn.approvals.left_over(turn.session.key), runs=True)
    return turn, await turn.answer()


async def _written_down(parts: AgentParts, inbound: Inbound, turn: Turn) -> Turn:
    """The turn in which the words stand on disk: another where the session was over before them.

    Only words find a session at its end: a command is about the present one, and what nobody said ends none.
    """
    if inbound.trigger:
        await turn.write_down(inbound.text, inbound.attachments, inbound.inbound_id, quoted=inbound.quoted)
        return turn
    before, turn = turn, await parts.lifecycle.after_a_due_reset(turn)
    await turn.write_down(inbound.text, inbound.attachments, inbound.inbound_id, quoted=inbound.quoted)
    if turn is not before:
        await before.save_notes()
    return turn


def failure_of(error: Exception) -> AgentError:
    """The error that a turn ends with; what is none of the caller's becomes `TurnBroken`, and is logged.

    A bug must end in an answer, not in a chat that hangs.
    """
    if isinstance(error, AgentError):
        return error
    trace: Exception | None = None
    if isinstance(error, SessionError | MemoryIndexError | PathOutsideRoot):
        text = str(error)
    elif isinstance(error, OSError):
        text = f"The turn broke off: {error}. Check the disk and the folder's permissions, then try again."
    else:
        text = f"The turn broke off on an unexpected {type(error).__name__}: {error}. Please report it."
        trace = error
    log.log(logging.ERROR if trace else logging.WARNING, "a turn broke off: %s", error, exc_info=trace)
    broken = TurnBroken(text)
    broken.__cause__ = error
    return broken


def owner_says(text: str, session: str, attachments: tuple[Attachment, ...] = ()) -> Inbound:
    """What the owner says in private by a program."""
    return Inbound(
        text=text,
        chat_kind="direct",
        channel="python",
        is_owner=True,
        session_key=session,
        attachments=attachments,
    )
