"""The command `nacre memory review`: lists the notes that wait for the owner, and answers them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from nacre.cli.invocation import Invocation, begin, json_option, run_reporting, shared_options
from nacre.cli.screen.json_text import print_json

if TYPE_CHECKING:
    from nacre.memory.contracts.workspace import Workspace
    from nacre.memory.files.proposals import Proposal, ReviewQueue


@click.command("review")
@click.argument("verb", type=click.Choice(("list", "accept", "reject", "edit")), default="list")
@click.argument("proposal", default="")
@json_option()
@shared_options
def review(context: click.Context, verb: str, proposal: str, as_json: bool) -> int:
    """List the notes that wait for you, and accept, edit or reject them.

    With the setting memory.writes: "review", the notes of a flush, a hook or a group wait. PROPOSAL is
    an id, the beginning of one, or `all`. `edit` opens the text in $EDITOR and writes the edited text.
    """
    from nacre.memory.files.proposals import ProposalFailed

    invocation = begin(context)
    if verb != "list" and not proposal:
        raise click.UsageError(
            f"Name what to {verb}: an id that `nacre memory review` shows, or `all`.", context
        )
    work = _review(invocation, verb, proposal, as_json=as_json)
    return run_reporting(invocation, work, ProposalFailed, OSError)


async def _review(invocation: Invocation, verb: str, name: str, *, as_json: bool) -> int:
    from nacre.memory.contracts.workspace import FileBusy, PathOutsideRoot
    from nacre.memory.files.proposals import ProposalFailed
    from nacre.memory.files.sources.sources import source_json
    from nacre.runtime.storage.storage import review_queue, storage_of

    config = invocation.config
    workspace = storage_of(config).workspace()
    queue = review_queue(config)
    found = list(await queue.waiting()) if name in ("", "all") else [await queue.find(name)]
    if as_json:
        return print_json(
            [
                {
                    "id": each.id,
                    "path": each.write.path,
                    "text": each.write.text,
                    "diff": await queue.diff(each, workspace),
                    "source": source_json(each.write.source),
                }
                for each in found
            ]
        )
    if not found:
        invocation.say("Nothing waits for review.")
    failed = False
    for each in found:
        try:
            invocation.say(*await _answer(queue, each, workspace, verb))
        except (ProposalFailed, FileBusy, PathOutsideRoot, OSError) as error:
            invocation.warn(str(error), tone="error")
            failed = True
    return int(failed)


async def _answer(queue: ReviewQueue, proposal: Proposal, workspace: Workspace, verb: str) -> list[str]:
    """Carries out `verb`, and returns the lines to show."""
    path, source = proposal.write.path, proposal.write.source
    if verb == "list":
        by = " in ".join(filter(None, (source.written_by, source.chat)))
        diff = await queue.diff(proposal, workspace)
        return [f"{proposal.id}  {path}  {by}  {source.at}", *diff.splitlines()[2:], ""]
    if verb == "reject":
        await queue.reject(proposal, workspace)
        return [f"Rejected {proposal.id}: {path} is unchanged."]
    edited = None
    if verb == "edit":
        edited = click.edit(proposal.write.text or "", extension=".md")
        if edited is None:
            return [f"{proposal.id} still waits, because its text was not saved."]
    await queue.accept(proposal, workspace, edited=edited)
    return [f"Accepted {proposal.id}: written into {path}."]
