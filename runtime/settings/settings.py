"""Everything that `nacre.json5` may contain: frozen, validated, one section per top-level key.

Nothing here reads a file or the environment. Keys of other OpenClaw versions that Nacre does not read are
kept and reported, not refused, so that an owner can bring a settings file along. In `memorySearch`, an
unknown key is an error.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import Field, ValidationError, create_model
from pydantic.alias_generators import to_camel

from nacre.runtime.contracts.errors import ConfigError
from nacre.runtime.settings.sections.agents import AgentSettings, AgentsSettings
from nacre.runtime.settings.sections.channels import (
    Binding,
    ChannelSettings,
    CommandsSettings,
    MessagesSettings,
)
from nacre.runtime.settings.sections.hooks import HooksSettings, ToolRule, ToolsSettings
from nacre.runtime.settings.sections.mcp import McpSettings
from nacre.runtime.settings.sections.memory import MemorySettings, QmdScope
from nacre.runtime.settings.sections.models import ModelsSettings
from nacre.runtime.settings.sections.plugins import PluginsSettings
from nacre.runtime.settings.sections.section import SettingsSection, unread_keys
from nacre.runtime.settings.sections.session import SessionSettings
from nacre.runtime.settings.sections.skills import SkillsSettings
from nacre.runtime.settings.sections.storage import StorageSettings


class HttpSettings(SettingsSection):
    """`http`: the HTTP server. Needs the extra `serve` and a token: `nacre admin access token add NAME`."""

    port: Annotated[int, Field(ge=1, le=65535)] | None = None
    """The port at which `nacre serve` answers programs and browsers; `null` is none."""
    host: str = "127.0.0.1"
    """The address at which it listens. Another one than this machine's own needs a token that was made."""
    hosts: tuple[str, ...] = ()
    """Further names under which it is asked, such as that of a reverse proxy."""
    trusted_proxies: tuple[str, ...] = ()
    """Addresses of reverse proxies whose `X-Forwarded-For` and `X-Forwarded-Proto` are believed, such as
    `"127.0.0.1"`. Of everybody else these headers are passed over."""
    max_body_mb: Annotated[int, Field(ge=1, le=1024)] = 32
    """Largest request in MiB. A token that is not the owner's may send 4 MiB at most."""


class ModelPrice(SettingsSection):
    """`usage.prices.<provider/model>`: what a model costs, in US dollars per million tokens."""

    input: Annotated[float, Field(ge=0)] = 0
    """A million tokens of a prompt."""
    output: Annotated[float, Field(ge=0)] = 0
    """A million tokens of an answer."""


class UsageSettings(SettingsSection):
    """`usage`."""

    daily_cap_usd: Annotated[float, Field(gt=0)] | None = None
    """The most that models, embeddings, re-rankers and recordings may cost in a day of yours, in dollars by
    litellm's price map, for all agents of the state folder together. From four fifths on, only replies, their
    summaries and recordings reach a model: flushes take notes without one, sessions are named by their time,
    notes are embedded the next day, searches go by words. At the cap replies stop too, with a sentence. The
    most that a call can cost is reserved before it, across processes; near the cap an answer is bounded to
    what is left. A model of unknown price is refused, unless it is on this machine."""
    prices: Mapping[str, ModelPrice] = Field(default_factory=dict)
    """Prices of models that litellm's price map does not know, or knows wrongly, by `provider/model`."""


@dataclass(kw_only=True)
class DailyCap:
    """The current `usage.dailyCapUsd`; rereading the settings file changes it for all users of this
    object.
    """

    usd: float | None


