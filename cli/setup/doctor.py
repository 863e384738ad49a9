"""The command `nacre doctor`: the checks of an installation, and the safe repairs."""

from __future__ import annotations

import asyncio
import os
import platform
import shutil
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, TypeAlias

import click

from nacre import __version__
from nacre.cli.invocation import begin, json_option, shared_options
from nacre.cli.screen.json_text import print_json
from nacre.closing import using
from nacre.installation import install_command
from nacre.memory.contracts.errors import MemoryIndexError
from nacre.memory.contracts.notes import is_torn, is_unicode
from nacre.memory.files.sources.secrets import without_secrets
from nacre.record import Record
from nacre.runtime.commands.wording import counted

if TYPE_CHECKING:
    from nacre.cli.invocation import Invocation
    from nacre.runtime.contracts.clock import Clock
    from nacre.runtime.providers.provider import ModelFacts
    from nacre.runtime.settings.config import Config

State: TypeAlias = Literal["well", "note", "problem", "fixed"]
Repair: TypeAlias = Callable[[], Awaitable[str]]
"""Repairs a problem and says what it did. Raises `OSError` or `MemoryIndexError` if it could not."""

_MARKS: dict[State, str] = {"well": "✓", "note": "·", "problem": "✗", "fixed": "✓"}


class Finding(Record):
    """The result of one check. `advice` says what to do; there is a `repair` only if it is safe."""

    area: str
    state: State
    text: str
    advice: str = ""
    repair: Repair | None = None

    @classmethod
    def well(cls, area: str, text: str) -> Self:
        return cls(area=area, state="well", text=text)

    @classmethod
    def note(cls, area: str, text: str, advice: str) -> Self:
        return cls(area=area, state="note", text=text, advice=advice)

    @classmethod
    def problem(cls, area: str, text: str, advice: str, *, repair: Repair | None = None) -> Self:
        return cls(area=area, state="problem", text=text, advice=advice, repair=repair)

    def lines(self) -> list[str]:
        """The area and the text, and the advice below."""
        lines = [f"{_MARKS[self.state]} {self.area:<12} {self.text}"]
        if self.advice and self.state in ("note", "problem"):
            lines.append(f"  {'':<12} → {self.advice}")
        return lines

    def json(self) -> dict[str, Any]:
        facts = {"area": self.area, "state": self.state, "text": self.text}
        return {**facts, "advice": self.advice or None, "canFix": self.repair is not None}


_LEAST_BYTES = 100 << 20
_SCARCE_BYTES = 1 << 30
_SHOWN = 3
_SHOWN_LINES = 5
_WATCHES = Path("/proc/sys/fs/inotify/max_user_watches")
_LIBRARIES = ("litellm", "onnxruntime")
_MOST_OF_WINDOW = 0.25
"""Above this share of the window, the size of the workspace files is noted."""


async def disk_findings(invocation: Invocation, now: Clock) -> list[Finding]:
    """Check the state folder and the workspace."""
    found = [_space(invocation), _locks(invocation), _workspace(invocation)]
    return [*found, await _permissions(invocation), await _leftovers(invocation, now)]


async def history_findings(invocation: Invocation, now: Clock) -> list[Finding]:
    """Check the history of the notes, and the recorded cost."""
    return [await _history(invocation), *await _usage(invocation, now)]


def shown_paths(invocation: Invocation, paths: Sequence[Path]) -> str:
    """The first of these paths, shortened."""
    more = f" and {len(paths) - _SHOWN} more" if len(paths) > _SHOWN else ""
    return ", ".join(invocation.short(path) for path in paths[:_SHOWN]) + more


def _space(invocation: Invocation) -> Finding:
    state_dir = invocation.config.state_dir
    free = shutil.disk_usage(state_dir).free
    text = f"{free / (1 << 30):.1f} GiB are free on the disk of {invocation.short(state_dir)}"
    if free >= _SCARCE_BYTES:
        return Finding.well("disk", text)
    is_full = free < _LEAST_BYTES
    return Finding(
        area="disk",
        state="problem" if is_full else "note",
        text=text,
        advice="Free some space, because a turn that cannot be stored is refused. "
        "`nacre sessions cleanup --dry-run` shows what can be removed.",
    )


