"""Where in a channel something is said, and one message to send there. A public contract."""

from __future__ import annotations

from dataclasses import dataclass

from nacre.runtime.contracts.inbound import Inbound


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where in a channel something is said; `thread_id` is empty outside of threads."""

    channel: str
    account: str
    chat_id: str
    thread_id: str = ""


def place_of(inbound: Inbound) -> Place:
    """Where a message came from, and its answer goes."""
    return Place(
        channel=inbound.channel,
        account=inbound.account,
        chat_id=inbound.chat_id,
        thread_id=inbound.thread_id,
    )


@dataclass(frozen=True, kw_only=True)
class Part:
    """One message to send. `key` names it for ever, also across restarts: the same part, the same key.

    `answers` is the id of the message that it answers, empty when it answers none.
    """

    place: Place
    text: str
    key: str
    answers: str = ""
