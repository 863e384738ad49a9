"""The settings `memorySearch`: keys, defaults and limits. Reads no file and no environment.

Keys in files are camelCase (`memorySearch.query.hybrid.vectorWeight`). Unknown keys and values of a wrong
type are errors; numbers that OpenClaw clamps are clamped. Annotations are not strings, because pydantic would
compile each string again at every start.
"""

import math
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, Self, cast

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_validator, model_validator
from pydantic.alias_generators import to_camel

from nacre.memory.contracts.records import Source

DEFAULT_CACHE_ENTRIES = 50_000
"""The limit for vectors of removed text; without one, an index grows to gigabytes."""


class Unwritten(BaseModel):
    """Settings in which every key has a default."""

    # The first validator makes pydantic search all installed packages for plugins, so it is built late.
    model_config = ConfigDict(defer_build=True)

    @classmethod
    def unwritten(cls) -> Self:
        """The defaults, as one shared object, because settings are frozen."""
        return cast(Self, _unwritten(cls))


@cache
def _unwritten(settings: type[BaseModel]) -> BaseModel:
    return settings.model_construct()


class SettingsGroup(Unwritten):
    """Frozen settings with camelCase keys; an unknown key is an error."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        alias_generator=to_camel,
        populate_by_name=True,
        protected_namespaces=(),
        defer_build=True,
    )


class BatchSettings(SettingsGroup):
    """Batch jobs of embedding providers."""

    enabled: bool = False
    """Whether 50 or more texts at once use the batch jobs of OpenAI, Voyage or Gemini, which are cheaper and
    take minutes to hours."""
    wait: bool = True
    """Whether an indexing pass waits for its jobs. With `false`, a later pass fetches the results."""
    concurrency: int = Field(default=2, ge=1)
    """The maximum number of batch jobs at a time."""
    poll_interval_ms: int = Field(default=2000, ge=0)
    """The interval at which a batch job is polled."""
    timeout_minutes: int = Field(default=60, ge=1)
    """How long to wait for a batch job. Then it is canceled, and ordinary requests do the rest."""


class RemoteSettings(SettingsGroup):
    """The address and options of a remote embedding provider."""

    base_url: str | None = None
    """The address of the embedding provider. Default: `models.providers.<name>.baseUrl`, otherwise the
    provider's own. A change recomputes all vectors."""
    api_key: str | None = None
    """The key of the embedding provider. Default: `models.providers.<name>.apiKey`, otherwise an [auth
    profile](settings.md#keys-of-a-moved-install), otherwise the provider's environment variable, such as
    `OPENAI_API_KEY`, `GEMINI_API_KEY`, `VOYAGE_API_KEY`, `MISTRAL_API_KEY`. A change keeps the vectors."""
    headers: dict[str, str] | None = None
    """Additional headers for requests to the embedding provider. A change of one without a key recomputes all
    vectors."""
    daily_tokens: int | None = Field(default=None, ge=1)
    """The maximum number of tokens per day, in the owner's time zone, that remote providers embed for
    documents. Unset means no limit. Questions are counted but not limited."""
    batch: BatchSettings = Field(default_factory=BatchSettings.unwritten)


class LocalSettings(SettingsGroup):
    """A local embedding model."""

    model_path: str | None = None
    """A GGUF embedding model: a file or, with a named provider, `hf:owner/repository/file.gguf` or an https
    address, which is downloaded once. Needs the extra `gguf`."""
    model_cache_dir: str | None = None
    """The folder of downloaded models. Default: `<state>/models`."""


class VectorStoreSettings(SettingsGroup):
    """The extension that compares vectors."""

    enabled: bool = True
    """Whether sqlite-vec compares vectors in the first search of a process. Later searches compare them in
    memory; without sqlite-vec, the first one does so too and takes longer."""
    extension_path: str | None = None
    """The path of a sqlite-vec to load instead of the installed one."""


