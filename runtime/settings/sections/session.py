"""`session`: which conversation a message belongs to, when it ends by itself, how much is kept of it."""

import re
from collections.abc import Mapping
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
        value = f"{value:.15g}d"
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


def _usable_main_key(text: str) -> str:
    try:
        canonical_key("main", agent_id="main", main_key=text)
    except SessionKeyInvalid as error:
        raise ValueError(str(error)) from error
    return text


def _trigger_words(words: tuple[str, ...]) -> tuple[str, ...]:
    """Each word once, trimmed, in lower case; blank ones are left out."""
    return tuple(dict.fromkeys(word.strip().lower() for word in words if word.strip()))


Duration: TypeAlias = Annotated[
    str | Literal[False], BeforeValidator(_duration), Written("duration, or `false`")
]
Bytes: TypeAlias = Annotated[int | None, BeforeValidator(_bytes), SIZE]
ChannelName: TypeAlias = Annotated[str, StringConstraints(strip_whitespace=True, to_lower=True)]
IdleMinutes: TypeAlias = Annotated[int, clamped(int, 1)]


class ResetSettings(SettingsSection):
    """When a session ends by itself; what is not set here is taken from a more general place."""

    mode: ResetMode | None = None
    """`daily`: each day at `atHour`. `idle`: after `idleMinutes` of silence. `none`: never. Unset is
    `daily`."""
    at_hour: Annotated[int, clamped(int, 0, 23)] | None = None
    """Hour of the daily reset in the owner's time zone; unset is 4. A running conversation is not cut off."""
    idle_minutes: IdleMinutes | None = None
    """Minutes of silence that end a session, in `daily` mode too, if they pass first; unset is 60 in `idle`
    mode."""

    def rule(self) -> ResetRule:
        return ResetRule(mode=self.mode, at_hour=self.at_hour, idle_minutes=self.idle_minutes)


class ResetByType(SettingsSection):
    """`session.resetByType`: rules for one sort of session, field by field over `session.reset`."""

    direct: ResetSettings = Field(default_factory=ResetSettings.unwritten)
    """For private chats; `dm` is another name of this section."""
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

    def limits(self) -> "MaintenanceLimits":
        # a command that looks at no sessions has no use for it
        from nacre.sessions.upkeep.maintenance import MaintenanceLimits

        return MaintenanceLimits(
            prune_after_ms=_ms(self.prune_after),
            most_entries=self.max_entries,
            archive_retention_ms=_ms(self.reset_archive_retention),
            most_bytes=self.max_disk_bytes,
            high_water_bytes=self.high_water_bytes,
        )


class SendMatch(SettingsSection):
    """`session.sendPolicy.rules[].match`: which sessions are meant; what is unset is all."""

    channel: str = ""
    """Name of the channel; blank is every one."""
    chat_type: Literal["", "direct", "group", "channel"] = ""
    """`direct`, `group` or `channel`; blank is all."""
    key_prefix: str = ""
    """How the session's key begins, with or without `agent:<id>:`."""


class SendRule(SettingsSection):
    """`session.sendPolicy.rules[]`."""

    action: Literal["allow", "deny"]
    """`allow` or `deny`; a rule that denies counts before one that allows."""
    match: SendMatch = Field(default_factory=SendMatch.unwritten)


class SendPolicy(SettingsSection):
    """`session.sendPolicy`: in which sessions messages of chats are answered at all."""

    default: Literal["allow", "deny"] = "allow"
    """Whether messages of chats are answered where no rule says so: `allow` or `deny`."""
    rules: tuple[SendRule, ...] = ()
    """A rule that denies counts before one that allows."""

    def allows(self, key: str, *, channel: str, chat_kind: str) -> bool:
        """Whether messages of a session are answered."""
        actions = {
            rule.action
            for rule in self.rules
            if rule.match.channel.strip().lower() in ("", channel.strip().lower())
            and rule.match.chat_type in ("", chat_kind)
            and (
                key.startswith(rule.match.key_prefix) or _without_agent(key).startswith(rule.match.key_prefix)
            )
        }
        return "deny" not in actions and ("allow" in actions or self.default == "allow")


class SessionSettings(SettingsSection):
    """`session`: which conversation a message belongs to, and where conversations are kept."""

    scope: SessionScope = "per-sender"
    """`global` makes one session of all that the owner says, in any chat; it shows no private memory."""
    main_key: Annotated[str, AfterValidator(_usable_main_key)] = "main"
    """Name of the owner's main session."""
    dm_scope: DmScope = "main"
    """Whether the owner's direct chats share the main session or each have their own."""
    identity_links: Mapping[str, tuple[str, ...]] = Field(default_factory=dict)
    """One person's ids on several channels, each as `channel:id`, under one name."""
    store: str = ""
    """The index file; transcripts lie beside it. `~` is the home folder, `{agentId}` the agent's id."""
    send_policy: SendPolicy = Field(default_factory=SendPolicy.unwritten)
    maintenance: MaintenanceSettings = Field(default_factory=MaintenanceSettings.unwritten)
    reset: ResetSettings = Field(default_factory=ResetSettings.unwritten)
    reset_by_type: ResetByType = Field(default_factory=ResetByType.unwritten)
    reset_by_channel: Mapping[ChannelName, ResetSettings] = Field(default_factory=dict)
    """For one channel, such as `telegram`; the rules above do not count there."""
    idle_minutes: IdleMinutes | None = None
    """Older name of `session.reset.idleMinutes`; alone it means `idle` mode."""
    reset_triggers: Annotated[tuple[str, ...], AfterValidator(_trigger_words)] = RESET_TRIGGERS
    """Words that the owner begins a fresh session with, alone or before a text; case does not matter."""

    def reset_policy(self, kind: SessionType, channel: str) -> ResetPolicy:
        """What holds for a session of this kind on this channel."""
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


def _without_agent(key: str) -> str:
    """A key without the `agent:<id>:` in front of it."""
    parts = key.split(":", 2)
    return parts[2] if len(parts) == 3 and parts[0] == "agent" else key
