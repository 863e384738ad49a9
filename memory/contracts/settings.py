"""The settings of memory search: the seeds' keys, defaults and limits. Reads no file, no environment.

Keys in files are camelCase (`memorySearch.query.hybrid.vectorWeight`); an unknown key is an error. Values out
of a range that the seeds clamp are clamped, values of a wrong type are errors.
Annotations are not kept as text: pydantic would compile each of them again at every start.
"""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, field_validator, model_validator

from nacre.memory.contracts.index_settings import (
    CacheSettings,
    ChunkingSettings,
    LocalSettings,
    RemoteSettings,
    SettingsGroup,
    StoreSettings,
    SyncSettings,
)
from nacre.memory.contracts.records import Source


def _unit(value: Any) -> Any:
    return min(1.0, max(0.0, float(value))) if _is_number(value) else value


def _share(value: Any) -> Any:
    return max(0.0, float(value)) if _is_number(value) else value


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


Share = Annotated[float, BeforeValidator(_share), Field(ge=0)]
"""A weight beside others: what counts is its part of their sum, so that 70 and 30 are 0.7 and 0.3."""

UnitInterval = Annotated[float, BeforeValidator(_unit), Field(ge=0, le=1)]


class MmrSettings(SettingsGroup):
    """Diversity re-ranking; `lambda` 1 is relevance alone, 0 is difference alone."""

    enabled: bool = False
    """Whether hits that say the same are pushed down."""
    lambda_: Annotated[float, BeforeValidator(_unit), Field(alias="lambda", ge=0, le=1)] = 0.7
    """1 ranks by relevance alone, 0 by difference alone."""

    @field_validator("lambda_", mode="before")
    @classmethod
    def _not_a_number(cls, value: Any) -> Any:
        return 0.7 if isinstance(value, float) and math.isnan(value) else value


class TemporalDecaySettings(SettingsGroup):
    """Older dated notes count less; evergreen files never do."""

    enabled: bool = False
    """Whether older dated notes count less."""
    half_life_days: int = Field(default=30, ge=1)
    """After how many days a dated note counts half."""


class HybridSettings(SettingsGroup):
    """How the lexical and the vector list become one."""

    enabled: bool = True
    """Whether words and vectors are combined."""
    vector_weight: Share = 0.7
    """Share of the vectors; both shares are scaled to a sum of 1, so that 70 and 30 are 0.7 and 0.3."""
    text_weight: Share = 0.3
    """Share of the words, as `vectorWeight`."""
    candidate_multiplier: int = Field(default=4, ge=1)
    """How many candidates per wanted hit each list offers; at most 20."""
    fusion: Literal["default", "seed"] = "default"
    """How the two lists become one: `default`, or `seed` for the weighted sum of the original."""
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
    """A model that puts the best places of a search into another order; none unless a provider is named."""

    provider: str | None = None
    """Who puts the best places of a search into another order: a provider by litellm's name (`cohere`,
    `jina_ai`, `voyage`, `together_ai`, `hosted_vllm`, `infinity`, `huggingface` for a server of
    text-embeddings-inference, …), or `sentence-transformers` for a cross-encoder in this process (`pip
    install "nacre[sentence-transformers]"`). Unset or `none`: nobody. A provider is sent the question and the
    texts of its best places."""
    model: str | None = None
    """The re-ranker; there is no usual one. For `sentence-transformers` a name on the hub or a folder."""
    base_url: str | None = None
    """Address of the re-ranker; unset is `models.providers.<name>.baseUrl`, else the provider's own."""
    api_key: str | None = Field(default=None, repr=False)
    """Key of the re-ranker; unset is `models.providers.<name>.apiKey`, else an auth profile, else the
    provider's environment variable. A server of one's own needs none."""
    candidates: int = Field(default=30, ge=2, le=200)
    """How many of the best places the re-ranker is shown, 2 to 200; those behind keep their order."""
    timeout_ms: int = Field(default=3000, ge=1)
    """How long the re-ranker's answer is waited for. Then, and when it fails, the hits keep their usual order
    and the search says so; it is asked again after a minute. Loading litellm or a model is not counted."""


class QuerySettings(SettingsGroup):
    """What a search returns."""

    max_results: int = Field(default=6, ge=1)
    """Most hits of a search; never more than 1000."""
    min_score: UnitInterval | None = None
    """Hits that score less are not shown. Unset: nothing is shown unless the best hit scores 0.35 before it
    loses by its age, and the hits behind it come along; with `fusion: "seed"` each hit has to score that."""
    hybrid: HybridSettings = Field(default_factory=HybridSettings.unwritten)
    rerank: RerankSettings = Field(default_factory=RerankSettings.unwritten)


class ExperimentalSettings(SettingsGroup):
    """Opt-in features."""

    session_memory: bool = False
    """Allows past conversations as a source: what you and the assistant said, groups included. Only private
    chats with you can search them."""


class MemorySearchSettings(SettingsGroup):
    """`agents.defaults.memorySearch`, resolved for one agent."""

    enabled: bool = True
    """Whether there is a memory index, and with it `memory_search` and `memory_get`."""
    sources: tuple[Source, ...] = ("memory",)
    """What is searched: `memory`, and `sessions` if `experimental.sessionMemory` is on."""
    extra_paths: tuple[str, ...] = ()
    """Further Markdown files and folders, absolute or relative to the workspace; globs work (`**` is any
    depth), and links are not followed."""
    experimental: ExperimentalSettings = Field(default_factory=ExperimentalSettings.unwritten)
    provider: str | None = None
    """Who makes embeddings. Unset and `local`: the model that comes with Nacre, without key and network, or
    that of `local.modelPath`. `gguf`: that of `local.modelPath`, else embeddinggemma-300m, downloaded once
    (0.3 GB). `sentence-transformers`: a model of that library. `none`: words alone are searched. `auto`: a
    file in `local.modelPath`, then the first of `openai`, `gemini`, `voyage`, `mistral` that has a key in the
    settings or the environment, else the model that comes with Nacre; unset means the same once anything
    stands in `remote`. `openai`, `gemini`, `voyage`, `mistral`, `ollama`, or any name with `remote.baseUrl`
    for an OpenAI-compatible server."""
    fallback: str = "none"
    """Who makes embeddings once the provider has failed while indexing; a search never switches. The index
    remembers it, with the reason, for all processes: its vectors are searched until the provider answers
    again. That one is asked again after half a minute, then a minute, up to an hour, in a running agent, and
    at once by `nacre memory index`. The fallback uses its own usual model, and its address and key from
    `models.providers`."""
    model: str | None = None
    """The embedding model; unset is the provider's usual one. The model that comes with Nacre has no choice;
    for `sentence-transformers` it is a name on the hub or a folder."""
    output_dimensionality: int | None = Field(default=None, ge=1)
    """Length of the vectors, for remote models made for shorter ones; unset is the model's own. Longer
    vectors are cut to it. A change makes all vectors again."""
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
