"""`session`: which session a message belongs to, when sessions reset, and how long they are kept."""

import re
from collections.abc import Mapping
from pathlib import PurePath
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from pydantic import AfterValidator, BeforeValidator, Field, StringConstraints, model_validator

from nacre.runtime.contracts.inbound import RESET_TRIGGERS
from nacre.runtime.settings.sections.section import BYTES, SIZE, SettingsSection, Written, clamped
from nacre.sessions.contracts.errors import SessionKeyInvalid
from nacre.sessions.contracts.keys import (
    DmScope,
    ResetMode,
    ResetPolicy,
    ResetRule,
    SessionScope,
    SessionType,
    canonical_key,
    reset_policy,
)

if TYPE_CHECKING:
    from nacre.sessions.upkeep.maintenance import MaintenanceLimits

_UNITS_MS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 7 * 86_400_000}


def duration_ms(text: str) -> int:
    """Milliseconds of a duration such as `30d`, `12h` or `90m`; a plain number is days.

    Raises:
        ValueError: the text is not a duration, or not above zero.
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smhdw]?)", text.strip().lower())
    length_ms = int(float(match[1]) * _UNITS_MS[match[2] or "d"]) if match else 0
    if length_ms <= 0:
        raise ValueError(
            f"{text!r} is not a duration; write one like '30d', '12h' or '90m', or false for none"
        )
    return length_ms


def _duration(value: object) -> object:
    if value is False or value is None:
        return False
    if isinstance(value, int | float) and not isinstance(value, bool):
        value = f"{value:.15g}d"
    if isinstance(value, str):
        duration_ms(value)
    return value


def _bytes(value: object) -> object:
    """A number of bytes, also as `500mb`; false and 0 mean no limit."""
    if value is False or value is None:
        return None
    if isinstance(value, bool):
        raise ValueError("true is not a number of bytes; write one like '500mb', or false for no limit")
    return int(BYTES.validate_python(value)) or None


def _usable_main_key(text: str) -> str:
    try:
        canonical_key("main", agent_id="main", main_key=text)
    except SessionKeyInvalid as error:
        raise ValueError(str(error)) from error
    return text


def _json_file(text: str) -> str:
    if text.strip() and PurePath(text.strip()).suffix != ".json":
        raise ValueError(f"it is {text!r}; name a file that ends in .json, such as ~/chats/sessions.json")
    return text


def _trigger_words(words: tuple[str, ...]) -> tuple[str, ...]:
    """Each word once, trimmed and in lower case."""
    return tuple(dict.fromkeys(word.strip().lower() for word in words if word.strip()))


Duration: TypeAlias = Annotated[
    str | Literal[False], BeforeValidator(_duration), Written("duration, or `false`")
]
Bytes: TypeAlias = Annotated[int | None, BeforeValidator(_bytes), SIZE]
ChannelName: TypeAlias = Annotated[str, StringConstraints(strip_whitespace=True, to_lower=True)]
IdleMinutes: TypeAlias = Annotated[int, clamped(int, 1)]


class ResetSettings(SettingsSection):
    """When a session resets automatically. Unset keys inherit from the more general section."""

    mode: ResetMode | None = None
    """`daily`: every day at `atHour`. `idle`: after `idleMinutes` without a message. `none`: never. Default:
    `daily`."""
    at_hour: Annotated[int, clamped(int, 0, 23)] | None = None
    """The hour of the daily reset in the owner's time zone. Default: 4. A running turn is not interrupted."""
    idle_minutes: IdleMinutes | None = None
    """The number of minutes without a message after which a session resets, in `daily` mode too. Default in
    `idle` mode: 60."""

    def rule(self) -> ResetRule:
        return ResetRule(mode=self.mode, at_hour=self.at_hour, idle_minutes=self.idle_minutes)


class ResetByType(SettingsSection):
    """`session.resetByType`: rules for one type of session, which override `session.reset` key by key."""

    direct: ResetSettings = Field(default_factory=ResetSettings.unwritten)
    """For direct chats. `dm` is another name of this section."""
    group: ResetSettings = Field(default_factory=ResetSettings.unwritten)
    """For groups and channels."""
    thread: ResetSettings = Field(default_factory=ResetSettings.unwritten)
    """For threads."""

    @model_validator(mode="before")
    @classmethod
    def _former_name(cls, values: Any) -> Any:
        if isinstance(values, Mapping) and "dm" in values and "direct" not in values:
            values = {("direct" if name == "dm" else name): value for name, value in values.items()}
        return values

    def rules(self) -> dict[SessionType, ResetRule]:
        kinds: tuple[SessionType, ...] = ("direct", "group", "thread")
        return {kind: getattr(self, kind).rule() for kind in kinds if kind in self.model_fields_set}


