"""`/compact` saves notes and replaces old history with a summary."""

from __future__ import annotations

from nacre.runtime.commands.contract.command import Command, CommandRun, Outcome
from nacre.runtime.commands.contract.wording import compaction_text
from nacre.runtime.commands.conversation.compacting import compact


async def _compact(run: CommandRun) -> Outcome:
    if not run.turn.session.has_messages:
        return run.said("⚙️ Compaction skipped: nothing has been said in this session yet.")
    ended = await compact(run.turn, focus=run.rest)
    return run.said(compaction_text(ended, (await run.turn.window()).budget))


COMPACT = Command(
    name="compact",
    arguments="[focus]",
    help="save notes, then replace old history by a summary; a focus says what to keep",
    run=_compact,
)
