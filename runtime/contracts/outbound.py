"""A message to send, and its place in a channel. A public contract."""

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
    """The place of a message, to which its answer goes."""
    return Place(
        channel=inbound.channel,
        account=inbound.account,
        chat_id=inbound.chat_id,
        thread_id=inbound.thread_id,
    )


@dataclass(frozen=True, kw_only=True)
class Part:
    """One message to send. `key` identifies it across restarts; `answers` is the id of the answered message,
    or empty.
    """

    place: Place
    text: str
    key: str
    answers: str = ""
