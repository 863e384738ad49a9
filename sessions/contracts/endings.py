"""Sessions that are over with something still to do."""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

from nacre.records.record import Record

EndReason: TypeAlias = Literal["new", "reset", "daily", "idle"]
"""`new` and `reset` are the owner's commands, `daily` and `idle` the settings."""

END_REASONS: tuple[EndReason, ...] = get_args(EndReason)


class EndedSession(Record):
    """A session that is over.

    `transcript` is the name under which its store keeps what was said, `channel` where the message came
    from that ended it. `attempts` counts how often its hooks have failed.
    """

    key: str
    session_id: str
    transcript: str
    reason: EndReason
    ended_at_ms: int
    channel: str = ""
    attempts: int = 0