class StoreSettings(SettingsGroup):
    """Where the index is stored. `driver` has one value, which settings from OpenClaw name."""

    driver: Literal["sqlite"] = "sqlite"
    """How the index is stored; `sqlite` is the only value."""
    path: str | None = None
    """The index file; `{agentId}` is replaced. Default: `<state>/memory/{agentId}.sqlite`."""
    vector: VectorStoreSettings = Field(default_factory=VectorStoreSettings.unwritten)


class ChunkingSettings(SettingsGroup):
    """The size of chunks, in tokens."""

    tokens: int = Field(default=400, ge=1)
    """The size of a chunk of a note."""
    overlap: int = Field(default=80, ge=0)
    """How much two neighboring chunks share, in tokens; always less than a chunk."""

    @model_validator(mode="after")
    def _overlap_below_size(self) -> Self:
        if self.overlap >= self.tokens:
            return self.model_copy(update={"overlap": self.tokens - 1})
        return self


class SessionSyncSettings(SettingsGroup):
    """By how much a transcript must grow to be indexed again; 0 means any change."""

    delta_bytes: int = Field(default=100_000, ge=0)
    """By how many bytes a transcript must grow to be indexed again, by the next search or, while an agent
    runs, within seconds. One that has ended, or was quiet for an hour, is always indexed."""
    delta_messages: int = Field(default=50, ge=0)
    """Like `deltaBytes`, in lines of the transcript."""


class SyncSettings(SettingsGroup):
    """When the index follows the files."""

    on_session_start: bool = True
    """Whether the start of a session updates the index."""
    on_search: bool = True
    """Whether a search after a change updates the index."""
    watch: bool = True
    """Whether to watch files for changes; on network drives, which do not report them, every two seconds."""
    watch_debounce_ms: int = Field(default=1500, ge=0)
    """How long files must stay unchanged before they are indexed."""
    interval_minutes: int = Field(default=0, ge=0)
    """The interval of additional updates; 0 means none."""
    sessions: SessionSyncSettings = Field(default_factory=SessionSyncSettings.unwritten)


class CacheSettings(SettingsGroup):
    """Vectors of removed text, kept in case it comes back."""

    enabled: bool = True
    """Whether to keep vectors of removed text."""
    max_entries: int | None = Field(default=DEFAULT_CACHE_ENTRIES, ge=1)
    """The maximum number of vectors of removed text; `null` means no limit."""


def _unit(value: Any) -> Any:
    return min(1.0, max(0.0, float(value))) if _is_number(value) else value


def _share(value: Any) -> Any:
    return max(0.0, float(value)) if _is_number(value) else value


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


Share = Annotated[float, BeforeValidator(_share), Field(ge=0)]
"""A weight that is scaled by the sum of all weights, so that 70 and 30 mean 0.7 and 0.3."""

UnitInterval = Annotated[float, BeforeValidator(_unit), Field(ge=0, le=1)]


class MmrSettings(SettingsGroup):
    """Diversity of hits."""

    enabled: bool = False
    """Whether hits that resemble better ones move down."""
    lambda_: Annotated[float, BeforeValidator(_unit), Field(alias="lambda", ge=0, le=1)] = 0.7
    """1 ranks by relevance alone, 0 by diversity alone."""

    @field_validator("lambda_", mode="before")
    @classmethod
    def _not_a_number(cls, value: Any) -> Any:
        return 0.7 if isinstance(value, float) and math.isnan(value) else value


class TemporalDecaySettings(SettingsGroup):
    """Decay of older dated notes."""

    enabled: bool = False
    """Whether older dated notes count less."""
    half_life_days: int = Field(default=30, ge=1)
    """The number of days after which a dated note counts half."""


