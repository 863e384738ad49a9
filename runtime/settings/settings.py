"""What the owner can set: frozen, validated, with the seeds' keys (`agents.defaults.…`, `session`, `memory`).

Values only: nothing here reads a file or the environment (`config.py` does). Keys that other
OpenClaw versions know and Nacre does not read are kept out of the way and reported, not refused, so
that an owner can bring a settings file along. Inside `memorySearch` an unknown key is an error.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, Field
from pydantic.alias_generators import to_camel

from nacre.memory.contracts.settings import MemorySearchSettings
from nacre.runtime.contracts.commands import RESET_TRIGGERS
from nacre.runtime.settings.channels import ChannelSettings
from nacre.runtime.settings.compaction import CompactionSettings
from nacre.runtime.settings.hooks import HooksSettings
from nacre.runtime.settings.maintenance import MaintenanceSettings
from nacre.runtime.settings.pruning import ContextPruningSettings
from nacre.runtime.settings.resets import IdleMinutes, ResetByType, ResetSettings, channel_name, trigger_words
from nacre.runtime.settings.section import SettingsSection as _Section
from nacre.runtime.settings.startup import StartupContextSettings
from nacre.runtime.settings.values import count_or
from nacre.sessions.contracts.errors import SessionKeyInvalid
from nacre.sessions.contracts.freshness import ResetPolicy, SessionType, reset_policy
from nacre.sessions.contracts.keys import DmScope, SessionScope, canonical_key


def _usable_main_key(text: str) -> str:
    try:
        canonical_key("main", agent_id="main", main_key=text)
    except SessionKeyInvalid as error:
        raise ValueError(str(error)) from error
    return text


class ModelChoice(_Section):
    """`agents.defaults.model`: who answers. A plain text is the primary model, without fallbacks."""

    primary: str = ""
    """`provider/model` as litellm names it; blank is the built-in offline responder."""
    fallbacks: tuple[str, ...] = ()
    """Models to ask, in order, when the one before cannot be had."""


class ModelEntry(_Section):
    """`agents.defaults.models.<name>`: a model that can be chosen for a chat."""

    alias: str = ""
    """Another name for it behind `/new`."""


def _model_choice(value: object) -> object:
    return {"primary": value} if isinstance(value, str) else value


class AgentSettings(_Section):
    """`agents.defaults`: the assistant itself."""

    workspace: str = ""
    """The workspace folder; blank is `<state>/workspace`. `~` is the home folder."""
    model: Annotated[ModelChoice, BeforeValidator(_model_choice)] = Field(
        default_factory=ModelChoice.model_construct
    )
    models: Mapping[str, ModelEntry] = Field(default_factory=dict)
    """Models that `/new` knows by a part of their name or by an alias."""
    user_timezone: str = ""
    """IANA name of the owner's time zone; blank is the system's."""
    context_tokens: Annotated[int, Field(ge=1)] | None = None
    """The context window in tokens; unset asks the model."""
    bootstrap_max_chars: Annotated[int, count_or(20_000)] = 20_000
    """Most of one workspace file that enters the context."""
    bootstrap_total_max_chars: Annotated[int, count_or(60_000)] = 60_000
    """Most of all workspace files together."""
    daily_log_max_chars: Annotated[int, count_or(6_000)] = 6_000
    """Most of one daily log that enters a session's first turn."""
    startup_context: StartupContextSettings = Field(default_factory=StartupContextSettings.model_construct)
    skip_bootstrap: bool = False
    """`true` makes the workspace folder without any file in it."""
    max_steps: Annotated[int, Field(ge=1, le=1_000)] = 40
    """Most model calls in one turn."""
    timeout_seconds: Annotated[float, Field(gt=0)] = 600.0
    """Longest that a turn may take, from the person's words to the answer."""
    model_timeout_seconds: Annotated[float, Field(gt=0)] = 180.0
    """Longest that a model may take to begin its answer, before it is asked again or another is."""
    tool_timeout_seconds: Annotated[float, Field(gt=0)] = 120.0
    """Longest that one tool call may take."""
    context_pruning: ContextPruningSettings = Field(default_factory=ContextPruningSettings.model_construct)
    compaction: CompactionSettings = Field(default_factory=CompactionSettings.model_construct)
    memory_search: MemorySearchSettings = Field(default_factory=MemorySearchSettings.model_construct)


class AgentsSettings(_Section):
    """`agents`."""

    defaults: AgentSettings = Field(default_factory=AgentSettings.model_construct)


class SessionSettings(_Section):
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
    maintenance: MaintenanceSettings = Field(default_factory=MaintenanceSettings.model_construct)
    reset: ResetSettings = Field(default_factory=ResetSettings.model_construct)
    reset_by_type: ResetByType = Field(default_factory=ResetByType.model_construct)
    reset_by_channel: Mapping[Annotated[str, AfterValidator(channel_name)], ResetSettings] = Field(
        default_factory=dict
    )
    idle_minutes: IdleMinutes | None = None
    """Older name of `session.reset.idleMinutes`; alone it means `idle` mode."""
    reset_triggers: Annotated[tuple[str, ...], AfterValidator(trigger_words)] = RESET_TRIGGERS
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


class MemorySettings(_Section):
    """`memory`."""

    citations: Literal["auto", "on", "off"] = "auto"
    """Whether search results carry a `Source:` line; `auto` is on in direct chats."""


class ProviderSettings(_Section):
    """`models.providers.<name>`: where a provider is and which key it wants."""

    base_url: str = ""
    """Address of an OpenAI-compatible endpoint; blank is the provider's own."""
    api_key: str = Field(default="", repr=False)
    """The key; blank reads the provider's environment variable."""


class ModelsSettings(_Section):
    """`models`."""

    providers: Mapping[str, ProviderSettings] = Field(default_factory=dict)


class Settings(_Section):
    """Everything in `nacre.json5`."""

    agents: AgentsSettings = Field(default_factory=AgentsSettings.model_construct)
    session: SessionSettings = Field(default_factory=SessionSettings.model_construct)
    memory: MemorySettings = Field(default_factory=MemorySettings.model_construct)
    hooks: HooksSettings = Field(default_factory=HooksSettings.model_construct)
    models: ModelsSettings = Field(default_factory=ModelsSettings.model_construct)
    channels: Mapping[str, ChannelSettings] = Field(default_factory=dict)

    @property
    def agent(self) -> AgentSettings:
        """The settings of the one agent of this state folder."""
        return self.agents.defaults


def unread_keys(settings: BaseModel, path: str = "") -> Iterator[str]:
    """Dotted names of keys that stand in the settings and that Nacre does not read, in file order."""
    for name in settings.model_extra or {}:
        yield f"{path}{name}"
    for name, field in type(settings).model_fields.items():
        yield from _unread_below(getattr(settings, name), f"{path}{field.alias or to_camel(name)}.")


def _unread_below(value: Any, path: str) -> Iterator[str]:
    if isinstance(value, BaseModel):
        yield from unread_keys(value, path)
    elif isinstance(value, Mapping):
        for name, item in value.items():
            yield from _unread_below(item, f"{path}{name}.")
