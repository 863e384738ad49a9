"""What is left of memory when its index cannot be opened: files are read, a search says why there is none.

A conversation does not need the index, so a full disk or a wrong `store.path` must not take it away.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

from nacre.memory.contracts.errors import IndexUnusable
from nacre.memory.contracts.records import Excerpt, SearchReport
from nacre.memory.files.reading import read_excerpt


class UnindexedNotes:
    """Stands in for the memory engine in the tools; `problem` is why there is none, as a sentence."""

    def __init__(self, *, workspace: Path, extra_paths: Sequence[str], problem: str) -> None:
        self.problem = problem
        self.languages: tuple[str, ...] = ()
        self._workspace = workspace
        self._extra_paths = tuple(extra_paths)

    async def search(self, _query: str, /, **_limits: object) -> SearchReport:
        """Finds nothing: raises `IndexUnusable` with the problem."""
        raise IndexUnusable(self.problem)

    async def read(
        self, path: str, *, from_line: int | None = None, lines: int | None = None, below: str = ""
    ) -> Excerpt:
        """Lines of a memory file, as `MemoryEngine.read`."""
        return await asyncio.to_thread(
            read_excerpt,
            self._workspace,
            self._extra_paths,
            path,
            from_line=from_line,
            lines=lines,
            below=below,
        )