class HybridSettings(SettingsGroup):
    """How hits by words and by vectors are combined."""

    enabled: bool = True
    """Whether words and vectors are combined."""
    vector_weight: Share = 0.7
    """The weight of vectors. Both weights are scaled to a sum of 1, so that 70 and 30 mean 0.7 and 0.3."""
    text_weight: Share = 0.3
    """The weight of words; see `vectorWeight`."""
    candidate_multiplier: int = Field(default=4, ge=1)
    """The number of candidates from each list per requested hit; at most 20."""
    fusion: Literal["default", "seed"] = "default"
    """The formula: `default`, or `seed` for the weighted sum of OpenClaw."""
    mmr: MmrSettings = Field(default_factory=MmrSettings.unwritten)
    temporal_decay: TemporalDecaySettings = Field(default_factory=TemporalDecaySettings.unwritten)

    @field_validator("candidate_multiplier")
    @classmethod
    def _at_most_twenty(cls, value: int) -> int:
        return min(20, value)

    @model_validator(mode="after")
    def _weights_sum_to_one(self) -> Self:
        total = self.vector_weight + self.text_weight
        if total == 0:
            return self.model_copy(update={"vector_weight": 0.7, "text_weight": 0.3})
        if abs(total - 1) < 1e-9:
            return self
        return self.model_copy(
            update={"vector_weight": self.vector_weight / total, "text_weight": self.text_weight / total}
        )


class RerankSettings(SettingsGroup):
    """A model that reorders the best hits of a search; none unless a provider is named."""

    provider: str | None = None
    """What reorders the best hits of a search: a provider by litellm's name (`cohere`, `jina_ai`, `voyage`,
    `together_ai`, `hosted_vllm`, `infinity`, `huggingface` for a server of text-embeddings-inference, …), or
    `sentence-transformers` for a cross-encoder in this process (needs the extra `sentence-transformers`).
    Unset or `none` means nothing. A provider receives the question and the texts of its best hits."""
    model: str | None = None
    """The model of the re-ranker, which has no default. For `sentence-transformers`, a name on the hub or a
    folder."""
    base_url: str | None = None
    """The address of the re-ranker. Default: `models.providers.<name>.baseUrl`, otherwise the provider's
    own."""
    api_key: str | None = Field(default=None, repr=False)
    """The key of the re-ranker. Default: `models.providers.<name>.apiKey`, otherwise an auth profile,
    otherwise the provider's environment variable. Your own server needs none."""
    candidates: int = Field(default=30, ge=2, le=200)
    """How many of the best hits the re-ranker receives; the others keep their order."""
    timeout_ms: int = Field(default=3000, ge=1)
    """How long to wait for the re-ranker. After that, and after a failure, the hits keep their usual order,
    the search says so, and the re-ranker is not used for a minute. Loading litellm or a model is not
    counted."""


class QuerySettings(SettingsGroup):
    """The hits of a search."""

    max_results: int = Field(default=6, ge=1)
    """The maximum number of hits; never more than 1000."""
    min_score: UnitInterval | None = None
    """The lowest score of a hit. Unset: hits are shown if the best one scores 0.35 before decay; with
    `fusion: "seed"`, each hit must score that."""
    hybrid: HybridSettings = Field(default_factory=HybridSettings.unwritten)
    rerank: RerankSettings = Field(default_factory=RerankSettings.unwritten)


class ExperimentalSettings(SettingsGroup):
    """Opt-in features."""

    session_memory: bool = False
    """Whether past conversations can be a source, including those in groups. Only private chats with you can
    search them."""


