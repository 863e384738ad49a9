"""Compaction on request."""

from __future__ import annotations

from nacre.runtime.contracts.events import CompactionEnded
from nacre.runtime.turn.turn import Turn


async def compact(turn: Turn, *, focus: str = "") -> CompactionEnded:
    """Saves notes, then replaces old history with a summary; `focus` says what it must keep.

    The result's `problem` says why nothing was replaced; the history is then unchanged.

    Raises:
        SessionError: the disk refused.
    """
    window = await turn.window()
    await window.flush_before_leaving()
    return await window.compact("manual", focus=focus)
