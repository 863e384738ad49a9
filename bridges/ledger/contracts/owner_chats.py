"""Where the owner last wrote to an agent in private, on each account: what nobody asked for is told there."""

from __future__ import annotations

from nacre.bridges.ledger.contracts.ledger import LedgerTables
from nacre.runtime.contracts.inbound import Inbound


async def owner_chats(tables: LedgerTables, agent_id: str, *, target: str = "last") -> tuple[Inbound, ...]:
    """Where the owner wrote to an agent, as messages without words, the newest first.

    `target` is the name of a channel, or `last` for all of them.
    """
    wanted = target.strip().lower()
    chats = await tables.owner_chats(agent_id)
    return tuple(chat for chat in chats if wanted in ("last", chat.channel.strip().lower()))


def is_owner_chat(inbound: Inbound) -> bool:
    """Whether a message shows where the owner is found: they said it, in private, and no job did."""
    return inbound.is_owner is True and inbound.chat_kind == "direct" and not inbound.trigger
