"""Changes on disk are noticed, told at once, and settled when it is quiet."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import pytest
from watchdog.observers import Observer
from watchdog.observers.polling import PollingObserver

from nacre.memory.contracts.notes import WantedNotes
from nacre.memory.contracts.records import SearchHit
from nacre.memory.contracts.settings import resolve_settings
from nacre.memory.engine import MemoryEngine
from nacre.memory.sync.syncing import Debounce
from nacre.memory.workspace.extra_paths import ExtraNotes, ExtraPath, resolved_extra_paths
from nacre.memory.workspace.folder import FolderWorkspace
from nacre.memory.workspace.watcher import (
    MOUNTS_FILE,
    FolderWatch,
    WatchPlan,
    concerns_notes,
    concerns_workspace,
    remote_file_system,
    remote_type,
    watch_plan,
)
from tests.memory.doubles import open_engine, workspace

DEBOUNCE_MS = 150
TOP = ("MEMORY.md", "memory.md", "memory")


def _settling(told: asyncio.Queue[str]) -> Debounce:
    """Says what it is told, and when it is quiet."""
    return Debounce(
        debounce_ms=DEBOUNCE_MS,
        changed=lambda: told.put_nowait("changed"),
        settled=lambda: told.put_nowait("settled"),
    )


async def _eventually(asks: asyncio.Queue[str], wanted: str) -> None:
    async with asyncio.timeout(20):
        while await asks.get() != wanted:
            pass


async def _quiet(asks: asyncio.Queue[str]) -> None:
    """Until nothing was told for a while."""
    with suppress(TimeoutError):
        while True:
            await asyncio.wait_for(asks.get(), 4 * DEBOUNCE_MS / 1000)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/w/MEMORY.md", True),
        ("/w/memory.md", True),
        ("/w/NOTES.md", False),
        ("/w/memory", True),
        ("/w/memory/a.md", True),
        ("/w/memory/a.MD", True),
        ("/w/memory/moved-folder", True),
        ("/w/memory/a.md.swp", False),
        ("/w/memory/.git/x.md", False),
        ("/w/extra/node_modules/x.md", False),
        ("/elsewhere/.venv/x.md", False),
    ],
)
@pytest.mark.parametrize("home", ["", "/home/ann/.nacre", "/srv/venv/.obsidian"])
@pytest.mark.covers("IDX-11")
def test_only_changes_of_memory_count(home: str, path: str, expected: bool) -> None:
    """Markdown and folders count; tools' folders and other files do not, wherever the workspace lies."""
    assert concerns_workspace(Path(f"{home}/w"), TOP, f"{home}{path}") is expected


@pytest.mark.parametrize(
    ("top", "path", "expected"),
    [
        ((*TOP, "plan.md"), "/w/plan.md", True),
        ((*TOP, "plan.md"), "/w/other.md", False),
        ((".",), "/w/other.md", True),
        ((".",), "/w/other.txt", False),
    ],
)
def test_files_of_the_root_count_when_they_are_asked_for(
    top: tuple[str, ...], path: str, expected: bool
) -> None:
    """An extra path may be one file beside MEMORY.md, or all of them."""
    assert concerns_workspace(Path("/w"), top, path) is expected


@pytest.mark.covers("IDX-11")
def test_few_folders_are_watched(tmp_path: Path) -> None:
    """The workspace itself without its sub-folders, memory/ and extra folders with theirs; no links."""
    root = workspace(tmp_path, {"memory/a.md": "a", "extra/b.md": "b", "one/c.md": "c"})
    (root / "linked").symlink_to(tmp_path)

    extra = resolved_extra_paths(root, ["extra", "one/c.md", "linked", "missing", "extra/**/*.md"])
    plan = watch_plan(root, [root / "memory", *(place.folder for place in extra)])

    assert plan.flat == (root, root / "one")
    assert plan.deep == (root / "memory", root / "extra")


