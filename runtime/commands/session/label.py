"""`/label` names the current place."""

from __future__ import annotations

from nacre.runtime.commands.contract.command import Command, CommandRun, Outcome
from nacre.runtime.commands.conversation.branching import label
from nacre.runtime.contracts.errors import PlaceUnknown


async def _label(run: CommandRun) -> Outcome:
    name = run.rest.strip()
    try:
        has_moved = await label(run.turn, name)
    except PlaceUnknown as error:
        return run.said(f"{error} For example: /label draft")
    moved = " It named another place before." if has_moved else ""
    return run.said(f"🏷 This place is called {name}; /rewind {name} comes back to it.{moved}")


LABEL = Command(
    name="label",
    arguments="name",
    help="name this place, to come back to it with /rewind name",
    run=_label,
)
