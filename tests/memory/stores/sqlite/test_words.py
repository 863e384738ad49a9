"""What a frequent word may cost, and that nothing is lost by the bound."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from itertools import count
from pathlib import Path

import apsw
import pytest
from hypothesis import example, given, strategies as st

from nacre.memory.contracts.store import Scope
from nacre.memory.stores.sqlite.connection import Connection, open_connection, transaction
from nacre.memory.stores.sqlite.schema import TOKENIZE, migrate
from nacre.memory.stores.sqlite.store import SqliteWriter
from nacre.memory.stores.sqlite.words import (
    WordReader,
    any_of,
    expression,
    needed_together,
    rows_to_choose,
    split_by_rarity,
)
from nacre.memory.text.lexical import match_query
from tests.memory.stores.sample_index import chunk, indexed

MEMORY = Scope(sources=("memory",))
LATE = date(2026, 2, 1)


def _words_of(number: int) -> Iterator[str]:
    marks = {"common": number % 9 < 4, "middling": number % 3 == 0, "seldom": number % 5 == 0}
    yield from (word for word, has in marks.items() if has)
    if number == 333:
        yield "rare"
    yield f"n{number}"


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[Connection]:
    """600 chunks: four of nine have a common word, every third a middling one, every fifth a seldom one.

    The last ten are dated.
    """
    opened = open_connection(tmp_path / "main.sqlite")
    migrate(opened)
    texts = [" ".join(_words_of(n)) for n in range(600)]
    with transaction(opened):
        chunks = [chunk(text, ordinal=n, day=LATE if n >= 590 else None) for n, text in enumerate(texts)]
        SqliteWriter(opened).replace_files([indexed(*chunks)])
    yield opened
    opened.close()


@pytest.mark.parametrize(
    ("rows", "choosing", "weighed"),
    [
        ({"common": 900, "rare": 30, "middling": 400}, ["rare", "middling"], ["common"]),
        ({"common": 3_000}, ["common"], []),
        ({"common": 3_000, "rare": 30}, ["common", "rare"], []),
        ({"common": 3_000, "rare": 300}, ["rare"], ["common"]),
        ({"everywhere": 60_000, "rare": 300}, ["rare"], []),
        ({"a": 30_000, "b": 20_001, "rare": 300}, ["rare"], ["b"]),
        ({"a": 700, "b": 700, "c": 700}, ["a"], ["b", "c"]),
        ({"nowhere": 0, "common": 3_000, "other": 2_000}, ["nowhere", "other"], ["common"]),
    ],
)
def test_the_rarest_words_choose_and_the_others_are_weighed(
    rows: dict[str, int], choosing: list[str], weighed: list[str]
) -> None:
    """Common words choose only when there is little else; what most chunks have, or too many, is left out."""
    assert split_by_rarity(rows, chunk_count=100_000) == (choosing, weighed)


def _lexical(
    connection: Connection, text: str, *, limit: int, most_rows: int, scope: Scope = MEMORY
) -> dict[int, float]:
    query = match_query(text)
    assert query is not None
    return WordReader(most_rows=most_rows).lexical(connection, query, limit, scope)


@pytest.mark.parametrize("limit", [1, 10, 200])
@pytest.mark.parametrize("text", ["seldom common", "middling seldom common", "seldom n35 middling"])
def test_the_bound_does_not_change_scores(connection: Connection, text: str, limit: int) -> None:
    """What has a rare word gets the same score and place as without the bound."""
    everything = _lexical(connection, text, limit=600, most_rows=10_000)
    bounded = _lexical(connection, text, limit=limit, most_rows=200)

    rare = {row[0] for row in connection.execute("SELECT id FROM chunks WHERE text LIKE '%seldom%'")}
    expected = {chunk_id: score for chunk_id, score in everything.items() if chunk_id in rare}
    assert list(bounded.values()) == pytest.approx(list(expected.values())[:limit])
    assert {chunk_id: everything[chunk_id] for chunk_id in bounded} == pytest.approx(bounded)


def test_in_a_narrow_scope_every_word_chooses(connection: Connection) -> None:
    """Where few chunks have the rare words, those with the common ones are found; nothing from outside."""
    scope = Scope(sources=("memory",), after=LATE)
    inside = dict(connection.execute("SELECT id, text FROM chunks WHERE day IS NOT NULL"))

    hits = _lexical(connection, "seldom common", limit=10, most_rows=200, scope=scope)

    assert hits.keys() == {number for number, text in inside.items() if "seldom" in text or "common" in text}
    assert len(hits) > 2
    nowhere = Scope(sources=("memory",), after=LATE, before=date(2026, 1, 1))
    assert _lexical(connection, "seldom common", limit=10, most_rows=200, scope=nowhere) == {}


@pytest.mark.parametrize(
    ("rows", "needed"),
    [
        ([5_000, 6_000], 2),
        ([20_000, 20_000, 20_000], 2),
        ([40_000, 40_000, 40_000], 3),
        ([40_000, 40_000], 2),
    ],
)
def test_common_words_choose_together(rows: list[int], needed: int) -> None:
    """As many are needed in one chunk as leave few enough of them, as far as there are so many words."""
    assert needed_together(rows, chunk_count=100_000) == needed


def test_of_common_words_alone_those_that_stand_together_are_first(connection: Connection) -> None:
    """Where each word has too many rows, the best are the same as with all words in all chunks."""
    everything = _lexical(connection, "common middling seldom", limit=10, most_rows=10_000)
    query = match_query("common middling seldom")
    assert query is not None
    bounded = WordReader(most_rows=50, too_many_rows=60).lexical(connection, query, 10, MEMORY)

    assert bounded == pytest.approx(everything)


def test_where_too_few_have_them_together_one_and_another_are_enough(connection: Connection) -> None:
    """The rarest word with any other one choose then, as long as enough chunks have them."""
    everything = _lexical(connection, "common middling seldom", limit=600, most_rows=10_000)
    texts = dict(connection.execute("SELECT id, text FROM chunks"))
    both = [at for at, text in texts.items() if "middling" in text and "seldom" in text]
    query = match_query("common middling seldom")
    assert query is not None
    reader = WordReader(most_rows=50, too_many_rows=60)
    bounded = reader.lexical(connection, query, len(both) + 10, MEMORY)

    assert len(bounded) == len(both) + 10
    assert {at: everything[at] for at in bounded} == pytest.approx(bounded)
    assert all("seldom" in texts[at] for at in bounded)
    assert any("middling" not in texts[at] for at in bounded)
    assert reader.lexical(connection, query, 600, MEMORY) == pytest.approx(everything)


@pytest.mark.parametrize(
    ("chunks", "rows"), [(5_000, 1_000), (100_000, 1_000), (300_000, 3_000), (1_000_000, 4_000)]
)
def test_in_a_large_index_more_rows_may_be_chosen(chunks: int, rows: int) -> None:
    """One of a hundred, from a thousand on, and never so many that a word may not choose by itself."""
    assert rows_to_choose(chunks) == rows


def test_a_scope_does_not_cost_a_query_for_each_chunk(connection: Connection) -> None:
    """A search among all dated chunks of many takes about as many steps of SQLite as one among all chunks."""
    connection.execute("UPDATE chunks SET day = '2026-02-01'")

    def steps(scope: Scope) -> int:
        hundreds = count()
        connection.set_progress_handler(lambda: next(hundreds) < 0, 100)
        _lexical(connection, "seldom common", limit=10, most_rows=10_000, scope=scope)
        connection.set_progress_handler(None)
        return 100 * next(hundreds)

    assert steps(Scope(sources=("memory",), after=LATE)) < 10 * steps(MEMORY)


def test_the_best_chunk_is_found_either_way(connection: Connection) -> None:
    """With and without the bound the chunk with all the words is first."""
    for most_rows in (200, 10_000):
        best = next(iter(_lexical(connection, "common middling rare", limit=5, most_rows=most_rows)))
        assert connection.execute("SELECT text FROM chunks WHERE id = ?", (best,)).get == (
            "common middling rare n333"
        )


@given(st.text(max_size=80))
@example('"')
@example("NEAR(a b) AND NOT *")
@example("text : ^a {b}")
@example("\ud800\x00")
@example("\ue000")
@example('“ "half')
def test_any_text_is_a_legal_query(text: str) -> None:
    """Whatever is typed, FTS5 accepts what is made of it."""
    query = match_query(text)
    if query is None:
        return
    notes = apsw.Connection(":memory:")
    notes.execute(f'CREATE VIRTUAL TABLE notes USING fts5(text, title, parts, tokenize="{TOKENIZE}")')
    asked = any_of(map(expression, query.atoms))
    assert list(notes.execute("SELECT rowid FROM notes WHERE notes MATCH ?", (asked,))) == []
    notes.close()
