"""How much the ledger holds that is not done, for people."""

from __future__ import annotations

from typing import Any

from nacre.bridges.ledger.database import Database

_QUERY = """
SELECT state, count(*) FROM inbound WHERE state IN ('waiting', 'running') GROUP BY state
UNION ALL
SELECT state, count(*) FROM outbound WHERE state IN ('pending', 'sending', 'unsure', 'failed') GROUP BY state
"""
_WORDS = {
    "waiting": "{} to be answered",
    "running": "{} being answered",
    "pending": "{} to be sent",
    "sending": "{} being sent",
    "unsure": "{} sent perhaps",
    "failed": "{} not sent for good",
}


async def not_done(database: Database) -> dict[str, int]:
    """How many messages wait or are being answered, and how many parts of answers are not sent, by state."""
    rows: list[Any] = await database.write(lambda db: db.execute(_QUERY).fetchall())
    return dict(rows)


def told(counts: dict[str, int]) -> str:
    """The same in words."""
    words = [text.format(counts[state]) for state, text in _WORDS.items() if counts.get(state)]
    return " · ".join(words) or "nothing left to do"