async def _permissions(invocation: Invocation) -> Finding:
    from nacre.runtime.settings.disk.agent_folders import keep_private, open_to_others

    config = invocation.config

    async def close() -> str:
        await asyncio.to_thread(keep_private, config.state_dir, config.folders)
        left = await asyncio.to_thread(lambda: list(open_to_others(config.state_dir, config.folders)))
        if left:
            raise OSError(f"{shown_paths(invocation, left)} cannot be made private here")
        return "other users have no access now"

    kept = (config.state_dir, *config.state_dir.glob("*/"), *config.state_dir.glob("locks/**/*"))
    if shut := [each for each in kept if not os.access(each, os.W_OK)]:  # as after `sudo nacre`
        what = f"{shown_paths(invocation, shut)} cannot be written by you"
        return Finding.problem("permissions", what, '`sudo chown -R "$USER" FOLDER` makes it yours again.')
    found = await asyncio.to_thread(lambda: list(open_to_others(config.state_dir, config.folders)))
    notes = config.workspace.resolve()
    is_ajar = all(each.stat().st_mode & 0o001 for each in (notes, *notes.parents) if each.is_dir())
    if not found and config.is_in_files and is_ajar:
        what = f"everybody on this machine can read the notes in {invocation.short(notes)}"
        return Finding.note("permissions", what, "If you do not share them, run `chmod go= FOLDER`.")
    if not found:
        return Finding.well("permissions", "nobody else can read Nacre's data")
    return Finding.problem(
        "permissions",
        f"other users of this machine can read {shown_paths(invocation, found)}",
        "`nacre doctor --fix` removes their access, and so does each start of the assistant.",
        repair=close,
    )


def _locks(invocation: Invocation) -> Finding:
    from nacre.locks import keeps_out

    config = invocation.config
    folders = dict.fromkeys((config.state_dir, config.folders.agent_dir, config.folders.sessions_file.parent))
    idle = [folder for folder in folders if folder.is_dir() and not keeps_out(folder)]
    if not idle:
        return Finding.well("file locks", "a lock keeps other programs out")
    return Finding.problem(
        "file locks",
        f"locks have no effect in {shown_paths(invocation, idle)}, so two programs can lose notes",
        "Move the state folder to a local disk, or mount the network drive with locks, and run only "
        "one Nacre at a time until then.",
    )


async def _history(invocation: Invocation) -> Finding:
    from nacre.memory.contracts.workspace import FileBusy
    from nacre.memory.files.sources.sources import Sources
    from nacre.memory.workspace.git import GitFailed
    from nacre.memory.workspace.history.commits import commit_changes, known_sources
    from nacre.memory.workspace.history.history_keeper import Health
    from nacre.memory.workspace.history.repository import Repository
    from nacre.runtime.storage.storage import storage_of

    config = invocation.config
    if not config.is_in_files:
        return Finding.well("history", "notes in a database have none")
    if config.settings.memory.history.commits == "off":
        return Finding.well("history", 'memory.history.commits is "off"')
    repository = Repository(config.workspace, state_dir=config.state_dir)
    health = Health(repository)
    sources = known_sources(Sources(storage_of(config).workspace()))

    def repaired() -> str:
        done = health.repair()
        with repository.opened():
            made = len(commit_changes(repository, sources)) if repository.root.is_dir() else 0
        return f"{done}; {made} commits made"

    async def repair() -> str:
        try:
            return await asyncio.to_thread(repaired)
        except (GitFailed, FileBusy) as error:
            raise OSError(str(error)) from error

    if problem := await asyncio.to_thread(health.check):
        return Finding.problem(
            "history",
            f"the notes are not committed to git: {problem}",
            "If git is installed, `nacre doctor --fix` repairs it and commits the changes. No note is lost.",
            repair=repair,
        )
    return Finding.well("history", invocation.short(repository.git_dir))


