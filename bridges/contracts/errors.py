"""What a bridge raises when it cannot connect, or a message could not be sent."""

from __future__ import annotations


class BridgeError(Exception):
    """Any failure of a bridge, or of what stands behind its door."""


class NotDelivered(BridgeError):
    """The message surely did not arrive and may be sent again, after `retry_after_seconds` if known.

    `holds_chat` says that what waits behind it in its chat could not be sent either, so that it waits in its
    order. Without it the server refused this message alone, and other answers go out meanwhile.
    """

    def __init__(
        self, message: str, *, retry_after_seconds: float | None = None, holds_chat: bool = True
    ) -> None:
        super().__init__(message)
        self.retry_after_seconds = retry_after_seconds
        self.holds_chat = holds_chat


class DeliveryRefused(BridgeError):
    """The message did not arrive and never will: the chat is gone, or the account may not write there."""


class CannotConnect(BridgeError):
    """The server of a channel cannot be reached or refuses; the text says why and what to do."""


class ChannelUnusable(BridgeError):
    """A channel that the settings name cannot be used; the text says why and what to do."""
