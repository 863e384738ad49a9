"""Everything that `nacre.json5` may hold: frozen, validated, one section a top-level key.

Values only: nothing here reads a file or the environment. Keys that other
OpenClaw versions know and Nacre does not read are kept out of the way and reported, not refused, so
that an owner can bring a settings file along. Inside `memorySearch` an unknown key is an error.
"""

from collections.abc import Mapping
from typing import Any, Literal, Self

from pydantic import Field, create_model
from pydantic.alias_generators import to_camel

from nacre.runtime.contracts.errors import ConfigError
from nacre.runtime.settings.agents import AgentSettings, AgentsSettings
from nacre.runtime.settings.channels import Binding, ChannelSettings, CommandsSettings, MessagesSettings
from nacre.runtime.settings.hooks import HooksSettings, ToolRule, ToolsSettings
from nacre.runtime.settings.models import ModelsSettings
from nacre.runtime.settings.plugins import PluginsSettings
from nacre.runtime.settings.section import SettingsSection
from nacre.runtime.settings.session import SessionSettings


class BankSettings(SettingsSection):
    """`memory.bank`: typed pages that `nacre memory reflect` makes of the logs."""

    enabled: bool = False
    """Whether there are such pages: what is worth keeping is noted for them, and they are searched."""


class IdentitySettings(SettingsSection):
    """`memory.facts.identities.<name>`: what one identity may do with the facts and notes of others."""

    reads: tuple[str, ...] = ()
    """Identities whose facts and notes are recalled with its own, such as `household`."""
    writes: tuple[str, ...] = ()
    """Identities whose facts it may also set, in its own chats."""


class FactsSettings(SettingsSection):
    """`memory.facts`: facts and notes of identities."""

    enabled: bool = False
    """Whether the model can set, note and recall them."""
    owner: str = "owner"
    """The owner's identity."""
    identities: Mapping[str, IdentitySettings] = Field(default_factory=dict)
    """Who may see whose facts; nothing is shared unless it stands here."""
    compaction_summaries: Literal["private", "on", "off"] = "private"
    """Whether summaries of compactions are kept as notes: of the owner's private chats, of all, of none."""


class MemorySettings(SettingsSection):
    """`memory`; `agents.defaults.memorySearch` says how it is searched."""

    citations: Literal["auto", "on", "off"] = "auto"
    """Whether search results carry a `Source:` line; `auto` is on in direct chats."""
    bank: BankSettings = Field(default_factory=BankSettings.model_construct)
    facts: FactsSettings = Field(default_factory=FactsSettings.model_construct)


class StorageSettings(SettingsSection):
    """`storage`: files of the state folder, or a database that several machines share."""

    driver: Literal["files", "postgres"] = "files"
    """What keeps the sessions."""
    url: str = ""
    """Which database: `postgresql://user:password@host:5432/database`."""

    def database(self, told: str) -> str:
        """Which database is meant, empty where files keep all; one that was `told` needs no setting.

        Raises:
            ConfigError: the settings want a database and nothing names one.
        """
        if self.driver == "files":
            return told.strip()
        url = told.strip() or self.url.strip()
        if not url:
            raise ConfigError(
                "The settings want PostgreSQL (storage.driver) and name no database. Set storage.url or "
                "NACRE_DATABASE_URL: postgresql://user:password@host:5432/database."
            )
        return url


class Settings(SettingsSection):
    """Everything in `nacre.json5`."""

    agents: AgentsSettings = Field(default_factory=AgentsSettings.model_construct)
    session: SessionSettings = Field(default_factory=SessionSettings.model_construct)
    memory: MemorySettings = Field(default_factory=MemorySettings.model_construct)
    storage: StorageSettings = Field(default_factory=StorageSettings.model_construct)
    tools: ToolsSettings = Field(default_factory=ToolsSettings.model_construct)
    hooks: HooksSettings = Field(default_factory=HooksSettings.model_construct)
    models: ModelsSettings = Field(default_factory=ModelsSettings.model_construct)
    plugins: PluginsSettings = Field(default_factory=PluginsSettings.model_construct)
    channels: Mapping[str, ChannelSettings] = Field(default_factory=dict)
    bindings: tuple[Binding, ...] = ()
    commands: CommandsSettings = Field(default_factory=CommandsSettings.model_construct)
    messages: MessagesSettings = Field(default_factory=MessagesSettings.model_construct)

    @classmethod
    def of_file(cls, raw: Mapping[str, Any]) -> Self:
        """The settings that a file has, by its keys.

        A validator is made for the sections that are written: one for all of them takes longer to make than
        a search.

        Raises:
            pydantic.ValidationError: a value does not fit its setting.
        """
        if not raw:
            return cls.model_construct()
        written = {
            name: field for name, field in cls.model_fields.items() if raw.keys() & {name, to_camel(name)}
        }
        fields: dict[str, Any] = {name: (field.annotation, field) for name, field in written.items()}
        found = create_model(cls.__name__, __base__=SettingsSection, **fields).model_validate(raw)
        return cls.model_construct(
            **{name: getattr(found, name) for name in written}, **(found.model_extra or {})
        )

    @property
    def agent(self) -> AgentSettings:
        """The settings of the agent that these were made for: the defaults, with its own laid over them."""
        return self.agents.defaults

    @property
    def tool_rules(self) -> Mapping[str, ToolRule]:
        """What holds for single tools: the agent's own rules, and those of all for the others."""
        return {**self.tools.rules, **self.agent.tools.rules}
