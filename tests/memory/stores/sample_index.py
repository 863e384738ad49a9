"""What the tests of stores put into an index, and how they read it."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable
from datetime import date
from typing import Any

from nacre.memory.contracts.records import Chunk, Source
from nacre.memory.contracts.store import FileState, IndexedFile, Piece, Scope, Snapshot, Store, StoreCounts
from nacre.memory.text.chunker import content_hash
from nacre.memory.text.lexical import lexical_fields, match_query

OpenStore = Callable[[], Coroutine[Any, Any, Store]]
MEMORY = Scope(sources=("memory",))
BOTH = Scope(sources=("memory", "sessions"))


def chunk(
    text: str,
    *,
    path: str = "memory/a.md",
    ordinal: int = 0,
    day: date | None = None,
    headings: tuple[str, ...] = ("Top",),
) -> Chunk:
    """A chunk of one line."""
    source: Source = "sessions" if path.startswith("sessions/") else "memory"
    return Chunk(
        source=source,
        path=path,
        start_line=ordinal + 1,
        end_line=ordinal + 1,
        text=text,
        heading_path=headings,
        date=day,
        content_hash=content_hash(text),
        ordinal=ordinal,
    )


def indexed(*chunks: Chunk, digest: str = "h") -> IndexedFile:
    """A file with these chunks."""
    first = chunks[0]
    state = FileState(
        source=first.source,
        path=first.path,
        content_hash=digest,
        size=1,
        mtime_ns=2,
        inode=3,
        read_at_ns=4,
    )
    return IndexedFile(state=state, chunks=chunks, fields=[lexical_fields(item) for item in chunks])


async def put(store: Store, *files: IndexedFile) -> None:
    """Stores files, all in one transaction."""
    await store.write(lambda index: index.replace_files(files))


async def counts_of(store: Store) -> StoreCounts:
    """How much is stored."""
    return await store.read(lambda index: index.counts())


async def put_vectors(
    store: Store, embedder: str, vectors: dict[bytes, list[float] | None], *, now_seconds: int
) -> None:
    """Stores vectors, attached to nothing."""
    await store.write(lambda index: index.put_vectors(embedder, vectors, now_seconds=now_seconds))


async def attach_known(store: Store, embedder: str, pieces: list[Piece], *, now_seconds: int) -> set[bytes]:
    """Attaches stored vectors; the hashes of those that are not."""
    return await store.write(lambda index: index.attach_known(embedder, pieces, now_seconds=now_seconds))


async def found(store: Store, query: str, scope: Scope = MEMORY) -> list[str]:
    """The texts that a word query finds, best first."""
    asked = match_query(query)
    assert asked is not None
    return await store.search(lambda moment: texts_of(moment, moment.lexical(asked, limit=10, scope=scope)))


async def near(store: Store, vector: list[float], scope: Scope = MEMORY) -> list[str]:
    """The texts that a vector finds, best first."""
    return await store.search(
        lambda moment: texts_of(moment, moment.begin_nearest(vector, limit=10, scope=scope)())
    )


def texts_of(moment: Snapshot, chunk_ids: Iterable[int]) -> list[str]:
    """The texts of these chunks, in their order."""
    texts = moment.texts(list(chunk_ids))
    return [texts[chunk_id] for chunk_id in chunk_ids]


async def ids_by_text(store: Store) -> dict[str, int]:
    """The ids of chunks without vectors, by text."""
    rows = await store.read(lambda index: index.without_vectors(above_id=0, limit=100))
    return {item.text: chunk_id for chunk_id, item in rows}


async def embed(store: Store, vectors: dict[str, list[float] | None], *, embedder: str = "e") -> None:
    """Attaches one vector to each chunk of these texts."""
    ids = await ids_by_text(store)
    pieces = [Piece(chunk_id=ids[text], piece=0, text_hash=text.encode()) for text in vectors]
    await put_vectors(
        store, embedder, {text.encode(): value for text, value in vectors.items()}, now_seconds=1
    )
    assert await attach_known(store, embedder, pieces, now_seconds=1) == set()
