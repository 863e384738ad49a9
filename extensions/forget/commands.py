"""`nacre memory forget`: shows what would be removed, removes it, and searches for what remains."""

from __future__ import annotations

import re
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import field
from typing import TYPE_CHECKING

import click

from nacre.cli.invocation import Invocation, begin, json_option, shared_options
from nacre.cli.screen.json_text import print_json
from nacre.record import Record

if TYPE_CHECKING:
    from nacre.memory.contracts.workspace import Workspace
    from nacre.memory.files.proposals import NoteCut, Target
    from nacre.runtime.recall.memory_plugin import MemoryPlugin
    from nacre.runtime.settings.config import Config
    from nacre.sessions.stores.rewriting import RewritableStore

_PLACE = re.compile(r"(?P<path>[^#]+?\.md)(?:#L(?P<first>\d+)(?:-L?(?P<last>\d+))?)?", re.IGNORECASE)
_LEDGER_ROWS = {"inbound": "messages", "outbound": "answers", "jobs": "jobs", "turns": "waiting turns"}


class _Plan(Record):
    target: Target
    cuts: list[NoteCut]
    transcripts: tuple[str, ...]
    versions: int
    memories: Mapping[str, str] = field(default_factory=dict)
    """Texts that the memory engine of an extension keeps, by id."""
    ledger: Mapping[str, int] = field(default_factory=dict)
    """The number of rows by table of the channels' ledger."""
    only: tuple[str, ...] = ()
    """The note that was named, if any; then only its history is changed."""

    @property
    def lines(self) -> list[str]:
        return [*(line for cut in self.cuts for line in cut.lines), *self.memories.values()]

    @property
    def is_empty(self) -> bool:
        return not (self.cuts or self.transcripts or self.versions or self.memories or self.ledger)

    def summary(self) -> list[str]:
        lines = [line for cut in self.cuts for line in cut.diff.splitlines()]
        lines += [f"In {path}: lines with these words become [forgotten]." for path in self.transcripts]
        lines += [f"In the long-term memory: {text}" for text in self.memories.values()]
        if self.ledger:
            rows = ", ".join(f"{count} {_LEDGER_ROWS[table]}" for table, count in self.ledger.items())
            lines.append(f"In the ledger of the channels: {rows}.")
        if self.versions:
            lines.append(f"Older versions of notes in the git history: {self.versions}.")
        return lines

    def as_json(self, *, applied: bool, left: list[str]) -> dict[str, object]:
        return {
            "applied": applied,
            "notes": [{"path": cut.path, "lines": list(cut.lines), "diff": cut.diff} for cut in self.cuts],
            "transcripts": list(self.transcripts),
            "memories": list(self.memories.values()),
            "historyVersions": self.versions,
            "ledger": dict(self.ledger),
            "left": left,
        }


class _Options(Record):
    what: str
    transcripts: bool
    history: bool
    yes: bool
    as_json: bool


@click.command("forget")
@click.argument("what")
@click.option("--transcripts", is_flag=True, help="Also remove it from the transcripts of conversations.")
@click.option("--git-history", "history", is_flag=True, help="Also remove it from all commits of the notes.")
@click.option("--yes", is_flag=True, help="Remove it without asking.")
@json_option("Print JSON; ask nothing.")
@shared_options
def forget(
    context: click.Context, what: str, transcripts: bool, history: bool, yes: bool, as_json: bool
) -> int:
    """Remove lines from the notes and from everything that was made of them.

    WHAT is either words, which select each line that has all of them, or a note or some of its lines, such
    as memory/2026-01-20.md#L3-5. Shows what would be removed as a diff. On a terminal it asks; elsewhere it
    changes nothing without --yes. Afterwards it searches for what remains, and says where.
    """
    from nacre.cli.signals import run_until_signal
    from nacre.memory.contracts.errors import MemoryIndexError
    from nacre.memory.contracts.workspace import FileBusy, PathOutsideRoot
    from nacre.memory.workspace.git import GitFailed
    from nacre.runtime.storage.backend import StorageFailed
    from nacre.sessions.contracts.errors import SessionError

    invocation = begin(context)
    invocation.warn(*invocation.config.notices)
    options = _Options(what=what, transcripts=transcripts, history=history, yes=yes, as_json=as_json)
    try:
        return run_until_signal(_forget(invocation, options))
    except (MemoryIndexError, FileBusy, PathOutsideRoot, SessionError, StorageFailed) as error:
        invocation.warn(f"{error} Run the command again to remove the rest.", tone="error")
    except GitFailed as error:
        invocation.warn(f"The history could not be changed: {error}.", tone="error")
    return 1