async def _leftovers(invocation: Invocation, now: Clock) -> Finding:
    from nacre.sessions.upkeep.maintenance import unfinished_files

    config = invocation.config
    folders = {config.state_dir, config.folders.agent_dir, config.folders.sessions_file.parent}
    found = await asyncio.to_thread(unfinished_files, sorted(folders))
    aside = config.state_dir / "set-aside" / f"{now():%Y%m%dT%H%M%S}"

    async def move() -> str:
        aside.mkdir(mode=0o700, parents=True, exist_ok=True)
        for number, path in enumerate(found):
            path.rename(aside / f"{number}-{path.name}")
        return f"moved to {invocation.short(aside)}; delete that when you like"

    if not found:
        return Finding.well("left-overs", "no half-written files of killed processes")
    return Finding.problem(
        "left-overs",
        f"a killed process left {shown_paths(invocation, found)}",
        "Nothing uses them. `nacre doctor --fix` moves them aside.",
        repair=move,
    )


async def _usage(invocation: Invocation, now: Clock) -> list[Finding]:
    from nacre.runtime.agent.insight.usage import usage_problem
    from nacre.runtime.settings.spending import spending_folder

    config = invocation.config
    folder = spending_folder(config)
    problem = await asyncio.to_thread(usage_problem, config, now)
    if problem is None or config.daily_cap.usd is None:
        return []
    aside = config.state_dir / "set-aside" / f"{now():%Y%m%dT%H%M%S}-usage"
    file = folder / f"{now().date().isoformat()}.jsonl"

    async def move() -> str:
        aside.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        file.rename(aside)
        return f"moved to {invocation.short(aside)}; today counts from zero"

    advice = "`nacre doctor --fix` moves the file aside, and today then counts from zero."
    return [Finding.problem("usage", problem, advice, repair=move)]


def _workspace(invocation: Invocation) -> Finding:
    from nacre.runtime.storage.storage import storage_of

    config = invocation.config
    workspace = storage_of(config).workspace()
    place = invocation.short(Path(workspace.place)) if config.is_in_files else workspace.place
    if not workspace.is_there:
        return Finding.note(
            "workspace", f"{place} does not exist yet", "`nacre init` or the first chat makes it."
        )
    if not workspace.may_change("."):
        return Finding.problem(
            "workspace",
            f"{place} cannot be written, so no notes are saved",
            "Make it writable, or use another folder with --workspace.",
        )
    return Finding.well("workspace", place)


async def index_findings(invocation: Invocation, now: Clock) -> list[Finding]:
    """Check the index, whether it matches the notes, and whether changes of the notes are watched."""
    from nacre.runtime.storage.storage import storage_of

    settings, problem = invocation.config.settings.agent.memory_search, ""
    if not settings.enabled:
        return [Finding.note("index", "memory search is switched off", "memorySearch.enabled is false.")]
    if not invocation.config.is_in_files:
        place = storage_of(invocation.config).index(settings, now=now)
        with suppress(MemoryIndexError):  # the check of the sessions reports it
            async with using(place), using(await place.open()) as store:
                problem = (await store.search(lambda index: index.vector_engine())).problem
        text = "in the database; `nacre memory status --deep` checks it"
        return [Finding.note("index", text, f"{problem}.") if problem else Finding.well("index", text)]
    return [await _index(invocation, now), await asyncio.to_thread(_watcher, invocation)]


