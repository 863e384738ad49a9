"""Starts a new session under the same key, optionally with another model."""

from __future__ import annotations

from nacre.runtime.commands.conversation.chosen_models import ChosenModels
from nacre.runtime.commands.conversation.model_words import NamedModel
from nacre.runtime.contracts.inbound import Attachment, Quoted
from nacre.runtime.session_lifecycle.lifecycle import Lifecycle
from nacre.runtime.turn.turn import Turn
from nacre.sessions.contracts.keys import EndReason


async def begin_fresh(
    left: Turn,
    reason: EndReason,
    *,
    lifecycle: Lifecycle,
    chosen: ChosenModels,
    named: NamedModel | None = None,
    text: str = "",
    attachments: tuple[Attachment, ...] = (),
    quoted: tuple[Quoted, ...] = (),
) -> Turn:
    """Returns the turn of the new session, with the user's message in it.

    The message is on disk before the notes of the old session are saved, because saving calls a model. The
    notes are saved before the answer, which reads them in the daily log. A session without messages is
    already new. A named model applies to the chat from now on, including later resets.

    Raises:
        SessionError: the disk refused; the old session continues.
    """
    turn = left
    if left.session.has_messages:
        turn = left.of_session(await lifecycle.begin_next(left.session, reason, left.emit))
    if named is not None:
        await turn.session.line.choose_model(named.name)
    if text or attachments or quoted:
        await turn.write_down(text, attachments, quoted=quoted)
    if turn is not left:
        await left.save_notes()
    return chosen.applied(turn)
