"""`nacre memory tidy`: shows what would come into MEMORY.md and what goes, and writes what was approved."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from nacre.cli.invocation import Invocation, begin, day_option, json_option, shared_options
from nacre.cli.screen.json_text import print_json
from nacre.records.record import Record

if TYPE_CHECKING:
    from nacre.memory.contracts.workspace import Workspace
    from nacre.memory.files.tidy.edits import Edit, Tidied
    from nacre.memory.files.tidy.reading import Notes
    from nacre.runtime.contracts.clock import Clock

_ANSWERS = {"y": "all", "o": "one by one", "e": "edit", "n": "nothing"}


class _Asked(Record):
    after: str | None
    before: str | None
    dry_run: bool
    yes: bool
    as_json: bool


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
    """Propose what of the daily logs belongs into MEMORY.md, and which of its lines are superseded.

    Shows the proposal as a unified diff, with the lines that it rests on and how full MEMORY.md is. On a
    terminal it asks: all of it, edit by edit, in $EDITOR, or nothing. Elsewhere it writes nothing without
    --yes. The logs stay as they are. `nacre memory undo` takes it back.

    Without a model it lists lines that stand in several notes and keys that have several values, and takes
    out what MEMORY.md says twice.
    """
    from nacre.cli.signals import run_until_signal
    from nacre.memory.files.tidy.reading import TidyFailed

    if dry_run and yes:
        raise click.UsageError("--dry-run writes nothing, and --yes writes. Give one of them.", context)
    invocation = begin(context)
    invocation.warn(*invocation.config.notices)
    asked = _Asked(after=after, before=before, dry_run=dry_run, yes=yes, as_json=as_json)
    try:
        return run_until_signal(_tidied(invocation, asked))
    except TidyFailed as error:
        invocation.warn(str(error), tone="error")
        return 1


async def _tidied(invocation: Invocation, asked: _Asked) -> int:
    from nacre.cli.memory.care.tidy_text import Shown, shown_json, shown_lines
    from nacre.memory.files.tidy.edits import tidied
    from nacre.memory.files.tidy.reading import read_notes
    from nacre.memory.files.tidy.rules import contradictions, repeats
    from nacre.memory.files.tidy.writing import gated
    from nacre.memory.text.days.day_limits import day_limits
    from nacre.runtime.contracts.clock import owner_clock
    from nacre.runtime.storage.opening import storage_of

    config = invocation.config
    now = owner_clock(config.settings.agent.user_timezone)
    workspace = storage_of(config).workspace()
    days = day_limits(after=asked.after, before=asked.before, today=now().date())
    notes = await read_notes(workspace, after=days.after, before=days.before)
    edits, notices = await _proposed(invocation, notes, now)
    change = gated(tidied(notes.path, notes.curated, edits))
    found = Shown(
        change=change,
        most_chars=config.settings.agent.bootstrap_max_chars,
        repeats=tuple(repeats(notes.places)),
        contradictions=tuple(contradictions(notes.places, notes.texts)),
        notices=notices,
        has_model=bool(config.model_name),
    )
    commit = ""
    if not asked.as_json:
        invocation.warn(*notices)
        invocation.say(*shown_lines(found))
    if not change.diff:
        return print_json(shown_json(found, applied=False, commit="")) if asked.as_json else 0
    chosen = change if asked.yes else None
    if not (asked.yes or asked.dry_run or asked.as_json):
        chosen = _chosen(invocation, change)
    if chosen is not None and chosen.diff:
        commit = await _written(invocation, workspace, chosen, now, tells=not asked.as_json)
    elif not asked.as_json:
        invocation.warn(
            "Nothing was changed." if asked.dry_run else "Nothing was changed. --yes writes this."
        )
    if asked.as_json:
        return print_json(shown_json(found, applied=chosen is not None, commit=commit))
    return 0


async def _proposed(
    invocation: Invocation, notes: Notes, now: Clock
) -> tuple[tuple[Edit, ...], tuple[str, ...]]:
    """The edits that a model, or the rules alone, propose, and what the owner should know of them."""
    from nacre.memory.files.tidy.rules import without_repeats
    from nacre.runtime.agent.insight.model_facts import token_counter
    from nacre.runtime.agent.opening.open_models import connected_model, model_budget
    from nacre.runtime.recall.facts.tidying import TidyLimits, ask_for_edits

    notices = []
    if notes.of_others:
        lines = "1 line is" if notes.of_others == 1 else f"{notes.of_others} lines are"
        notices.append(f"{lines} left out: not the owner's word, as `nacre memory why` tells.")
    config, text = invocation.config, notes.curated or ""
    if not config.model_name:
        edits = without_repeats(notes.path, text, notes.curated_places(text))
        return tuple(edits), (*notices, "No model is connected: rules alone looked at the notes.")
    model = connected_model(config, config.model_name, now)
    try:
        limits = TidyLimits(
            window_tokens=model_budget(config.settings.agent, model.context_window_tokens).window_tokens,
            most_chars=config.settings.agent.bootstrap_max_chars,
            count_tokens=token_counter(config.model_name),
        )
        answer = await ask_for_edits(model, notes, limits, now)
    finally:
        await model.aclose()
    if day := answer.not_read_until:
        notices.append(f"Lines of logs until {day} were too much for one go. --before {day} reads them.")
    return answer.edits, tuple(notices)


def _chosen(invocation: Invocation, change: Tidied) -> Tidied | None:
    """What somebody at a terminal wants of the proposal; `None` for nothing, and where nobody is."""
    from dataclasses import replace

    from nacre.memory.files.tidy.edits import tidied
    from nacre.memory.files.tidy.writing import gated

    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return None
    answer = click.prompt(
        f"Write this into {change.path}? [y]es, [o]ne by one, [e]dit, [n]o",
        type=click.Choice(list(_ANSWERS), case_sensitive=False),
        default="n",
        show_choices=False,
    )
    if answer == "y":
        return change
    if answer == "o":
        wanted = [edit for edit in change.done if _is_wanted(invocation, change, edit)]
        return gated(tidied(change.path, change.before, wanted))
    if answer == "e" and (text := click.edit(change.after, extension=".md")) is not None:
        return replace(change, after=text)
    return None


def _is_wanted(invocation: Invocation, change: Tidied, edit: Edit) -> bool:
    from nacre.memory.files.tidy.edits import tidied

    alone = tidied(change.path, change.before, [edit])
    invocation.say("", edit.told(), *(alone.diff or change.diff).splitlines()[2:])
    return click.confirm("Write this?", default=False)


async def _written(
    invocation: Invocation, workspace: Workspace, change: Tidied, now: Clock, *, tells: bool
) -> str:
    from functools import partial

    from nacre.memory.files.tidy.reading import TidyFailed
    from nacre.memory.files.tidy.writing import write
    from nacre.memory.workspace.history.commits import TIDIED, HistoryBusy, as_one_commit

    config = invocation.config
    try:
        commit, why = await as_one_commit(
            workspace,
            partial(write, workspace, change, at=now().isoformat(timespec="seconds")),
            path=change.path,
            commits=config.settings.memory.history.commits != "off",
            state_dir=config.state_dir,
            subject=f"Tidied {change.path}",
            trailers=((TIDIED, change.path),),
        )
    except HistoryBusy as error:
        raise TidyFailed(f"Nothing was changed: {error}.") from error
    if tells and commit:
        invocation.say(
            f"Wrote {change.path}; commit {commit[:12]} holds that, `nacre memory undo` takes it back."
        )
    elif tells:
        invocation.say(f"Wrote {change.path}.")
    if why:
        invocation.warn(f"It cannot be undone by `nacre memory undo`: {why}.")
    return commit
