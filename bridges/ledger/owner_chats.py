"""Where the owner last wrote to an agent in private, on each account: what nobody asked for is told there."""

from __future__ import annotations

from typing import Any

from nacre.bridges.ledger.database import Connection, Database
from nacre.bridges.ledger.stored_inbound import asker_to_json, inbound_from_json
from nacre.runtime.contracts.inbound import Inbound


def note_owner_chat(db: Connection, agent_id: str, inbound: Inbound, at_ms: int) -> None:
    """Notes, within a transaction, where a message was said; nothing unless the owner said it in private."""
    if inbound.is_owner is True and inbound.chat_kind == "direct":
        row = (agent_id, inbound.channel, inbound.account, at_ms, asker_to_json(inbound))
        db.execute("INSERT OR REPLACE INTO owner_chats VALUES (?, ?, ?, ?, ?)", row)


async def owner_chats(database: Database, agent_id: str, *, target: str = "last") -> tuple[Inbound, ...]:
    """Where the owner wrote to an agent, as messages without words, the newest first.

    `target` is the name of a channel, or `last` for all of them.
    """
    query = "SELECT channel, inbound FROM owner_chats WHERE agent = ? ORDER BY at_ms DESC"
    rows: list[Any] = await database.write(lambda db: db.execute(query, (agent_id,)).fetchall())
    wanted = target.strip().lower()
    return tuple(
        inbound_from_json(text) for channel, text in rows if wanted in ("last", channel.strip().lower())
    )
