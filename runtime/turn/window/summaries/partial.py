"""Summaries of a history's beginning, from attempts that broke off. Pure, given the journal.

They stand in the transcript as `nacre.partial_summary`, where no model sees them, and are named by a
digest of what they cover, so that one is never taken for another history's.
"""

from __future__ import annotations

from collections.abc import Sequence

from nacre.runtime.turn.window.summaries.summariser import PartialSummaries
from nacre.sessions.entries.entries import Compaction, Entry
from nacre.sessions.stores.store import Transcript

PARTIAL_SUMMARY_ENTRY = "nacre.partial_summary"


def partial_summaries(journal: Transcript) -> PartialSummaries:
    """Those since the latest compaction, and the journal as the place for new ones."""

    async def remember(digest: str, summary: str) -> None:
        await journal.append_custom(PARTIAL_SUMMARY_ENTRY, {"digest": digest, "summary": summary})

    return PartialSummaries(known=known_partial_summaries(journal.branch()), remember=remember)


def known_partial_summaries(branch: Sequence[Entry]) -> dict[str, str]:
    """Summary by digest; what is malformed is passed over."""
    known: dict[str, str] = {}
    for entry in reversed(branch):
        if isinstance(entry.body, Compaction):
            break
        data = entry.custom_data(PARTIAL_SUMMARY_ENTRY) or {}
        digest, summary = data.get("digest"), data.get("summary")
        if isinstance(digest, str) and isinstance(summary, str) and summary.strip():
            known.setdefault(digest, summary)
    return known
