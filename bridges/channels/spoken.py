"""A message as a channel's lines say it, before it becomes an `Inbound`. Pure."""

from __future__ import annotations

from typing import Literal

from nacre.record import Record
from nacre.runtime.contracts.inbound import Inbound, Quoted


class Spoken(Record):
    """A message: where, by whom as the server vouches for them, and what."""

    kind: Literal["direct", "group"]
    chat_id: str
    sender_id: str
    text: str
    is_mentioned: bool
    message_id: str
    quoted: tuple[Quoted, ...] = ()

    def inbound(
        self, channel: str, account: str, *, chat_name: str, message_id: str = "", ids_fold_case: bool = False
    ) -> Inbound:
        """The same for the door; `message_id` is for one that has none."""
        return Inbound(
            text=self.text,
            quoted=self.quoted,
            chat_kind=self.kind,
            channel=channel,
            account=account,
            chat_id=self.chat_id,
            sender_id=self.sender_id,
            message_id=self.message_id or message_id,
            chat_name=chat_name,
            ids_fold_case=ids_fold_case,
            is_mentioned=self.is_mentioned,
        )
