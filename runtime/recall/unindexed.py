"""What is left of memory when its index cannot be opened: files are read, a search says why there is none.

A conversation does not need the index, so a full disk or a wrong `store.path` must not take it away.
"""

from __future__ import annotations

from nacre.memory.contracts.errors import IndexUnusable
from nacre.memory.contracts.records import Excerpt, Question, SearchReport
from nacre.memory.files.note_files import NoteFiles, read_excerpt


class UnindexedNotes:
    """Stands in for the memory engine in the tools; `problem` is why there is none, as a sentence."""

    def __init__(self, notes: NoteFiles, problem: str) -> None:
        self.problem = problem
        self._notes = notes

    async def search(self, _question: Question, /) -> SearchReport:
        """Finds nothing: raises `IndexUnusable` with the problem."""
        raise IndexUnusable(self.problem)

    async def read(
        self, path: str, *, from_line: int | None = None, lines: int | None = None, below: str = ""
    ) -> Excerpt:
        """Lines of a memory file, as `MemoryEngine.read`."""
        return await read_excerpt(self._notes, path, from_line=from_line, lines=lines, below=below)
