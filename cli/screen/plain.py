"""What a terminal may be sent: model and tool output without anything that could drive it. Pure.

Control characters become their visible pictures, so that an escape sequence in a note shows up as
text instead of moving the cursor, setting the clipboard or hiding words.
"""

from __future__ import annotations

import re
import unicodedata
from itertools import accumulate

_UNSAFE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"  # C0 but tab and line feed, DEL, C1
    "\u2028\u2029\u202a-\u202e\u2066-\u2069"  # separators, and what reorders the text around it
    "\ud800-\udfff]"  # halves of pairs, which cannot be encoded
)


def plain(text: str) -> str:
    """`text` as a terminal can safely show it; line feeds and tabs stay, carriage returns go.

    >>> plain("red: \\x1b[31m!")
    'red: ␛[31m!'
    """
    return _UNSAFE.sub(_picture, text.replace("\r", ""))


def one_line(text: str) -> str:
    """`text` on one line, safe to show, white space joined."""
    return plain(" ".join(text.split()))


def cell_width(text: str) -> int:
    """Columns that `text` takes in a terminal: wide characters two, combining marks none.

    wcwidth counts emoji sequences better, but takes 30 ms to import, an eighth of a search.
    """
    return len(text) if text.isascii() else sum(map(_cells, text))


def cut_to_cells(text: str, max_cells: int) -> str:
    """`text`, or as much of it as fits `max_cells` columns together with a `…`."""
    if cell_width(text) <= max_cells:
        return text
    kept = sum(cells < max_cells for cells in accumulate(map(_cells, text)))
    return text[:kept] + "…" if max_cells > 0 else ""


def _picture(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code < 0x20:
        return chr(0x2400 + code)
    return "\u2421" if code == 0x7F else "\ufffd"


def _cells(character: str) -> int:
    if unicodedata.combining(character) or unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1
