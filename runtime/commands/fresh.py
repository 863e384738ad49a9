"""`/new` and `/reset`: a fresh session, perhaps with another model; or the same one, notes read again."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable

from nacre.runtime.commands.chosen_models import ChosenModels
from nacre.runtime.contracts.commands import Command
from nacre.runtime.contracts.events import Emit
from nacre.runtime.contracts.inbound import Inbound, Reply
from nacre.runtime.endings.session_end import save_notes
from nacre.runtime.lanes.open_session import OpenSession
from nacre.runtime.turn.parts import TurnParts
from nacre.runtime.turn.turn import answer_turn, recall, run_turn, write_down
from nacre.sessions.disk.endings import EndReason

_SOFT = re.compile(r"soft(?=\s|$)(.*)", re.IGNORECASE | re.DOTALL)


async def begin_fresh(
    command: Command,
    session: OpenSession,
    inbound: Inbound,
    parts: TurnParts,
    chosen: ChosenModels,
    emit: Emit,
    *,
    begin_next: Callable[[EndReason], Awaitable[OpenSession]],
) -> Reply | None:
    """The reply to the command, or to the words behind it.

    The words are on disk before the notes of the session that is left are saved, because that asks a
    model; and the notes are there before the answer, which reads them in the daily log. A session in
    which nothing was said yet is fresh already. A model that stands behind the command is
    the chat's from then on, also over later resets.
    """
    reason: EndReason = "reset" if command.name == "reset" else "new"
    soft = _SOFT.fullmatch(command.rest) if reason == "reset" else None
    if soft is not None:
        return await _read_again(soft[1].strip(), session, inbound, parts, emit)
    named = await chosen.named(command.rest)
    text = command.rest if named is None else named.rest

    fresh = await begin_next(reason) if session.has_messages else session
    if named is not None:
        await fresh.choose_model(named.name)
    has_words = bool(text or inbound.attachments)
    if has_words:
        await write_down(fresh, inbound, text)
    if fresh is not session:
        await save_notes(session, channel=inbound.channel, parts=parts, emit=emit)
    parts = chosen.parts_for(fresh.record, parts, emit)
    return await answer_turn(fresh, inbound, parts, emit) if has_words else _started(fresh, parts, chosen)


async def _read_again(
    text: str, session: OpenSession, inbound: Inbound, parts: TurnParts, emit: Emit
) -> Reply | None:
    """`/reset soft`: the session goes on, with the logs and notes of the last days as they are now."""
    if session.has_messages:
        await recall(session, parts, emit)
    if text or inbound.attachments:
        return await run_turn(session, inbound, text, parts, emit)
    return _said(session, "♻️ The notes were read again; this session goes on.")


def _started(fresh: OpenSession, parts: TurnParts, chosen: ChosenModels) -> Reply:
    name, usual = parts.model.name, chosen.default_name
    return _said(
        fresh, f"✅ New session started · model: {name}" + (f" (default: {usual})" if name != usual else "")
    )


def _said(session: OpenSession, text: str) -> Reply:
    return Reply(text=text, session_key=session.key, session_id=session.session_id, is_command=True)
