"""Whatever happens to the files, a synced index equals one that was made afresh."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from nacre.memory.contracts.records import SyncProgress
from nacre.memory.stores.sqlite.connection import open_connection, quick_check
from tests.memory.doubles import WordEmbedder, open_engine, workspace

NAMES = st.sampled_from(
    ["MEMORY.md", "memory/a.md", "memory/b.md", "memory/sub/a.md", "memory/sub/c.md/d.md"]
)
TEXTS = st.sampled_from(
    [
        "",
        "\n",
        "zebra",
        "giraffe",
        "# One\n\ntext\n",
        "# One\n\ntext\n" * 300,
        "\ufeffü記\r\n\x00",
        "same size",
    ]
)


@dataclass(frozen=True)
class Step:
    """Something that a person, an editor or a sync program does to a workspace."""

    what: str
    name: str
    other: str
    text: str

    def do(self, root: Path) -> None:
        """Does it, in the place of whatever is there."""
        path, other = root / self.name, root / self.other
        if self.what == "write":
            _make_way(root, path)
            path.write_bytes(self.text.encode())
        elif self.what == "folder":
            _make_way(root, path)
            path.mkdir()
        elif self.what == "remove":
            _remove(path)
        elif self.what == "rename" and path.is_file() and not other.is_relative_to(path):
            _make_way(root, other)
            if path.exists():
                path.replace(other)
        elif self.what == "same size" and path.is_file():
            info = path.stat()
            path.write_bytes(bytes(byte ^ 1 if byte > 64 else byte for byte in path.read_bytes()))
            os.utime(path, ns=(info.st_atime_ns, info.st_mtime_ns))
        elif self.what == "older" and path.is_file():
            os.utime(path, (1_000_000_000, 1_000_000_000))


def _make_way(root: Path, path: Path) -> None:
    _remove(path)
    for folder in reversed(path.relative_to(root).parents[:-1]):
        if (root / folder).is_file():
            (root / folder).unlink()
    path.parent.mkdir(parents=True, exist_ok=True)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    elif path.exists():
        path.unlink()


STEPS = st.builds(
    Step,
    st.sampled_from(["write", "write", "write", "folder", "remove", "rename", "same size", "older"]),
    NAMES,
    NAMES,
    TEXTS,
)


def _content(index: Path) -> list[tuple[object, ...]]:
    connection = open_connection(index, read_only=True)
    try:
        assert quick_check(connection) == ""
        chunks = connection.execute("SELECT count(*) FROM chunks").get
        assert connection.execute("SELECT count(*) FROM chunks_fts").get == chunks
        assert connection.execute("SELECT count(DISTINCT chunk_id) FROM chunk_vectors").get == chunks
        return connection.execute(
            "SELECT path, files.content_hash, ordinal, start_line, end_line, heading_path, day, text"
            " FROM files LEFT JOIN chunks ON files.id = file_id ORDER BY path, ordinal"
        ).fetchall()
    finally:
        connection.close()


async def _follow(folder: Path, rounds: list[list[Step]], *, force_last: bool) -> None:
    root = workspace(folder, {"KEEP.txt": "so that the workspace is never empty"})
    engine = await open_engine(folder, embedder=WordEmbedder())
    for number, steps in enumerate(rounds, start=1):
        for step in steps:
            step.do(root)
        report = await engine.sync(reason="cli", force=force_last and number == len(rounds))
        assert (report.failed, report.problem) == ((), "")
        assert (await engine.status()).pending_files == 0
    await engine.close()
    fresh = await open_engine(folder, embedder=WordEmbedder(), index_path=folder / "fresh" / "main.sqlite")
    await fresh.sync(reason="cli")
    await fresh.close()

    assert _content(folder / "state" / "main.sqlite") == _content(folder / "fresh" / "main.sqlite")


@pytest.mark.slow
@settings(max_examples=60)
@given(st.lists(st.lists(STEPS, min_size=1, max_size=6), min_size=1, max_size=4), st.booleans())
def test_a_synced_index_equals_a_fresh_one(rounds: list[list[Step]], force_last: bool) -> None:
    """Written, removed, renamed over each other, changed without a trace in size and time, made a folder."""
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(_follow(Path(folder), rounds, force_last=force_last))


async def test_a_change_during_a_pass_is_not_taken_for_seen(tmp_path: Path) -> None:
    """A note that is written after a pass has listed the files is found by the next search."""
    root = workspace(tmp_path, {f"memory/{n}.md": f"note {n}" for n in range(9)})
    engine = await open_engine(tmp_path)

    def write(_progress: SyncProgress) -> None:
        (root / "memory" / "late.md").write_text("A wombat came by.")
        engine.mark_dirty()

    await engine.sync(reason="cli", progress=write)

    assert [hit.path for hit in (await engine.search("wombat")).hits] == ["memory/late.md"]
    await engine.close()


async def test_a_note_that_was_mended_is_indexed_at_once(tmp_path: Path) -> None:
    """A file that was too large is read again when it is smaller, not when the next try would be due."""
    root = workspace(tmp_path, {"memory/a.md": "tea"})
    with (root / "memory" / "a.md").open("ab") as file:
        file.truncate(10**9)
    engine = await open_engine(tmp_path)
    failed = (await engine.sync(reason="cli")).failed
    (root / "memory" / "a.md").write_text("A wombat came by.")

    mended = await engine.sync(reason="watch")

    assert ([failure.path for failure in failed], mended.failed) == (["memory/a.md"], ())
    assert [hit.path for hit in (await engine.search("wombat")).hits] == ["memory/a.md"]
    await engine.close()
