"""Events out of bytes, however they are cut."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, strategies as st

from nacre.extensions.providers.openai_compatible.model import EventReader

STREAM = (
    b': OPENROUTER PROCESSING\n\ndata: {"a": 1}\n\nevent: x\r\ndata:two\r\ndata: lines\r\n\r\n'
    b"id: 7\r\rdata: \xe2\x80\xa8 stays\r\r"
)
EVENTS = [b'{"a": 1}', b"two\nlines", b"\xe2\x80\xa8 stays"]


@given(st.lists(st.integers(0, len(STREAM)), max_size=12))
def test_events_do_not_depend_on_how_they_arrive(cuts: list[int]) -> None:
    """Comments and other fields give nothing; all three line ends work; Unicode's own separators are text."""
    places = [0, *sorted(cuts), len(STREAM)]
    reader = EventReader()
    found: list[bytes] = []
    for begin, end in pairwise(places):
        found += reader.feed(STREAM[begin:end])
    assert found + reader.end() == EVENTS


def test_a_byte_order_mark_is_no_part_of_the_first_event() -> None:
    """Some servers' writers begin with one; the first word of the answer is not lost with it."""
    assert EventReader().feed(b"\xef\xbb\xbfdata: first\n\ndata: second\n\n") == [b"first", b"second"]


@pytest.mark.parametrize("end", [b"", b"\n", b"\r"])
def test_a_last_event_without_its_empty_line_counts(end: bytes) -> None:
    """Some servers close the stream at once behind the last event."""
    reader = EventReader()
    assert reader.feed(b"data: last" + end) == []
    assert reader.end() == [b"last"]
    assert reader.end() == []
