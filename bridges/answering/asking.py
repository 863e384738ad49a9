"""Asks the owner in their chat whether a tool call may run."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from dataclasses import replace

from nacre.bridges.connections.connections import Connection
from nacre.bridges.delivery.outgoing import parts_of
from nacre.runtime.contracts.events import ApprovalAsked
from nacre.runtime.contracts.inbound import Inbound
from nacre.runtime.ledger.ledger import Ledger, owner_chats

SHOWN_CHARS = 3_000
"""So much of a call's arguments is shown; the beginning of what is longer."""

log = logging.getLogger(__name__)


class OwnerQuestions:
    """`connection_of` is the way to a chat."""

    def __init__(self, ledger: Ledger, connection_of: Callable[[Inbound], Connection | None]) -> None:
        self._ledger = ledger
        self._connection_of = connection_of

    async def ask(self, agent_id: str, inbound: Inbound, asked: ApprovalAsked) -> None:
        """Puts a question into the outbox, for the private chat that the message came from, or else for the
        one in which the owner wrote last: nobody else reads what a call is about.

        Raises:
            LedgerUnusable: the disk refused.
        """
        is_here = inbound.is_owner is True and inbound.chat_kind == "direct"
        chats = (inbound,) if is_here else await owner_chats(self._ledger, agent_id)
        for chat in chats:
            connection = self._connection_of(chat)
            if connection is None:
                continue
            texts = parts_of(question_text(asked), connection.bridge.capabilities)
            await self._ledger.tell(replace(chat, text="", attachments=(), quoted=()), texts)
            connection.outgoing.notify(chat.chat_id)
            return
        log.warning(
            "the call %s of %s waits for approval, and the owner has no private chat here to be asked in",
            asked.approval_id,
            asked.tool_name,
        )


def question_text(asked: ApprovalAsked) -> str:
    """What the owner reads. Pure."""
    shown = json.dumps(dict(asked.arguments), ensure_ascii=False)
    if len(shown) > SHOWN_CHARS:
        shown = f"{shown[:SHOWN_CHARS]} […]"
    return (
        f"❓ {asked.why}\n{asked.tool_name} {shown}\n"
        f"/approve {asked.approval_id} lets it run, /deny {asked.approval_id} [reason] does not."
    )
