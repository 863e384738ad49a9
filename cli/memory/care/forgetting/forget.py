"""`nacre memory forget`: shows what would go, takes it away if asked to, and searches for what is left."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from dataclasses import field, replace
from typing import TYPE_CHECKING

import click

from nacre.cli.invocation import Invocation, begin, json_option, shared_options
from nacre.cli.screen.json_text import print_json
from nacre.records.record import Record

if TYPE_CHECKING:
    from nacre.cli.memory.care.forgetting.wanted import Cut, Wanted
    from nacre.memory.contracts.workspace import Workspace
    from nacre.runtime.contracts.clock import Clock
    from nacre.runtime.recall.memory_plugin import MemoryPlugin
    from nacre.runtime.settings.config import Config
    from nacre.sessions.stores.rewriting import RewritableStore

_PLACE = re.compile(r"(?P<path>[^#]+?\.md)(?:#L(?P<first>\d+)(?:-L?(?P<last>\d+))?)?", re.IGNORECASE)


class _Plan(Record):
    """What would go."""

    wanted: Wanted
    cuts: list[Cut]
    transcripts: tuple[str, ...]
    versions: int
    memories: Mapping[str, str] = field(default_factory=dict)
    """What the memory engine keeps beside the notes, by id."""
    ledger: Mapping[str, int] = field(default_factory=dict)
    """How many rows of which table of the channels' ledger."""
    only: tuple[str, ...] = ()
    """The note that was named, if one was: nothing goes from the history of others."""

    @property
    def lines(self) -> list[str]:
        of_notes = [line for cut in self.cuts for line in cut.lines]
        return [*of_notes, *self.memories.values()]


@click.command("forget")
@click.argument("what")
@click.option("--transcripts", is_flag=True, help="Also take it out of what was said in conversations.")
@click.option("--git-history", "history", is_flag=True, help="Also take it out of all commits of the notes.")
@click.option("--yes", is_flag=True, help="Do it without asking.")
@json_option("Print JSON; ask nothing.")
@shared_options
def forget(
    context: click.Context, what: str, transcripts: bool, history: bool, yes: bool, as_json: bool
) -> int:
    """Take lines out of the notes and out of everything that was made of them.

    WHAT is words, which name each line that has all of them, or a note or some of its lines, such as
    memory/2026-01-20.md#L3-5. Shows what would go as a diff. On a terminal it asks; elsewhere it changes
    nothing without --yes. Afterwards it searches for what is left, and says where.
    """
    from nacre.cli.signals import run_until_signal
    from nacre.memory.contracts.errors import MemoryIndexError
    from nacre.memory.contracts.workspace import FileBusy, PathOutsideRoot
    from nacre.memory.workspace.git import GitFailed
    from nacre.runtime.storage.backend import StorageFailed
    from nacre.sessions.contracts.errors import SessionError

    invocation = begin(context)
    invocation.warn(*invocation.config.notices)
    asked = _Asked(what=what, transcripts=transcripts, history=history, yes=yes, as_json=as_json)
    try:
        return run_until_signal(_forgotten(invocation, asked))
    except (MemoryIndexError, FileBusy, PathOutsideRoot, SessionError, StorageFailed) as error:
        invocation.warn(f"{error} What went is gone; run it again for the rest.", tone="error")
    except GitFailed as error:
        invocation.warn(f"The history could not be changed: {error}.", tone="error")
    return 1


class _Asked(Record):
    what: str
    transcripts: bool
    history: bool
    yes: bool
    as_json: bool


async def _forgotten(invocation: Invocation, asked: _Asked) -> int:
    from nacre.runtime.contracts.clock import owner_clock
    from nacre.runtime.contracts.ids import random_id
    from nacre.runtime.storage.opening import storage_of

    now = owner_clock(invocation.config.settings.agent.user_timezone)
    store = storage_of(invocation.config).sessions(now=now, new_id=random_id)
    try:
        from nacre.cli.memory.care.forgetting.long_term import opened_engine

        async with opened_engine(invocation.config, now) as engine:
            return await _forgotten_in(store, engine, invocation, asked, now)
    finally:
        await store.close()