class MemorySearchSettings(SettingsGroup):
    """`agents.defaults.memorySearch`, resolved for one agent."""

    enabled: bool = True
    """Whether there is a memory index with the tools `memory_search` and `memory_get`."""
    sources: tuple[Source, ...] = ("memory",)
    """The sources to search: `memory`, and `sessions` if `experimental.sessionMemory` is on."""
    extra_paths: tuple[str, ...] = ()
    """Additional Markdown files and folders, absolute or relative to the workspace. Globs work (`**` matches
    any depth); links are not followed."""
    experimental: ExperimentalSettings = Field(default_factory=ExperimentalSettings.unwritten)
    provider: str | None = None
    """The source of embeddings. Unset or `local`: the built-in model, without key and network, or the one in
    `local.modelPath`. `gguf`: the one in `local.modelPath`, otherwise embeddinggemma-300m, downloaded once
    (0.3 GB). `sentence-transformers`: a model of that library. `none`: search uses words alone. `auto`, and
    unset with any setting in `remote`: a file in `local.modelPath`, otherwise the first of `openai`,
    `gemini`, `voyage`, `mistral` with a key in the settings or the environment, otherwise the built-in model.
    `openai`, `gemini`, `voyage`, `mistral`, `ollama`, or any name with `remote.baseUrl` for an
    OpenAI-compatible server."""
    fallback: str = "none"
    """The source of embeddings after the provider has failed during indexing; a search never switches. The
    index stores the switch for all processes, and searches use its vectors until the provider answers again.
    A running agent retries the provider after half a minute, then a minute, up to an hour, and `nacre memory
    index` at once. The fallback uses its default model, and its address and key from `models.providers`."""
    model: str | None = None
    """The embedding model. Default: that of the provider. For `sentence-transformers`, a name on the hub or a
    folder. It has no effect on the built-in model."""
    output_dimensionality: int | None = Field(default=None, ge=1)
    """The length of the vectors, for remote models that support shorter ones. Default: that of the model.
    Longer vectors are cut. A change recomputes all vectors."""
    remote: RemoteSettings | None = None
    local: LocalSettings = Field(default_factory=LocalSettings.unwritten)
    store: StoreSettings = Field(default_factory=StoreSettings.unwritten)
    chunking: ChunkingSettings = Field(default_factory=ChunkingSettings.unwritten)
    sync: SyncSettings = Field(default_factory=SyncSettings.unwritten)
    query: QuerySettings = Field(default_factory=QuerySettings.unwritten)
    cache: CacheSettings = Field(default_factory=CacheSettings.unwritten)

    @field_validator("extra_paths")
    @classmethod
    def _distinct_paths(cls, paths: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(path.strip() for path in paths if path.strip()))

    @model_validator(mode="after")
    def _allowed_sources(self) -> Self:
        allowed = tuple(
            source
            for source in dict.fromkeys(self.sources)
            if source == "memory" or self.experimental.session_memory
        )
        if allowed == self.sources:
            return self
        return self.model_copy(update={"sources": allowed or ("memory",)})


def resolve_settings(
    defaults: Mapping[str, Any] | None, override: Mapping[str, Any] | None = None
) -> MemorySearchSettings:
    """The settings of one agent: `override` over `defaults`, merged by `merged_settings`.

    Raises:
        pydantic.ValidationError: a key is unknown or a value has the wrong type or range.
    """
    return MemorySearchSettings.model_validate(merged_settings(defaults or {}, override or {}))


def merged_settings(defaults: Mapping[str, Any], override: Mapping[str, Any]) -> dict[str, Any]:
    """Merges the settings of one agent into those of all agents, field by field.

    A null in `override` counts as unset. `extraPaths` are joined, defaults first; `remote.headers` is
    replaced as a whole.
    """
    merged = _merged(defaults, override)
    shared, own = defaults.get("extraPaths"), override.get("extraPaths")
    if isinstance(shared, list | tuple) and isinstance(own, list | tuple):
        merged["extraPaths"] = [*shared, *own]
    return merged


def index_path(settings: MemorySearchSettings, *, state_dir: Path, agent_id: str, home: Path) -> Path:
    """The index file of an agent: `store.path` with `{agentId}` and `~` expanded, or the default."""
    if not settings.store.path:
        return state_dir / "memory" / f"{agent_id}.sqlite"
    return Path(at_home(settings.store.path.replace("{agentId}", agent_id), home))


def at_home(text: str, home: Path) -> str:
    """Expands a leading `~` of a path."""
    text = text.strip()
    return str(home / text[2:]) if text == "~" or text.startswith(("~/", "~\\")) else text


def _merged(defaults: Mapping[str, Any], override: Mapping[str, Any]) -> dict[str, Any]:
    result = dict(defaults)
    for key, value in override.items():
        if value is None:
            continue
        below = result.get(key)
        if isinstance(value, Mapping) and isinstance(below, Mapping) and key != "headers":
            result[key] = _merged(below, value)
        else:
            result[key] = value
    return result