async def _forget(invocation: Invocation, options: _Options) -> int:
    from nacre.closing import using
    from nacre.extensions.forget.search import remaining_places
    from nacre.runtime.storage.storage import open_sessions, storage_of

    config = invocation.config
    workspace = storage_of(config).workspace()
    async with using(open_sessions(config, config.clock)) as store, _extension_engine(config) as engine:
        plan = await _planned(config, workspace, store, engine, options)
        if not options.as_json:
            invocation.say(*plan.summary())
        if plan.is_empty:
            elsewhere = await remaining_places(config, store, plan.target, ())
            if options.as_json:
                print_json(plan.as_json(applied=False, left=elsewhere))
            else:
                invocation.warn("No line of the notes has that.", *elsewhere)
            return 1
        asks = sys.stdin.isatty() and sys.stdout.isatty() and not options.as_json
        if not (options.yes or (asks and click.confirm("Remove this?", default=False))):
            if options.as_json:
                return print_json(plan.as_json(applied=False, left=[]))
            invocation.warn("Nothing was changed. --yes removes this.")
            return 0
        left = await _remove(config, workspace, store, engine, plan, options)
    if options.as_json:
        return print_json(plan.as_json(applied=True, left=left))
    _report(invocation, plan, left)
    return 0


def _report(invocation: Invocation, plan: _Plan, left: list[str]) -> None:
    from nacre.extensions.forget.search import OUT_OF_REACH
    from nacre.runtime.commands.wording import counted
    from nacre.runtime.storage.storage import storage_of

    lines = counted(sum(len(cut.lines) for cut in plan.cuts), "line")
    invocation.say(f"Removed {lines} from {counted(len(plan.cuts), 'note')}, and from the index.")
    if plan.memories:
        invocation.say(f"Removed {counted(len(plan.memories), 'text')} from the long-term memory.")
    invocation.warn(*left)
    if not left:
        invocation.say("Searched everything within reach: nothing remains.")
    elsewhere = storage_of(invocation.config).other_rows
    invocation.say(OUT_OF_REACH, *([elsewhere.out_of_reach] if elsewhere is not None else []))


async def _planned(
    config: Config,
    workspace: Workspace,
    store: RewritableStore,
    engine: MemoryPlugin | None,
    options: _Options,
) -> _Plan:
    from nacre.extensions.forget.search import matching_versions
    from nacre.extensions.forget.targets import transcripts_with
    from nacre.memory.contracts.notes import WantedNotes
    from nacre.memory.files.proposals import cut_note, target_of_lines, target_of_query

    listed = await workspace.list_notes([WantedNotes(name=".", is_required=True)])
    names = [note.name for note in listed.notes]
    place = _PLACE.fullmatch(options.what.strip())
    if place is not None and place["path"] not in names:
        raise click.ClickException(f"There is no note {place['path']}.")
    read = await workspace.read_notes([place["path"]] if place else names)
    texts = {name: note.data for name, note in read.items() if not isinstance(note, Exception)}
    if place is None:
        target = target_of_query(options.what)
        if not target.words:
            raise click.UsageError("Name words to forget, or a note.")
        found = [cut_note(name, data, lambda _, line: target.matches(line)) for name, data in texts.items()]
    else:
        first = int(place["first"] or 1)
        last = int(place["last"] or place["first"] or sys.maxsize)
        found = [
            cut_note(name, data, lambda number, _: first <= number <= last) for name, data in texts.items()
        ]
        target = target_of_lines(line for cut in found if cut is not None for line in cut.lines)
    return _Plan(
        target=target,
        cuts=[cut for cut in found if cut is not None],
        transcripts=await transcripts_with(store, target) if options.transcripts else (),
        versions=matching_versions(config, target) if options.history and config.is_in_files else 0,
        memories=await _memories_with(engine, target),
        ledger=await _in_ledger(config, target, dry_run=True),
        only=(place["path"],) if place else (),
    )


async def _remove(
    config: Config,
    workspace: Workspace,
    store: RewritableStore,
    engine: MemoryPlugin | None,
    plan: _Plan,
    options: _Options,
) -> list[str]:
    """Removes what is planned; sentences about what remains."""
    from nacre.extensions.forget.search import remaining_places
    from nacre.extensions.forget.targets import forget_in_transcripts, json_matches
    from nacre.memory.files.proposals import ProposalFailed
    from nacre.memory.files.sources.rejections import reject
    from nacre.runtime.storage.storage import ledger_of, storage_of

    left: list[str] = []
    for cut in plan.cuts:
        try:
            await workspace.change(cut.path, cut.replacing)
        except ProposalFailed as error:
            left.append(str(error))
    await _forget_sources(workspace, plan)
    for cut in plan.cuts:
        await reject(workspace, cut.path, cut.before or "", cut.lines)
    for text in plan.memories.values():
        await reject(workspace, "", text, text.splitlines())
    if plan.transcripts:
        left += await forget_in_transcripts(store, plan.target)
    if options.transcripts and (elsewhere := storage_of(config).other_rows) is not None:
        await elsewhere.forget_ended_turns(lambda text: json_matches(text, plan.target))
    if plan.ledger:
        await _in_ledger(config, plan.target, dry_run=False)
    left += await _rebuild_index(config)
    if options.history and config.is_in_files:
        from asyncio import to_thread

        await to_thread(_forget_in_commits, config, workspace, plan)
    if engine is not None and plan.memories:
        await engine.forget_texts(plan.memories)
        kept = await _memories_with(engine, plan.target)
        left += [f"The long-term memory has it: {text}" for text in kept.values()]
    left += await remaining_places(config, store, plan.target, plan.lines)
    if any("ledger" in each for each in left) and await ledger_of(config).is_served():
        left.append(
            "A program serves the channels. Stop `nacre serve` and run the command again to clear its ledger."
        )
    return left


