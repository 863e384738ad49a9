"""The settings of memory search: the seeds' keys, defaults and limits. Reads no file, no environment.

Keys in files are camelCase (`memorySearch.query.hybrid.vectorWeight`); an unknown key is an error. Values out
of a range that the seeds clamp are clamped, values of a wrong type are errors.
Annotations are not kept as text: pydantic would compile each of them again at every start.
"""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_validator, model_validator
from pydantic.alias_generators import to_camel

from nacre.memory.contracts.records import Source

DEFAULT_CACHE_ENTRIES = 50_000
"""Vectors kept for text that is no longer in any file. The seeds have no limit, and grow to gigabytes."""


def _unit(value: Any) -> Any:
    return min(1.0, max(0.0, float(value))) if _is_number(value) else value


def _share(value: Any) -> Any:
    return max(0.0, float(value)) if _is_number(value) else value


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


Share = Annotated[float, BeforeValidator(_share), Field(ge=0)]
"""A weight beside others: what counts is its part of their sum, so that 70 and 30 are 0.7 and 0.3."""

UnitInterval = Annotated[float, BeforeValidator(_unit), Field(ge=0, le=1)]


class _Group(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        alias_generator=to_camel,
        populate_by_name=True,
        protected_namespaces=(),
        defer_build=True,  # a validator is made when there is something to validate
    )


class BatchSettings(_Group):
    """Provider batch jobs; off unless asked for."""

    enabled: bool = False
    wait: bool = True
    concurrency: int = Field(default=2, ge=1)
    poll_interval_ms: int = Field(default=2000, ge=0)
    timeout_minutes: int = Field(default=60, ge=1)


class RemoteSettings(_Group):
    """Where and how a remote embedding provider is asked."""

    base_url: str | None = None
    api_key: str | None = None
    headers: dict[str, str] | None = None
    daily_tokens: int | None = Field(default=None, ge=1)
    batch: BatchSettings = Field(default_factory=BatchSettings.model_construct)


class LocalSettings(_Group):
    """A local embedding model on disk."""

    model_path: str | None = None
    model_cache_dir: str | None = None


class VectorStoreSettings(_Group):
    """The vector extension; `extension_path` replaces the sqlite-vec that is installed."""

    enabled: bool = True
    extension_path: str | None = None


class StoreSettings(_Group):
    """Where the index lives; `{agentId}` in `path` is replaced by the agent's id.

    `driver` has one value: settings that an owner brings along from OpenClaw name it.
    """

    driver: Literal["sqlite"] = "sqlite"
    path: str | None = None
    vector: VectorStoreSettings = Field(default_factory=VectorStoreSettings.model_construct)


class ChunkingSettings(_Group):
    """Size of a chunk and of what two neighbours share, in tokens."""

    tokens: int = Field(default=400, ge=1)
    overlap: int = Field(default=80, ge=0)

    @model_validator(mode="after")
    def _overlap_below_size(self) -> Self:
        if self.overlap >= self.tokens:
            return self.model_copy(update={"overlap": self.tokens - 1})
        return self


class SessionSyncSettings(_Group):
    """How much a transcript grows before it is indexed again; 0 means any change."""

    delta_bytes: int = Field(default=100_000, ge=0)
    delta_messages: int = Field(default=50, ge=0)


class SyncSettings(_Group):
    """When the index follows the files."""

    on_session_start: bool = True
    on_search: bool = True
    watch: bool = True
    watch_debounce_ms: int = Field(default=1500, ge=0)
    interval_minutes: int = Field(default=0, ge=0)
    sessions: SessionSyncSettings = Field(default_factory=SessionSyncSettings.model_construct)


class MmrSettings(_Group):
    """Diversity re-ranking; `lambda` 1 is relevance alone, 0 is difference alone."""

    enabled: bool = False
    lambda_: Annotated[float, BeforeValidator(_unit), Field(alias="lambda", ge=0, le=1)] = 0.7

    @field_validator("lambda_", mode="before")
    @classmethod
    def _not_a_number(cls, value: Any) -> Any:
        return 0.7 if isinstance(value, float) and math.isnan(value) else value