async def _forgotten_in(
    store: RewritableStore, engine: MemoryPlugin | None, invocation: Invocation, asked: _Asked, now: Clock
) -> int:
    from nacre.cli.memory.care.forgetting.left import OUT_OF_REACH, still_there
    from nacre.runtime.storage.opening import storage_of

    config = invocation.config
    workspace = storage_of(config).workspace()
    plan = await _planned(config, workspace, store, asked)
    if engine is not None:
        plan = replace(plan, memories=await _memories_with(engine, plan.wanted))
    applies = bool(plan.cuts or plan.transcripts or plan.versions or plan.memories or plan.ledger)
    if not asked.as_json:
        invocation.say(*(line for cut in plan.cuts for line in cut.diff))
        for path in plan.transcripts:
            invocation.say(f"In {path}: words that say it become [forgotten].")
        invocation.say(*(f"In the long-term memory: {text}" for text in plan.memories.values()))
        if plan.ledger:
            invocation.say(f"In the ledger of the channels: {_told(plan.ledger)}.")
        if plan.versions:
            invocation.say(f"In the git history: {plan.versions} older versions of notes.")
    if not applies:
        told = [] if asked.as_json else await still_there(config, store, plan.wanted, ())
        if asked.as_json:
            return print_json(_json(plan, applied=False, left=()))
        invocation.warn("Nothing says that in the notes.", *told)
        return 1
    if not (asked.yes or (not asked.as_json and _approved())):
        if asked.as_json:
            return print_json(_json(plan, applied=False, left=()))
        invocation.warn("Nothing was changed. --yes takes this away.")
        return 0
    problems = await _taken_away(config, workspace, store, plan, asked, now)
    if engine is not None and plan.memories:
        await engine.forget_texts(plan.memories)
        left_over = await _memories_with(engine, plan.wanted)
        problems += [f"The long-term memory has it: {text}" for text in left_over.values()]
    left = [*problems, *await still_there(config, store, plan.wanted, plan.lines)]
    if any("ledger" in each for each in left) and await _is_served(config):
        left.append(
            "A program serves the channels. Stop `nacre serve` and run it again for what waits there."
        )
    if asked.as_json:
        return print_json(_json(plan, applied=True, left=left))
    invocation.say(
        f"Gone: {sum(len(cut.lines) for cut in plan.cuts)} lines of {len(plan.cuts)} notes, "
        "and what the index had of them.",
        *([f"Gone: {len(plan.memories)} of the long-term memory."] if plan.memories else []),
    )
    invocation.warn(*left)
    invocation.say(*([] if left else ["Searched: nothing of it is left here."]), OUT_OF_REACH)
    if (elsewhere := storage_of(config).other_rows) is not None:
        invocation.say(elsewhere.out_of_reach)
    return 0


async def _memories_with(engine: MemoryPlugin, wanted: Wanted) -> Mapping[str, str]:
    kept = await engine.kept_texts()
    return {text_id: text for text_id, text in kept.items() if wanted.says_any(text)}


async def _planned(config: Config, workspace: Workspace, store: RewritableStore, asked: _Asked) -> _Plan:
    from nacre.cli.memory.care.forgetting.left import in_history
    from nacre.cli.memory.care.forgetting.transcripts import transcripts_with
    from nacre.cli.memory.care.forgetting.wanted import cut_of, named_by, said_in
    from nacre.memory.contracts.notes import WantedNotes

    listed = await workspace.list_notes([WantedNotes(name=".", is_required=True)])
    names = [note.name for note in listed.notes]
    place = _PLACE.fullmatch(asked.what.strip())
    if place is not None and place["path"] not in names:
        raise click.ClickException(f"There is no note {place['path']}.")
    read = await workspace.read_notes([place["path"]] if place else names)
    texts = {name: note.data for name, note in read.items() if not isinstance(note, Exception)}
    if place is None:
        wanted = named_by(asked.what)
        if not wanted.words:
            raise click.UsageError("Say in words what to forget, or name a note.")
        cuts = [cut_of(name, data, lambda _number, line: wanted.says(line)) for name, data in texts.items()]
    else:
        first = int(place["first"] or 1)
        last = int(place["last"] or place["first"] or sys.maxsize)
        cuts = [
            cut_of(name, data, lambda number, _line: first <= number <= last) for name, data in texts.items()
        ]
        wanted = said_in(line for cut in cuts if cut is not None for line in cut.lines)
    return _Plan(
        ledger=await _in_ledger(config, wanted, dry_run=True),
        wanted=wanted,
        cuts=[cut for cut in cuts if cut is not None],
        transcripts=await transcripts_with(store, wanted) if asked.transcripts else (),
        versions=in_history(config, wanted) if asked.history and config.is_in_files else 0,
        only=(place["path"],) if place else (),
    )


