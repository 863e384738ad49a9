"""`agents.defaults.startupContext`: what a private session reads of the last days when it begins."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator

from nacre.runtime.settings.section import SettingsSection
from nacre.runtime.settings.values import count_or

MAX_DAYS = 14
MAX_TOTAL_CHARS = 50_000


class StartupContextSettings(SettingsSection):
    """Too large a number counts as the largest that is allowed."""

    enabled: bool = True
    """Whether anything is read at all, also after a compaction."""
    daily_memory_days: Annotated[
        int, AfterValidator(lambda days: min(max(days, 1), MAX_DAYS)), count_or(2)
    ] = 2
    """How many days count, today included."""
    max_total_chars: Annotated[
        int, AfterValidator(lambda chars: min(chars, MAX_TOTAL_CHARS)), count_or(14_000)
    ] = 14_000
    """Most of all logs and notes together."""
