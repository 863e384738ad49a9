"""`session.reset…`: when sessions are over by themselves, as the owner writes it. Values only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, TypeAlias

from pydantic import BeforeValidator, Field, model_validator

from nacre.runtime.settings.section import SettingsSection
from nacre.sessions.contracts.freshness import ResetMode, ResetRule, SessionType


def _hour(value: object) -> object:
    """An hour of the day: floored and put between 0 and 23, as OpenClaw reads it."""
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value:
        return value
    return int(min(23, max(0, value)))


def _minutes(value: object) -> object:
    """A number of minutes, floored, at least 1."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not value < float("inf"):
        return value
    return max(1, int(value))


AtHour: TypeAlias = Annotated[int, BeforeValidator(_hour)]
IdleMinutes: TypeAlias = Annotated[int, BeforeValidator(_minutes)]


def channel_name(text: str) -> str:
    """A channel as rules are looked up by it."""
    return text.strip().lower()


def trigger_words(words: tuple[str, ...]) -> tuple[str, ...]:
    """Each word once, trimmed, in lower case; blank ones are left out."""
    return tuple(dict.fromkeys(word.strip().lower() for word in words if word.strip()))


class ResetSettings(SettingsSection):
    """When a session is over by itself; what is not set here is taken from a more general place."""

    mode: ResetMode | None = None
    """`daily`: at `atHour`. `idle`: after `idleMinutes` of silence. `none`: never. Unset is `daily`."""
    at_hour: AtHour | None = None
    """Hour of the daily reset in the owner's time zone; unset is 4. A running conversation is not cut off."""
    idle_minutes: IdleMinutes | None = None
    """Minutes of silence that end a session, in `daily` mode too, if they pass first; `idle` alone has 60."""

    def rule(self) -> ResetRule:
        """The same as the sessions room takes it."""
        return ResetRule(mode=self.mode, at_hour=self.at_hour, idle_minutes=self.idle_minutes)


class ResetByType(SettingsSection):
    """`session.resetByType`: rules for one sort of session, field by field over `session.reset`."""

    direct: ResetSettings = Field(default_factory=ResetSettings.model_construct)
    group: ResetSettings = Field(default_factory=ResetSettings.model_construct)
    thread: ResetSettings = Field(default_factory=ResetSettings.model_construct)

    @model_validator(mode="before")
    @classmethod
    def _former_name(cls, values: Any) -> Any:
        """`dm` is the former name of `direct`."""
        if isinstance(values, Mapping) and "dm" in values and "direct" not in values:
            values = {("direct" if name == "dm" else name): value for name, value in values.items()}
        return values

    def rules(self) -> dict[SessionType, ResetRule]:
        """The rules that the owner wrote."""
        kinds: tuple[SessionType, ...] = ("direct", "group", "thread")
        return {kind: getattr(self, kind).rule() for kind in kinds if kind in self.model_fields_set}