async def _memories_with(engine: MemoryPlugin | None, target: Target) -> Mapping[str, str]:
    kept = await engine.kept_texts() if engine is not None else {}
    return {text_id: text for text_id, text in kept.items() if target.matches_any(text)}


async def _forget_sources(workspace: Workspace, plan: _Plan) -> None:
    from nacre.memory.files.sources.sources import SOURCES_FOLDER, line_key, without_keys

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


def _forget_in_commits(config: Config, workspace: Workspace, plan: _Plan) -> None:
    from nacre.memory.files.proposals import cut_note, note_bytes
    from nacre.memory.files.sources.sources import Sources
    from nacre.memory.workspace.history.commits import commit_changes, known_sources
    from nacre.memory.workspace.history.forgetting import forget_in_history
    from nacre.memory.workspace.history.repository import Repository

    repository = Repository(config.workspace, state_dir=config.state_dir)
    if not repository.is_there:
        return

    def without_target(data: bytes) -> bytes:
        cut = cut_note("", data, lambda _, line: plan.target.matches(line))
        return data if cut is None else note_bytes(cut.after)

    with repository.opened():
        commit_changes(repository, known_sources(Sources(workspace)))
        forget_in_history(repository, without_target, only=plan.only)


async def _in_ledger(config: Config, target: Target, *, dry_run: bool) -> dict[str, int]:
    """The number of matching rows in the channels' ledger and the waiting turns; removes them unless
    `dry_run`.

    The result is empty while a program serves the channels; the search for remaining places reports it then.
    """
    from nacre.extensions.forget.search import text_matches
    from nacre.runtime.ledger.moving import forget_in_ledger
    from nacre.runtime.ledger.records import LedgerUnusable
    from nacre.runtime.storage.storage import ledger_of, storage_of

    def matches(text: str) -> bool:
        return text_matches(text, target)

    place, found = ledger_of(config), dict[str, int]()
    try:
        if await place.is_there():
            async with place.movable() as ledger:
                found = await forget_in_ledger(ledger, matches, dry_run=dry_run)
    except LedgerUnusable:
        return {}
    if (elsewhere := storage_of(config).other_rows) is not None and (
        count := await elsewhere.forget_waiting_turns(matches, dry_run=dry_run)
    ):
        found["turns"] = count
    return found


async def _rebuild_index(config: Config) -> list[str]:
    """Builds the index again without cached vectors, so that no removed word stays in its pages.

    Returns sentences about what failed. Raises `MemoryIndexError`.
    """
    from nacre.closing import using
    from nacre.runtime.extensions.host import OpeningAgent
    from nacre.runtime.extensions.loading import load_facts
    from nacre.runtime.recall.open_memory import open_memory, with_search

    cache = config.settings.agent.memory_search.cache
    strict = with_search(config, cache=cache.model_copy(update={"enabled": False}))
    engine = await open_memory(strict, config.clock)
    if engine is None:
        return []
    async with using(engine):
        report = await engine.sync(reason="cli", force=True)
    if config.folders.facts_index_file.exists():
        async with AsyncExitStack() as closing:
            opening = OpeningAgent(
                config=strict, now=config.clock, embedder=None, on_note=lambda _name: None, closing=closing
            )
            await load_facts(opening).sync()
    return [report.problem] if report.problem else []


@asynccontextmanager
async def _extension_engine(config: Config) -> AsyncIterator[MemoryPlugin | None]:
    """The started memory engine of an extension; `None` if the settings choose none."""
    from nacre.runtime.settings.sections.plugins import MEMORY_CORE, NO_MEMORY

    name = config.settings.plugins.slots.memory
    if name in (MEMORY_CORE, NO_MEMORY):
        yield None
        return
    from nacre.closing import using
    from nacre.runtime.extensions.loading import load_engine
    from nacre.runtime.recall.open_memory import own_memory_home

    async with (
        own_memory_home(config, name, config.clock) as home,
        using(load_engine(name, config.settings.plugins)) as engine,
    ):
        await engine.start(home)
        yield engine
