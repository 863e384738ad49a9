"""Checks of what is on the disk: room, permissions, locks, what a killed process left, workspace, history,
index, transcripts. Repairs rebuild the index."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from nacre.cli.setup.doctor.finding import Finding
from nacre.runtime.commands.wording import counted

if TYPE_CHECKING:
    from nacre.cli.invocation import Invocation
    from nacre.runtime.contracts.clock import Clock


_LEAST_BYTES = 100 << 20
_SCARCE_BYTES = 1 << 30
_SHOWN = 3


async def disk_findings(invocation: Invocation, now: Clock) -> list[Finding]:
    """What the state folder, the workspace and the history of the notes are like."""
    return [
        _space(invocation),
        await _permissions(invocation),
        _locks(invocation),
        await _left(invocation, now),
        _workspace(invocation),
        await _history(invocation),
        *await _usage(invocation, now),
    ]


def shown_paths(invocation: Invocation, paths: Sequence[Path]) -> str:
    """The first few of these paths, as people write them."""
    more = f" and {len(paths) - _SHOWN} more" if len(paths) > _SHOWN else ""
    return ", ".join(invocation.short(path) for path in paths[:_SHOWN]) + more


def _space(invocation: Invocation) -> Finding:
    state_dir = invocation.config.state_dir
    free = shutil.disk_usage(state_dir).free
    text = f"{free / (1 << 30):.1f} GiB are free where {invocation.short(state_dir)} lies"
    if free >= _SCARCE_BYTES:
        return Finding(area="disk", state="well", text=text)
    is_full = free < _LEAST_BYTES
    return Finding(
        area="disk",
        state="problem" if is_full else "note",
        text=text,
        advice="Make room: a turn that cannot be written down is refused. "
        "`nacre sessions cleanup --dry-run` says what may go.",
    )


async def _permissions(invocation: Invocation) -> Finding:
    from nacre.runtime.settings.disk.agent_folders import keep_private, open_to_others

    config = invocation.config

    async def close() -> str:
        await asyncio.to_thread(keep_private, config.state_dir, config.folders)
        left = await asyncio.to_thread(lambda: list(open_to_others(config.state_dir, config.folders)))
        if left:
            raise OSError(f"{shown_paths(invocation, left)} cannot be kept from others here")
        return "kept from other users of this machine"

    found = await asyncio.to_thread(lambda: list(open_to_others(config.state_dir, config.folders)))
    if not found:
        return Finding(area="permissions", state="well", text="nobody else can read what Nacre keeps")
    return Finding(
        area="permissions",
        state="problem",
        text=f"other users of this machine can read {shown_paths(invocation, found)}",
        advice="`nacre doctor --fix` takes that from them, and so does each start of the assistant.",
        repair=close,
    )


def _locks(invocation: Invocation) -> Finding:
    from nacre.locks import keeps_out

    config = invocation.config
    folders = dict.fromkeys((config.state_dir, config.folders.agent_dir, config.folders.sessions_file.parent))
    idle = [folder for folder in folders if folder.is_dir() and not keeps_out(folder)]
    if not idle:
        return Finding(area="file locks", state="well", text="a lock keeps other programs out")
    return Finding(
        area="file locks",
        state="problem",
        text=f"locks have no effect in {shown_paths(invocation, idle)}, so two programs can lose notes",
        advice="Move the state folder to a local disk, or mount the network drive with locks, and run only "
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
        return Finding(area="history", state="well", text="notes in a database have none")
    if config.settings.memory.history.commits == "off":
        return Finding(area="history", state="well", text='memory.history.commits is "off"')
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
        return Finding(
            area="history",
            state="problem",
            text=f"the notes are not committed to git: {problem}",
            advice="`nacre doctor --fix` repairs the history and commits what is missing. No note is lost.",
            repair=repair,
        )
    return Finding(area="history", state="well", text=invocation.short(repository.git_dir))


async def _left(invocation: Invocation, now: Clock) -> Finding:
    from nacre.sessions.upkeep.checking import unfinished_files

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
        return Finding(area="left-overs", state="well", text="no half-written files of killed processes")
    return Finding(
        area="left-overs",
        state="problem",
        text=f"a killed process left {shown_paths(invocation, found)}",
        advice="They hold nothing that is used. `nacre doctor --fix` moves them aside.",
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

    return [
        Finding(
            area="usage",
            state="problem",
            text=problem,
            advice="`nacre doctor --fix` moves the file aside, and today then counts from zero.",
            repair=move,
        )
    ]


def _workspace(invocation: Invocation) -> Finding:
    from nacre.runtime.storage.storage import storage_of

    config = invocation.config
    workspace = storage_of(config).workspace()
    place = invocation.short(Path(workspace.place)) if config.is_in_files else workspace.place
    if not workspace.is_there:
        return Finding(
            area="workspace",
            state="note",
            text=f"{place} is not there yet",
            advice="`nacre init` makes it; so does the first chat.",
        )
    if not workspace.may_change("."):
        return Finding(
            area="workspace",
            state="problem",
            text=f"{place} cannot be written, so no notes are saved",
            advice="Give yourself the right to write there, or name another folder with --workspace.",
        )
    return Finding(area="workspace", state="well", text=place)


_WATCHES = Path("/proc/sys/fs/inotify/max_user_watches")


async def index_findings(invocation: Invocation, now: Clock) -> list[Finding]:
    """How the index is, whether it fits the notes, and whether changes of the notes are seen."""
    settings = invocation.config.settings.agent.memory_search
    if not settings.enabled:
        text = "memory search is switched off"
        return [Finding(area="index", state="note", text=text, advice="memorySearch.enabled says so.")]
    if not invocation.config.is_in_files:
        return [
            Finding(area="index", state="well", text="in the database; `nacre memory status --deep` reads it")
        ]
    return [await _index(invocation, now), await asyncio.to_thread(_watcher, invocation)]


async def _index(invocation: Invocation, now: Clock) -> Finding:
    from nacre.memory.stores.index_file import examined_index

    config = invocation.config
    path = config.folders.index_file
    facts = await asyncio.to_thread(examined_index, path)

    async def bring_in_line() -> str:
        return await _synced(invocation, now)

    if facts is None:
        text = "there is none yet; the first search makes it"
        return Finding(area="index", state="well", text=text)
    if facts.damage:
        return Finding(
            area="index",
            state="problem",
            text=f"{invocation.short(path)} is damaged: {facts.damage}",
            advice="The notes are untouched. `nacre doctor --fix` sets it aside and builds a new one.",
            repair=bring_in_line,
        )
    if facts.problem:
        advice = "Move that file away, or name another in memorySearch.store.path."
        return Finding(area="index", state="problem", text=facts.problem, advice=advice)
    if facts.version > facts.known_version:
        return Finding(
            area="index",
            state="problem",
            text=f"{invocation.short(path)} has version {facts.version}, this Nacre {facts.known_version}",
            advice="Use the newer Nacre, or move the file away: it is built again from the notes.",
        )
    gone = [Path(each) for each in facts.paths if not (config.workspace / each).exists()]
    if gone:
        return Finding(
            area="index",
            state="problem",
            text=f"it holds notes that are not there any more: {shown_paths(invocation, gone)}",
            advice="`nacre memory index` or `nacre doctor --fix` brings it in line.",
            repair=bring_in_line,
        )
    text = f"version {facts.version}, sound, {counted(len(facts.paths), 'file')} of notes"
    return Finding(area="index", state="well", text=text)


async def _synced(invocation: Invocation, now: Clock) -> str:
    """Opening sets aside what is damaged; the sync reads the notes again."""
    from nacre.memory.contracts.errors import MemoryIndexError
    from nacre.runtime.recall.open_memory import open_memory

    engine = await open_memory(invocation.config, now)
    assert engine is not None, "switched off is told before"
    try:
        report = await engine.sync(reason="cli")
        quarantined = (await engine.status()).quarantined
    finally:
        await engine.close()
    if report.problem:
        raise MemoryIndexError(report.problem)
    aside = f"; the old one lies beside it as {quarantined[-1]}" if quarantined else ""
    return f"in line with the notes, {report.indexed_files} files read{aside}"


def _watcher(invocation: Invocation) -> Finding:
    if not invocation.config.settings.agent.memory_search.sync.watch:
        text = "notes are not watched (memorySearch.sync.watch is false)"
        advice = "Changes of yours are seen at the next search."
        return Finding(area="watcher", state="note", text=text, advice=advice)
    folders = _folders(invocation.config.workspace)
    try:
        most = int(_WATCHES.read_text(encoding="ascii"))
    except (OSError, ValueError):
        return Finding(area="watcher", state="well", text="the system watches the notes")
    if folders > most // 2:
        return Finding(
            area="watcher",
            state="note",
            text=f"the workspace has {folders} folders, and this system watches {most} at most",
            advice="Raise fs.inotify.max_user_watches, or keep large folders out of the workspace.",
        )
    return Finding(
        area="watcher", state="well", text=f"{counted(folders, 'folder')} to watch, {most} possible"
    )


def _folders(top: Path) -> int:
    """How many folders of notes there are; hidden ones are left out."""
    count = 0
    for _, names, _ in os.walk(top):
        count += 1
        names[:] = [name for name in names if not name.startswith(".")]
    return max(1, count)


_SHOWN_LINES = 5


async def session_findings(invocation: Invocation, now: Clock) -> list[Finding]:
    """What is wrong with sessions and their files."""
    from nacre.runtime.contracts.ids import random_id
    from nacre.runtime.storage.storage import storage_of
    from nacre.sessions.contracts.errors import SessionError

    store = storage_of(invocation.config).sessions(now=now, new_id=random_id)
    try:
        sessions = await store.sessions(with_earlier=True)
        found = [
            Finding(area="sessions", state="problem", text=notice, advice=_SET_ASIDE)
            for notice in store.index.notices
        ]
    except SessionError as error:
        return [Finding(area="sessions", state="problem", text=str(error), advice="Nothing was changed.")]
    finally:
        await store.close()
    lost = [each.key for each in sessions if each.is_current and each.size_bytes is None]
    if lost:
        found.append(
            Finding(
                area="sessions",
                state="note",
                text=f"the list names transcripts that are not there: {', '.join(lost[:_SHOWN_LINES])}",
                advice="Such a session begins anew with its next message. If you have the file in a backup, "
                "put it back.",
            )
        )
    if invocation.config.is_in_files:
        found += await _files(invocation)
    if not any(each.state == "problem" for each in found):
        found.append(Finding(area="sessions", state="well", text=f"{len(sessions)} can be read"))
    return found


_SET_ASIDE = "What could not be read was set aside beside the list, not overwritten."


async def _files(invocation: Invocation) -> list[Finding]:
    from nacre.sessions.contracts.errors import SessionError
    from nacre.sessions.upkeep.checking import orphaned_results, running_turns, transcript_problems

    config = invocation.config
    folder = config.folders.sessions_file.parent
    try:
        broken = await asyncio.to_thread(lambda: list(transcript_problems(folder)))
        orphans = await asyncio.to_thread(orphaned_results, folder)
    except SessionError as error:
        return [Finding(area="sessions", state="problem", text=str(error), advice="Nothing was changed.")]
    found = []
    for each in broken:
        lines = ", ".join(map(str, each.unreadable_lines[:_SHOWN_LINES]))
        told = each.problem or (f"line {lines} cannot be read" if lines else "its last line is torn")
        found.append(
            Finding(
                area="sessions",
                state="problem",
                text=f"{invocation.short(each.path)}: {told}",
                advice="A newer Nacre wrote it, or it is no file of its own; it is left as it is."
                if each.problem
                else "The next turn of that session sets a copy aside and goes on with what can be read.",
            )
        )
    if orphans:
        found.append(
            Finding(
                area="sessions",
                state="note",
                text=f"results of tools without their transcript: {shown_paths(invocation, orphans)}",
                advice="Nothing uses them. Move them away if you do not expect the transcript back.",
            )
        )
    running = await asyncio.to_thread(running_turns, config.folders.private_dir(config.state_dir) / "locks")
    text = (
        f"{running} held: a turn is running" if running else "none is held, and a killed process leaves none"
    )
    return [*found, Finding(area="locks", state="well", text=text)]
