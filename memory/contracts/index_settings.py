"""The settings of the index of the notes: how it is stored, cut, filled, kept up to date and embedded.

Annotations are not kept as text: pydantic would compile each of them again at every start.
"""

from functools import cache
from typing import Literal, Self, cast

from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic.alias_generators import to_camel

DEFAULT_CACHE_ENTRIES = 50_000
"""Vectors kept for text that is no longer in any file. The seeds have no limit, and grow to gigabytes."""


class Unwritten(BaseModel):
    """Settings that have a value for each key."""

    # A validator is made when there is something to validate; with the first, pydantic looks for its plugins
    # in all that is installed.
    model_config = ConfigDict(defer_build=True)

    @classmethod
    def unwritten(cls) -> Self:
        """What holds when nothing of it is written: one object for all, because nobody can change it."""
        return cast(Self, _unwritten(cls))


@cache
def _unwritten(settings: type[BaseModel]) -> BaseModel:
    return settings.model_construct()


class SettingsGroup(Unwritten):
    """Frozen, under camel-case names; an unknown key is an error."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        alias_generator=to_camel,
        populate_by_name=True,
        protected_namespaces=(),
        defer_build=True,  # a validator is made when there is something to validate
    )


class BatchSettings(SettingsGroup):
    """Provider batch jobs; off unless asked for."""

    enabled: bool = False
    """Whether 50 texts or more at once go to the batch jobs of OpenAI, Voyage or Gemini: cheaper, and done in
    minutes to hours."""
    wait: bool = True
    """Whether an indexing pass waits for its jobs. `false`: a later pass fetches what they made."""
    concurrency: int = Field(default=2, ge=1)
    """Most batch jobs at a time."""
    poll_interval_ms: int = Field(default=2000, ge=0)
    """How often a batch job is asked after."""
    timeout_minutes: int = Field(default=60, ge=1)
    """Longest that a batch job is waited for; then it is cancelled, and ordinary requests do the rest."""


class RemoteSettings(SettingsGroup):
    """Where and how a remote embedding provider is asked."""

    base_url: str | None = None
    """Address of the embedding provider; unset is `models.providers.<name>.baseUrl`, else its own. A change
    makes all vectors again."""
    api_key: str | None = None
    """The key of the embedding provider; unset is `models.providers.<name>.apiKey`, else an [auth
    profile](settings.md#keys-of-a-moved-install), else the provider's environment variable, such as
    `OPENAI_API_KEY`, `GEMINI_API_KEY`, `VOYAGE_API_KEY`, `MISTRAL_API_KEY`. A change keeps the vectors."""
    headers: dict[str, str] | None = None
    """Headers added to the requests to the embedding provider. A change of one that holds no key makes all
    vectors again."""
    daily_tokens: int | None = Field(default=None, ge=1)
    """Most tokens a day that go to remote providers for documents, in the owner's time zone; unset is no
    limit. Questions are counted and not stopped by it."""
    batch: BatchSettings = Field(default_factory=BatchSettings.unwritten)


class LocalSettings(SettingsGroup):
    """A local embedding model on disk."""

    model_path: str | None = None
    """A GGUF embedding model: a file, or with a named provider `hf:owner/repository/file.gguf` or an https
    address, downloaded once. Needs the extra `gguf`."""
    model_cache_dir: str | None = None
    """Where downloaded models are kept; unset is `<state>/models`."""


class VectorStoreSettings(SettingsGroup):
    """The vector extension; `extension_path` replaces the sqlite-vec that is installed."""

    enabled: bool = True
    """Whether sqlite-vec compares vectors in a process's first search. Later searches do it in memory;
    without it the first one does too, and takes longer."""
    extension_path: str | None = None
    """A sqlite-vec to load in place of the installed one."""


class StoreSettings(SettingsGroup):
    """Where the index lives; `{agentId}` in `path` is replaced by the agent's id.

    `driver` has one value: settings that an owner brings along from OpenClaw name it.
    """

    driver: Literal["sqlite"] = "sqlite"
    """How the index is stored: there is one way, which settings from OpenClaw name."""
    path: str | None = None
    """The index file; `{agentId}` is the agent's id; unset is `<state>/memory/{agentId}.sqlite`."""
    vector: VectorStoreSettings = Field(default_factory=VectorStoreSettings.unwritten)


class ChunkingSettings(SettingsGroup):
    """Size of a chunk and of what two neighbours share, in tokens."""

    tokens: int = Field(default=400, ge=1)
    """Size of a chunk of a note, in tokens."""
    overlap: int = Field(default=80, ge=0)
    """What two neighbouring chunks share, in tokens; always less than a chunk."""

    @model_validator(mode="after")
    def _overlap_below_size(self) -> Self:
        if self.overlap >= self.tokens:
            return self.model_copy(update={"overlap": self.tokens - 1})
        return self


class SessionSyncSettings(SettingsGroup):
    """How much a transcript grows before it is indexed again; 0 means any change."""

    delta_bytes: int = Field(default=100_000, ge=0)
    """How much a transcript grows before it is indexed again: by the next search, and within seconds while an
    agent runs. One that has ended, or was quiet for an hour, is indexed whatever it grew."""
    delta_messages: int = Field(default=50, ge=0)
    """As `deltaBytes`, in lines of the transcript."""


class SyncSettings(SettingsGroup):
    """When the index follows the files."""

    on_session_start: bool = True
    """Whether a session's start brings the index up to date."""
    on_search: bool = True
    """Whether a search after a change brings the index up to date."""
    watch: bool = True
    """Whether changes to files are noticed as they happen; on network drives, where nobody tells of them,
    every two seconds."""
    watch_debounce_ms: int = Field(default=1500, ge=0)
    """How long files must be quiet before they are indexed."""
    interval_minutes: int = Field(default=0, ge=0)
    """How often the index is brought up to date anyway; 0 is never."""
    sessions: SessionSyncSettings = Field(default_factory=SessionSyncSettings.unwritten)


class CacheSettings(SettingsGroup):
    """Vectors of text that no file holds any more, kept in case it comes back."""

    enabled: bool = True
    """Whether vectors of text that no file holds any more are kept."""
    max_entries: int | None = Field(default=DEFAULT_CACHE_ENTRIES, ge=1)
    """Most vectors that are kept for text that no file holds any more; `null` is no limit."""
