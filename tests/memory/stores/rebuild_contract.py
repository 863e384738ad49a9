"""What a store's rebuild must do: hidden until published, taken up after a cut, never mixing ids."""

from __future__ import annotations

import asyncio

import pytest

from nacre.memory.contracts.errors import IndexBusy
from nacre.memory.contracts.store import Piece
from tests.memory.stores.sample_index import (
    OpenStore,
    attach_known,
    chunk,
    embed,
    found,
    ids_by_text,
    indexed,
    near,
    put,
    put_vectors,
)

IDENTITY = {"identity.chunking": "2"}


class RebuildContract:
    """Subclass it with a fixture `open_store`, as `StoreContract`."""

    @pytest.mark.covers("Q-14")
    async def test_the_old_index_answers_until_the_new_one_is_published(self, open_store: OpenStore) -> None:
        """Readers see the old content, then the new content, and nothing in between."""
        store = await open_store()
        await put(store, indexed(chunk("old words")))
        rebuild = await store.begin_rebuild(IDENTITY)
        await put(rebuild.store, indexed(chunk("new words")))

        assert await found(store, "words") == ["old words"]
        await rebuild.publish()
        assert await found(store, "words") == ["new words"]
        assert await store.has_unfinished_rebuild(IDENTITY) is False

    @pytest.mark.covers("IDX-15")
    async def test_a_rebuild_that_was_cut_off_is_taken_up_again(self, open_store: OpenStore) -> None:
        """What it had done is still there for the same identity, and thrown away for another."""
        store = await open_store()
        rebuild = await store.begin_rebuild(IDENTITY)
        await put(rebuild.store, indexed(chunk("half done")))
        await rebuild.leave()

        assert await store.has_unfinished_rebuild(IDENTITY) is True
        again = await store.begin_rebuild(IDENTITY)
        assert await found(again.store, "half") == ["half done"]
        await again.leave()
        assert await store.has_unfinished_rebuild({"identity.chunking": "3"}) is False
        fresh = await store.begin_rebuild(IDENTITY)
        assert await found(fresh.store, "half") == []
        await fresh.leave()

    async def test_only_one_rebuild_runs_at_a_time(self, open_store: OpenStore) -> None:
        """A second one is refused while the first is at work, and allowed after it."""
        store, other = await open_store(), await open_store()
        rebuild = await store.begin_rebuild(IDENTITY)

        with pytest.raises(IndexBusy, match="rebuilding"):
            await other.begin_rebuild(IDENTITY)
        await rebuild.publish()
        second = await other.begin_rebuild(IDENTITY)
        await second.leave()

    async def test_vectors_come_along(self, open_store: OpenStore) -> None:
        """Vectors of the old index, and those stored while the new one was built, need no embedder."""
        store = await open_store()
        await put(store, indexed(chunk("one")))
        await embed(store, {"one": [1.0, 0.0]})
        rebuild = await store.begin_rebuild(IDENTITY)
        await rebuild.copy_vectors()
        await put(rebuild.store, indexed(chunk("one"), chunk("two", ordinal=1)))
        ids = await ids_by_text(rebuild.store)
        piece = Piece(chunk_id=ids["one"], piece=0, text_hash=b"one")
        assert await attach_known(rebuild.store, "e", [piece], now_seconds=2) == set()
        await put_vectors(store, "e", {b"two": [0.0, 1.0]}, now_seconds=3)

        await rebuild.publish()

        assert await near(store, [1.0, 0.0]) == ["one"]
        late = Piece(chunk_id=ids["two"], piece=0, text_hash=b"two")
        assert await attach_known(store, "e", [late], now_seconds=4) == set()

    async def test_an_id_never_means_two_chunks(self, open_store: OpenStore) -> None:
        """Ids that were looked up before a rebuild or a change find nothing after it, not something else."""
        store = await open_store()
        await put(store, indexed(chunk("old")))
        before = set((await ids_by_text(store)).values())
        await put(store, indexed(chunk("changed")))
        rebuild = await store.begin_rebuild(IDENTITY)
        await put(rebuild.store, indexed(chunk("rebuilt")))
        await put(store, indexed(chunk("between"), chunk("more", ordinal=1)))
        before |= set((await ids_by_text(store)).values())

        await rebuild.publish()

        assert await store.search(lambda moment: moment.chunks(sorted(before))) == {}
        assert set(await ids_by_text(store)) == {"rebuilt"}

    async def test_others_wait_while_the_last_look_is_taken(self, open_store: OpenStore) -> None:
        """Inside `alone`, another writer waits; after it, its change lands in the new index."""
        store, other = await open_store(), await open_store()
        rebuild = await store.begin_rebuild(IDENTITY)
        async with rebuild.alone():
            writing = asyncio.create_task(put(other, indexed(chunk("late words"))))
            done, _ = await asyncio.wait({writing}, timeout=0.2)
            assert not done
            await put(rebuild.store, indexed(chunk("new words", path="memory/b.md")))
            await rebuild.publish()
        await writing

        assert sorted(await found(store, "words")) == ["late words", "new words"]
