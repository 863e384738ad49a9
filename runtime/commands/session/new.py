"""`/new` starts a new session, optionally with another model."""

from __future__ import annotations

from nacre.runtime.commands.contract.command import Command, CommandRun, Outcome, said
from nacre.runtime.commands.conversation.starting import begin_fresh
from nacre.sessions.contracts.keys import EndReason


async def _new(run: CommandRun) -> Outcome:
    return await fresh(run, "new")


async def fresh(run: CommandRun, reason: EndReason) -> Outcome:
    """Replies to the command, or to the text after it, which may begin with a model."""
    named = await run.chosen.named(run.rest)
    text = run.rest if named is None else named.rest
    turn = await begin_fresh(
        run.turn,
        reason,
        lifecycle=run.lifecycle,
        chosen=run.chosen,
        named=named,
        text=text,
        attachments=run.attachments,
        quoted=run.quoted,
    )
    if text or run.attachments or run.quoted:
        return turn, await turn.answer()
    name, usual = turn.parts.model.name, run.chosen.default_name
    default = f" (default: {usual})" if name != usual else ""
    return turn, said(turn.session, f"✅ New session started · model: {name}{default}")


NEW = Command(
    name="new",
    arguments="[model] [text]",
    help="start a fresh session; notes are saved first, the old transcript stays on disk",
    run=_new,
)
