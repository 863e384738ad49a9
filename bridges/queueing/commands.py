"""Which messages are heard at once, although a turn of their session runs. Pure."""

from __future__ import annotations

from nacre.runtime.contracts.inbound import Inbound

AT_ONCE = ("status", "approve", "deny")
"""Chat commands that do not wait for the session's lane."""
_STOP_WORDS = ("stop", "esc", "abort", "wait", "exit", "interrupt")


def is_stop(text: str) -> bool:
    """Whether a message, as a whole and in any case, is `/stop` or one of its bare words."""
    word = text.strip().lower().rstrip(".!")
    return word == "/stop" or word in _STOP_WORDS


def may_stop(inbound: Inbound) -> bool:
    """Whether whoever sends this may stop a turn: the owner anywhere, others in their own direct chat."""
    return inbound.is_owner is True or inbound.chat_kind == "direct"
