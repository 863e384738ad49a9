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
    """The port of the HTTP server of `nacre serve`; `null` means no server."""
    host: str = "127.0.0.1"
    """The address to listen on. An address that other machines can reach requires a token."""
    hosts: tuple[str, ...] = ()
    """Further host names of the server, such as that of a reverse proxy."""
    trusted_proxies: tuple[str, ...] = ()
    """The addresses of reverse proxies whose `X-Forwarded-For` and `X-Forwarded-Proto` are trusted, such as
    `"127.0.0.1"`. From other addresses these headers are ignored."""
    max_body_mb: Annotated[int, Field(ge=1, le=1024)] = 32
    """The maximum size of a request, in MiB. Tokens other than the owner's may send at most 4 MiB."""


class ModelPrice(SettingsSection):
    """`usage.prices.<provider/model>`: the price of a model, in US dollars per million tokens."""

    input: Annotated[float, Field(ge=0)] = 0
    """The price of a million prompt tokens, in US dollars."""
    output: Annotated[float, Field(ge=0)] = 0
    """The price of a million answer tokens, in US dollars."""


class UsageSettings(SettingsSection):
    """`usage`: prices and the daily cap."""

    daily_cap_usd: Annotated[float, Field(gt=0)] | None = None
    """The maximum cost per day of models, embeddings, re-rankers and transcriptions of all agents of the
    state folder together; see [cost](cost.md#set-a-daily-cap)."""
    prices: Mapping[str, ModelPrice] = Field(default_factory=dict)
    """Prices that are missing or wrong in litellm's price map, by `provider/model`."""


@dataclass(kw_only=True)
class DailyCap:
    """The current `usage.dailyCapUsd`, shared so that a change of the settings reaches all its readers."""

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
    """The settings in a file's values. Raises `ConfigError` if a value is invalid."""
    try:
        return Settings.of_file(raw)
    except ValidationError as error:
        problems = "; ".join(_problem(dict(item)) for item in error.errors(include_input=False))
        raise ConfigError(f"The settings file {file} has invalid values: {problems}.") from error


def _problem(item: Mapping[str, Any]) -> str:
    from nacre.runtime.settings.keys import likely_key, written_key

    meant = likely_key(item["loc"], Settings) if item["type"] == "extra_forbidden" else ""
    texts = {"tuple_type": "a list […] belongs here", "model_type": "an object {…} belongs here"}
    if meant:
        texts["extra_forbidden"] = f"there is no such setting (did you mean {meant}?)"
    return f"{written_key(item['loc'])}: {texts.get(item['type'], item['msg'])}"


def key_notices(settings: Settings, file: Path) -> tuple[str, ...]:
    """Sentences for the owner about valid settings: unread keys, several default agents."""
    unread = ", ".join(unread_keys(settings))
    marked = [entry.id for entry in settings.agents.entries if entry.default]
    notices = [f"{file} has settings that Nacre does not read: {unread}."] if unread else []
    if len(marked) > 1:
        notices.append(
            f"Several agents in {file} are marked as the default: {', '.join(marked)}. {marked[0]} is used."
        )
    if settings.memory.backend == "qmd" and "scope" in settings.memory.qmd.model_fields_set:
        notices += _scope_notices(settings.memory.qmd.scope)
    return tuple(notices)


def _scope_notices(scope: QmdScope) -> list[str]:
    allowed = [rule.match.chat_type for rule in scope.rules if rule.action == "allow"]
    if scope.default != "allow" and all(kind == "direct" for kind in allowed):
        return []
    return [
        "memory.qmd.scope allows qmd in groups. There it finds only the notes of that group: a "
        "chat that is not yours alone never sees MEMORY.md, memory/, memory.qmd.paths or conversations."
    ]
