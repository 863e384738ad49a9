"""A store of the memory that is filled with texts and vectors, and asked, through its contract alone."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any

from nacre.extensions.postgres.server.database import Database
from nacre.memory.contracts.records import Chunk
from nacre.memory.contracts.store import FileState, IndexedFile, Piece, Scope, Snapshot, Store, Writer
from nacre.memory.text.lexical import lexical_fields, match_query

POOL = 30
BATCH = 250
SCOPE = Scope(sources=("memory",))
_SIZE = """
SELECT sum(pg_total_relation_size(oid)) FROM pg_class WHERE relname LIKE 'memory%' AND relkind = 'r'
"""


class MemoryStore:
    """A store of the memory, asked through its contract. `lies_in` is the file or the database behind it."""

    def __init__(self, store: Store, lies_in: Path | Database) -> None:
        self._store = store
        self._lies_in = lies_in
        self._above_id = 0

    async def add(self, first: int, texts: Sequence[str], vectors: Any) -> None:
        """Texts of one line, each in a file of its own, with their vectors; `first` numbers them."""
        for at in range(0, len(texts), BATCH):
            files = [
                _indexed_file(first + at + place, text) for place, text in enumerate(texts[at : at + BATCH])
            ]
            await self._store.write(partial(_replaced, files=files))
        while waiting := await self._store.read(partial(_waiting, above_id=self._above_id)):
            numbers = {chunk_id: int(chunk.path[7:-3]) for chunk_id, chunk in waiting}
            found = {number: vectors[number - first] for number in numbers.values()}
            await self._store.write(partial(_put, numbers=numbers, vectors=found))
            self._above_id = waiting[-1][0]

    async def finish(self) -> None:
        """Tidies the store."""
        await self._store.tidy()

    async def near(self, vector: Any) -> list[int]:
        """The numbers of the texts with the nearest vectors, the nearest first."""
        return await self._store.search(
            lambda moment: _numbers(moment, moment.begin_nearest(vector, limit=POOL, scope=SCOPE)())
        )

    async def by_words(self, question: str) -> list[int]:
        """The numbers of the texts that the words find, the best first."""
        asked = match_query(question)
        assert asked is not None
        return await self._store.search(
            lambda moment: _numbers(moment, moment.lexical(asked, limit=POOL, scope=SCOPE))
        )

    async def size_bytes(self) -> int:
        """What it takes on the disk."""
        if isinstance(self._lies_in, Path):
            return sum(path.stat().st_size for path in self._lies_in.parent.glob(f"{self._lies_in.name}*"))
        size = await self._lies_in.read(lambda connection: connection.execute(_SIZE).fetchone())
        return int((size or (0,))[0])


def _indexed_file(number: int, text: str) -> IndexedFile:
    path = f"memory/{number}.md"
    digest = hashlib.sha256(text.encode()).hexdigest()
    state = FileState(
        source="memory", path=path, content_hash=digest, size=1, mtime_ns=1, inode=number, read_at_ns=1
    )
    chunk = Chunk(
        source="memory",
        path=path,
        start_line=1,
        end_line=1,
        text=text,
        heading_path=("Notes",),
        date=date(2026, 1, 1),
        content_hash=digest,
        ordinal=0,
    )
    return IndexedFile(state=state, chunks=[chunk], fields=[lexical_fields(chunk)])


def _replaced(index: Writer, *, files: Sequence[IndexedFile]) -> None:
    index.replace_files(files)


def _waiting(index: Snapshot, *, above_id: int) -> Sequence[tuple[int, Chunk]]:
    return index.without_vectors(above_id=above_id, limit=BATCH)


def _put(index: Writer, *, numbers: Mapping[int, int], vectors: Mapping[int, Any]) -> None:
    found = {str(number).encode(): vectors[number] for number in numbers.values()}
    pieces = [Piece(chunk_id=key, piece=0, text_hash=str(number).encode()) for key, number in numbers.items()]
    index.put_vectors("e", found, now_seconds=1)
    index.attach_known("e", pieces, now_seconds=1)


def _numbers(moment: Snapshot, scores: Any) -> list[int]:
    places = moment.places(list(scores))
    return [int(places[key].path[7:-3]) for key in scores]