async def _index(invocation: Invocation, now: Clock) -> Finding:
    from nacre.memory.files.note_files import NoteFiles
    from nacre.memory.stores.index_file import examined_index
    from nacre.runtime.storage.storage import storage_of

    config = invocation.config
    path = config.folders.index_file
    facts = await asyncio.to_thread(examined_index, path)

    async def sync() -> str:
        return await _sync(invocation, now)

    if facts is None:
        return Finding.well("index", "there is none yet; the first search builds it")
    if facts.damage:
        return Finding.problem(
            "index",
            f"{invocation.short(path)} is damaged: {facts.damage}",
            "The notes are intact. `nacre doctor --fix` sets it aside and builds a new one.",
            repair=sync,
        )
    if facts.problem:
        return Finding.problem("index", facts.problem, "The notes are intact; only searches do not work.")
    if facts.version > facts.known_version:
        return Finding.problem(
            "index",
            f"{invocation.short(path)} has version {facts.version}, this Nacre {facts.known_version}",
            "Use the newer Nacre, or move the file away; it is rebuilt from the notes.",
        )
    if gone := [Path(each) for each in facts.paths if not (config.workspace / each).exists()]:
        text = f"it has notes that no longer exist: {shown_paths(invocation, gone)}"
        advice = "`nacre memory index` or `nacre doctor --fix` updates it."
        return Finding.problem("index", text, advice, repair=sync)
    read = {note: note.read_bytes() for each in facts.paths if (note := config.workspace / each)}
    torn = [note for note, data in read.items() if is_torn(note.name, data)]
    torn += [copy for copy in sorted(config.workspace.glob("*.md")) if is_torn(copy.name, b"")]
    if torn:
        text = f"notes with two versions that a program could not merge: {shown_paths(invocation, torn)}"
        return Finding.note("index", text, "Keep one: edit the note, or delete the copy.")
    notes = NoteFiles(storage_of(config).workspace(), config.settings.agent.memory_search.extra_paths)
    if skipped := [f"{each.path} ({each.reason})" for each in (await notes.listing()).skipped]:
        text = f"{counted(len(skipped), 'path')} not indexed: {', '.join(skipped[:_SHOWN])}"
        return Finding.note("index", text, "`nacre memory status` lists all of them.")
    if odd := [note for note, data in read.items() if not is_unicode(data)]:
        text = f"notes that are not UTF-8, read as Windows-1252: {shown_paths(invocation, odd)}"
        advice = "If words are wrong, save them as UTF-8: `iconv -f ENCODING -t UTF-8 NOTE`."
        return Finding.note("index", text, advice)
    count = counted(len(facts.paths), "file")
    return Finding.well("index", f"version {facts.version}, intact, {count} of notes")


async def _sync(invocation: Invocation, now: Clock) -> str:
    """Opens the index, which sets aside a damaged one, and reads the notes again."""
    from nacre.runtime.recall.open_memory import open_memory

    opened = await open_memory(invocation.config, now)
    assert opened is not None, "the caller handles a memory that is switched off"
    async with using(opened) as engine:
        report = await engine.sync(reason="cli")
        quarantined = (await engine.status()).quarantined
    if report.problem:
        raise MemoryIndexError(report.problem)
    aside = f"; the old one is now {quarantined[-1]}" if quarantined else ""
    return f"updated, {report.indexed_files} files read{aside}"


def _watcher(invocation: Invocation) -> Finding:
    if not invocation.config.settings.agent.memory_search.sync.watch:
        text = "notes are not watched (memorySearch.sync.watch is false)"
        advice = "Your changes are indexed at the next search."
        return Finding.note("watcher", text, advice)
    folders = 0
    for _, names, _ in os.walk(invocation.config.workspace):
        folders += 1
        names[:] = [name for name in names if not name.startswith(".")]
    try:
        most = int(_WATCHES.read_text(encoding="ascii"))
    except (OSError, ValueError):
        return Finding.well("watcher", "the system watches the notes")
    if folders > most // 2:
        return Finding.note(
            "watcher",
            f"the workspace has {folders} folders, and this system watches {most} at most",
            "Raise fs.inotify.max_user_watches, or move large folders out of the workspace.",
        )
    return Finding.well("watcher", f"{counted(max(1, folders), 'folder')} to watch, {most} possible")


async def session_findings(invocation: Invocation, now: Clock) -> list[Finding]:
    """Check the sessions and their files."""
    from nacre.runtime.storage.storage import open_sessions
    from nacre.sessions.contracts.errors import SessionError

    try:
        async with using(open_sessions(invocation.config, now)) as store:
            sessions = await store.sessions(with_earlier=True)
    except SessionError as error:
        return [Finding.problem("sessions", str(error), "Nothing was changed.")]
    advice = "The unreadable file was set aside beside the list, not overwritten."
    found = [Finding.problem("sessions", notice, advice) for notice in store.index.notices]
    begun = (each for each in sessions if each.is_current and each.record.last_interaction_at_ms)
    if lost := [each.key for each in begun if each.size_bytes is None]:
        found.append(
            Finding.note(
                "sessions",
                f"the list names missing transcripts: {', '.join(lost[:_SHOWN_LINES])}",
                "Such a session starts empty with its next message. If a backup has the file, put it back.",
            )
        )
    if invocation.config.is_in_files:
        found += await _files(invocation)
    if not any(each.state == "problem" for each in found):
        found.append(Finding.well("sessions", f"{len(sessions)} can be read"))
    return found


