"""Discord's ids: numbers that grow with time, in all chats alike. Pure.

The upper 42 of 64 bits are milliseconds since 2015.
"""

from __future__ import annotations

_EPOCH_MS = 1_420_070_400_000
_TIME_BIT = 22
MARGIN_SECONDS = 60
"""Messages of different chats may come in another order than their ids have."""


def snowflake_at(at_ms: int) -> int:
    """The first id of a millisecond since 1970."""
    return max(0, at_ms - _EPOCH_MS) << _TIME_BIT


def before(snowflake: int) -> int:
    """An id a little earlier, behind which everything is looked through again."""
    return max(0, snowflake - (MARGIN_SECONDS * 1_000 << _TIME_BIT))


def is_snowflake(value: object) -> bool:
    """Whether something is an id, as Discord writes it."""
    return isinstance(value, str) and value.isascii() and value.isdecimal() and 0 < int(value[:20]) < 2**63
