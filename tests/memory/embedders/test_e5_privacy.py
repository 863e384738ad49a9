"""The local embedding model keeps to itself: no device id, no event store, no cache folder."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

EMBED_ONCE = """
import asyncio
from nacre.memory.embedders.e5 import E5Embedder
print(len(asyncio.run(E5Embedder().embed_query("where is the key?"))))
"""


def test_embedding_leaves_nothing_in_the_home_folder(tmp_path: Path) -> None:
    """onnxruntime's telemetry, which begins with a file below the home folder, never starts."""
    run = subprocess.run(
        [sys.executable, "-c", EMBED_ONCE],
        env={"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert run.stdout.strip() == "384", run.stderr
    assert list(tmp_path.iterdir()) == []
