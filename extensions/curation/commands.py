"""The commands `nacre memory reflect` and `tidy`: show a proposal and write what the owner approves."""

from __future__ import annotations

import sys
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

import click

from nacre.cli.invocation import Invocation, begin, day_option, json_option, run_reporting, shared_options
from nacre.cli.memory.text import level
from nacre.cli.screen.json_text import print_json
from nacre.record import Record

if TYPE_CHECKING:
    from nacre.extensions.curation.edits import Edit, Place, TidiedNote
    from nacre.extensions.curation.notes import Contradiction, TidyNotes
    from nacre.extensions.curation.reflection import BankProposal
    from nacre.memory.contracts.workspace import Workspace
    from nacre.runtime.contracts.clock import Clock

_MAX_LISTED = 20


def _run(invocation: Invocation, command: Coroutine[Any, Any, int]) -> int:
    from nacre.memory.files.proposals import ProposalFailed

    return run_reporting(invocation, command, ProposalFailed)


def _workspace(invocation: Invocation) -> Workspace:
    from nacre.runtime.storage.storage import storage_of

    return storage_of(invocation.config).workspace()


def _is_terminal() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty()


# nacre memory reflect


@click.command("reflect")
@click.option("--apply", "applies", is_flag=True, help="Write the changes without asking.")
@click.option("--summaries", "summarizes", is_flag=True, help="Have the model summarize the changed pages.")
@json_option("Print JSON; ask nothing.")
@shared_options
def reflect(context: click.Context, applies: bool, summarizes: bool, as_json: bool) -> int:
    """Sort what the daily logs ask to retain into the pages of bank/.

    Shows the changes as a unified diff. On a terminal it asks whether to write them; elsewhere it
    writes nothing without --apply. With --summaries, the changed page of a person, place or project
    starts with a summary by the model, in which each sentence has a link.
    """
    invocation = begin(context)
    invocation.warn(*invocation.config.notices)
    if not invocation.config.settings.memory.bank.enabled:
        invocation.warn("There is no bank. Set memory.bank.enabled to true to have one.", tone="error")
        return 1
    return _run(invocation, _reflect(invocation, applies=applies, summarizes=summarizes, as_json=as_json))


async def _reflect(invocation: Invocation, *, applies: bool, summarizes: bool, as_json: bool) -> int:
    from nacre.extensions.curation.reflection import propose_bank
    from nacre.memory.files.proposals import write_changes

    now, workspace = invocation.config.clock, _workspace(invocation)
    found = await propose_bank(workspace)
    if summarizes and found.changes:
        found = await _with_summaries(invocation, workspace, found, now)
    pages = f"{len(found.changes)} {'page' if len(found.changes) == 1 else 'pages'}"
    if not as_json:
        invocation.warn(*map(str, found.unparsed))
        if not found.changes:
            invocation.say("Nothing to change: the bank has all that the logs ask to retain.")
            return 0
        invocation.say(*found.diff.splitlines())
        applies = applies or (_is_terminal() and click.confirm(f"Write these changes to {pages}?"))
    writes = applies and bool(found.changes)
    if writes:
        changes = (*found.changes, found.taken)
        at = now().isoformat(timespec="seconds")
        await write_changes(workspace, changes, at=at, redacts_secrets=False)
    if as_json:
        return print_json(
            {
                "applied": writes,
                "changes": [
                    {"path": change.path, "isNew": change.before is None, "diff": change.diff}
                    for change in found.changes
                ],
                "unparsed": [asdict(line) for line in found.unparsed],
            }
        )
    if writes:
        invocation.say(f"Wrote {pages}.")
    else:
        invocation.warn(f"Nothing was written. --apply writes these changes to {pages}.")
    return 0


async def _with_summaries(
    invocation: Invocation, workspace: Workspace, found: BankProposal, now: Clock
) -> BankProposal:
    from nacre.extensions.curation.reflection import PageSummaries, with_summaries
    from nacre.runtime.providers.opening import connected_model

    if not invocation.config.model_name:
        invocation.warn("There are no summaries: no model is connected. Name one with --model.")
        return found
    async with aclosing(connected_model(invocation.config, invocation.config.model_name, now)) as model:
        summaries = PageSummaries(model, now)
        found = await with_summaries(workspace, found, summaries)
    invocation.warn(*summaries.problems)
    return found


# nacre memory tidy


