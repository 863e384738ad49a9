"""`/new` and `/reset`: a fresh session, perhaps with another model; or the same one, notes read again."""

from __future__ import annotations

import re

from nacre.runtime.commands.command import CommandRun, Outcome, said
from nacre.sessions.disk.endings import EndReason

_SOFT = re.compile(r"soft(?=\s|$)(.*)", re.IGNORECASE | re.DOTALL)


async def new(run: CommandRun) -> Outcome:
    """`/new [model] [text]`."""
    return await _begin_fresh(run, "new")


async def reset(run: CommandRun) -> Outcome:
    """`/reset [text]`, the same as `/new`; `/reset soft [text]` goes on in the same session."""
    soft = _SOFT.fullmatch(run.rest)
    return await _begin_fresh(run, "reset") if soft is None else await _read_again(run, soft[1].strip())


async def _begin_fresh(run: CommandRun, reason: EndReason) -> Outcome:
    """The reply to the command, or to the words behind it.

    The words are on disk before the notes of the session that is left are saved, because that asks a
    model; and the notes are there before the answer, which reads them in the daily log. A session in
    which nothing was said yet is fresh already. A model that stands behind the command is
    the chat's from then on, also over later resets.
    """
    left = turn = run.turn
    named = await run.chosen.named(run.rest)
    text = run.rest if named is None else named.rest

    if left.session.has_messages:
        turn = left.of_session(await run.lifecycle.begin_next(left.session, reason, left.emit))
    if named is not None:
        await turn.session.line.choose_model(named.name)
    has_words = bool(text or run.attachments)
    if has_words:
        await turn.write_down(text, run.attachments)
    if turn is not left:
        await left.save_notes()
    turn = run.chosen.applied(turn)
    if has_words:
        return turn, await turn.answer()
    name, usual = turn.parts.model.name, run.chosen.default_name
    default = f" (default: {usual})" if name != usual else ""
    return turn, said(turn.session, f"✅ New session started · model: {name}{default}")


async def _read_again(run: CommandRun, text: str) -> Outcome:
    """The session goes on, with the logs and notes of the last days as they are now."""
    turn = run.turn
    if turn.session.has_messages:
        await turn.recall()
    if not text and not run.attachments:
        return run.said("♻️ The notes were read again; this session goes on.")
    await turn.write_down(text, run.attachments)
    return turn, await turn.answer()