class TemporalDecaySettings(_Group):
    """Older dated notes count less; evergreen files never do."""

    enabled: bool = False
    half_life_days: int = Field(default=30, ge=1)


class HybridSettings(_Group):
    """How the lexical and the vector list become one."""

    enabled: bool = True
    vector_weight: Share = 0.7
    text_weight: Share = 0.3
    candidate_multiplier: int = Field(default=4, ge=1)
    fusion: Literal["default", "seed"] = "default"
    mmr: MmrSettings = Field(default_factory=MmrSettings.model_construct)
    temporal_decay: TemporalDecaySettings = Field(default_factory=TemporalDecaySettings.model_construct)

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


class RerankSettings(_Group):
    """A model that puts the best places of a search into another order; none unless a provider is named."""

    provider: str | None = None
    model: str | None = None
    base_url: str | None = None
    api_key: str | None = Field(default=None, repr=False)
    candidates: int = Field(default=30, ge=2, le=200)
    timeout_ms: int = Field(default=3000, ge=1)


class QuerySettings(_Group):
    """What a search returns."""

    max_results: int = Field(default=6, ge=1)
    min_score: UnitInterval = 0.35
    hybrid: HybridSettings = Field(default_factory=HybridSettings.model_construct)
    rerank: RerankSettings = Field(default_factory=RerankSettings.model_construct)


class CacheSettings(_Group):
    """Vectors of text that no file holds any more, kept in case it comes back."""

    enabled: bool = True
    max_entries: int | None = Field(default=DEFAULT_CACHE_ENTRIES, ge=1)


class ExperimentalSettings(_Group):
    """Opt-in features."""

    session_memory: bool = False


class MemorySearchSettings(_Group):
    """`agents.defaults.memorySearch`, resolved for one agent."""

    enabled: bool = True
    sources: tuple[Source, ...] = ("memory",)
    extra_paths: tuple[str, ...] = ()
    experimental: ExperimentalSettings = Field(default_factory=ExperimentalSettings.model_construct)
    provider: str | None = None
    fallback: str = "none"
    model: str | None = None
    output_dimensionality: int | None = Field(default=None, ge=1)
    remote: RemoteSettings | None = None
    local: LocalSettings = Field(default_factory=LocalSettings.model_construct)
    store: StoreSettings = Field(default_factory=StoreSettings.model_construct)
    chunking: ChunkingSettings = Field(default_factory=ChunkingSettings.model_construct)
    sync: SyncSettings = Field(default_factory=SyncSettings.model_construct)
    query: QuerySettings = Field(default_factory=QuerySettings.model_construct)
    cache: CacheSettings = Field(default_factory=CacheSettings.model_construct)

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
    """One agent's settings: `override` over `defaults`, as `merged_settings` does it.

    Raises:
        pydantic.ValidationError: a key is unknown or a value has the wrong type or range.
    """
    return MemorySearchSettings.model_validate(merged_settings(defaults or {}, override or {}))


def merged_settings(defaults: Mapping[str, Any], override: Mapping[str, Any]) -> dict[str, Any]:
    """Settings as a file has them, one agent's own field by field over those of all agents.

    A null of the agent's counts as not written. `extraPaths` of both are joined, defaults first;
    `remote.headers` is replaced as a whole.
    """
    merged = _merged(defaults, override)
    shared, own = defaults.get("extraPaths"), override.get("extraPaths")
    if isinstance(shared, list | tuple) and isinstance(own, list | tuple):
        merged["extraPaths"] = [*shared, *own]
    return merged


def index_path(settings: MemorySearchSettings, *, state_dir: Path, agent_id: str, home: Path) -> Path:
    """Where this agent's index lives: `store.path` with `{agentId}` and `~` filled in, or the default."""
    if not settings.store.path:
        return state_dir / "memory" / f"{agent_id}.sqlite"
    return Path(at_home(settings.store.path.replace("{agentId}", agent_id), home))


def at_home(text: str, home: Path) -> str:
    """A path with a leading `~` filled in; other paths as they are."""
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