class _TidyProposal(Record):
    """A proposal, what the rules found in the notes, and the limit of the curated note in characters."""

    note: TidiedNote
    max_chars: int
    repeats: tuple[tuple[Place, ...], ...]
    contradictions: tuple[Contradiction, ...]
    notices: tuple[str, ...]
    has_model: bool


@click.command("tidy")
@day_option("--after", "Only logs of this day or later.")
@day_option("--before", "Only logs of this day or earlier.")
@click.option("--dry-run", is_flag=True, help="Show the proposal, and change nothing.")
@click.option("--yes", is_flag=True, help="Write the proposal without asking.")
@json_option("Print JSON; ask nothing.")
@shared_options
def tidy(
    context: click.Context, after: str | None, before: str | None, dry_run: bool, yes: bool, as_json: bool
) -> int:
    """Propose what belongs into MEMORY.md from the daily logs, and which of its lines are superseded.

    Shows the proposal as a unified diff, with the lines that support it and how full MEMORY.md is. On a
    terminal it asks what to write: all of it, edit by edit, what you make of it in $EDITOR, or nothing.
    Elsewhere it writes nothing without --yes. The logs stay as they are. `nacre memory undo` undoes it.

    Without a model, it lists lines that are in several notes and keys with several values, and removes
    lines that MEMORY.md repeats.
    """
    if dry_run and yes:
        raise click.UsageError("--dry-run writes nothing, and --yes writes. Give one of them.", context)
    invocation = begin(context)
    invocation.warn(*invocation.config.notices)
    days = {"after": after, "before": before}
    return _run(invocation, _tidy(invocation, days, dry_run=dry_run, yes=yes, as_json=as_json))


async def _tidy(
    invocation: Invocation, days: Mapping[str, str | None], *, dry_run: bool, yes: bool, as_json: bool
) -> int:
    from nacre.extensions.curation.edits import redacted, tidied
    from nacre.extensions.curation.notes import contradictions, read_tidy_notes, repeats, without_rejected
    from nacre.memory.text.days.day_limits import day_limits

    now, workspace = invocation.config.clock, _workspace(invocation)
    limits = day_limits(**days, today=now().date())
    notes = await read_tidy_notes(workspace, after=limits.after, before=limits.before)
    edits, notices = await _tidy_edits(invocation, notes, now)
    edits = await without_rejected(workspace, notes.path, edits)
    note = redacted(tidied(notes.path, notes.curated, edits))
    proposal = _TidyProposal(
        note=note,
        max_chars=invocation.config.settings.agent.bootstrap_max_chars,
        repeats=tuple(repeats(notes.places)),
        contradictions=tuple(contradictions(notes.places, notes.texts)),
        notices=notices,
        has_model=bool(invocation.config.model_name),
    )
    if not as_json:
        invocation.warn(*notices)
        invocation.say(*_tidy_lines(proposal))
    wanted = note if yes else None
    if note.diff and not (yes or dry_run or as_json):
        wanted = _wanted(invocation, note)
    commit = ""
    if wanted is not None and wanted.diff:
        commit = await _write_tidied(invocation, workspace, wanted, now, shows=not as_json)
    elif note.diff and not as_json:
        invocation.warn("Nothing was changed." if dry_run else "Nothing was changed. --yes writes this.")
    if as_json:
        applied = wanted is not None and bool(note.diff)
        return print_json(_tidy_json(proposal, applied=applied, commit=commit))
    return 0


async def _tidy_edits(
    invocation: Invocation, notes: TidyNotes, now: Clock
) -> tuple[tuple[Edit, ...], tuple[str, ...]]:
    from nacre.extensions.curation.model_edits import edits_by_model
    from nacre.extensions.curation.notes import without_repeats

    notices = []
    if notes.others_count:
        lines = "1 line is" if notes.others_count == 1 else f"{notes.others_count} lines are"
        notices.append(f"{lines} left out: not the owner's word, as `nacre memory why` shows.")
    config, text = invocation.config, notes.curated or ""
    if not config.model_name:
        edits = without_repeats(notes.path, text, notes.curated_places(text))
        return tuple(edits), (*notices, "No model is connected: only rules were applied to the notes.")
    answer = await edits_by_model(config, notes, now)
    if day := answer.not_read_until:
        notices.append(f"Log lines until {day} did not fit into one run. --before {day} reads them.")
    return answer.edits, tuple(notices)


