"""What a frequent word may cost, and that nothing is lost by the bound."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from nacre.memory.lexical import match_query
from nacre.memory.schema import migrate
from nacre.memory.sqlite_connection import Connection, open_connection, transaction
from nacre.memory.sqlite_words import WordReader
from nacre.memory.sqlite_writes import replace_files
from nacre.memory.store import Scope
from tests.memory.store_contract import chunk, indexed

MEMORY = Scope(sources=("memory",))


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[Connection]:
    """600 chunks: all have a common word, every other a middling one, one a rare one."""
    opened = open_connection(tmp_path / "main.sqlite")
    migrate(opened)
    texts = [f"common {'middling ' if n % 2 else ''}{'rare' if n == 333 else ''} n{n}" for n in range(600)]
    with transaction(opened):
        replace_files(opened, [indexed(*(chunk(text, ordinal=n) for n, text in enumerate(texts)))])
    yield opened
    opened.close()


def _expression(connection: Connection, text: str, most_rows: int) -> str:
    query = match_query(text)
    assert query is not None
    return WordReader(most_rows=most_rows).affordable(connection, query)


def test_small_indexes_are_searched_with_every_word(connection: Connection) -> None:
    """Below the bound the expression is the whole query."""
    assert _expression(connection, "common middling rare", 600) == '"common" OR "middling" OR "rare"'


def test_the_commonest_words_are_left_out_above_the_bound(connection: Connection) -> None:
    """The rarest words that fit stay, in the query's order; one word always does."""
    assert _expression(connection, "common middling rare", 400) == '"middling" OR "rare"'
    assert _expression(connection, "common", 100) == '"common"'
    assert _expression(connection, "common middling", 100) == '"middling"'


def test_common_words_stay_when_there_is_little_else(connection: Connection) -> None:
    """A query of one rare and one common word is not reduced to a single chunk."""
    assert _expression(connection, "common rare", 100) == '"common" OR "rare"'


def test_the_best_chunk_is_found_either_way(connection: Connection) -> None:
    """With and without the bound the chunk with all the words is first."""
    query = match_query("common middling rare")
    assert query is not None

    for most_rows in (100, 10_000):
        best = next(iter(WordReader(most_rows=most_rows).lexical(connection, query, 5, MEMORY)))
        assert connection.execute("SELECT text FROM chunks WHERE id = ?", (best,)).get == (
            "common middling rare n333"
        )
