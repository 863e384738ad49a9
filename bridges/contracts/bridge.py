"""What a bridge to a chat is. A public contract: fields and methods are only ever added.

A bridge translates and nothing else: what arrives becomes an `Inbound`, what is to be said comes as a `Part`.
Who may speak, duplicates, order, queues, what happens after a crash: all that is behind the `Door`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

from nacre.runtime.contracts.inbound import Inbound
from nacre.runtime.contracts.outbound import Part, Place, place_of

__all__ = ["Bridge", "Capabilities", "Door", "LengthUnit", "Part", "Place", "place_of"]

LengthUnit: TypeAlias = Literal["characters", "bytes", "utf16"]
LEAST_LENGTH = 64
"""A shorter message has no room for a code fence and words."""


@dataclass(frozen=True, kw_only=True)
class Capabilities:
    """What a channel can do.

    `greatest_length` is that of one message, in Unicode characters, in bytes of UTF-8 or in units of UTF-16.
    `can_edit`: a sent message can be changed, at most every `edit_seconds`. `has_typing`: the chat can show
    that an answer is being written; one such sign holds for `typing_seconds`. `has_threads`: a chat may have
    threads, and `Place.thread_id` counts. `takes_attachments`: messages may bring files.
    `has_idempotent_sends`: a second `deliver` with the same `Part.key` shows nothing new and gives the first
    one's id. `can_read_back`: `find` can tell whether a part arrived.

    Raises:
        ValueError: a length or a time that no channel has.
    """

    greatest_length: int = 4_000
    length_unit: LengthUnit = "characters"
    can_edit: bool = False
    edit_seconds: float = 1.0
    has_typing: bool = False
    typing_seconds: float = 4.0
    has_threads: bool = False
    takes_attachments: bool = False
    has_idempotent_sends: bool = False
    can_read_back: bool = False

    def __post_init__(self) -> None:
        if self.greatest_length < LEAST_LENGTH:
            raise ValueError(f"greatest_length is {self.greatest_length}; give {LEAST_LENGTH} or more")
        if not (self.edit_seconds > 0 and self.typing_seconds > 0):
            raise ValueError("edit_seconds and typing_seconds are more than nothing")

    def length(self, text: str) -> int:
        """How long a text is in this channel's unit."""
        if self.length_unit == "bytes":
            return len(text.encode("utf-8", "replace"))
        beyond = sum(map("\uffff".__lt__, text)) if self.length_unit == "utf16" else 0
        return len(text) + beyond


class Door(Protocol):
    """What a bridge is given: the way in."""

    @property
    def cursor(self) -> str:
        """The `cursor` that was last handed to `receive`, from before a restart too; empty at first."""
        ...

    def connected(self) -> None:
        """Says that messages can be sent from now on."""
        ...

    async def receive(self, inbound: Inbound, *, cursor: str = "") -> None:
        """Takes a message. Its words are on disk when this returns, and `cursor` with them.

        Only then may a bridge tell its server that it has the message. A message that was taken before,
        by its channel, account, chat and `message_id`, is dropped. Never waits for an answer.
        """
        ...


class Bridge(ABC):
    """A bridge of one account of one channel. `Inbound.channel` and `Inbound.account` say the same."""

    channel: str
    account: str = "default"
    capabilities: Capabilities = Capabilities()

    @abstractmethod
    async def start(self, door: Door) -> None:
        """Connects, calls `door.connected()`, and receives until the connection ends or `stop` is called.

        Whatever it raises is logged, and it is called again after a while; so is one that returns unasked.
        Cancelling it must release what it holds.
        """

    @abstractmethod
    async def stop(self) -> None:
        """Ends `start` soon. Safe to repeat, and before any start."""

    @abstractmethod
    async def deliver(self, part: Part) -> str:
        """Sends one message; its id in the channel, empty where messages have none.

        Raises:
            NotDelivered: it surely did not arrive, and may be tried again.
            DeliveryRefused: it did not arrive, and never will.
            Exception: anything else leaves open whether it arrived.
        """

    async def edit(self, part: Part, message_id: str) -> None:
        """Makes a sent message read `part.text`; only where `can_edit`. Raises as `deliver`."""
        raise NotImplementedError(f"{self.channel} cannot edit {message_id}")

    async def typing(self, place: Place) -> None:
        """Shows that an answer is being written; only where `has_typing`."""
        raise NotImplementedError(f"{self.channel} shows no typing in {place.chat_id}")

    async def find(self, part: Part) -> str | None:
        """The id of a part that may have arrived, `None` when it did not; only where `can_read_back`."""
        raise NotImplementedError(f"{self.channel} cannot look for {part.key}")