@pytest.mark.covers("IDX-11")
async def test_a_burst_of_changes_settles_once(tmp_path: Path) -> None:
    """Each change is told at once; when it has been quiet for the debounce time, `settled` is called. The
    workspace is where an owner has it, in `.nacre`, a name that is ignored among the notes."""
    root = workspace(tmp_path / ".nacre", {"memory/a.md": "a"})
    told: asyncio.Queue[str] = asyncio.Queue()
    workspace_of = FolderWorkspace(root, lock_dir=tmp_path / "locks")
    watcher = workspace_of.watch((WantedNotes(name="memory"),), _settling(told).note_change)
    touching = asyncio.create_task(_touch(root / "memory" / "b.md"))
    await _eventually(told, "changed")
    touching.cancel()
    await _eventually(told, "settled")
    await watcher.close()

    assert watcher.problem == ""


async def test_a_folder_that_was_put_in_the_place_of_another_is_followed(tmp_path: Path) -> None:
    """A folder of notes that is moved away and made anew is watched, although it has the same name."""
    root = workspace(tmp_path, {"memory/a.md": "a"})
    told: asyncio.Queue[str] = asyncio.Queue()
    workspace_of = FolderWorkspace(root, lock_dir=tmp_path / "locks")
    watcher = workspace_of.watch((WantedNotes(name="memory"),), lambda: told.put_nowait("changed"))
    touching = asyncio.create_task(_touch(root / "memory" / "b.md"))
    await _eventually(told, "changed")
    touching.cancel()
    (root / "memory").rename(root / "old")
    (root / "memory").mkdir()
    await _quiet(told)
    touching = asyncio.create_task(_touch(root / "memory" / "c.md"))
    await _eventually(told, "changed")
    touching.cancel()
    await watcher.close()


@pytest.mark.slow
async def test_changes_on_a_network_drive_are_looked_for(tmp_path: Path) -> None:
    """Where the system is not told of changes, they are noticed all the same, and status says how."""
    root = workspace(tmp_path, {"memory/a.md": "a"})
    told: asyncio.Queue[str] = asyncio.Queue()
    watcher = FolderWatch(
        lambda: watch_plan(root, [root / "memory"]),
        lambda path: concerns_notes(path, (root,)),
        _settling(told).note_change,
        remote=lambda folder: "nfs4" if folder.name == "memory" else "",
    )
    touching = asyncio.create_task(_touch(root / "memory" / "b.md"))
    await _eventually(told, "changed")
    touching.cancel()
    await _eventually(told, "settled")
    await watcher.close()

    assert watcher.problem == f"polling every 2 s, because {root / 'memory'} is not on a local drive (nfs4)"


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="the limit is Linux's")
@pytest.mark.covers("IDX-11")
async def test_changes_are_looked_for_when_the_system_cannot_watch(tmp_path: Path) -> None:
    """With nothing left to watch with, files are looked at, and status says why."""
    import resource

    root = workspace(tmp_path, {"MEMORY.md": "a"})
    told: asyncio.Queue[str] = asyncio.Queue()
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)

    def changed() -> None:
        # The first call comes when it begins anew, because something may have changed meanwhile.
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        told.put_nowait("changed")

    settling = Debounce(debounce_ms=DEBOUNCE_MS, changed=changed, settled=lambda: told.put_nowait("settled"))
    assert Observer is not PollingObserver  # what watching imports is imported while files can be opened
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (3, limits[1]))
        watcher = FolderWatch(
            lambda: WatchPlan(flat=(root,), deep=()),
            lambda path: concerns_notes(path, (root,)),
            settling.note_change,
            remote=lambda _: "",
        )
        await _eventually(told, "settled")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert watcher.problem.startswith("polling every 2 s, because watching failed: ")
    touching = asyncio.create_task(_touch(root / "MEMORY.md"))
    await _eventually(told, "changed")
    touching.cancel()
    await _eventually(told, "settled")
    await watcher.close()


