"""Errors of bridges and channels."""

from __future__ import annotations


class BridgeError(Exception):
    """The base class of errors of bridges and channels."""


class NotDelivered(BridgeError):
    """The message certainly did not arrive and may be sent again, after `retry_after_seconds` if known.

    With `holds_chat`, the chat's other messages could not be sent either, so they wait in order. Without it,
    the server refused only this message, and other answers are sent meanwhile.
    """

    def __init__(
        self, message: str, *, retry_after_seconds: float | None = None, holds_chat: bool = True
    ) -> None:
        super().__init__(message)
        self.retry_after_seconds = retry_after_seconds
        self.holds_chat = holds_chat


class DeliveryRefused(BridgeError):
    """The message did not arrive and never will: the chat no longer exists, or the account may not write
    there.
    """


class CannotConnect(BridgeError):
    """The channel's server cannot be reached or refuses. The text says why and what to do."""


class ChannelUnusable(BridgeError):
    """A channel in the settings cannot be used. The text says why and what to do."""
