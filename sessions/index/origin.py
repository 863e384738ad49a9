"""Where a session's messages come from and where its replies go, as its line in the index tells. Pure.

The names are OpenClaw's: `origin` is the latest message, `deliveryContext` and the `last…` fields are
where a reply or a message without being asked would go.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from nacre.sessions.index.record import SessionRecord


@dataclass(frozen=True, kw_only=True)
class Origin:
    """One message's place; empty texts are unknown. `chat_name` is what people call the chat."""

    chat_kind: str
    channel: str
    account: str = ""
    chat_id: str = ""
    thread_id: str = ""
    sender_id: str = ""
    chat_name: str = ""

    @property
    def reply_to(self) -> str:
        """Whom a reply is addressed to: the chat, else the sender, else nobody (a terminal)."""
        return self.chat_id.strip() or self.sender_id.strip()


def with_origin(record: SessionRecord, origin: Origin) -> SessionRecord:
    """The record after a message from `origin`, texts trimmed, the channel in lower case.

    A place to which nothing can be sent later, such as a terminal, does not displace one to which it can.
    """
    channel = origin.channel.strip().lower()
    place = _known(
        channel=channel,
        to=origin.reply_to,
        accountId=origin.account.strip(),
        threadId=origin.thread_id.strip(),
    )
    latest = _known(
        label=origin.chat_name.strip(),
        provider=channel,
        chatType=origin.chat_kind,
        to=origin.reply_to,
        accountId=origin.account.strip(),
        threadId=origin.thread_id.strip(),
        **{"from": origin.sender_id.strip()},
    )
    record = replace(record, origin=latest, chat_type=record.chat_type or origin.chat_kind)
    if origin.chat_kind != "direct":
        record = replace(
            record,
            channel=channel or record.channel,
            group_id=origin.chat_id.strip() or record.group_id,
            display_name=origin.chat_name.strip() or record.display_name,
        )
    if not origin.reply_to and record.last_to:
        return record
    return replace(
        record,
        delivery_context=place,
        last_channel=channel or None,
        last_to=origin.reply_to or None,
        last_account_id=origin.account.strip() or None,
        last_thread_id=origin.thread_id.strip() or None,
    )


def _known(**texts: str) -> dict[str, Any]:
    return {name: text for name, text in texts.items() if text}