async def _files(invocation: Invocation) -> list[Finding]:
    from nacre.sessions.upkeep.maintenance import orphaned_results, running_turns, transcript_problems

    config = invocation.config
    folder = config.folders.sessions_file.parent
    broken = await asyncio.to_thread(lambda: list(transcript_problems(folder)))
    orphans = await asyncio.to_thread(orphaned_results, folder)
    found = []
    for each in broken:
        lines = ", ".join(map(str, each.unreadable_lines[:_SHOWN_LINES]))
        why = each.problem or (f"line {lines} cannot be read" if lines else "its last line is torn")
        found.append(
            Finding.problem(
                "sessions",
                f"{invocation.short(each.path)}: {why}",
                "It is from a newer Nacre, or not a plain file; it stays unchanged."
                if each.problem
                else "The next turn of that session sets a copy aside and continues with the readable lines.",
            )
        )
    if orphans:
        found.append(
            Finding.note(
                "sessions",
                f"tool results without their transcript: {shown_paths(invocation, orphans)}",
                "Nothing uses them. Move them away if you do not expect the transcript back.",
            )
        )
    running = await asyncio.to_thread(running_turns, config.folders.private_dir(config.state_dir) / "locks")
    text = f"{running} held by running turns" if running else "none is held, and a killed process leaves none"
    return [*found, Finding.well("locks", text)]


@click.command("doctor")
@click.option("--fix", is_flag=True, help="Also make the safe repairs, which delete nothing.")
@click.option("--online", is_flag=True, help="Also ask the model for one word, which costs a few tokens.")
@json_option()
@shared_options
def command(context: click.Context, fix: bool, online: bool, as_json: bool) -> int:
    """Find problems and say how to solve them.

    The exit code is 0 if all is well, 1 if there is a problem, 2 if the settings cannot be used.
    """
    invocation = begin(context)
    now = invocation.config.clock
    invocation.config.state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = asyncio.run(_findings(invocation, now, online=online, fix=fix))
    problems = [each for each in found if each.state == "problem"]
    if as_json:
        print_json({"well": not problems, "findings": [each.json() for each in found]})
        return 1 if problems else 0
    for each in found:
        invocation.say(*each.lines())
    safe = 0 if fix else sum(each.repair is not None for each in problems)
    can = f" `nacre doctor --fix` repairs {safe} of them." if safe else ""
    invocation.say("", f"{counted(len(problems), 'problem')}.{can}" if problems else "All is well.")
    return 1 if problems else 0


async def _findings(invocation: Invocation, now: Clock, *, online: bool, fix: bool) -> list[Finding]:
    from nacre.runtime.contracts.errors import ConfigError
    from nacre.runtime.settings.config import SETTINGS_FILE
    from nacre.runtime.settings.disk.variables import hide_values
    from nacre.runtime.storage.storage import storage_of

    found = [*program_findings(invocation.config, now)]
    try:
        storage_of(invocation.config)
        on_disk = (disk_findings, history_findings, session_findings, index_findings, serving_findings)
        checks = (
            partial(model_findings, invocation.config, now, online=online),
            *(partial(check, invocation, now) for check in on_disk),
            partial(tool_findings, invocation.config),
        )
        # Together, because each of them waits if a database does not answer.
        for findings in await asyncio.gather(*map(_run_check, checks)):
            found += findings
    except ConfigError as error:
        found.append(Finding.problem("storage", str(error), "Its data was not checked."))
    if fix:
        found = [await _repaired(each) for each in found]
    file = invocation.config.state_dir / SETTINGS_FILE

    hide = partial(hide_values, file=file, environment=invocation.environment)
    return [replace(each, text=hide(each.text), advice=hide(each.advice)) for each in found]


async def _run_check(check: Callable[[], Awaitable[list[Finding]]]) -> list[Finding]:
    from nacre.sessions.contracts.errors import SessionError

    try:
        return await check()
    except (OSError, SessionError) as error:  # such as a folder that `sudo nacre` made
        return [Finding.problem("access", f"{error}", "Give yourself access to it, and run this again.")]


async def _repaired(finding: Finding) -> Finding:
    if finding.repair is None:
        return finding
    try:
        done = await finding.repair()
    except (OSError, MemoryIndexError) as error:
        return replace(finding, advice=f"The repair failed: {error}. {finding.advice}")
    return replace(finding, state="fixed", text=f"{finding.text}: {done}", repair=None)


