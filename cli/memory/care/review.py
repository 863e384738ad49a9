"""`nacre memory review`: notes that wait for the owner, on the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from nacre.cli.invocation import Invocation, begin, json_option, shared_options
from nacre.cli.screen.json_text import print_json

if TYPE_CHECKING:
    from nacre.memory.contracts.workspace import Workspace
    from nacre.memory.files.review.proposal import Proposal
    from nacre.memory.files.review.queue import ReviewQueue

ALL = "all"


@click.command("review")
@click.argument("verb", type=click.Choice(("list", "accept", "reject", "edit")), default="list")
@click.argument("proposal", default="")
@json_option()
@shared_options
def review(context: click.Context, verb: str, proposal: str, as_json: bool) -> int:
    """Look at notes that wait for you, and accept, edit or reject them.

    With the setting memory.writes: "review", what a flush, a hook or a group would write waits. PROPOSAL is
    an id, the beginning of one, or `all`. `edit` opens the text in $EDITOR and writes what you make of it.
    """
    from nacre.cli.signals import run_until_signal

    invocation = begin(context)
    if verb != "list" and not proposal:
        raise click.UsageError(
            f"Name what to {verb}: an id that `nacre memory review` shows, or `all`.", context
        )
    return run_until_signal(_review(invocation, verb, proposal, as_json=as_json))


async def _review(invocation: Invocation, verb: str, name: str, *, as_json: bool) -> int:
    from nacre.memory.contracts.workspace import FileBusy, PathOutsideRoot
    from nacre.memory.files.review.queue import ProposalConflict, ProposalUnknown, ReviewQueue
    from nacre.runtime.storage.opening import storage_of

    config = invocation.config
    queue = ReviewQueue(config.folders.proposals, lock_dir=config.state_dir / "locks")
    workspace = storage_of(config).workspace()
    try:
        found = list(await queue.waiting()) if name in ("", ALL) else [await queue.find(name)]
    except (ProposalUnknown, OSError) as error:
        invocation.warn(str(error), tone="error")
        return 1
    if as_json:
        return print_json([await _json(queue, each, workspace) for each in found])
    if not found:
        invocation.say("Nothing waits for review.")
    failed = False
    for each in found:
        try:
            invocation.say(*await _done(queue, each, workspace, verb))
        except (ProposalConflict, FileBusy, PathOutsideRoot, OSError) as error:
            invocation.warn(str(error), tone="error")
            failed = True
    return int(failed)


async def _done(queue: ReviewQueue, proposal: Proposal, workspace: Workspace, verb: str) -> list[str]:
    path, source = proposal.write.path, proposal.write.source
    if verb == "list":
        by = " in ".join(filter(None, (source.written_by, source.chat)))
        diff = await queue.diff(proposal, workspace)
        return [f"{proposal.id}  {path}  {by}  {source.at}", *diff.splitlines()[2:], ""]
    if verb == "reject":
        await queue.reject(proposal)
        return [f"Rejected {proposal.id}: {path} stays as it is."]
    edited = None
    if verb == "edit":
        edited = click.edit(proposal.write.text or "", extension=".md")
        if edited is None:
            return [f"{proposal.id} waits on: its text was not saved."]
    await queue.accept(proposal, workspace, edited=edited)
    return [f"Accepted {proposal.id}: written into {path}."]


async def _json(queue: ReviewQueue, proposal: Proposal, workspace: Workspace) -> dict[str, Any]:
    from nacre.memory.files.sources.stored import source_json

    return {
        "id": proposal.id,
        "path": proposal.write.path,
        "text": proposal.write.text,
        "diff": await queue.diff(proposal, workspace),
        "source": source_json(proposal.write.source),
    }
