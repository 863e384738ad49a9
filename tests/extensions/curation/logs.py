"""A log with everything that can stand under `## Retain`, and a bank in memory."""

from __future__ import annotations

from nacre.extensions.curation.reflection import BankProposal, bank_proposal

DAY = "memory/2026-01-20.md"
LOG = """# 2026-01-20

A long day. W @Nobody: this is prose.

## Retain

- W @Peter: Currently in Marrakech (Jan 18–22) for Andy's birthday.
- B @warelay: I fixed the crash on reconnect
  by wrapping the handlers (see memory/2026-01-19.md).
- O(c=0.95) @Peter: Prefers concise replies on WhatsApp.
- S @Peter @The-Castle: The move takes all week.

## Weather

- W: not asked to be kept
"""


def after(logs: dict[str, str], pages: dict[str, str]) -> dict[str, str]:
    """The pages, `bank/.taken` among them, once the proposal was written."""
    made = bank_proposal(logs, pages)
    return pages | {change.path: change.after for change in (*made.changes, made.taken)}


def of(log: str, *, day: str = DAY) -> BankProposal:
    """What one log proposes to an empty bank."""
    return bank_proposal({day: log}, {})
