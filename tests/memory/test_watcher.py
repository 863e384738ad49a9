"""Changes on disk are noticed, told at once, and settled when it is quiet."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from nacre.memory.watcher import Watcher, is_memory_change, watch_plan
from tests.memory.doubles import open_engine, workspace

DEBOUNCE_MS = 150


async def _eventually(asks: asyncio.Queue[str], wanted: str) -> None:
    async with asyncio.timeout(20):
        while await asks.get() != wanted:
            pass


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
def test_only_changes_of_memory_count(path: str, expected: bool) -> None:
    """Markdown and folders count; tools' folders and other files do not."""
    assert is_memory_change(Path("/w"), path) is expected


def test_few_folders_are_watched(tmp_path: Path) -> None:
    """The workspace itself without its sub-folders, memory/ and extra folders with theirs; no links."""
    root = workspace(tmp_path, {"memory/a.md": "a", "extra/b.md": "b", "one/c.md": "c"})
    (root / "linked").symlink_to(tmp_path)

    plan = watch_plan(root, ["extra", "one/c.md", "linked", "missing", "extra/**/*.md"])

    assert plan.flat == (root, root / "one")
    assert plan.deep == (root / "memory", root / "extra")


async def test_a_burst_of_changes_settles_once(tmp_path: Path) -> None:
    """Each change is told at once; when it has been quiet for the debounce time, `settled` is called."""
    root = workspace(tmp_path, {"memory/a.md": "a"})
    told: asyncio.Queue[str] = asyncio.Queue()
    watcher = Watcher(
        workspace=root,
        extra_paths=(),
        debounce_ms=DEBOUNCE_MS,
        changed=lambda: told.put_nowait("changed"),
        settled=lambda: told.put_nowait("settled"),
    )
    watcher.start()
    touching = asyncio.create_task(_touch(root / "memory" / "b.md"))
    await _eventually(told, "changed")
    touching.cancel()
    await _eventually(told, "settled")
    await watcher.close()

    assert watcher.problem == ""


async def _touch(path: Path) -> None:
    """Writes until it is cancelled: the watch may need a moment to begin."""
    while True:
        path.write_text("changed")
        await asyncio.sleep(DEBOUNCE_MS / 2000)


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
