"""What a search may read of any store: one moment, inside its scope, the nearest first."""

from __future__ import annotations

import asyncio
from datetime import date

import pytest

from nacre.memory.contracts.store import Piece, Scope, Scores, Snapshot
from nacre.memory.contracts.words import Atom
from nacre.memory.text.lexical import match_query
from tests.memory.stores.sample_index import (
    BOTH,
    MEMORY,
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
    texts_of,
)


class SearchContract:
    """Subclass it with a fixture `open_store`, as `StoreContract`."""

    async def test_a_sample_comes_from_everywhere(self, open_store: OpenStore) -> None:
        """No more than asked for, from the first to the last chunk, each once."""
        store = await open_store()
        assert await store.search(lambda moment: moment.sampled_texts(4)) == ()
        names = [f"plum {number:02}" for number in range(40)]
        await put(store, *(indexed(chunk(name, path=f"memory/{name[5:]}.md")) for name in names))

        few = await store.search(lambda moment: moment.sampled_texts(4))
        all_of_them = await store.search(lambda moment: moment.sampled_texts(100))
        assert len(set(few)) == 4
        assert max(few) >= "plum 20"
        assert sorted(all_of_them) == names

    @pytest.mark.covers("IDX-17")
    async def test_a_search_stays_in_its_scope(self, open_store: OpenStore) -> None:
        """Sources and days narrow both lists; days are inclusive, and leave out notes without one."""
        store = await open_store()
        old, new = date(2026, 1, 1), date(2026, 2, 1)
        await put(
            store,
            indexed(chunk("plum old", path="memory/old.md", day=old)),
            indexed(chunk("plum new", path="memory/new.md", day=new)),
            indexed(chunk("plum ever", path="MEMORY.md")),
            indexed(chunk("plum said", path="sessions/s.jsonl", day=new)),
        )
        await embed(store, {f"plum {word}": [1.0, 0.5] for word in ("old", "new", "ever", "said")})

        async def both(scope: Scope) -> set[str]:
            words = set(await found(store, "plum", scope))
            chunks = await store.search(
                lambda moment: moment.chunks(list(moment.begin_nearest([1.0, 0.5], limit=10, scope=scope)()))
            )
            assert {item.text for item in chunks.values()} == words
            assert all(scope.admits(item.source, item.path, item.date) for item in chunks.values())
            return words

        assert await both(BOTH) == {"plum old", "plum new", "plum ever", "plum said"}
        assert await both(MEMORY) == {"plum old", "plum new", "plum ever"}
        assert await both(Scope(sources=("memory",), after=new)) == {"plum new"}
        assert await both(Scope(sources=("memory",), before=old)) == {"plum old"}
        undated = Scope(sources=("memory",), before=old, undated=True)
        assert await both(undated) == {"plum old", "plum ever"}
        assert await both(Scope(sources=("sessions",), after=old, before=new)) == {"plum said"}
        assert await both(Scope(sources=("memory",), below="memory")) == {"plum old", "plum new"}
        assert await both(Scope(sources=("memory",), below="memory", after=new)) == {"plum new"}
        assert await both(Scope(sources=("memory", "sessions"), below="mem")) == set()

    async def test_the_nearest_chunk_is_the_one_with_the_highest_cosine(self, open_store: OpenStore) -> None:
        """Length does not count, direction does; the best piece of a chunk speaks for it."""
        store = await open_store()
        await put(store, indexed(chunk("one"), chunk("two", ordinal=1), chunk("both", ordinal=2)))
        ids = await ids_by_text(store)
        await embed(store, {"one": [10.0, 0.0], "two": [0.0, 0.1]})
        pieces = [Piece(chunk_id=ids["both"], piece=at, text_hash=key) for at, key in ((0, b"p"), (1, b"q"))]
        await put_vectors(store, "e", {b"p": [-1.0, 0.0], b"q": [1.0, 1.0]}, now_seconds=1)
        await attach_known(store, "e", pieces, now_seconds=1)

        def look(moment: Snapshot) -> tuple[Scores, Scores]:
            nearest = moment.begin_nearest([0.0, 3.0], limit=2, scope=MEMORY)
            return nearest(), moment.cosines([0.0, 3.0], [ids["one"], ids["both"], 999_999])

        nearest, exact = await store.search(look)

        assert list(nearest) == [ids["two"], ids["both"]]
        assert [round(score, 4) for score in nearest.values()] == [1.0, 0.7071]
        assert {key: round(value, 4) for key, value in exact.items()} == {
            ids["one"]: 0.0,
            ids["both"]: 0.7071,
        }

    async def test_how_many_chunks_have_a_word(self, open_store: OpenStore) -> None:
        """Counted as words are found, in whatever form they stand; a small index is counted anew."""
        store = await open_store()
        await put(store, indexed(chunk("green apples"), chunk("green pears", ordinal=1)))
        atoms = [Atom("green"), Atom("apple"), Atom("plum")]

        assert list(await store.search(lambda moment: moment.counts_of(atoms))) == [2, 1, 0]
        await put(store, indexed(chunk("green plums"), chunk("green pears", ordinal=1)))
        assert list(await store.search(lambda moment: moment.counts_of(atoms))) == [2, 0, 1]

    async def test_a_search_reads_one_moment(self, open_store: OpenStore) -> None:
        """What is written, and published, while a search runs is not mixed into it."""
        store, other = await open_store(), await open_store()
        day = date(2026, 2, 10)
        await put(store, indexed(chunk("red apples", day=day)))
        loop = asyncio.get_running_loop()
        asked = match_query("apples pears")
        assert asked is not None

        async def change() -> None:
            await put(other, indexed(chunk("green pears")))
            rebuild = await other.begin_rebuild({"identity.chunking": "2"})
            await put(rebuild.store, indexed(chunk("sour pears"), chunk("more", ordinal=1)))
            await rebuild.publish()

        def look(moment: Snapshot) -> tuple[list[str], list[str], int]:
            before = moment.lexical(asked, limit=5, scope=MEMORY)
            asyncio.run_coroutine_threadsafe(change(), loop).result(timeout=30)
            places = moment.places(list(before)).values()
            assert [(place.path, place.date, place.changed_at_ns) for place in places] == [
                ("memory/a.md", day, 2)
            ]
            again = moment.lexical(asked, limit=5, scope=MEMORY)
            return texts_of(moment, before), texts_of(moment, again), moment.chunk_count()

        assert await store.search(look) == (["red apples"], ["red apples"], 1)
        assert await found(store, "apples pears") == ["sour pears"]
        assert await store.search(lambda moment: moment.chunk_count()) == 2

    async def test_a_search_that_fails_leaves_the_next_one_whole(self, open_store: OpenStore) -> None:
        """An error inside a search reaches who asked, and the next search sees what was written since."""
        store = await open_store()

        with pytest.raises(ZeroDivisionError):
            await store.search(lambda moment: moment.chunk_count() // 0)
        await put(store, indexed(chunk("red apples")))

        assert await found(store, "apples") == ["red apples"]

    async def test_vectors_of_deleted_chunks_are_not_found(self, open_store: OpenStore) -> None:
        """Whether a search came before the change or not, only what is stored now is found, and in order."""
        store, other = await open_store(), await open_store()
        texts = {f"note {at}": [1.0, at / 10] for at in range(8)}
        files = [indexed(chunk(text, path=f"memory/{text}.md")) for text in texts]
        await put(store, *files)
        await embed(store, texts)
        assert await near(store, [1.0, 0.0]) == list(texts)

        await other.write(lambda index: index.remove_files("memory", ["memory/note 0.md"]))
        assert await near(store, [1.0, 0.0]) == list(texts)[1:]
        await other.write(
            lambda index: index.remove_files("memory", [f"memory/note {at}.md" for at in range(1, 6)])
        )
        await put(other, files[0])
        await embed(other, {"note 0": [1.0, 0.0]})

        assert await near(store, [1.0, 0.0]) == ["note 0", "note 6", "note 7"]

    @pytest.mark.covers("Q-8")
    async def test_vectors_of_another_length_or_of_none_are_passed_over(self, open_store: OpenStore) -> None:
        """A query of another length finds nothing and breaks nothing; so does one that is all zeros."""
        store = await open_store()
        await put(store, indexed(chunk("one")))
        await embed(store, {"one": [1.0, 0.0]})

        assert await near(store, [1.0, 0.0, 0.0]) == []
        assert await near(store, [0.0, 0.0]) == []
        assert await near(store, [1.0, 0.0]) == ["one"]
