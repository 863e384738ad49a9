"""What every store must do, whatever database is behind it. A member's test file inherits `StoreContract`.

Nothing here may name a database: the next members are Postgres and LanceDB.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import date

import pytest

from nacre.memory.contracts.embedder import VectorsDiffer
from nacre.memory.contracts.records import FailedFile
from nacre.memory.contracts.store import Piece
from tests.memory.stores.sample_index import (
    OpenStore,
    attach_known,
    chunk,
    counts_of,
    embed,
    found,
    ids_by_text,
    indexed,
    near,
    put,
    put_vectors,
)


class StoreContract:
    """Subclass it with a fixture `open_store` that opens the same, at first empty, store each time."""

    @pytest.mark.covers("Q-26")
    async def test_a_file_replaces_what_was_stored_for_it(self, open_store: OpenStore) -> None:
        """Old chunks of the file are gone, those of other files stay."""
        store = await open_store()
        await put(store, indexed(chunk("red apples")), indexed(chunk("blue sky", path="MEMORY.md")))
        await put(store, indexed(chunk("green pears"), chunk("ripe plums", ordinal=1)))

        assert await found(store, "apples") == []
        assert await found(store, "pears") == ["green pears"]
        assert await found(store, "sky") == ["blue sky"]
        counts = await counts_of(store)
        assert [(item.source, item.files, item.chunks) for item in counts.sources] == [("memory", 2, 3)]
        assert await store.search(lambda moment: moment.chunk_count()) == 3

    @pytest.mark.covers("ATT-13")
    async def test_what_did_not_change_is_kept(self, open_store: OpenStore) -> None:
        """A chunk with the same words stays itself, with its vector, also when it moved to other lines."""
        store = await open_store()
        sky = chunk("blue sky", ordinal=1), chunk("blue sky", ordinal=2)
        await put(store, indexed(chunk("red apples"), *sky))
        before = await store.read(lambda index: index.without_vectors(above_id=0, limit=9))
        await embed(store, {"red apples": [1.0, 0.0]})

        changed = (chunk("new words"), chunk("red apples", ordinal=1), chunk("blue sky", ordinal=2))
        await put(store, indexed(*changed, digest="2"))

        ids = [chunk_id for chunk_id, _ in before]
        kept = await store.search(lambda moment: moment.chunks(ids))
        assert [kept.get(chunk_id) for chunk_id in ids] == [changed[1], changed[2], None]
        assert await near(store, [1.0, 0.0]) == ["red apples"]
        assert [await found(store, word) for word in ("apples", "sky", "new")] == [
            ["red apples"],
            ["blue sky"],
            ["new words"],
        ]
        counts = await counts_of(store)
        assert (counts.sources[0].chunks, counts.pending_chunks) == (3, 2)

    async def test_an_earlier_reading_never_replaces_a_later_one(self, open_store: OpenStore) -> None:
        """A process that read a file first and writes last does not undo the newer content."""
        store = await open_store()
        late, early = indexed(chunk("late words"), digest="2"), indexed(chunk("early words"), digest="1")
        await put(store, replace(late, state=late.state._replace(read_at_ns=50)))
        await put(store, early)
        await store.write(lambda index: index.touch_files([early.state]))

        assert await found(store, "words") == ["late words"]
        states = await store.read(lambda index: index.file_states("memory"))
        assert (states["memory/a.md"].content_hash, states["memory/a.md"].read_at_ns) == ("2", 50)

    async def test_a_reading_from_the_future_is_replaced(self, open_store: OpenStore) -> None:
        """A clock that was wrong and has been set back does not keep a file from being followed."""
        store = await open_store()
        wrong, right = indexed(chunk("old words"), digest="1"), indexed(chunk("new words"), digest="2")
        year_ns = 365 * 86_400 * 1_000_000_000
        await put(store, replace(wrong, state=wrong.state._replace(read_at_ns=year_ns)))
        await store.write(lambda index: index.touch_files([wrong.state._replace(mtime_ns=7)]))
        assert (await store.read(lambda index: index.file_states("memory")))["memory/a.md"].mtime_ns == 7
        await put(store, replace(wrong, state=wrong.state._replace(read_at_ns=year_ns)))

        await put(store, right)

        assert await found(store, "words") == ["new words"]

    async def test_chunks_come_back_as_they_went_in(self, open_store: OpenStore) -> None:
        """Every field of a chunk survives, and a file's chunks keep their order."""
        store = await open_store()
        chunks = (chunk("café 记忆 😀", day=date(2026, 2, 10)), chunk("second", ordinal=1))
        await put(store, indexed(*chunks))

        stored = await store.read(lambda index: index.stored_file("memory", "memory/a.md"))

        assert stored is not None
        assert tuple(stored[1]) == chunks
        assert stored[0] == indexed(*chunks).state
        assert await store.read(lambda index: index.stored_file("memory", "memory/none.md")) is None

    async def test_what_was_written_is_there_after_reopening(self, open_store: OpenStore) -> None:
        """A store that was closed holds its files, rows of meta and failures."""
        store = await open_store()
        await put(store, indexed(chunk("red apples")))
        await store.write(lambda index: index.set_meta({"a": "1"}))
        await store.write(lambda index: index.set_meta({"b": "2"}))
        failure = FailedFile(path="x.md", problem="no", attempts=1, retry_at_seconds=5.0)
        await store.write(lambda index: index.set_failures("memory", [failure], []))
        await store.close()

        again = await open_store()

        assert await found(again, "apples") == ["red apples"]
        assert dict(await again.read(lambda index: index.meta())) == {"a": "1", "b": "2"}
        assert await again.read(lambda index: index.failures("memory")) == {"x.md": failure}
        assert await again.read(lambda index: index.failures("sessions")) == {}

    @pytest.mark.covers("IDX-5")
    async def test_removed_files_leave_nothing_behind(self, open_store: OpenStore) -> None:
        """Words, vectors, states and failures of a removed file are gone; its vectors stay as a cache."""
        store = await open_store()
        await put(store, indexed(chunk("red apples")))
        await embed(store, {"red apples": [1.0, 0.0]})
        await store.write(
            lambda index: index.set_failures(
                "memory", [FailedFile(path="memory/a.md", problem="no", attempts=1, retry_at_seconds=5.0)], []
            )
        )

        await store.write(lambda index: index.remove_files("memory", ["memory/a.md", "memory/never.md"]))

        assert await found(store, "apples") == []
        assert await near(store, [1.0, 0.0]) == []
        assert await store.read(lambda index: index.file_states("memory")) == {}
        assert await store.read(lambda index: index.failures("memory")) == {}
        counts = await counts_of(store)
        assert (counts.vectors, counts.cached_vectors) == (0, 1)

    @pytest.mark.covers("IDX-17", "PART-29", "PART-31")
    async def test_a_known_text_is_not_embedded_twice(self, open_store: OpenStore) -> None:
        """The vector of a text that comes back is attached from the cache, for its own embedder only."""
        store = await open_store()
        await put(store, indexed(chunk("one")))
        await embed(store, {"one": [1.0, 0.0]})
        await store.write(lambda index: index.remove_files("memory", ["memory/a.md"]))
        await put(store, indexed(chunk("one", path="memory/b.md")))
        piece = Piece(chunk_id=(await ids_by_text(store))["one"], piece=0, text_hash=b"one")

        assert await attach_known(store, "other", [piece], now_seconds=2) == {b"one"}
        assert await attach_known(store, "e", [piece], now_seconds=2) == set()
        assert await ids_by_text(store) == {}

    async def test_a_text_that_two_embed_at_once_stays_found(self, open_store: OpenStore) -> None:
        """A second answer for a text whose vector is attached already takes nothing away."""
        store, other = await open_store(), await open_store()
        await put(store, indexed(chunk("one")))
        await embed(store, {"one": [1.0, 0.0]})

        await put_vectors(other, "e", {b"one": [1.0, 0.0]}, now_seconds=2)

        assert await near(await open_store(), [1.0, 0.0]) == ["one"]
        assert (await counts_of(store)).cached_vectors == 0

    async def test_a_chunk_waits_until_all_its_pieces_have_vectors(self, open_store: OpenStore) -> None:
        """A chunk with one unknown piece counts as without vectors."""
        store = await open_store()
        await put(store, indexed(chunk("one")))
        chunk_id = (await ids_by_text(store))["one"]
        pieces = [Piece(chunk_id=chunk_id, piece=at, text_hash=key) for at, key in ((0, b"p"), (1, b"q"))]
        await put_vectors(store, "e", {b"p": [1.0, 0.0]}, now_seconds=1)

        assert await attach_known(store, "e", pieces, now_seconds=1) == {b"q"}
        assert (await counts_of(store)).pending_chunks == 1

    async def test_a_refused_text_is_settled_but_never_found_by_vector(self, open_store: OpenStore) -> None:
        """Its chunk is not asked for again, the store can say which it is, and words still find it."""
        store = await open_store()
        await put(store, indexed(chunk("odd")))
        assert await store.read(lambda index: index.refused(limit=9)) == []
        await embed(store, {"odd": None})

        assert await store.read(lambda index: index.refused(limit=9)) == ["memory/a.md#L1"]
        assert await store.read(lambda index: index.refused(limit=0)) == []

        assert await ids_by_text(store) == {}
        assert await near(store, [1.0, 0.0]) == []
        assert await found(store, "odd") == ["odd"]

    async def test_vectors_for_chunks_that_are_gone_are_not_attached(self, open_store: OpenStore) -> None:
        """A slow embedder's answer for an old chunk never lands on a new one."""
        store = await open_store()
        await put(store, indexed(chunk("old")))
        stale = Piece(chunk_id=(await ids_by_text(store))["old"], piece=0, text_hash=b"old")
        await put(store, indexed(chunk("new")))
        await put_vectors(store, "e", {b"old": [1.0, 0.0]}, now_seconds=1)
        await attach_known(store, "e", [stale], now_seconds=1)

        assert set(await ids_by_text(store)) == {"new"}
        assert await near(store, [1.0, 0.0]) == []

    @pytest.mark.covers("PART-31", "Q-18")
    async def test_the_cache_forgets_the_longest_unused_first(self, open_store: OpenStore) -> None:
        """Vectors in use are never evicted, whatever the limit."""
        store = await open_store()
        await put(store, indexed(chunk("kept")))
        await embed(store, {"kept": [1.0, 0.0]})
        for at, key in enumerate((b"a", b"b", b"c")):
            await put_vectors(store, "e", {key: [0.0, 1.0]}, now_seconds=10 + at)

        assert await store.write(lambda index: index.evict(keep_unused=None)) == 0
        assert await store.write(lambda index: index.evict(keep_unused=2)) == 1
        counts = await counts_of(store)
        assert (counts.vectors, counts.cached_vectors, counts.dimensions) == (1, 2, 2)
        gone = [Piece(chunk_id=1, piece=0, text_hash=key) for key in (b"a", b"b", b"c")]
        assert await attach_known(store, "e", gone, now_seconds=20) == {b"a"}

    @pytest.mark.covers("PART-29")
    async def test_detached_vectors_stay_as_a_cache(self, open_store: OpenStore) -> None:
        """After a change of embedder every chunk waits again, and the old vectors are still known."""
        store = await open_store()
        await put(store, indexed(chunk("one")))
        await embed(store, {"one": [1.0, 0.0]})

        await store.write(lambda index: index.detach_vectors())

        assert set(await ids_by_text(store)) == {"one"}
        assert await near(store, [1.0, 0.0]) == []
        assert (await counts_of(store)).cached_vectors == 1

    async def test_an_index_gets_no_vectors_of_another_embedder(self, open_store: OpenStore) -> None:
        """Two programs with different settings may write at once; what either made stays known."""
        store = await open_store()
        await put(store, indexed(chunk("one")))
        mark = {"identity.provider": "new", "identity.model": "m", "identity.endpoint": "e"}
        await store.write(lambda index: index.set_meta(mark))

        await embed(store, {"one": [1.0, 0.0]})
        assert await near(store, [1.0, 0.0]) == []
        assert (await counts_of(store)).cached_vectors == 1

        await store.write(
            lambda index: index.set_meta(
                {"identity.provider": "e", "identity.model": "", "identity.endpoint": ""}
            )
        )
        piece = Piece(chunk_id=1, piece=0, text_hash=b"one")
        assert await attach_known(store, "e\n\n", [piece], now_seconds=1) == {b"one"}
        await put_vectors(store, "e\n\n", {b"one": [1.0, 0.0]}, now_seconds=1)
        await attach_known(store, "e\n\n", [piece], now_seconds=1)
        assert await near(store, [1.0, 0.0]) == ["one"]

    async def test_vectors_of_another_length_are_refused(self, open_store: OpenStore) -> None:
        """One embedder's vectors have one length; an answer with another is not stored, not even in part."""
        store = await open_store()
        await put_vectors(store, "e", {b"refused": None}, now_seconds=1)
        await put_vectors(store, "e", {b"a": [1.0, 0.0]}, now_seconds=1)
        with pytest.raises(VectorsDiffer, match="vectors with 3 numbers, and the stored ones have 2"):
            await put_vectors(store, "e", {b"b": [0.0, 1.0], b"c": [1.0, 0.0, 0.0]}, now_seconds=1)
        await put_vectors(store, "other", {b"a": [1.0, 0.0, 0.0]}, now_seconds=1)

        assert (await counts_of(store)).cached_vectors == 3
