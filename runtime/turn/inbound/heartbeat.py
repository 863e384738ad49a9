"""Heartbeats: the token that says that there was nothing to say, and a list that asks for nothing. Pure.

Rules: spec sessions §10 and A13.
"""

from __future__ import annotations

import re

HEARTBEAT_TOKEN = "HEARTBEAT_OK"
HEARTBEAT_FILE = "HEARTBEAT.md"
"""The owner's list of what to look at, in the workspace."""

_MARKUP = " \t\r\n\f\v*_`~\u200b\ufeff"
_STOPS = ".!。！,:;-–—"
_TAG = re.compile(r"<[^<>]{0,40}>|&nbsp;")
_TAG_AT_END = re.compile(r"(?:<[^<>]{0,40}>|&nbsp;)\Z")
_LONGEST_TAG = 42
_COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)
_ASKS_FOR_NOTHING = re.compile(r"\s*(?:#+(?:\s.*)?|[-*+](?:\s+\[[ xX]?\])?|\s*)\s*")


def worth_saying(text: str, *, ack_max_chars: int) -> str:
    """What is delivered of a heartbeat's answer; empty where nothing is.

    The token is cut off both ends, with the markup around it. What is left of an answer that had it is
    dropped when it is no longer than `ack_max_chars`. A token in the middle is a word like any other.

    >>> worth_saying("**HEARTBEAT_OK**", ack_max_chars=300)
    ''
    >>> worth_saying("HEARTBEAT_OK is what I would say, but the disk is full.", ack_max_chars=10)
    'is what I would say, but the disk is full.'
    """
    rest, had_token = text.strip(), False
    for cut in (_without_leading, _without_trailing):
        while (shorter := cut(rest)) is not None:
            rest, had_token = shorter, True
    return "" if had_token and len(rest) <= ack_max_chars else rest


def asks_for_nothing(checklist: str) -> bool:
    """Whether a list is empty: nothing but headings, comments, empty lines and items without a word."""
    return all(_ASKS_FOR_NOTHING.fullmatch(line) for line in _COMMENT.sub("", checklist).splitlines())


def _without_leading(text: str) -> str | None:
    """The text behind a token that it begins with, `None` where it begins with none."""
    rest = text.lstrip(_MARKUP)
    while tag := _TAG.match(rest):
        rest = rest[tag.end() :].lstrip(_MARKUP)
    token, behind = rest[: len(HEARTBEAT_TOKEN)], rest[len(HEARTBEAT_TOKEN) :]
    if token.upper() != HEARTBEAT_TOKEN or behind[:1].isalnum():
        return None
    behind = behind.lstrip("*_`~").lstrip(_STOPS)
    while tag := re.match(r"</[^<>]{0,40}>", behind):
        behind = behind[tag.end() :]
    return behind.strip()


def _without_trailing(text: str) -> str | None:
    """The text before a token that it ends with, `None` where it ends with none."""
    rest = text.rstrip(_MARKUP + _STOPS)
    while tag := _TAG_AT_END.search(rest[-_LONGEST_TAG:]):
        rest = rest[: len(rest) - len(tag[0])].rstrip(_MARKUP + _STOPS)
    before, token = rest[: -len(HEARTBEAT_TOKEN)], rest[-len(HEARTBEAT_TOKEN) :]
    if token.upper() != HEARTBEAT_TOKEN or before[-1:].isalnum():
        return None
    before = before.rstrip("*_`~")
    while tag := re.search(r"<[a-zA-Z][^<>]{0,40}>\Z", before[-_LONGEST_TAG:]):
        before = before[: len(before) - len(tag[0])]
    return before.rstrip()