@pytest.mark.covers("IDX-11", "PART-15")
async def test_the_interval_of_the_settings_is_kept(tmp_path: Path) -> None:
    """With `sync.intervalMinutes` a change is found without watching and without searching."""
    root = workspace(tmp_path, {"MEMORY.md": "tea"})
    settings = resolve_settings({"sync": {"watch": False, "onSearch": False}})
    # Whole minutes are what an owner may write; a test does not wait for one.
    often = settings.sync.model_copy(update={"interval_minutes": 0.002})
    engine = await open_engine(tmp_path, settings=settings.model_copy(update={"sync": often}))
    await engine.sync(reason="cli")
    (root / "MEMORY.md").write_text("the zebra")
    await engine.start_watching()

    async with asyncio.timeout(20):
        hits = await _first_hits(engine, "zebra")

    assert [hit.path for hit in hits] == ["MEMORY.md"]
    assert (await engine.status()).watching == "off"
    await engine.close()


async def _first_hits(engine: MemoryEngine, query: str) -> Sequence[SearchHit]:
    """What a query finds, as soon as it finds something."""
    while True:
        if hits := (await engine.search(query, min_score=0)).hits:
            return hits


MOUNTS = r"""
22 27 0:21 / /proc rw,relatime - proc proc rw
27 1 252:1 / / rw,relatime shared:1 - ext4 /dev/vda1 rw
40 27 0:40 / /home/max/team rw,relatime shared:9 - nfs4 server:/team rw
41 40 252:2 / /home/max/team/local rw - xfs /dev/vdb rw
42 27 0:42 / /mnt/Max\040Notes rw - fuse.sshfs max@host: rw
43 27 0:43 / /twice rw - cifs //server/share rw
44 27 252:3 / /twice rw - ext4 /dev/vdc rw
a line that says nothing
"""


@pytest.mark.parametrize(
    ("folder", "kind"),
    [
        ("/home/max/team", "nfs4"),
        ("/home/max/team/memory", "nfs4"),
        ("/home/max/teammates", ""),
        ("/home/max/team/local/memory", ""),
        ("/mnt/Max Notes/memory", "fuse.sshfs"),
        ("/twice/memory", ""),
        ("/home/max", ""),
    ],
)
def test_the_deepest_and_last_mount_decides(folder: str, kind: str) -> None:
    """A local disk inside a network folder is local; the mount that hides another one counts."""
    assert remote_type(Path(folder), MOUNTS) == kind


def test_this_folder_is_local(tmp_path: Path) -> None:
    """The system's own list can be read, and a folder of it is found."""
    assert remote_file_system(tmp_path) == remote_type(tmp_path.resolve(), _own_mounts())


def _own_mounts() -> str:
    return MOUNTS_FILE.read_text() if MOUNTS_FILE.exists() else ""


async def test_extra_paths_are_followed_wherever_they_lie(tmp_path: Path) -> None:
    """Also below a folder whose name is ignored among the notes."""
    notes = tmp_path / ".obsidian" / "notes"
    notes.mkdir(parents=True)
    told: asyncio.Queue[str] = asyncio.Queue()
    extra = ExtraNotes([ExtraPath(folder=notes)], None)
    watcher = extra.watch(lambda: told.put_nowait("changed"))
    touching = asyncio.create_task(_touch(notes / "plan.md"))
    await _eventually(told, "changed")
    touching.cancel()
    await watcher.close()


async def _touch(path: Path) -> None:
    """Writes until it is cancelled: the watch may need a moment to begin."""
    while True:
        path.write_text("changed")
        await asyncio.sleep(DEBOUNCE_MS / 2000)


@pytest.mark.covers("SEED-3", "PART-32")
async def test_the_engine_follows_its_files(tmp_path: Path) -> None:
    """A file written while the engine watches is indexed without any call, also in a folder made later."""
    root = workspace(tmp_path, {})
    (root / "MEMORY.md").write_text("tea")
    engine = await open_engine(tmp_path, {"sync": {"watchDebounceMs": DEBOUNCE_MS, "onSearch": False}})
    await engine.sync(reason="cli")
    await engine.start_watching()
    (root / "memory").mkdir()

    async with asyncio.timeout(20):
        number = 0
        while not (await engine.search("zebra", min_score=0)).hits:
            number += 1
            (root / "memory" / "late.md").write_text(f"zebra {number}")
            await asyncio.sleep(DEBOUNCE_MS * 2 / 1000)

    assert (await engine.status()).watching == "on"
    await engine.close()
