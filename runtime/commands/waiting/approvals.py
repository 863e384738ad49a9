"""`/approve` and `/deny`: the owner's answers to tool calls that wait.

They are carried out in front of the lane, which the turn that waits holds (`runtime/agent/answering.py`).
"""

from __future__ import annotations

from nacre.runtime.commands.contract.command import Command, CommandRun, Outcome


async def _others_words(run: CommandRun) -> Outcome:
    """A message that arrived as something else: a hook answers nothing in the owner's name."""
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