async def tool_findings(config: Config) -> list[Finding]:
    """Check that each server of `mcp.servers` and each skill can be used, without starting anything."""
    from nacre.memory.contracts.settings import at_home
    from nacre.runtime.storage.storage import open_skills

    found: list[Finding] = []
    servers = {name: server for name, server in config.settings.mcp.servers.items() if server.enabled}
    if servers and find_spec("mcp") is None:
        advice = f"Install it with `{install_command('mcp')}`."
        text = f"{', '.join(servers)}: the library mcp is not installed"
        found.append(Finding.problem("tool servers", text, advice))
    for name, server in servers.items():
        path = config.environment.get("PATH")
        if server.command and shutil.which(at_home(server.command, config.home), path=path) is None:
            text = f"{name}: there is no program {server.command!r}"
            advice = f"Install it, or write its full path in mcp.servers.{name}.command."
            found.append(Finding.problem("tool servers", text, advice))
    if servers and not found:
        found.append(Finding.well("tool servers", ", ".join(servers)))
    skills = await open_skills(config).found()
    advice = "`nacre admin extensions skills` lists them all."
    found += [Finding.note("skills", text, advice) for text in skills.problems]
    if skills.skills and not skills.problems:
        found.append(Finding.well("skills", str(len(skills.skills))))
    return found


async def serving_findings(invocation: Invocation, now: Clock) -> list[Finding]:
    """Check whether the channels can be used, and the state of those that are served."""
    from nacre.bridges.server import check_channels
    from nacre.runtime.contracts.errors import ConfigError
    from nacre.runtime.ledger.records import LedgerUnusable
    from nacre.runtime.storage.storage import ledger_of

    try:
        lines = check_channels(invocation.config, now)
    except ConfigError as error:
        advice = "Nothing is served until you correct it; `nacre serve --check` checks it again."
        return [Finding.problem("channels", str(error), advice)]
    place = ledger_of(invocation.config)
    try:
        if not await place.is_there():
            return [Finding.well("channels", " ".join(lines) or "none is set up")]
        is_running = await place.is_served()
        async with using(await place.open_tables()) as tables:
            kept = await tables.statuses()
            counts = await tables.not_done()
    except LedgerUnusable as error:
        advice = "A damaged one is set aside beside it; `nacre status` shows more."
        return [Finding.problem("channels", str(error), advice)]
    found = [
        Finding.problem("channels", each.line, "`nacre status` shows more.")
        for each in kept
        if is_running and each.state != "connected"
    ]
    if kept and not is_running:
        advice = "`nacre serve` answers them; `nacre init --service` keeps it running."
        found.append(Finding.note("channels", "nobody serves them now", advice))
    if counts.get("failed"):
        text = f"{counts['failed']} messages could not be sent"
        found.append(Finding.note("channels", text, "The log says why."))
    return found or [Finding.well("channels", "connected" if is_running else "none")]


def program_findings(config: Config, now: Clock) -> Iterator[Finding]:
    """Versions, the notices of the settings, the owner's time zone."""
    found = ", ".join(f"{name} {_version(name)}" for name in _LIBRARIES)
    yield Finding.well("versions", f"Nacre {__version__}, Python {platform.python_version()}, {found}")
    for notice in config.notices:
        yield Finding.note("settings", notice, "`nacre config check` shows more.")
    moment, named = now(), config.settings.agent.user_timezone
    text = f"{moment.tzinfo}, where it is {moment:%Y-%m-%d %H:%M}"
    if named:
        yield Finding.well("time zone", text)
    else:
        yield Finding.note(
            "time zone",
            f"{text}; taken from the system",
            "It decides which day a note belongs to. If it is not yours: "
            "`nacre config set agents.defaults.userTimezone Europe/Madrid`.",
        )


