"""Formats texts, counts, ages and compactions on one line for commands and screens."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import timedelta

    from nacre.runtime.contracts.budget import ContextBudget
    from nacre.runtime.contracts.events import CompactionEnded


def shortened(text: str, chars: int) -> str:
    """A text on one line of at most `chars` characters."""
    line = " ".join(text.split())
    return line if len(line) <= chars else line[: chars - 1].rstrip() + "…"


def counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def short_count(count: int) -> str:
    """A count in short form: `999`, `1.2k`, `130k`, `1.0m`."""
    if count < 1_000:
        return str(count)
    if count < 999_500:
        return f"{count / 1_000:.1f}k" if count < 99_950 else f"{count / 1_000:.0f}k"
    return f"{count / 1_000_000:.1f}m"


def short_age(age: timedelta) -> str:
    """A duration in short form: `0m`, `45m`, `3h 5m`, `2d 4h`."""
    minutes = max(0, int(age.total_seconds()) // 60)
    hours, days = minutes // 60, minutes // 1440
    if days:
        return f"{days}d {hours % 24}h"
    return f"{hours}h {minutes % 60}m" if hours else f"{minutes}m"


def compaction_text(ended: CompactionEnded, budget: ContextBudget) -> str:
    used = f"Context {short_count(ended.tokens_after)}/{short_count(budget.window_tokens)}"
    if ended.problem:
        label = "failed" if ended.has_failed else "skipped"
        return f"⚙️ Compaction {label}: {ended.problem} • {used}"
    sizes = f"{short_count(ended.tokens_before)} → {short_count(ended.tokens_after)}"
    return f"⚙️ Compacted ({sizes}) • {used} • every word stays in {ended.transcript}"
