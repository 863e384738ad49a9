"""How large a transcript is, and would be with a compaction that is not stored yet. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from nacre.sessions.compaction.cut import CompactionPlan
from nacre.sessions.entries.entries import Compaction, Entry
from nacre.sessions.view.tokens import estimate_message_tokens
from nacre.sessions.view.transcript_view import build_transcript


def transcript_tokens(branch: Sequence[Entry], count_tokens: Callable[[str], int]) -> int:
    """An estimate for every message that the model would see; no usage is asked."""
    items = build_transcript(branch)
    return sum(estimate_message_tokens(item.message, count_tokens) for item in items)


def with_compaction(branch: Sequence[Entry], plan: CompactionPlan, summary: str) -> tuple[Entry, ...]:
    """The branch as it would be with the compaction at its end.

    Raises:
        ValueError: the plan is for another branch.
    """
    if all(entry.id != plan.first_kept_entry_id for entry in branch):
        raise ValueError(f"No entry of this branch is {plan.first_kept_entry_id!r}, which was to be kept.")
    compaction = Compaction(
        summary=summary,
        first_kept_entry_id=plan.first_kept_entry_id,
        tokens_before=plan.tokens_before,
    )
    newest = branch[-1]
    return (*branch, Entry(id="", parent_id=newest.id, timestamp=newest.timestamp, body=compaction))
