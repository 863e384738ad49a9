"""Formats texts, counts, ages, compactions and search hits for commands and screens."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

SMALLEST_USD = 0.0001

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import timedelta

    from nacre.memory.contracts.records import SearchHit, SearchReport
    from nacre.memory.files.sources.source import Source, SourcedLines
    from nacre.memory.text.evidence import Finder
    from nacre.runtime.contracts.budget import ContextBudget
    from nacre.runtime.contracts.events import CompactionEnded
    from nacre.sessions.contracts.messages import Usage


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


def money(usd: float) -> str:
    """Dollars with two significant digits: `$0`, `$0.0012`, `$0.034`, `$1.20`."""
    if usd <= 0:
        return "$0"
    if usd < SMALLEST_USD:
        return f"<${SMALLEST_USD}"
    return f"${usd:.2f}" if usd >= 1 else f"${usd:.4f}" if usd < 0.01 else f"${usd:.3f}"


def usage_text(usage: Usage, *, is_priced: bool) -> str:
    """Tokens and cost of model calls: `3.4k in (2.1k cached), 80 out, $0.0012`."""
    cached = usage.cache_read_tokens
    kept = f" ({short_count(cached)} cached)" if cached else ""
    cost = money(usage.cost_usd) if is_priced or usage.cost_usd > 0 else "no price known"
    return f"{short_count(usage.prompt_tokens)} in{kept}, {short_count(usage.output_tokens)} out, {cost}"


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


SENTENCE_CHARS = (220, 220, 160)
"""The length of the passages of the first, second and all other hits."""


def found_lines(
    report: SearchReport, sources: Mapping[str, Sequence[SourcedLines]], *, query: str
) -> list[str]:
    """Two lines for each hit: its citation, day and source, and the sentence that fits the query best.

    Without a hit, advice. `sources` has the sources of each hit's lines by its citation.
    """
    if not report.hits:
        return [
            "No matches. Try one word that the note must have, or other words.",
            f"`nacre sessions search {shlex.join(query.split())}` searches the conversations; "
            "`nacre memory status` shows what is indexed.",
        ]
    # imported here, because a chat without a search does not need them
    from nacre.memory.text.chunker import day_in_path
    from nacre.memory.text.evidence import Finder
    from nacre.memory.text.lexical import match_query
    from nacre.memory.text.snippet import cut_again

    matched = match_query(query)
    finder = Finder(matched) if matched is not None else None
    passages = cut_again([_fitting_lines(hit.snippet, finder) for hit in report.hits], finder, SENTENCE_CHARS)
    lines: list[str] = []
    for hit, passage in zip(report.hits, passages, strict=True):
        found = sources.get(hit.citation, ())
        day = day_in_path(hit.path)
        said_on = next((each.source.at[:10] for each in found if each.source.at), "")
        parts = (hit.citation, day.isoformat() if day else said_on, short_source(hit, found))
        lines.append(" · ".join(filter(None, parts)))
        stripped = (line.strip().lstrip("-*> ").strip() for line in (passage or hit.snippet).splitlines())
        lines.append(f"  {' / '.join(filter(None, stripped))}")
        lines += [f"  Line {old.line} is out of date: see {old.by}." for old in hit.superseded]
    return lines


def short_source(hit: SearchHit, found: Sequence[SourcedLines]) -> str:
    """Who said what a hit says, in at most three words."""
    if hit.source == "sessions":
        return "from a conversation"
    if not found:
        return "source not recorded"
    source: Source = max((each.source for each in found), key=lambda each: len(each.said_by))
    if source.written_by == "import":
        return "from an import"
    if "tool" in source.said_by:
        return "from a tool"
    if "others" in source.said_by:
        return "said by others"
    if source.is_by_owner:
        return "written by you"
    if source.said_by == ("owner",):
        return "said by you"
    return "from a conversation" if source.is_owners_word else "source not known"


def _fitting_lines(snippet: str, finder: Finder | None) -> str:
    """The lines with the most words of the query; without any, all lines except headings."""
    lines = [line for line in snippet.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    terms = finder.look("\n".join(lines)).lines if finder is not None else {}
    most = max(map(len, terms.values()), default=0)
    fitting = [line for number, line in enumerate(lines) if len(terms.get(number, ())) == most]
    return "\n".join(fitting or lines) or snippet
