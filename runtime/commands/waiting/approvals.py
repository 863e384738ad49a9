"""`/approve` and `/deny` answer tool calls that wait for the owner.

They run before the session's lock is taken, because the waiting turn holds it (`runtime/agent/answering.py`).
"""

from __future__ import annotations

from nacre.runtime.commands.contract.command import Command, CommandRun, Outcome


async def _others_words(run: CommandRun) -> Outcome:
    """Runs if a hook changed the message: a hook must not answer in the owner's name."""
    return run.said("A call is answered in the owner's own words, and these were changed by a hook.")


APPROVE = Command(
    name="approve",
    arguments="[id]",
    help="let a tool call run that waits for you; alone it lists them",
    run=_others_words,
)
DENY = Command(
    name="deny",
    arguments="id [reason]",
    help="do not let it run, and tell the assistant why",
    run=_others_words,
)
