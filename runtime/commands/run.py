"""Which function does which chat command. `/new` and `/compact` save notes first; none asks for an answer."""

from __future__ import annotations

from collections.abc import Mapping

from nacre.runtime.commands.branches import fork, label, rewind
from nacre.runtime.commands.command import CommandFunction, CommandRun, Outcome
from nacre.runtime.commands.fresh import new, reset
from nacre.runtime.commands.resume import resume
from nacre.runtime.commands.status import status
from nacre.runtime.commands.wording import compaction_text
from nacre.runtime.contracts.commands import HELP_TEXT, CommandName


async def run_command(name: CommandName, run: CommandRun) -> Outcome:
    """Runs one command; `/new` with text goes on as a turn of the new session.

    Raises:
        AgentError: see `Turn.answer`.
        SessionError: the disk refused; the session is as it was.
    """
    return await _COMMANDS[name](run)


async def _help(run: CommandRun) -> Outcome:
    return run.said(HELP_TEXT)


async def _unknown(run: CommandRun) -> Outcome:
    return run.said(f"There is no command {run.rest}. These are the commands:\n{HELP_TEXT}")


async def _compact(run: CommandRun) -> Outcome:
    if not run.turn.session.has_messages:
        return run.said("⚙️ Compaction skipped: nothing has been said in this session yet.")
    window = await run.turn.window()
    await window.flush_before_leaving()
    ended = await window.compact("manual", focus=run.rest)
    return run.said(compaction_text(ended, window.budget))


_COMMANDS: Mapping[CommandName, CommandFunction] = {
    "new": new,
    "reset": reset,
    "resume": resume,
    "compact": _compact,
    "rewind": rewind,
    "fork": fork,
    "label": label,
    "status": status,
    "help": _help,
    "unknown": _unknown,
}
