"""What every store must find by words, in every script. A member's test file inherits `WordsContract`."""

from __future__ import annotations

from datetime import date

import pytest

from nacre.memory.contracts.records import Chunk
from nacre.memory.contracts.store import Store
from nacre.memory.text.days.query_dates import DayRange
from nacre.memory.text.lexical import match_query
from tests.memory.stores.sample_index import MEMORY, OpenStore, chunk, indexed, put

DAY = date(2026, 2, 10)
NOTES = (
    "memorySearch.query.hybrid is on since today",
    "commit a828e60fbc12 repaired the watcher",
    "FOO_bar fails with: sqlite-vec unavailable (#12)",
    "今天讨论方案，决定用小模型",
    "昨日は東京で寿司を食べた",
    "커피를 마셨다",
    "Новые машины стоят во дворе",
    "हिन्दी में लिखा हुआ नोट",
    "พบกันที่สวัสดีคาเฟ่",
    "A café with ﬁne wi-fi in Malmö; Straße gesperrt",
    "12 apples and 3 pears",
    "She adopted two cats and was running late",
)
FIRST = {
    "memorySearch.query.hybrid": 0,
    "memory search": 0,
    "what was commit a828e60?": 1,
    "A828E60FBC129d0077aa": 1,
    "a828e6": 1,
    "FOO_bar": 2,
    "bar": 2,
    '"sqlite-vec unavailable"': 2,
    "what about #12": 2,
    "讨论": 3,
    "我们讨论了什么方案？": 3,
    "寿司": 4,
    "커피": 5,
    "машина": 6,
    "हिन्दी": 7,
    "สวัสดี": 8,
    "cafe": 9,
    "fine": 9,
    "wifi": 9,
    "MALMO": 9,
    "strasse": 9,
    "adoption of a cat": 11,
    "did she run?": 11,
}
"""Questions, and the note that is the best answer to each."""

HOSTILE = (
    *(
        '"',
        "NEAR(a b) AND NOT *",
        "text : ^a {b}",
        "\ud800\x00",
        "\ue000",
        '“ "half',
        "a' OR 1=1; --",
        "a & !b | (c",
    ),
    *("parts:*", "col:a:*b", "\\", "%_", "<->", "a\n\tb", "😀", "{", "-a +b", "''", "$$x$$", "?1"),
)


def _chunks(*texts: str) -> list[Chunk]:
    return [
        chunk(text, path="memory/2026-02-10.md", ordinal=at, day=DAY, headings=())
        for at, text in enumerate(texts)
    ]


class WordsContract:
    """Subclass it with a fixture `open_store`, as `StoreContract`."""

    async def test_a_note_is_found_in_every_script_and_shape(self, open_store: OpenStore) -> None:
        """Words, parts of names, hashes, accents, and scripts without spaces bring the note up first."""
        store = await _filled(open_store)
        assert {query: (await _search(store, query))[:1] for query in FIRST} == {
            query: [first] for query, first in FIRST.items()
        }

    async def test_an_issue_number_is_not_any_number(self, open_store: OpenStore) -> None:
        """`#12` puts the issue before twelve apples, and 12 finds the apples."""
        store = await _filled(open_store)
        assert (await _search(store, "#12"))[0] == 2
        assert 10 in await _search(store, "12")

    @pytest.mark.covers("SRCH-17")
    async def test_stop_words_alone_are_still_a_query(self, open_store: OpenStore) -> None:
        """A title made of stop words can be found when nothing else was asked."""
        store = await open_store()
        await put(store, indexed(*_chunks("To be or not to be", "nothing of the kind")))
        assert (await _search(store, "to be or not to be"))[0] == 0

    @pytest.mark.covers("SRCH-17")
    async def test_stop_words_do_not_bring_in_other_notes(self, open_store: OpenStore) -> None:
        """A question's small words match nothing by themselves."""
        store = await _filled(open_store)
        assert await _search(store, "what is the capital of Mongolia and why?") == []

    async def test_the_file_name_and_the_headings_count(self, open_store: OpenStore) -> None:
        """A chunk is found by its file's name and by the headings above it."""
        store = await open_store()
        named = chunk("Set once.", path="memory/network-setup.md", ordinal=1, headings=("Router", "VLAN"))
        await put(store, indexed(*_chunks("Nothing here.")), indexed(named))
        assert await _search(store, "router vlan") == [1]
        assert await _search(store, "network setup") == [1]

    async def test_named_days_match_by_themselves(self, open_store: OpenStore) -> None:
        """A question with nothing but a date brings up the log of that day."""
        store = await open_store()
        await put(store, indexed(*_chunks("Bought apples.")))
        days = (DayRange(first=date(2026, 2, 9), last=DAY),)
        assert await _search(store, "what happened yesterday?") == []
        assert await _search(store, "what happened yesterday?", days) == [0]
        month = (DayRange(first=date(2026, 2, 1), last=date(2026, 2, 28)),)
        assert await _search(store, "anything in February?", month) == [0]

    async def test_a_word_in_the_text_counts_more_than_an_extra_token(self, open_store: OpenStore) -> None:
        """Of two notes with the word, the one that says it outright comes first; scores are above nothing."""
        store = await open_store()
        others = [f"other note number {at}" for at in range(30)]
        await put(store, indexed(*_chunks("the hybridSearch was on", "the hybrid was on", *others)))
        query = match_query("hybrid")
        assert query is not None
        scores = await store.search(lambda moment: moment.lexical(query, limit=5, scope=MEMORY))
        assert await _search(store, "hybrid") == [1, 0]
        assert sorted(scores.values(), reverse=True) == [*scores.values()]
        assert min(scores.values()) > 0

    @pytest.mark.covers("SRCH-1")
    async def test_whatever_is_typed_is_a_legal_query(self, open_store: OpenStore) -> None:
        """Signs that mean something to a database are words to it, or nothing."""
        store = await _filled(open_store)
        for typed in HOSTILE:
            assert set(await _search(store, typed)) <= set(range(len(NOTES))), typed


async def _filled(open_store: OpenStore) -> Store:
    store = await open_store()
    await put(store, indexed(*_chunks(*NOTES)))
    return store


async def _search(store: Store, text: str, days: tuple[DayRange, ...] = ()) -> list[int]:
    """The places in their files of the chunks that are found, best first."""
    query = match_query(text, days)
    if query is None:
        return []

    return await store.search(
        lambda moment: [
            moment.chunks([chunk_id])[chunk_id].ordinal
            for chunk_id in moment.lexical(query, limit=20, scope=MEMORY)
        ]
    )
