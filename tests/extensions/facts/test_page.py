"""A line of a page: what is written is read back, and what people write is read as they mean it."""

from __future__ import annotations

import time
from datetime import UTC, datetime

import pytest
from hypothesis import given, strategies as st

from nacre.extensions.facts.page import (
    JsonValue,
    Page,
    checked_key,
    checked_source,
    checked_value,
    fact_line,
    history_line,
    known_line,
)
from nacre.memory.contracts.errors import FactRefused

AT = datetime(2026, 1, 3, 10, 0, 5, tzinfo=UTC)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@given(value=VALUES, source=st.text(max_size=40))
@pytest.mark.covers("FACT-3")
def test_every_value_is_read_back(value: JsonValue, source: str) -> None:
    """Whatever JSON says, with whatever source, is the same behind a write, in both sections."""
    source = checked_source(source)
    for line in (
        known_line("city", value, AT, source),
        history_line("city", value, AT, source, is_forgotten=False),
    ):
        assert "\n" not in line
        line.encode()
        read = fact_line(line, UTC)
        assert read is not None
        assert read.tail is not None
        assert (read.key, read.value, type(read.value)) == ("city", value, type(value))
        assert (read.tail.at.date(), read.tail.source) == (AT.date(), source)


@given(key=st.text(max_size=60))
def test_a_key_that_is_taken_is_read_back(key: str) -> None:
    """A key is refused, or stands in a line as what it was."""
    try:
        taken = checked_key(key)
    except FactRefused:
        return
    read = fact_line(known_line(taken, "x", AT, ""), UTC)
    assert read is not None
    assert (read.key, read.value) == (taken, "x")


@pytest.mark.parametrize(
    ("line", "key", "value"),
    [
        ("- city: Porto", "city", "Porto"),
        ("* locker code: 0042", "locker code", "0042"),
        ("- age: 41", "age", 41),
        ("- vegetarian: true (2026-01-03)", "vegetarian", True),
        ('- book: "The Hobbit" by Tolkien', "book", '"The Hobbit" by Tolkien'),
        ("- tags: [a, b]", "tags", "[a, b]"),
        ('- tags: ["a", "b"] (2026-01-03, by hand)', "tags", ["a", "b"]),
        ("- site: https://example.org/a (mirror)", "site", "https://example.org/a (mirror)"),
        ("- 城市：里斯本", "城市", "里斯本"),
        ("- limit: NaN", "limit", "NaN"),
    ],
)
@pytest.mark.covers("FACT-3")
def test_what_people_write(line: str, key: str, value: JsonValue) -> None:
    """Plain words stay words, and JSON is JSON."""
    read = fact_line(line, UTC)
    assert read is not None
    assert (read.key, read.value) == (key, value)


@pytest.mark.parametrize("line", ["", "city: Porto", "- city Porto", "- city:", "-city: Porto", "# a: b"])
def test_what_is_no_fact(line: str) -> None:
    """Other lines are left alone."""
    assert fact_line(line, UTC) is None


@pytest.mark.parametrize("key", ["", "  ", "a: b", "x" * 201, "a\x00b"])
def test_a_key_that_no_line_can_have_is_refused(key: str) -> None:
    """The sentence says what a key is."""
    with pytest.raises(FactRefused, match="cannot be the key of a fact"):
        checked_key(key)


@pytest.mark.parametrize("value", [float("nan"), object(), {"a": {1, 2}}, "x" * 9_000])
def test_a_value_that_is_not_json_is_refused(value: object) -> None:
    """So is one that is too long."""
    with pytest.raises(FactRefused, match="value"):
        checked_value(value)


def test_a_long_heading_holds_nobody_up() -> None:
    """A page may come from elsewhere; a closing mark behind a heading is no part of it."""
    blanks, started = " " * 20_000, time.process_time()
    page = Page(
        f"# Ann{blanks}!\n\n## Facts {blanks}##{blanks}\n\n- city: Kiel\n".encode(), identity="ann", zone=UTC
    )
    assert page.has("Facts")
    assert time.process_time() - started < 2