async def model_findings(config: Config, now: Clock, *, online: bool) -> list[Finding]:
    """Check the model, its key, its connection and its window."""
    from nacre.runtime.contracts.errors import ConfigError
    from nacre.runtime.providers.opening import missing_extra, model_facts

    try:
        facts = model_facts(config, now)
    except ConfigError as error:
        advice = "`nacre init` chooses one."
        return [Finding.problem("model", str(error), advice)]
    if not facts.name:
        advice = "`nacre init` connects one."
        text = "none: the offline responder answers"
        return [Finding.note("model", text, advice), *await _window(config, now)]
    if extra := missing_extra(config, facts.name):
        text = f"{without_secrets(facts.name)} needs the extra {extra!r} of Nacre, which is not installed"
        advice = f"Install it with `{install_command(extra)}`."
        found = [Finding.problem("model", text, advice)]
    else:
        found = [await _reach(config, facts, online=online)]
    if facts.has_key or not facts.needs_key:
        text = "found" if facts.has_key else "none is needed at this address"
        found.append(Finding.well("key", text))
    else:
        provider = facts.name.partition("/")[0]
        found.append(
            Finding.problem(
                "key",
                f"there is none for {provider}",
                f"Set {facts.key_variable}, or models.providers.{provider}.apiKey in nacre.json5.",
            )
        )
    return [*found, *await _window(config, now)]


async def _reach(config: Config, facts: ModelFacts, *, online: bool) -> Finding:
    from nacre.runtime.agent.insight.trial import listens, try_model

    at = f" at {facts.address}" if facts.address else ""
    name = without_secrets(facts.name)  # it may contain a key by mistake
    if facts.is_local and not await listens(facts.address):
        return Finding.problem(
            "model",
            f"{name}: nobody listens{at}",
            "Start the server there, or correct the address: "
            f"models.providers.{facts.name.partition('/')[0]}.baseUrl.",
        )
    if online:
        if problem := (await try_model(config, config.model_name, None)).problem:
            return Finding.problem(
                "model",
                f"{name}{at} does not answer: {without_secrets(problem)}",
                "Check its name, its key and its address; `nacre config explain models.providers`.",
            )
        return Finding.well("model", f"{name}{at}: answered")
    state = "listens" if facts.is_local else "not asked; --online asks it for one word"
    return Finding.well("model", f"{name}{at}: {state}")


async def _window(config: Config, now: Clock) -> list[Finding]:
    from nacre.runtime.agent.insight.model_facts import fitting_note_tools, token_counter, workspace_files
    from nacre.runtime.contracts.budget import TIGHT_WINDOW_TOKENS, WINDOW_SOURCES
    from nacre.runtime.contracts.errors import ConfigError
    from nacre.runtime.providers.opening import budget_of

    try:
        budget = await budget_of(config, now)
    except ConfigError as error:
        advice = "`nacre config explain agents.defaults.contextTokens` shows the setting."
        return [Finding.problem("window", str(error), advice)]
    text = (
        f"{budget.window_tokens} tokens ({WINDOW_SOURCES[budget.window_source]}): reserve "
        f"{budget.reserve_tokens}, flush from {budget.flush_at} on, compaction above {budget.compact_at}"
    )
    is_assumed = budget.window_source == "fallback" and bool(config.model_name)
    advice = ""
    if is_assumed:
        advice = "Set its size: `nacre config set agents.defaults.contextTokens N`."
    elif budget.window_tokens < TIGHT_WINDOW_TOKENS:
        advice = "It is small, so history is compacted often. Choose a model with a larger window."
        if fitting := fitting_note_tools(budget.window_tokens):
            advice = f"{advice} Of the tools for notes, only {', '.join(fitting)} fit."
    found = [Finding(area="window", state="note" if advice else "well", text=text, advice=advice)]
    count = token_counter(config.model_name)
    shown = await workspace_files(config, now, window_tokens=budget.window_tokens)
    tokens = {file.name: count(file.text) for file in shown if not file.missing}
    total = sum(tokens.values())
    each = ", ".join(f"{name} {number}" for name, number in tokens.items() if number)
    is_much = total > budget.window_tokens * _MOST_OF_WINDOW
    cut = [file.name for file in shown if file.truncated]
    advice = f"Shorten them, because each request has them. {', '.join(cut)} is cut." if cut else ""
    found.append(
        Finding(
            area="prompt",
            state="note" if cut or is_much else "well",
            text=f"workspace files take about {total} tokens of each request ({each or 'none'})",
            advice=advice or ("Shorten them, because each request has them." if is_much else ""),
        )
    )
    return found


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "is not installed"
