"""What a search may not pull in."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SEARCH_BY_WORDS = """
import asyncio, sys
from datetime import UTC, datetime
from pathlib import Path
from nacre.memory.engine import MemoryEngine
from nacre.memory.contracts.settings import MemorySearchSettings
from nacre.memory.workspace.folder import FolderWorkspace

async def main(root):
    engine = await MemoryEngine.open(
        workspace=FolderWorkspace(root, lock_dir=root / "locks"),
        index_path=root / "main.sqlite",
        settings=MemorySearchSettings(),
        embedder=None,
        now=lambda: datetime.now(UTC),
    )
    report = await engine.search("apples")
    await engine.close()
    print(len(report.hits), sorted({"numpy", "sqlite_vec", "onnxruntime"} & set(sys.modules)))

asyncio.run(main(Path(sys.argv[1])))
"""


@pytest.mark.covers("PART-2", "PART-5")
def test_a_search_by_words_loads_nothing_for_vectors(tmp_path: Path) -> None:
    """Without an embedder, neither indexing nor searching imports numpy or loads the vector extension."""
    (tmp_path / "MEMORY.md").write_text("red apples")

    run = subprocess.run(
        [sys.executable, "-c", SEARCH_BY_WORDS, str(tmp_path)], capture_output=True, text=True, check=False
    )

    assert (run.stdout, run.stderr) == ("1 []\n", "")
