"""The clock and the owner's time zone: the only file that asks the machine what time it is."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, tzinfo
from typing import TypeAlias

from nacre.runtime.contracts.errors import ConfigError

Clock: TypeAlias = Callable[[], datetime]
"""Gives the present moment as an aware datetime in the owner's time zone."""
Sleep: TypeAlias = Callable[[float], Awaitable[None]]
"""Waits for a number of seconds."""


def system_clock(zone: tzinfo) -> Clock:
    """A clock that reads the machine's time and shows it in `zone`."""
    return lambda: datetime.now(zone)


def owner_zone(setting: str | None) -> tzinfo:
    """The zone that decides which day it is: the setting's IANA name, else the system's, else UTC.

    Raises:
        ConfigError: `setting` is not a zone that this machine knows.
    """
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

    if setting:
        try:
            return ZoneInfo(setting)
        except (ZoneInfoNotFoundError, ValueError, OSError) as error:
            raise ConfigError(
                f"userTimezone is {setting!r}, which is no IANA time zone here. "
                "Write one like 'Europe/Berlin', or leave it out to use the system's."
            ) from error
    import tzlocal

    try:
        return tzlocal.get_localzone()
    except (ZoneInfoNotFoundError, ValueError, OSError, LookupError):
        return UTC


def owner_clock(setting: str) -> Clock:
    """The machine's clock in the owner's zone; `setting` is `userTimezone`, blank for the system's.

    Raises:
        ConfigError: `setting` is not a zone that this machine knows.
    """
    return system_clock(owner_zone(setting or None))


def brief_clock(setting: str) -> Clock:
    """As `owner_clock`, for a command that is done soon: the system's zone as it is now, and not by its name.

    To find the name takes 8 ms, since it is looked for in whatever places systems keep it in.

    Raises:
        ConfigError: `setting` is not a zone that this machine knows.
    """
    return owner_clock(setting) if setting else lambda: datetime.now(UTC).astimezone()


def epoch_ms(moment: datetime) -> int:
    """Milliseconds since the epoch."""
    return int(moment.timestamp() * 1000)


def stored_moment(at_ms: int, zone: tzinfo | None) -> datetime | None:
    """The moment of a stored time stamp in `zone`; `None` for 0, and for one that no calendar has."""
    try:
        return datetime.fromtimestamp(at_ms / 1000, zone) if at_ms > 0 else None
    except (OverflowError, ValueError, OSError):
        return None
