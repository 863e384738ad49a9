"""Checks of the index over the notes, and of what watches them. Edge; rebuilds the index on request."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import TYPE_CHECKING

from nacre.cli.setup.doctor.disk_checks import shown_paths
from nacre.cli.setup.doctor.finding import Finding
from nacre.runtime.commands.wording import counted

if TYPE_CHECKING:
    from nacre.cli.invocation import Invocation
    from nacre.runtime.contracts.clock import Clock

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
