"""`nacre memory reflect`: shows what the logs would change in `bank/`, and writes what was approved."""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from nacre.cli.invocation import Invocation, begin, json_option, shared_options
from nacre.cli.screen.json_text import print_json

if TYPE_CHECKING:
    from nacre.memory.contracts.workspace import Workspace
    from nacre.memory.files.bank.proposal import Proposal
    from nacre.runtime.contracts.clock import Clock


@click.command("reflect")
@click.option("--apply", "applies", is_flag=True, help="Write the changes without asking.")
@click.option("--summaries", "sums_up", is_flag=True, help="Have the model sum up pages that change.")
@json_option("Print JSON; ask nothing.")
@shared_options
def reflect(context: click.Context, applies: bool, sums_up: bool, as_json: bool) -> int:
    """Sort what the logs ask to retain into the pages of bank/.

    Shows the changes as a unified diff. On a terminal it asks whether to write them; elsewhere it
    writes nothing without --apply. With --summaries the page of a person, place or project that
    changes begins with a summary by the model, each sentence with its link.
    """
    from nacre.cli.signals import run_until_signal
    from nacre.memory.contracts.errors import MemoryIndexError

    invocation = begin(context)
    invocation.warn(*invocation.config.notices)
    if not invocation.config.settings.memory.bank.enabled:
        invocation.warn("There is no bank. Set memory.bank.enabled to true to have one.", tone="error")
        return 1
    try:
        return run_until_signal(_reflected(invocation, applies=applies, sums_up=sums_up, as_json=as_json))
    except MemoryIndexError as error:
        invocation.warn(str(error), tone="error")
        return 1


async def _reflected(invocation: Invocation, *, applies: bool, sums_up: bool, as_json: bool) -> int:
    from nacre.memory.files.bank.reflecting import proposed, write
    from nacre.runtime.contracts.clock import owner_clock
    from nacre.runtime.storage.opening import storage_of

    config = invocation.config
    now = owner_clock(config.settings.agent.user_timezone)
    workspace = storage_of(config).workspace()
    found = await proposed(workspace)
    if sums_up and found.changes:
        found = await _summed_up(invocation, workspace, found, now)
    if as_json:
        if applies and found.changes:
            await write(workspace, found, at=now().isoformat(timespec="seconds"))
        return print_json(_json(found, applied=applies and bool(found.changes)))
    invocation.warn(*map(str, found.unparsed))
    if not found.changes:
        invocation.say("Nothing to change: the bank has all that the logs ask to retain.")
        return 0
    invocation.say(*found.diff.splitlines())
    pages = f"{len(found.changes)} {'page' if len(found.changes) == 1 else 'pages'}"
    if not (applies or _approved(pages)):
        invocation.warn(f"Nothing was written. --apply writes these changes to {pages}.")
        return 0
    await write(workspace, found, at=now().isoformat(timespec="seconds"))
    invocation.say(f"Wrote {pages}.")
    return 0


async def _summed_up(invocation: Invocation, workspace: Workspace, found: Proposal, now: Clock) -> Proposal:
    from nacre.memory.files.bank.reflecting import summed_up
    from nacre.runtime.agent.opening.open_models import connected_model
    from nacre.runtime.recall.facts.page_summaries import PageSummaries

    if not invocation.config.model_name:
        invocation.warn("Nothing is summed up: no model is connected. --model names one.")
        return found
    model = connected_model(invocation.config, invocation.config.model_name, now)
    try:
        asking = PageSummaries(model, now)
        summed = await summed_up(workspace, found, asking)
    finally:
        await model.aclose()
    invocation.warn(*asking.problems)
    return summed


def _approved(pages: str) -> bool:
    """Whether somebody at a terminal says yes."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return False
    return click.confirm(f"Write these changes to {pages}?", default=False)


def _json(found: Proposal, *, applied: bool) -> dict[str, object]:
    return {
        "applied": applied,
        "changes": [
            {"path": change.path, "isNew": change.before is None, "diff": change.diff}
            for change in found.changes
        ],
        "unparsed": [asdict(line) for line in found.unparsed],
    }
