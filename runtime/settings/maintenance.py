"""`session.maintenance…`: how long and how much of sessions is kept, as the owner writes it. Values only."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BeforeValidator, Field

from nacre.runtime.settings.section import SettingsSection
from nacre.runtime.settings.values import BYTES
from nacre.sessions.upkeep.maintenance import MaintenanceLimits

_UNITS_MS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 7 * 86_400_000}


def duration_ms(text: str) -> int:
    """Milliseconds of a duration such as `30d`, `12h` or `90m`; a bare number is days.

    Raises:
        ValueError: it is none, or not longer than nothing.
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smhdw]?)", text.strip().lower())
    length_ms = int(float(match[1]) * _UNITS_MS[match[2] or "d"]) if match else 0
    if length_ms <= 0:
        raise ValueError(f"{text!r} is no duration; write one like '30d', '12h' or '90m', or false for none")
    return length_ms


def _duration(value: object) -> object:
    if value is False or value is None:
        return False
    if isinstance(value, int | float) and not isinstance(value, bool):
        value = f"{value:g}d"
    if isinstance(value, str):
        duration_ms(value)
    return value


def _bytes(value: object) -> object:
    """A number of bytes, also as `500mb`; false and 0 are no limit."""
    if value is False or value is None:
        return None
    if isinstance(value, bool):
        raise ValueError("true is no number of bytes; write one like '500mb', or false for no limit")
    return int(BYTES.validate_python(value)) or None


Duration: TypeAlias = Annotated[str | Literal[False], BeforeValidator(_duration)]
Bytes: TypeAlias = Annotated[int | None, BeforeValidator(_bytes)]


class MaintenanceSettings(SettingsSection):
    """`session.maintenance`: when lines leave the index, and how much of the disk transcripts may take."""

    mode: Literal["enforce", "warn"] = "enforce"
    """`warn` changes nothing and says what would be changed."""
    prune_after: Duration = "30d"
    """How long a direct chat or a program's session may be idle before its line leaves the index."""
    max_entries: Annotated[int, Field(ge=1)] = 500
    """Most lines of the index; main session, groups and threads stay, even beyond it."""
    reset_archive_retention: Duration = False
    """How long the transcripts of deleted sessions are kept; `false` is for ever."""
    max_disk_bytes: Bytes = None
    """Most that the folder of sessions may take, such as `500mb`; unset is no limit."""
    high_water_bytes: Bytes = None
    """How much is left once the limit was passed; unset is four fifths of it."""

    def limits(self) -> MaintenanceLimits:
        """The same as the sessions room takes it."""
        return MaintenanceLimits(
            prune_after_ms=_ms(self.prune_after),
            most_entries=self.max_entries,
            archive_retention_ms=_ms(self.reset_archive_retention),
            most_bytes=self.max_disk_bytes,
            high_water_bytes=self.high_water_bytes,
        )


def _ms(duration: Any) -> int | None:
    return duration_ms(duration) if duration else None
