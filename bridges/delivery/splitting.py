"""Splits a long reply into messages at the ends of paragraphs and code blocks. Each part is readable on its
own.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator
from typing import NamedTuple

_FENCE = re.compile(r" {0,3}(?P<marker>`{3,}(?=[^`]*$)|~{3,})(?P<info>.*)")
_WORST_SHARE = 3
"""A cut at a paragraph's end that leaves less than a third of the limit is not worth it."""
_FENCE_SHARE = 4
"""A fence that takes more than a quarter of the limit is not reopened."""
_JOINERS = "\u200d\ufe0e\ufe0f"
_MOST_STEPS_BACK = 16


class Fence(NamedTuple):
    """The opening of a code block: its marker, and the whole line."""

    marker: str
    line: str


def split_reply(text: str, *, most: int, length: Callable[[str], int] = len) -> tuple[str, ...]:
    """Splits a reply into parts of at most `most`, measured by `length`. No part is blank.

    The cut is at the end of a paragraph or code block if there is one in the last two thirds of a part, else
    at the end of a line, else at a space, else anywhere. A code block that is cut is closed and reopened with
    its language. Only white space at the cuts is left out.
    """
    parts, rest, fence = [], text, None
    while rest:
        part, rest, fence = _next_part(rest, fence, most, length)
        if part.strip():
            parts.append(part)
    return tuple(parts)


def open_fence(text: str) -> Fence | None:
    """The code block that a text leaves open, by CommonMark's rules for fences."""
    fence = None
    for line in text.split("\n"):
        fence = _behind(line, fence)
    return fence


def _next_part(
    text: str, fence: Fence | None, most: int, length: Callable[[str], int]
) -> tuple[str, str, Fence | None]:
    opening = f"{fence.line}\n" if fence else ""
    if length(opening) * _FENCE_SHARE > most:
        opening = ""
    room = most - length(opening)
    while room > 0:
        end = _fitting(text, room, length)
        cut = end if end == len(text) else _cut(text, end, fence if opening else None)
        body = _trimmed(text[:cut], inside=bool(opening))
        part = opening + body
        left_open = open_fence(part)
        if left_open and len(left_open.line) * _FENCE_SHARE > most:
            left_open = Fence(left_open.marker, left_open.marker)
        if left_open:
            part = f"{part}\n{left_open.marker}"
        over = length(part) - most
        if over <= 0:
            rest = text[cut:] if left_open else text[cut:].lstrip("\n")
            return part, rest.removeprefix("\n") if left_open else rest, left_open if rest else None
        room -= over
    cut = max(1, _fitting(text, most, length))  # marks alone fill the part: no block is drawn around them
    return text[:cut], text[cut:], None


def _fitting(text: str, most: int, length: Callable[[str], int]) -> int:
    low, high = 1, min(len(text), most)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if length(text[:middle]) <= most else (low, middle - 1)
    return low


def _cut(text: str, end: int, fence: Fence | None) -> int:
    ends = list(_line_ends(text[: end + 1], fence))
    whole = [place for place, is_whole in ends if is_whole and place <= end]
    if whole and whole[-1] * _WORST_SHARE >= end:
        return whole[-1]
    lines = [place for place, _ in ends if place <= end]
    if lines and lines[-1] * _WORST_SHARE >= end:
        return lines[-1]
    blank = text.rfind(" ", 0, end)
    if blank * _WORST_SHARE >= end:
        return blank + 1
    return _between_characters(text, end)


def _line_ends(text: str, fence: Fence | None) -> Iterator[tuple[int, bool]]:
    place, was_inside = 0, fence is not None
    lines = text.split("\n")
    for number, line in enumerate(lines[:-1]):
        place += len(line) + 1
        fence = _behind(line, fence)
        is_inside, opened = fence is not None, fence is not None and not was_inside
        is_whole = not is_inside and (was_inside or not line.strip() or not lines[number + 1].strip())
        was_inside = is_inside
        if not opened:  # a block's first line is of no use without the second
            yield place, is_whole


def _behind(line: str, fence: Fence | None) -> Fence | None:
    found = _FENCE.match(line)
    if found is None:
        return fence
    marker = found["marker"]
    if fence is None:
        return Fence(marker, line)
    closes = marker.startswith(fence.marker) and not found["info"].strip()
    return None if closes else fence


def _between_characters(text: str, end: int) -> int:
    """`end`, or a position shortly before it that does not separate a letter from its accents or split an
    emoji.
    """
    for place in range(end, max(0, end - _MOST_STEPS_BACK), -1):
        behind, before = text[place : place + 1], text[place - 1]
        tears = behind and (unicodedata.combining(behind) or behind in _JOINERS or "🏻" <= behind <= "🏿")
        if not tears and before != "\u200d":
            return place
    return end


def _trimmed(text: str, *, inside: bool) -> str:
    return text.removesuffix("\n") if inside else text.strip("\n").rstrip()
