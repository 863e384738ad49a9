"""One message of an open session: a command, the first words of a fresh session, or a plain turn."""

from __future__ import annotations

from nacre.runtime.commands.chosen_models import ChosenModels
from nacre.runtime.commands.run import run_command
from nacre.runtime.contracts.commands import parse_command
from nacre.runtime.contracts.events import Emit, ReplyReady, Silence, Warned
from nacre.runtime.contracts.inbound import Inbound, Reply
from nacre.runtime.endings.lifecycle import Lifecycle
from nacre.runtime.endings.session_end import save_notes
from nacre.runtime.lanes.open_session import OpenSession, open_session
from nacre.runtime.lanes.routing import Route
from nacre.runtime.turn.parts import TurnParts
from nacre.runtime.turn.turn import answer_turn, write_down
from nacre.sessions.contracts.errors import SessionError
from nacre.sessions.disk.endings import EndReason


async def run_message(
    session: OpenSession,
    inbound: Inbound,
    where: Route,
    parts: TurnParts,
    chosen: ChosenModels,
    lifecycle: Lifecycle,
    emit: Emit,
) -> ReplyReady | Silence:
    """Answers a message. Only words to the assistant find a session over: a command is about the present one.

    Raises:
        AgentError: the message could not be answered; words to the assistant are on disk.
    """
    present = session
    parts = chosen.parts_for(session.record, parts, emit)

    async def begin_next(reason: EndReason) -> OpenSession:
        nonlocal present
        present = await lifecycle.begin_next(session, where, reason, channel=inbound.channel, emit=emit)
        return present

    async def reopen() -> OpenSession:
        return await open_session(
            where, index=parts.index, journals=parts.journals, now=parts.now, new_id=parts.new_id
        )

    reply: Reply | None = None
    triggers = parts.settings.session.reset_triggers
    command = parse_command(inbound.text, reset_triggers=triggers) if session.policy.is_owner else None
    if command is not None:
        reply = await run_command(
            command,
            session,
            inbound,
            parts,
            chosen,
            emit,
            begin_next=begin_next,
            reopen=reopen,
            next_reset=lifecycle.next_reset(session, inbound),
        )
    elif inbound.text.strip() or inbound.attachments:
        cause = lifecycle.reset_due(session, inbound)
        try:
            fresh = session if cause is None else await begin_next(cause)
        except SessionError as error:
            record = await parts.index.get(session.key)
            if record is not None and record.session_id != session.session_id:
                raise
            emit(Warned(message=f"The session could not be ended and goes on: {error}"))
            fresh = session
        await write_down(fresh, inbound, inbound.text)
        if fresh is not session:
            await save_notes(session, channel=inbound.channel, parts=parts, emit=emit)
        reply = await answer_turn(fresh, inbound, parts, emit)
    if reply is None:
        return Silence(session_key=present.key, session_id=present.session_id)
    return ReplyReady(reply=reply)
