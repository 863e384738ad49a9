"""`/approve` and `/deny` for tool calls that wait for the owner, and `/review` for notes.

Calls are answered before the session's lock is taken, because the waiting turn holds it
(`runtime/agent/answering.py`).
"""

from __future__ import annotations

from nacre.memory.contracts.workspace import FileBusy, PathOutsideRoot
from nacre.memory.files.proposals import Proposal, ProposalConflict, ProposalUnknown, ReviewQueue
from nacre.memory.files.sources.proposed_write import ProposedWrite
from nacre.runtime.commands.command import Command, CommandRun, Outcome


async def _others_words(run: CommandRun) -> Outcome:
    """Runs if a hook changed the message: a hook must not answer in the owner's name."""
    return run.said("A call is answered in the owner's own words, and these were changed by a hook.")


APPROVE = Command(
    name="approve",
    arguments="[id]",
    help="let a waiting tool call run; alone it lists them",
    group="This chat",
    run=_others_words,
)
DENY = Command(
    name="deny",
    arguments="id [reason]",
    help="refuse a waiting tool call",
    group="This chat",
    run=_others_words,
)


_HOW = (
    "`/review accept ID`, `/review reject ID`, or `/review edit ID` and the new text; `all` for each of them."
)
_MOST_LINES = 40


async def _review(run: CommandRun) -> Outcome:
    parts = run.turn.parts
    verb, _, rest = run.rest.strip().partition(" ")
    try:
        if verb in ("accept", "reject"):
            return run.said(await _answered(run, verb, rest.strip()))
        if verb == "edit":
            name, text = _split(rest)
            if not text.strip():
                return run.said("The new text stands behind the id: /review edit ID TEXT")
            found = await parts.review.find(name)
            await parts.review.accept(found, parts.workspace, edited=text.rstrip("\n") + "\n")
            parts.on_notes(found.write.path)
            return run.said(f"Your text is written into {found.write.path}.")
        if verb:
            return run.said(await _shown(run, [await parts.review.find(verb)]))
        return run.said(await _shown(run, list(await parts.review.waiting())))
    except (ProposalUnknown, ProposalConflict, PathOutsideRoot, FileBusy, OSError) as error:
        return run.said(str(error))


async def _answered(run: CommandRun, verb: str, name: str) -> str:
    parts = run.turn.parts
    queue: ReviewQueue = parts.review
    found = list(await queue.waiting()) if name == "all" else [await queue.find(name)]
    told: list[str] = []
    for proposal in found:
        try:
            if verb == "accept":
                await queue.accept(proposal, parts.workspace)
                parts.on_notes(proposal.write.path)
            else:
                await queue.reject(proposal, parts.workspace)
        except ProposalConflict as error:
            told.append(str(error))  # the others are answered all the same
            continue
        done = "Written into" if verb == "accept" else "Rejected for"
        told.append(f"{done} {proposal.write.path} ({proposal.id}).")
    return "\n".join(told) or "Nothing waits for review."


async def _shown(run: CommandRun, proposals: list[Proposal]) -> str:
    parts = run.turn.parts
    if not proposals:
        return "Nothing waits for review."
    told: list[str] = []
    for proposal in proposals:
        lines = (await parts.review.diff(proposal, parts.workspace)).splitlines()[2:]
        if len(lines) > _MOST_LINES and len(proposals) > 1:
            rest = len(lines) - _MOST_LINES
            lines = [*lines[:_MOST_LINES], f"… {rest} more lines: /review {proposal.id}"]
        # Four backticks, so that the note may contain a fence itself.
        told.append("\n".join((heading(proposal.write, proposal.id), "````diff", *lines, "````")))
    return "\n\n".join((*told, _HOW))


def heading(write: ProposedWrite, proposal_id: str) -> str:
    """One line about a proposal: its id, its note, and who wrote it when."""
    source = write.source
    by = " in ".join(filter(None, (source.written_by, source.chat)))
    return f"**{proposal_id}** · {write.path} · {by}, {source.at[:16].replace('T', ' ')}"


def _split(text: str) -> tuple[str, str]:
    words = text.lstrip().split(maxsplit=1)
    return (words[0] if words else "", words[1] if len(words) > 1 else "")


REVIEW = Command(
    name="review",
    arguments="[id]",
    help="notes that wait for you: show, accept, reject, edit",
    group="Memory",
    run=_review,
    where=("private",),
)
