"""What the full-text index finds, in every script, on a real FTS5 table."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from datetime import date

import apsw
import pytest
from hypothesis import example, given, settings, strategies as st

from nacre.memory.contracts.records import Chunk
from nacre.memory.text.chunker import content_hash
from nacre.memory.text.lexical import FTS_COLUMNS, FTS_TOKENIZE, FTS_WEIGHTS, lexical_fields, match_query
from nacre.memory.text.query_dates import DayRange

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


def chunk(text: str, *, path: str = "memory/2026-02-10.md", headings: tuple[str, ...] = ()) -> Chunk:
    return Chunk(
        source="memory",
        path=path,
        start_line=1,
        end_line=1,
        text=text,
        heading_path=headings,
        date=date(2026, 2, 10),
        content_hash=content_hash(text),
        ordinal=0,
    )


def table(chunks: list[Chunk]) -> apsw.Connection:
    connection = apsw.Connection(":memory:")
    columns = ", ".join(FTS_COLUMNS)
    connection.execute(f'CREATE VIRTUAL TABLE notes USING fts5({columns}, tokenize="{FTS_TOKENIZE}")')
    marks = ", ".join("?" * len(FTS_COLUMNS))
    for number, item in enumerate(chunks):
        connection.execute(
            f"INSERT INTO notes (rowid, {columns}) VALUES (?, {marks})", (number, *lexical_fields(item))
        )
    return connection


@pytest.fixture(scope="module")
def notes() -> Iterator[apsw.Connection]:
    connection = table([chunk(text) for text in NOTES])
    yield connection
    connection.close()


def search(connection: apsw.Connection, text: str, days: tuple[DayRange, ...] = ()) -> list[int]:
    query = match_query(text, days)
    if query is None:
        return []
    weights = ", ".join(map(str, FTS_WEIGHTS))
    found = connection.execute(
        f"SELECT rowid FROM notes WHERE notes MATCH ? ORDER BY bm25(notes, {weights})", (query.expression,)
    )
    return [row[0] for row in found]


@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("memorySearch.query.hybrid", 0),
        ("memory search", 0),
        ("what was commit a828e60?", 1),
        ("A828E60FBC129d0077aa", 1),
        ("a828e6", 1),
        ("FOO_bar", 2),
        ("bar", 2),
        ('"sqlite-vec unavailable"', 2),
        ("what about #12", 2),
        ("讨论", 3),
        ("我们讨论了什么方案？", 3),
        ("寿司", 4),
        ("커피", 5),
        ("машина", 6),
        ("हिन्दी", 7),
        ("สวัสดี", 8),
        ("cafe", 9),
        ("fine", 9),
        ("wifi", 9),
        ("MALMO", 9),
        ("strasse", 9),
        ("adoption of a cat", 11),
        ("did she run?", 11),
    ],
)
def test_a_note_is_found_in_every_script_and_shape(notes: apsw.Connection, query: str, first: int) -> None:
    """Words, parts of names, hashes, accents, and scripts without spaces bring the note up first."""
    assert search(notes, query)[:1] == [first]


def test_an_issue_number_is_not_any_number(notes: apsw.Connection) -> None:
    """`#12` puts the issue before twelve apples, and 12 finds the apples."""
    assert search(notes, "#12")[0] == 2
    assert 10 in search(notes, "12")


def test_stop_words_alone_are_still_a_query() -> None:
    """A title made of stop words can be found when nothing else was asked."""
    connection = table([chunk("To be or not to be"), chunk("nothing of the kind")])
    assert search(connection, "to be or not to be")[0] == 0


def test_stop_words_do_not_bring_in_other_notes(notes: apsw.Connection) -> None:
    """A question's small words match nothing by themselves."""
    assert search(notes, "what is the capital of Mongolia and why?") == []


def test_german_articles_are_not_english_verbs() -> None:
    """`die` is a word in an English question and an article in a German one."""
    english, german = (
        match_query("When did the plants die?"),
        match_query("Wo sind die Schlüssel für das Haus?"),
    )
    assert english is not None
    assert german is not None
    assert "die" in english.terms
    assert german.terms == ("schlüssel", "haus")


def test_the_file_name_and_the_headings_count() -> None:
    """A chunk is found by its file's name and by the headings above it."""
    connection = table(
        [
            chunk("Nothing here."),
            chunk("Set once.", path="memory/network-setup.md", headings=("Router", "VLAN")),
        ]
    )
    assert search(connection, "router vlan") == [1]
    assert search(connection, "network setup") == [1]


def test_named_days_match_by_themselves() -> None:
    """A question with nothing but a date brings up the log of that day."""
    connection = table([chunk("Bought apples.")])
    days = (DayRange(first=date(2026, 2, 9), last=date(2026, 2, 10)),)
    assert search(connection, "what happened yesterday?") == []
    assert search(connection, "what happened yesterday?", days) == [0]
    month = (DayRange(first=date(2026, 2, 1), last=date(2026, 2, 28)),)
    assert search(connection, "anything in February?", month) == [0]


def test_what_later_stages_need_is_kept() -> None:
    """Phrases and identifiers are reported; everyday compounds are not taken for identifiers."""
    query = match_query('Why did "disk is full" come up with FOO_bar, self-care and/or e.g. v2.1 (#7)?')
    assert query is not None
    assert query.phrases == ("disk is full",)
    assert set(query.identifiers) == {"FOO_bar", "v2.1", "#7"}
    assert "did" not in query.terms


@settings(max_examples=400, deadline=None)
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
    if query is not None:
        connection = table([])
        assert (
            list(connection.execute("SELECT rowid FROM notes WHERE notes MATCH ?", (query.expression,))) == []
        )


@settings(max_examples=400)
@given(
    st.lists(st.text(st.sampled_from("abzABZ09-_.é記 \t\n"), max_size=12), max_size=8).map(" ".join),
)
@example("the memorySearch of utf8 and wi-fi,e-mail")
@example("記memorySearch x-yy-zz A-bb v2 ab2")
def test_no_inner_word_is_passed_over(text: str) -> None:
    """The quick look for compound words finds what looking at every word finds."""
    inner = re.compile(r"[A-Za-z]*[a-z0-9][A-Z][A-Za-z0-9]*|[A-Za-z]{2,}[0-9]+[A-Za-z0-9]*")
    wanted = [
        part
        for word in re.findall(r"\w+", text)
        if inner.fullmatch(word)
        for part in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", word)
        if len(part) > 1
    ]
    wanted += map("".join, re.findall(r"\b([A-Za-z]{1,12})-([A-Za-z]{2,12})\b(?!-)", text))

    parts = lexical_fields(chunk(text, path="memory/a.md"))[2].split()

    assert Counter(part for part in parts if part.isascii()) == Counter(wanted)


def test_a_very_long_query_stays_small() -> None:
    """A pasted page does not become a thousand terms."""
    query = match_query(" ".join(f"word{number}" for number in range(2000)))
    assert query is not None
    assert query.expression.count(" OR ") < 100
