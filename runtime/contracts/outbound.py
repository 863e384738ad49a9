"""Where to send a message in a channel, and the message. A public contract."""

from __future__ import annotations

from dataclasses import dataclass

from nacre.runtime.contracts.inbound import Inbound


@dataclass(frozen=True, kw_only=True)
class Place:
    """A chat of a channel; `thread_id` is empty outside of threads."""

    channel: str
    account: str
    chat_id: str
    thread_id: str = ""


def place_of(inbound: Inbound) -> Place:
    """The place that a message came from, and that its answer goes to."""
    return Place(
        channel=inbound.channel,
        account=inbound.account,
        chat_id=inbound.chat_id,
        thread_id=inbound.thread_id,
    )


@dataclass(frozen=True, kw_only=True)
class Part:
    """One message to send. `key` identifies it, also after restarts. `answers` is the id of the message
    that it answers, or empty.
    """

    place: Place
    text: str
    key: str
    answers: str = ""
