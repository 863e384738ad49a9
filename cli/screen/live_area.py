"""How the last lines of a terminal are drawn anew: one text to write, without flicker. Pure.

The cursor stands at the end of the area's last line. Lines that stay the same are not touched, and what is
above the area belongs to the terminal, which keeps it to scroll back to.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from nacre.cli.screen.plain import cell_width

_STYLE = re.compile(r"\x1b\[[0-9;]*m")
_CLEAR_LINE = "\r\x1b[K"
_CLEAR_DOWN = "\r\x1b[J"
_HOLD, _SHOW = "\x1b[?2026h", "\x1b[?2026l"
"""Between these a terminal shows nothing half drawn (synchronized output), if it knows them."""


def repainted(area: Sequence[str], lines: Sequence[str], columns: int) -> str:
    """What turns an area into `lines`; the cursor is at the end of the last of these then."""
    same = next(
        (number for number, (old, new) in enumerate(zip(area, lines, strict=False)) if old != new),
        min(len(area), len(lines)),
    )
    if same == len(area):
        added = "\n".join(lines[same:])
        return f"\n{added}" if area and len(lines) > same else added
    if same == len(lines) and lines:
        same -= 1  # the cursor has to stand behind the last line that stays
    drawn = taken_back(area[same:], columns) + "\n".join(lines[same:])
    return f"{_HOLD}{drawn}{_SHOW}" if len(area) - same > 1 else drawn


def taken_back(area: Sequence[str], columns: int) -> str:
    """What clears an area and leaves the cursor at its beginning, also where the width has changed since."""
    if not area:
        return ""
    rows = sum(max(1, -(-_cells(line) // columns)) for line in area)
    return f"\x1b[{rows - 1}A{_CLEAR_DOWN}" if rows > 1 else _CLEAR_LINE


def _cells(line: str) -> int:
    return cell_width(_STYLE.sub("", line))
