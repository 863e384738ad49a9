"""The clock, the owner's time zone, and new ids. The only file that reads the machine's time or makes ids."""

from __future__ import annotations

import os
import struct
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, tzinfo
from io import BytesIO
from typing import TypeAlias
from uuid import uuid4

from nacre.runtime.contracts.errors import ConfigError

Clock: TypeAlias = Callable[[], datetime]
"""Returns the current time as an aware datetime in the owner's time zone."""
Sleep: TypeAlias = Callable[[float], Awaitable[None]]
"""Waits for a number of seconds."""
NewId: TypeAlias = Callable[[], str]
"""Returns a new unique id, a lower-case UUID of 36 characters."""


def random_id() -> str:
    return str(uuid4())


def system_clock(zone: tzinfo) -> Clock:
    """A clock with the machine's time in `zone`."""
    return lambda: datetime.now(zone)


def owner_zone(setting: str | None) -> tzinfo:
    """The time zone of the owner's days: the setting's IANA name, else the system's, else UTC.

    The system's may be the rule of a POSIX `TZ`.

    Raises:
        ConfigError: the machine does not know the zone `setting`.
    """
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

    if setting:
        try:
            return ZoneInfo(setting)
        except (ZoneInfoNotFoundError, ValueError, OSError) as error:
            raise ConfigError(
                f"userTimezone is {setting!r}, which is not an IANA time zone on this machine. "
                "Write one like 'Europe/Berlin', or leave it out to use the system's."
            ) from error
    import tzlocal

    try:
        return tzlocal.get_localzone()
    except (ZoneInfoNotFoundError, ValueError, OSError, LookupError):
        rule = os.environ.get("TZ", "UTC0").removeprefix(":")
    # A rule such as CET-1CEST,M3.5.0,M10.5.0/3 is the last line of a file (RFC 8536), after a zone without
    # transitions in the old form and in the new one.
    header = b"TZif2" + bytes(15) + struct.pack(">6L", 0, 0, 0, 0, 1, 1) + bytes(7)
    try:
        return ZoneInfo.from_file(BytesIO(header * 2 + f"\n{rule}\n".encode("ascii")), key=rule)
    except ValueError:
        return UTC


def owner_clock(setting: str) -> Clock:
    """The machine's clock in the owner's zone; `setting` is `userTimezone`, blank for the system's.

    Raises:
        ConfigError: the machine does not know the zone `setting`.
    """
    return system_clock(owner_zone(setting or None))


def brief_clock(setting: str) -> Clock:
    """Like `owner_clock`, for a short command: uses the system's current offset instead of its zone name,
    because finding the name takes 8 ms.

    Raises:
        ConfigError: the machine does not know the zone `setting`.
    """
    return owner_clock(setting) if setting else lambda: datetime.now(UTC).astimezone()


def epoch_ms(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)


def stored_moment(at_ms: int, zone: tzinfo | None) -> datetime | None:
    """The time of a stored timestamp in `zone`; `None` for 0 and for one out of range."""
    try:
        return datetime.fromtimestamp(at_ms / 1000, zone) if at_ms > 0 else None
    except (OverflowError, ValueError, OSError):
        return None
