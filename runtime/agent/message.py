"""The story of one message, from its arrival to what comes of it. Read this file first.

route ─► lane ─► open ─► a command ──────────────────────────────► its reply
                    └─► words ─► (a session whose time has come ends) ─► on disk ─► answer ─► reply
"""

from __future__ import annotations

from collections.abc import Collection

from nacre.runtime.agent.parts import AgentParts
from nacre.runtime.commands.command import CommandRun
from nacre.runtime.commands.run import run_command
from nacre.runtime.contracts.commands import parse_command
from nacre.runtime.contracts.events import Emit, ReplyReady, Silence, Warned
from nacre.runtime.contracts.inbound import Inbound, Reply
from nacre.runtime.lanes.routing import Route
from nacre.runtime.turn.turn import Turn
from nacre.sessions.contracts.errors import SessionError


async def answer_message(
    inbound: Inbound, where: Route, agent: AgentParts, emit: Emit, *, active_keys: Collection[str]
) -> None:
    """Answers one message in the lane of its session; ends with `ReplyReady` or `Silence`.

    `active_keys` are the lanes that have a turn.

    Raises:
        AgentError: the message could not be answered; words to the assistant are on disk.
    """
    async with agent.lanes.enter(where.key, on_wait=lambda text: emit(Warned(message=text))):
        session = await agent.turn.sessions.open(where)
        told = agent.turn.told
        told.once("", (*agent.turn.sessions.index.notices, *agent.upkeep.notices), emit)
        told.once(session.session_id, session.notices, emit)
        turn = Turn(session, agent.turn, emit)
        try:
            turn, reply = await _command_or_words(inbound, agent.chosen.applied(turn), agent)
            agent.turn.on_said()
            emit(_ending(turn, reply))
        finally:
            agent.lifecycle.finish(where.key)
            agent.upkeep.start_if_due(active_keys)


async def _command_or_words(inbound: Inbound, turn: Turn, agent: AgentParts) -> tuple[Turn, Reply | None]:
    """What comes of a message, and the turn that it ended in: a command may have changed the session."""
    triggers = turn.parts.settings.session.reset_triggers
    is_owner = turn.session.policy.is_owner
    command = parse_command(inbound.text, reset_triggers=triggers) if is_owner else None
    if command is not None:
        run = CommandRun(
            rest=command.rest,
            attachments=inbound.attachments,
            turn=turn,
            chosen=agent.chosen,
            lifecycle=agent.lifecycle,
        )
        return await run_command(command.name, run)
    if not inbound.text.strip() and not inbound.attachments:
        return turn, None
    before, turn = turn, await _after_a_due_reset(turn, agent)
    await turn.write_down(inbound.text, inbound.attachments)
    if turn is not before:
        await before.save_notes()
    return turn, await turn.answer()


async def _after_a_due_reset(turn: Turn, agent: AgentParts) -> Turn:
    """The turn in a fresh session when the time of the present one has come.

    Only words to the assistant find a session at its end: a command is about the present one.
    """
    session = turn.session
    cause = agent.lifecycle.reset_due(session)
    if cause is None:
        return turn
    try:
        return turn.of_session(await agent.lifecycle.begin_next(session, cause, turn.emit))
    except SessionError as error:
        record = await turn.parts.sessions.index.get(session.key)
        if record is not None and record.session_id != session.session_id:
            raise
        turn.emit(Warned(message=f"The session could not be ended and goes on: {error}"))
        return turn


def _ending(turn: Turn, reply: Reply | None) -> ReplyReady | Silence:
    if reply is not None:
        return ReplyReady(reply=reply)
    session = turn.session
    return Silence(session_key=session.key, session_id=session.session_id, usage=turn.usage)
