"""How much the ledger holds that is not done, for people. Pure."""

from __future__ import annotations

_WORDS = {
    "waiting": "{} to be answered",
    "running": "{} being answered",
    "pending": "{} to be sent",
    "sending": "{} being sent",
    "unsure": "{} sent perhaps",
    "failed": "{} not sent for good",
}
STATES = tuple(_WORDS)
"""What is waiting, or is being done, or was not done for certain."""


def told(counts: dict[str, int]) -> str:
    """Counts by state in words."""
    words = [text.format(counts[state]) for state, text in _WORDS.items() if counts.get(state)]
    return " · ".join(words) or "nothing left to do"
