"""Removes everything that could control a terminal from the output of models and tools.

Control characters become their visible pictures, so that an escape sequence in a note shows up as
text instead of moving the cursor, setting the clipboard or hiding words.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache

_UNSAFE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"  # C0 but tab and line feed, DEL, C1
    "\u2028\u2029\u202a-\u202e\u2066-\u2069"  # separators, and characters that reorder text
    "\ud800-\udfff]"  # halves of pairs, which cannot be encoded
)


def plain(text: str) -> str:
    """`text` without control characters except line feeds and tabs.

    >>> plain("red: \\x1b[31m!")
    'red: ␛[31m!'
    """
    return text if text.isprintable() else _UNSAFE.sub(_picture, text.replace("\r", ""))


def one_line(text: str) -> str:
    """`text` on one line, safe to show, white space joined."""
    return plain(" ".join(text.split()))


def cell_width(text: str) -> int:
    """The columns of `text` in a terminal: two for wide characters and emoji, none for combining marks."""
    if text.isascii() or _narrow().fullmatch(text):  # wcwidth takes 20 ms to import, a seventh of a search
        return len(text)
    from wcwidth import wcswidth, wcwidth

    width = wcswidth(text)  # negative if a character cannot be shown, such as a tab
    return width if width >= 0 else sum(max(0, wcwidth(character)) for character in text)


@cache
def _narrow() -> re.Pattern[str]:
    """Characters that take one column: Latin letters, quotation marks, dashes, dots."""
    return re.compile("[\x20-\x7e\xa0-\u02ff\u2010-\u2027\u2030-\u205e]*")


def cut_to_cells(text: str, max_cells: int) -> str:
    """`text`, cut to `max_cells` columns with a `…` at the end if it is longer."""
    if cell_width(text) <= max_cells:
        return text
    kept = text[: max(0, max_cells - 1)]  # combining characters are rare, so this is nearly it
    while cell_width(kept) >= max_cells > 0:
        kept = kept[:-1]
    return kept + "…" if max_cells > 0 else ""


def aligned(rows: Sequence[Sequence[str]], *, has_numbers: bool = False) -> list[str]:
    """Rows as lines whose columns are as wide as their widest cell. `has_numbers` sets all columns but the
    first to the right."""
    taken = [[*map(cell_width, row)] for row in rows]
    widths = [max(column) for column in zip(*taken, strict=True)]
    lines = []
    for row, cells_of_row in zip(rows, taken, strict=True):
        cells = []
        for place, (text, width, own) in enumerate(zip(row, widths, cells_of_row, strict=True)):
            room = " " * (width - own)
            cells.append(room + text if has_numbers and place else text + room)
        lines.append("  ".join(cells).rstrip())
    return lines


def _picture(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code < 0x20:
        return chr(0x2400 + code)
    return "\u2421" if code == 0x7F else "\ufffd"
