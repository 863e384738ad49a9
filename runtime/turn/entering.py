"""What enters a turn beside the model's words: what people said, before and meanwhile, and logs and notes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import replace

from nacre.runtime.contracts.errors import MessageRefused
from nacre.runtime.contracts.events import Emit, MessageJoined, Warned
from nacre.runtime.contracts.inbound import Attachment, Inbound, Quoted
from nacre.runtime.contracts.model import takes_images
from nacre.runtime.hooks.around import arrived
from nacre.runtime.lanes.open_session import OpenSession
from nacre.runtime.turn.inbound.files import message_of
from nacre.runtime.turn.inbound.inbound_message import unread_message
from nacre.runtime.turn.parts import TurnParts
from nacre.runtime.turn.prompt_parts.recent_notes import RecalledNotes, recalled_notes
from nacre.sessions.contracts.messages import UserMessage
from nacre.sessions.entries.entries import CustomMessage
from nacre.sessions.view.transcript import RECALL_TYPE

log = logging.getLogger(__name__)


async def written_down(
    session: OpenSession,
    parts: TurnParts,
    text: str,
    attachments: tuple[Attachment, ...],
    *,
    quoted: Sequence[Quoted] = (),
    inbound_id: str,
    sender: str = "",
    is_said: bool = True,
) -> None:
    """Puts a message on disk with what can be read of its files; `is_said` by somebody, the `sender`.

    Who that was is written down where others than the owner may speak.

    Reading may take long. A message that is stopped meanwhile stands there with its files unread; but not one
    with an id, which whoever handed it in keeps and can hand in again.
    """
    now_ms = session.now_ms()
    write = session.say if is_said else session.write
    try:
        message = await message_of(
            text,
            attachments,
            quoted=quoted,
            takes_images=takes_images(parts.model),
            voice_notes=parts.voice_notes,
            timestamp_ms=now_ms,
            inbound_id=inbound_id,
        )
    except asyncio.CancelledError:
        if not inbound_id:
            unread = unread_message(text, attachments, quoted=quoted, timestamp_ms=now_ms)
            await write(_by(sender, session, unread))
        raise
    await write(_by(sender, session, message))


def _by(sender: str, session: OpenSession, message: UserMessage) -> UserMessage:
    return message if session.policy.is_private else replace(message, sender=sender.strip())


async def taken_in(session: OpenSession, parts: TurnParts, said: Sequence[Inbound], emit: Emit) -> None:
    """Puts messages on disk that were said while tools ran, as the hooks let them through."""
    chat = session.chat(parts.workspace.place, parts.window.sources)
    for each in said:
        try:
            inbound = await arrived(parts.hooks, chat, each)
        except MessageRefused as refused:
            log.info("a message does not join the turn of %s: %s", session.key, refused)
            continue
        await written_down(
            session,
            parts,
            inbound.text,
            inbound.attachments,
            quoted=inbound.quoted,
            inbound_id=each.inbound_id,
            sender=each.sender_id,
        )
        emit(MessageJoined(inbound_id=each.inbound_id))


async def recalled(session: OpenSession, parts: TurnParts, emit: Emit, *, again: bool = False) -> None:
    """Puts logs and notes of the last days into the transcript; what cannot be read costs no turn.

    With `again` they take the place of the earlier ones, also where there is nothing to show any more.
    """
    agent = parts.settings.agent
    notes = RecalledNotes()
    if not again:
        parts.memory.session_started()
    if not (agent.startup_context.enabled and session.policy.loads_daily_logs):
        if again:
            await session.journal.append(CustomMessage(custom_type=RECALL_TYPE, content=""))
        return
    try:
        notes = await recalled_notes(
            parts.workspace,
            parts.window.sources,
            now=parts.now(),
            limits=agent.startup_context,
            log_chars=agent.daily_log_max_chars,
        )
    except OSError as error:
        emit(Warned(message=f"The daily logs could not be read, so they are not in the context: {error}."))
    if notes.text or again:
        await session.journal.append(
            CustomMessage(custom_type=RECALL_TYPE, content=notes.text, details={"paths": list(notes.paths)})
        )
