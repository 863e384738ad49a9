"""Chat commands: which text is one, and what the informative ones say. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from nacre.runtime.contracts.budget import ContextBudget
from nacre.runtime.contracts.events import CompactionEnded
from nacre.sessions.contracts.freshness import NextReset


@dataclass(frozen=True, kw_only=True)
class StatusFacts:
    """What `/status` shows. Tokens are an estimate while no provider has reported any.

    `model_name` is the model that the owner chose, `answering_name` the one that is asked next, whose
    window `budget` tells; they differ while the first is left alone after a failure.
    A session in which nothing was said has neither times nor a next reset.
    `workspace` is empty where others read along: the path tells the owner's account name.
    """

    version: str
    model_name: str
    answering_name: str
    session_key: str
    session_id: str
    tokens: int
    tokens_are_reported: bool
    budget: ContextBudget
    compactions: int
    last_flush: str
    workspace: str
    memory_files: int
    memory_chunks: int
    memory_mode: str
    memory_problem: str
    now: datetime
    started_at: datetime | None = None
    last_said_at: datetime | None = None
    next_reset: NextReset | None = None


def status_text(facts: StatusFacts) -> str:
    """The answer to `/status`, a line a topic."""
    budget = facts.budget
    percent = round(100 * facts.tokens / budget.window_tokens)
    estimated = "" if facts.tokens_are_reported else " (estimated)"
    is_chosen = facts.answering_name == facts.model_name
    fallback = "" if is_chosen else f" · left alone after a failure, {facts.answering_name} answers"
    memory = f"{facts.memory_files} files, {facts.memory_chunks} chunks, {facts.memory_mode} search"
    lines = [
        f"🐚 Nacre {facts.version} · {facts.now.strftime('%Y-%m-%d %H:%M')} {facts.now.tzname()}",
        f"🧠 Model: {facts.model_name}{fallback}",
        f"📚 Context: {short_count(facts.tokens)}/{short_count(budget.window_tokens)} ({percent}%){estimated}"
        f" · flush at {short_count(budget.flush_at)} · compact above {short_count(budget.compact_at)}",
        f"🧹 Compactions: {facts.compactions} · last flush: {facts.last_flush}",
        f"📝 Memory: {memory}" + (f" · {facts.memory_problem}" if facts.memory_problem else ""),
        f"🧵 Session: {facts.session_key} · {facts.session_id}",
        f"⏳ {session_age_text(facts)}",
    ]
    if facts.workspace:
        lines.append(f"📁 Workspace: {facts.workspace}")
    return "\n".join(lines)


def session_age_text(facts: StatusFacts) -> str:
    """How old the session is, and when it is over by itself."""
    if facts.started_at is None or facts.last_said_at is None:
        return "Nothing has been said in this session yet"
    ages = [
        f"Begun {short_age(facts.now - facts.started_at)} ago",
        f"last words {short_age(facts.now - facts.last_said_at)} ago",
    ]
    coming = facts.next_reset
    if coming is None:
        return " · ".join([*ages, "no reset"])
    if coming.at.timestamp() <= facts.now.timestamp():
        return " · ".join([*ages, f"{coming.cause} reset with the next message"])
    return " · ".join([*ages, f"{coming.cause} reset {coming.at.strftime('%Y-%m-%d %H:%M')}"])


def short_age(age: timedelta) -> str:
    """A span of time as people read it: `0m`, `45m`, `3h 5m`, `2d 4h`."""
    minutes = max(0, int(age.total_seconds()) // 60)
    hours, days = minutes // 60, minutes // 1440
    if days:
        return f"{days}d {hours % 24}h"
    return f"{hours}h {minutes % 60}m" if hours else f"{minutes}m"


def compaction_text(ended: CompactionEnded, budget: ContextBudget) -> str:
    """The answer to `/compact`."""
    used = f"Context {short_count(ended.tokens_after)}/{short_count(budget.window_tokens)}"
    if ended.problem:
        label = "failed" if ended.has_failed else "skipped"
        return f"⚙️ Compaction {label}: {ended.problem} • {used}"
    sizes = f"{short_count(ended.tokens_before)} → {short_count(ended.tokens_after)}"
    return f"⚙️ Compacted ({sizes}) • {used} • every word stays in {ended.transcript}"


def short_count(count: int) -> str:
    """A count as people read it: `999`, `1.2k`, `130k`, `1.0m`."""
    if count < 1_000:
        return str(count)
    if count < 999_500:
        return f"{count / 1_000:.1f}k" if count < 99_950 else f"{count / 1_000:.0f}k"
    return f"{count / 1_000_000:.1f}m"
