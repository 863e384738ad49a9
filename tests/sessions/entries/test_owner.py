"""Whose conversation a transcript is stands in one of its entries."""

from __future__ import annotations

import json
from typing import Any

import pytest

from nacre.sessions.disk.json_text import to_line
from nacre.sessions.entries.entries import (
    SESSION_TYPE,
    CustomRecord,
    Entry,
    EntryTree,
    SessionOwner,
    entry_from_json,
    entry_to_json,
    session_owner,
    started_in_private,
)
from tests.sessions.talk import STAMP


def told(data: Any, number: int = 0) -> Entry:
    record = CustomRecord(custom_type=SESSION_TYPE, data=data)
    return Entry(id=f"e{number}", parent_id=None, timestamp=STAMP, body=record)


def test_an_owner_is_stored_as_ever() -> None:
    """Byte for byte as it stands in files, and read again as it was."""
    owner = SessionOwner(key="agent:main:main", chat_kind="direct", is_private=True)
    line = to_line(entry_to_json(Entry(id="a", parent_id=None, timestamp=STAMP, body=owner.to_record())))
    assert line == (
        b'{"type":"custom","id":"a","parentId":null,"timestamp":"2026-03-01T09:00:00.000Z",'
        b'"customType":"nacre.session",'
        b'"data":{"key":"agent:main:main","chatKind":"direct","private":true}}\n'
    )
    assert session_owner(entry_from_json(json.loads(line))) == owner


@pytest.mark.parametrize("data", [None, 5, [], {}, {"key": 7, "chatKind": None, "private": "yes"}])
def test_a_damaged_owner_says_nothing(data: Any) -> None:
    """What cannot be read makes a session neither private nor anybody's."""
    assert session_owner(told(data)) == SessionOwner(key=None, chat_kind=None, is_private=None)
    tree = EntryTree()
    tree.add(told(data))
    assert started_in_private(tree) is None


def test_the_first_word_about_privacy_holds() -> None:
    """An entry that says nothing is passed over; a later one cannot make a session private."""
    tree = EntryTree()
    for number, data in enumerate(({"key": "k"}, {"private": False}, {"private": True})):
        tree.add(told(data, number))
    assert started_in_private(tree) is False


def test_another_entry_tells_no_owner() -> None:
    """Only the entry of that type is asked."""
    record = CustomRecord(custom_type="other", data={"key": "k", "private": True})
    assert session_owner(Entry(id="a", parent_id=None, timestamp=STAMP, body=record)) is None