async def _taken_away(
    config: Config,
    workspace: Workspace,
    store: RewritableStore,
    plan: _Plan,
    asked: _Asked,
    now: Clock,
) -> list[str]:
    from nacre.cli.memory.care.forgetting.indexing import index_anew
    from nacre.cli.memory.care.forgetting.transcripts import forget_in_transcripts, says_in
    from nacre.runtime.storage.opening import storage_of

    problems: list[str] = []
    for cut in plan.cuts:
        try:
            await workspace.change(cut.path, lambda old, cut=cut: _as_shown(old, cut))  # type: ignore[misc]  # bound now
        except _Changed:
            problems.append(f"{cut.path} changed since it was shown, and was left alone. Run it again.")
    await _forget_sources(workspace, plan)
    if plan.transcripts:
        problems += await forget_in_transcripts(store, plan.wanted)
    if asked.transcripts and (elsewhere := storage_of(config).other_rows) is not None:
        await elsewhere.forget_ended_turns(lambda text: says_in(text, plan.wanted))
    if plan.ledger:
        await _in_ledger(config, plan.wanted, dry_run=False)
    problems += await index_anew(config, now)
    if asked.history and config.is_in_files:
        import asyncio

        from nacre.cli.memory.care.forgetting.history import forget_in_commits

        await asyncio.to_thread(forget_in_commits, config, workspace, plan.wanted, plan.only)
    return problems


class _Changed(Exception):
    """A note is not what was shown."""


def _as_shown(old: bytes | None, cut: Cut) -> bytes:
    if old != cut.before:
        raise _Changed
    return cut.after


async def _forget_sources(workspace: Workspace, plan: _Plan) -> None:
    """Takes the digests of these lines out of what is kept of their sources."""
    from nacre.memory.files.sources.sources import SOURCES_FOLDER
    from nacre.memory.files.sources.stored import line_key, without_keys

    keys = frozenset(filter(None, map(line_key, plan.lines)))
    try:
        listed = await workspace.list_folder(SOURCES_FOLDER)
    except FileNotFoundError:
        return
    for entry in listed:
        if entry.name.endswith(".jsonl"):
            await workspace.change(
                f"{SOURCES_FOLDER}/{entry.name}", lambda old: without_keys(old or b"", keys)
            )


async def _in_ledger(config: Config, wanted: Wanted, *, dry_run: bool) -> dict[str, int]:
    """How many rows of the channels' ledger and of waiting turns say it, which go with `dry_run=False`.

    Nothing while a program serves it: what stays there is named by the search.
    """
    from nacre.cli.memory.care.forgetting.searching import says_in
    from nacre.runtime.contracts.clock import owner_clock
    from nacre.runtime.ledger.moving import forget_in_ledger
    from nacre.runtime.ledger.records import LedgerUnusable
    from nacre.runtime.storage.opening import ledger_of, storage_of

    def says(text: str) -> bool:
        return says_in(text, wanted)

    now = owner_clock(config.settings.agent.user_timezone)
    place, found = ledger_of(config), dict[str, int]()
    try:
        if await place.is_there():
            async with place.movable(now=now) as ledger:
                found = await forget_in_ledger(ledger, says, dry_run=dry_run)
    except LedgerUnusable:
        return {}
    if (elsewhere := storage_of(config).other_rows) is not None and (
        count := await elsewhere.forget_waiting_turns(says, dry_run=dry_run)
    ):
        found["turns"] = count
    return found


async def _is_served(config: Config) -> bool:
    from nacre.runtime.storage.opening import ledger_of

    return await ledger_of(config).is_served()


def _told(ledger: Mapping[str, int]) -> str:
    names = {"inbound": "messages", "outbound": "answers", "jobs": "jobs", "turns": "waiting turns"}
    return ", ".join(f"{count} {names[table]}" for table, count in ledger.items())


def _approved() -> bool:
    """Whether somebody at a terminal says yes."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return False
    return click.confirm("Take this away?", default=False)


def _json(plan: _Plan, *, applied: bool, left: object) -> dict[str, object]:
    return {
        "applied": applied,
        "notes": [
            {"path": cut.path, "lines": list(cut.lines), "diff": "\n".join(cut.diff)} for cut in plan.cuts
        ],
        "transcripts": list(plan.transcripts),
        "memories": list(plan.memories.values()),
        "historyVersions": plan.versions,
        "ledger": dict(plan.ledger),
        "left": left,
    }
