"""`/reset` works like `/new`; `/reset soft` reads the notes again in the same session."""

from __future__ import annotations

import re

from nacre.runtime.commands.contract.command import Command, CommandRun, Outcome
from nacre.runtime.commands.session.new import fresh

_SOFT = re.compile(r"soft(?=\s|$)(.*)", re.IGNORECASE | re.DOTALL)


async def _reset(run: CommandRun) -> Outcome:
    soft = _SOFT.fullmatch(run.rest)
    return await fresh(run, "reset") if soft is None else await _read_again(run, soft[1].strip())


async def _read_again(run: CommandRun, text: str) -> Outcome:
    """Continues the session with the current logs and notes of the last days."""
    turn = run.turn
    if turn.session.has_messages:
        await turn.recall()
    if not (text or run.attachments or run.quoted):
        return run.said("♻️ The notes were read again; this session goes on.")
    await turn.write_down(text, run.attachments, quoted=run.quoted)
    return turn, await turn.answer()


RESET = Command(
    name="reset",
    arguments="[text]",
    help="the same as /new; /reset soft reads the daily logs again and goes on",
    run=_reset,
)