class Settings(SettingsSection):
    agents: AgentsSettings = Field(default_factory=AgentsSettings.unwritten)
    session: SessionSettings = Field(default_factory=SessionSettings.unwritten)
    memory: MemorySettings = Field(default_factory=MemorySettings.unwritten)
    storage: StorageSettings = Field(default_factory=StorageSettings.unwritten)
    tools: ToolsSettings = Field(default_factory=ToolsSettings.unwritten)
    hooks: HooksSettings = Field(default_factory=HooksSettings.unwritten)
    models: ModelsSettings = Field(default_factory=ModelsSettings.unwritten)
    mcp: McpSettings = Field(default_factory=McpSettings.unwritten)
    plugins: PluginsSettings = Field(default_factory=PluginsSettings.unwritten)
    skills: SkillsSettings = Field(default_factory=SkillsSettings.unwritten)
    channels: Mapping[str, ChannelSettings] = Field(default_factory=dict)
    bindings: tuple[Binding, ...] = ()
    http: HttpSettings = Field(default_factory=HttpSettings.unwritten)
    usage: UsageSettings = Field(default_factory=UsageSettings.unwritten)
    commands: CommandsSettings = Field(default_factory=CommandsSettings.unwritten)
    messages: MessagesSettings = Field(default_factory=MessagesSettings.unwritten)

    @classmethod
    def of_file(cls, raw: Mapping[str, Any]) -> Self:
        """The settings in a file, by its keys.

        Builds a validator only for the sections that are written: one for all of them takes longer to build
        than a search.

        Raises:
            pydantic.ValidationError: a value is invalid.
        """
        if not raw:
            return cls.model_construct()
        written = tuple(name for name in cls.model_fields if raw.keys() & {name, to_camel(name)})
        found = _model_of(written).model_validate(raw)
        return cls.model_construct(
            **{name: getattr(found, name) for name in written}, **(found.model_extra or {})
        )

    @property
    def agent(self) -> AgentSettings:
        """The settings of one agent: the defaults, with its own on top."""
        return self.agents.defaults

    @property
    def tool_rules(self) -> Mapping[str, ToolRule]:
        """The rules for single tools: the agent's own, and otherwise those for all agents."""
        return {**self.tools.rules, **self.agent.tools.rules}


@cache
def _model_of(names: tuple[str, ...]) -> type[SettingsSection]:
    """The sections with these names as a model, cached because each agent reads the same file."""
    fields: dict[str, Any] = {
        name: (field.annotation, field) for name, field in Settings.model_fields.items() if name in names
    }
    return create_model(Settings.__name__, __base__=SettingsSection, **fields)


def valid_settings(raw: Mapping[str, Any], file: Path) -> Settings:
    """The settings in a file's values.

    Raises:
        ConfigError: a value is invalid.
    """
    try:
        return Settings.of_file(raw)
    except ValidationError as error:
        problems = "; ".join(_problem(dict(item)) for item in error.errors(include_input=False))
        raise ConfigError(f"The settings file {file} has values that do not fit: {problems}.") from error


def _problem(item: Mapping[str, Any]) -> str:
    # needed for a sentence alone
    from nacre.runtime.settings.keys import likely_key, written_key

    meant = likely_key(item["loc"], Settings) if item["type"] == "extra_forbidden" else ""
    said = f"there is no such setting (did you mean {meant}?)" if meant else item["msg"]
    return f"{written_key(item['loc'])}: {said}"


def told_of_keys(settings: Settings, file: Path) -> tuple[str, ...]:
    """Sentences for the owner about valid settings: unread keys, several default agents."""
    unread = ", ".join(unread_keys(settings))
    marked = [entry.id for entry in settings.agents.entries if entry.default]
    notices = [f"{file} has settings that Nacre does not read: {unread}."] if unread else []
    if len(marked) > 1:
        notices.append(
            f"Several agents in {file} are marked as the default: {', '.join(marked)}. {marked[0]} is it."
        )
    if settings.memory.backend == "qmd" and "scope" in settings.memory.qmd.model_fields_set:
        notices += _told_of_scope(settings.memory.qmd.scope)
    return tuple(notices)


def _told_of_scope(scope: QmdScope) -> list[str]:
    allowed = [rule.match.chat_type for rule in scope.rules if rule.action == "allow"]
    if scope.default != "allow" and all(kind == "direct" for kind in allowed):
        return []
    return [
        "memory.qmd.scope lets qmd be asked in groups. It finds only the notes of that group there: a "
        "chat that is not yours alone is never shown MEMORY.md, memory/, memory.qmd.paths or conversations."
    ]