def _wanted(invocation: Invocation, note: TidiedNote) -> TidiedNote | None:
    """The part of a proposal that the owner chooses on a terminal; `None` for nothing."""
    from nacre.extensions.curation.edits import redacted, tidied

    if not _is_terminal():
        return None
    answer = click.prompt(
        f"Write this into {note.path}? [y]es, [o]ne by one, [e]dit, [n]o",
        type=click.Choice(list("yoen"), case_sensitive=False),
        default="n",
        show_choices=False,
    )
    if answer == "y":
        return note
    if answer == "o":
        wanted = []
        for edit in note.edits:
            alone = tidied(note.path, note.before, [edit])
            invocation.say("", edit.description, *(alone.diff or note.diff).splitlines()[2:])
            if click.confirm("Write this?", default=False):
                wanted.append(edit)
        return redacted(tidied(note.path, note.before, wanted))
    if answer == "e" and (text := click.edit(note.after, extension=".md")) is not None:
        return replace(note, after=text)
    return None


async def _write_tidied(
    invocation: Invocation, workspace: Workspace, note: TidiedNote, now: Clock, *, shows: bool
) -> str:
    """Writes the note as one commit; the commit, or `""` if there is none."""
    from nacre.extensions.curation.note_changes import write_in_one_commit
    from nacre.memory.files.proposals import ProposalFailed
    from nacre.memory.workspace.history.commits import HistoryBusy

    added = {line for edit in note.edits for line in edit.added}
    try:
        commit, why = await write_in_one_commit(
            invocation.config,
            workspace,
            [note],
            at=now().isoformat(timespec="seconds"),
            is_typed=lambda line: bool(line) and line.rstrip() not in added,
        )
    except HistoryBusy as error:
        raise ProposalFailed(f"Nothing was changed: {error}.") from error
    if shows:
        undo = f" Commit {commit[:12]} holds the change; `nacre memory undo` undoes it." if commit else ""
        invocation.say(f"Wrote {note.path}.{undo}")
    if why:
        invocation.warn(f"`nacre memory undo` cannot undo it: {why}.")
    return commit


def _tidy_lines(proposal: _TidyProposal) -> list[str]:
    """The proposal for people. Without a model, it lists what the rules found."""
    note = proposal.note
    lines = [*note.diff.splitlines(), *(f"· {why}" for why in note.reasons if note.diff)]
    if not proposal.has_model:
        lines += _findings(proposal)
    if not note.diff:
        return [*lines, f"Nothing to change in {note.path}."]
    before, after = len(note.before or ""), len(note.after)
    return [
        *lines,
        f"{note.path} now   {level(before, proposal.max_chars)}",
        f"{note.path} then  {level(after, proposal.max_chars)}",
    ]


def _findings(proposal: _TidyProposal) -> Iterator[str]:
    if proposal.repeats:
        yield "Lines in several places:"
        yield from _first(
            [f"  {group[0].text}  ({', '.join(place.name for place in group)})" for group in proposal.repeats]
        )
    if proposal.contradictions:
        yield "Keys with several values; the newest day first, lines without a day last:"
        blocks = []
        for each in proposal.contradictions:
            width = max(len(place.name) for place in each.places)
            blocks.append("\n".join(f"  {place.name:<{width}}  {place.text}" for place in each.places))
        for block in _first(blocks):
            yield from block.splitlines()


def _first(blocks: Sequence[str]) -> list[str]:
    left = len(blocks) - _MAX_LISTED
    return [*blocks[:_MAX_LISTED], *([f"  and {left} more; --json lists all"] if left > 0 else [])]


def _tidy_json(proposal: _TidyProposal, *, applied: bool, commit: str) -> dict[str, Any]:
    note = proposal.note
    change = {
        "path": note.path,
        "before": note.before,
        "after": note.after,
        "diff": note.diff,
        "reasons": list(note.reasons),
    }
    return {
        "applied": applied,
        "commit": commit or None,
        "changes": [change] if note.diff else [],
        "edits": [
            {
                "kind": edit.kind,
                "of": _places_json(edit.evidence),
                "removed": _places_json(edit.removed),
                "added": list(edit.added),
                "under": edit.under,
                "reason": edit.reason,
            }
            for edit in note.edits
        ],
        "duplicates": [_places_json(group) for group in proposal.repeats],
        "contradictions": [
            {"key": each.key, "lines": _places_json(each.places)} for each in proposal.contradictions
        ],
        "chars": {"before": len(note.before or ""), "after": len(note.after), "max": proposal.max_chars},
        "notices": list(proposal.notices),
    }


def _places_json(places: Sequence[Place]) -> list[dict[str, Any]]:
    return [{"path": place.path, "line": place.number, "text": place.text} for place in places]
