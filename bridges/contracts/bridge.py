"""The contract of a bridge to a chat. It is public: fields and methods are only ever added.

A bridge only translates: what arrives becomes an `Inbound`, and what is to be sent comes as a `Part`. Access
control, duplicates, order, queues and crash recovery are the gateway's work, behind the `Inbox`.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, Protocol, TypeAlias

from nacre.runtime.contracts.inbound import Inbound
from nacre.runtime.contracts.outbound import Part, Place, place_of

__all__ = ["Bridge", "Capabilities", "Inbox", "LengthUnit", "Part", "Place", "place_of"]

LengthUnit: TypeAlias = Literal["characters", "bytes", "utf16"]
LEAST_LENGTH = 64
"""A shorter message would have no room for a code fence and text."""


@dataclass(frozen=True, kw_only=True)
class Capabilities:
    """What a channel can do.

    `greatest_length` is the limit of one message in Unicode characters, bytes of UTF-8, or units of UTF-16.
    `can_edit`: sent messages can be edited, at most every `edit_seconds`. `has_typing`: the chat has a typing
    indicator that lasts for `typing_seconds`. `has_idempotent_sends`: a second `deliver` with the same
    `Part.key` shows nothing new and returns the id of the first. `can_read_back`: `find` can tell whether a
    part arrived.

    Raises:
        ValueError: a length or a time is impossible.
    """

    greatest_length: int = 4_000
    length_unit: LengthUnit = "characters"
    can_edit: bool = False
    edit_seconds: float = 1.0
    has_typing: bool = False
    typing_seconds: float = 4.0
    has_idempotent_sends: bool = False
    can_read_back: bool = False

    def __post_init__(self) -> None:
        if self.greatest_length < LEAST_LENGTH:
            raise ValueError(f"greatest_length is {self.greatest_length}; it must be at least {LEAST_LENGTH}")
        if not (self.edit_seconds > 0 and self.typing_seconds > 0):
            raise ValueError("edit_seconds and typing_seconds must be greater than 0")

    def length(self, text: str) -> int:
        """The length of a text in this channel's unit."""
        if self.length_unit == "bytes":
            return len(text.encode("utf-8", "replace"))
        beyond = sum(map("\uffff".__lt__, text)) if self.length_unit == "utf16" else 0
        return len(text) + beyond


class Inbox(Protocol):
    """Where a bridge puts the messages that it receives."""

    @property
    def cursor(self) -> str:
        """The last `cursor` that was given to `receive`, also before a restart; empty at first."""

    def connected(self) -> None:
        """Reports that messages can be sent from now on."""

    async def receive(self, inbound: Inbound, *, cursor: str = "") -> None:
        """Takes a message. When this returns, the message and `cursor` are on disk.

        Only then may a bridge acknowledge the message to its server. A repeated message, with the same
        channel, account, chat and `message_id`, is dropped. Does not wait for the answer.
        """


class Bridge(ABC):
    """A bridge for one account of a channel. `Inbound.channel` and `Inbound.account` have the same values."""

    channel: str
    account: str = "default"
    capabilities: Capabilities = Capabilities()

    @abstractmethod
    async def start(self, inbox: Inbox) -> None:
        """Connects, calls `inbox.connected()`, and receives until the connection ends or `stop` is called.

        If it raises, or returns without `stop`, that is logged and it is called again after a delay. If it is
        cancelled, it must release its resources.
        """

    @cached_property
    def stopping(self) -> asyncio.Event:
        """Set when `stop` was called."""
        return asyncio.Event()

    @cached_property
    def refused(self) -> dict[str, str]:
        """Parts of the account that the server refuses, such as a room, each with the reason.

        The bridge's status shows it. Each start clears it.
        """
        return {}

    async def stop(self) -> None:
        """Makes `start` return soon. Safe to repeat, and to call before `start`.

        It sets `stopping`, for which `start` should wait. An override may close connections.
        """
        self.stopping.set()

    @abstractmethod
    async def deliver(self, part: Part) -> str:
        """Sends one message and returns its id in the channel; empty if messages have none.

        Raises:
            NotDelivered: it certainly did not arrive and may be tried again.
            DeliveryRefused: it did not arrive and never will.
            Exception: any other error leaves open whether it arrived.
        """

    async def edit(self, part: Part, message_id: str) -> None:
        """Changes the text of a sent message to `part.text`. Called only with `can_edit`. Raises as
        `deliver`.
        """
        raise NotImplementedError(f"{self.channel} cannot edit {message_id}")

    async def typing(self, place: Place) -> None:
        """Shows the typing indicator. Called only with `has_typing`."""
        raise NotImplementedError(f"{self.channel} shows no typing in {place.chat_id}")

    async def find(self, part: Part) -> str | None:
        """The id of a part that may have arrived, `None` if it did not. Called only with `can_read_back`."""
        raise NotImplementedError(f"{self.channel} cannot look for {part.key}")