class MaintenanceSettings(SettingsSection):
    """`session.maintenance`: when sessions leave the index, and how much disk space transcripts may use."""

    mode: Literal["enforce", "warn"] = "enforce"
    """`enforce` applies the limits. `warn` only reports what it would change."""
    prune_after: Duration = "30d"
    """How long a direct chat or a program's session may be idle before it leaves the index."""
    max_entries: Annotated[int, Field(ge=1)] = 500
    """The maximum number of sessions in the index. The main session, groups and threads always stay."""
    reset_archive_retention: Duration = False
    """How long the transcripts of deleted sessions are kept; `false` means forever."""
    max_disk_bytes: Bytes = None
    """The maximum size of the session folder, such as `500mb`. Default: no limit."""
    high_water_bytes: Bytes = None
    """The size that cleaning up reduces the folder to. Default: 80 % of `maxDiskBytes`."""

    def limits(self) -> "MaintenanceLimits":
        # Imported here, because most commands do not need it.
        from nacre.sessions.upkeep.maintenance import MaintenanceLimits

        return MaintenanceLimits(
            prune_after_ms=_ms(self.prune_after),
            most_entries=self.max_entries,
            archive_retention_ms=_ms(self.reset_archive_retention),
            most_bytes=self.max_disk_bytes,
            high_water_bytes=self.high_water_bytes,
        )


class SendMatch(SettingsSection):
    """`session.sendPolicy.rules[].match`: the sessions that a rule applies to. Unset keys match all."""

    channel: str = ""
    """The name of a channel. Default: every channel."""
    chat_type: Literal["", "direct", "group", "channel"] = ""
    """`direct`, `group` or `channel`. Default: all."""
    key_prefix: str = ""
    """The beginning of the session key, with or without `agent:<id>:`."""


class SendRule(SettingsSection):
    """`session.sendPolicy.rules[]`: one rule."""

    action: Literal["allow", "deny"]
    """Whether to answer; `deny` takes precedence."""
    match: SendMatch = Field(default_factory=SendMatch.unwritten)


class SendPolicy(SettingsSection):
    """`session.sendPolicy`: the sessions in which chat messages are answered."""

    default: Literal["allow", "deny"] = "allow"
    """What applies to sessions that no rule matches."""
    rules: tuple[SendRule, ...] = ()
    """The rules; `deny` takes precedence over `allow`."""

    def allows(self, key: str, *, channel: str, chat_kind: str) -> bool:
        """Whether messages in a session are answered."""
        parts = key.split(":", 2)
        own = parts[2] if len(parts) == 3 and parts[0] == "agent" else key  # without `agent:<id>:`
        actions = {
            rule.action
            for rule in self.rules
            if rule.match.channel.strip().lower() in ("", channel.strip().lower())
            and rule.match.chat_type in ("", chat_kind)
            and (key.startswith(rule.match.key_prefix) or own.startswith(rule.match.key_prefix))
        }
        return "deny" not in actions and ("allow" in actions or self.default == "allow")


class SessionSettings(SettingsSection):
    """`session`: which session a message belongs to, and where sessions are kept."""

    scope: SessionScope = "per-sender"
    """`global` uses one session for all of the owner's chats; it has no access to private memory."""
    main_key: Annotated[str, AfterValidator(_usable_main_key)] = "main"
    """The name of the owner's main session."""
    dm_scope: DmScope = "main"
    """Whether the owner's direct chats share the main session or have a session each."""
    identity_links: Mapping[str, tuple[str, ...]] = Field(default_factory=dict)
    """The ids of one person on several channels, each as `channel:id`, under one name."""
    store: Annotated[str, AfterValidator(_json_file)] = ""
    """The session index file, beside which transcripts are stored. `~` is the home folder, `{agentId}` the
    id."""
    send_policy: SendPolicy = Field(default_factory=SendPolicy.unwritten)
    maintenance: MaintenanceSettings = Field(default_factory=MaintenanceSettings.unwritten)
    reset: ResetSettings = Field(default_factory=ResetSettings.unwritten)
    reset_by_type: ResetByType = Field(default_factory=ResetByType.unwritten)
    reset_by_channel: Mapping[ChannelName, ResetSettings] = Field(default_factory=dict)
    """Rules for one channel, such as `telegram`, instead of the rules above."""
    idle_minutes: IdleMinutes | None = None
    """The old name of `session.reset.idleMinutes`. Alone, it sets `idle` mode."""
    reset_triggers: Annotated[tuple[str, ...], AfterValidator(_trigger_words)] = RESET_TRIGGERS
    """Words with which the owner starts a new session, alone or before a text, regardless of case."""

    def reset_policy(self, kind: SessionType, channel: str) -> ResetPolicy:
        """The reset policy for a session of this kind on this channel."""
        return reset_policy(
            kind=kind,
            channel=channel,
            base=self.reset.rule() if "reset" in self.model_fields_set else None,
            by_type=self.reset_by_type.rules(),
            by_channel={name: reset.rule() for name, reset in self.reset_by_channel.items()},
            idle_minutes=self.idle_minutes,
        )


def _ms(duration: Any) -> int | None:
    return duration_ms(duration) if duration else None
