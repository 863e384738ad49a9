"""The public contract of extensions that provide models and embedders.

The built-in extension `providers` reaches every provider that litellm knows and every server of OpenAI's
protocol: `BuiltInProviders`. An extension of another package whose id is `acme` and whose manifest has the
kind `provider` opens the models `acme/...` (`ModelProvider`) and the embedder of
`memorySearch.provider: "acme"` (`EmbeddingProvider`). Its entry point names an object or a module with these
functions.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias
from urllib.parse import urlsplit

from nacre.memory.contracts.embedder import Embedder
from nacre.memory.contracts.settings import MemorySearchSettings, RerankSettings
from nacre.memory.search.rerankers.reranker import Reranker
from nacre.record import Record
from nacre.runtime.contracts.clock import Clock
from nacre.runtime.contracts.model import ChatModel
from nacre.runtime.settings.config import Config

LOCAL_HOSTS = ("localhost", "127.0.0.1", "::1", "0.0.0.0")

Lend: TypeAlias = Callable[[Hashable, Callable[[], Embedder]], Embedder]
"""Returns the embedder of a key, and makes it if needed. Embedders of equal keys make equal vectors."""

OpenOther: TypeAlias = Callable[[MemorySearchSettings], Embedder | None]
"""Opens the embedder of an extension of another package; `None` if no such extension has the provider."""


class ModelProvider(Protocol):
    """Opens chat models."""

    def open_model(self, config: Config, name: str, now: Clock, /) -> ChatModel:
        """The model `provider/model` with the settings of `config`. Nothing is sent before a request.

        Raises:
            ConfigError: the settings cannot be used; the message is a sentence for the owner.
        """
        ...


class EmbeddingProvider(Protocol):
    """Opens embedders."""

    def open_embedder(self, config: Config, settings: MemorySearchSettings, now: Clock, /) -> Embedder:
        """The embedder that `settings` (`memorySearch`) describe. Nothing is sent before a text is embedded.

        Raises:
            ConfigError: the settings cannot be used; the message is a sentence for the owner.
        """
        ...


class Transcriber(Protocol):
    """A model that transcribes recordings."""

    @property
    def name(self) -> str:
        """`provider/model`, for the log."""

    async def transcribe(self, file_name: str, data: bytes, *, timeout_seconds: float) -> str:
        """The words of a recording. Raises `ModelError` if the model returned none."""

    async def close(self) -> None:
        """Closes the connections."""


class ModelFacts(Record):
    """The model of an agent.

    `name` is empty when the offline responder answers. `address` is the address of an OpenAI-compatible
    server, and empty for other providers. `has_key` means a key in settings, auth profiles or environment;
    `key_variable` is the variable for one.
    """

    name: str = ""
    address: str = ""
    has_key: bool = False
    needs_key: bool = False
    key_variable: str = ""

    @property
    def is_local(self) -> bool:
        """Whether the model runs on this machine, so that connecting to it costs nothing."""
        return (urlsplit(self.address).hostname or "") in LOCAL_HOSTS


class ModelChoice(Record):
    """A model to choose; `place` says where it was found, or its window and price."""

    model_name: str
    place: str


class Offer(Record):
    """A provider that a new owner may choose. `address` is the usual address of an owner's server.

    `provider_name` is empty for a server that has no name yet.
    """

    label: str
    provider_name: str
    address: str = ""

    @property
    def is_own_server(self) -> bool:
        """Whether it is the owner's server, whose address `nacre init` asks for."""
        return not self.provider_name or bool(self.address)


class ServedModel(Record):
    """A model that a server lists. Prices are in US dollars a token; unknown values are `None`.

    `is_llama_cpp` means that the server reports how much of a prompt it has read.
    """

    name: str
    window_tokens: int | None = None
    input_usd: float | None = None
    output_usd: float | None = None
    is_llama_cpp: bool = False


class Listing(Record):
    """The models of a server, or the HTTP status of its refusal; 0 for no answer.

    `talking` are the models for conversations, judging by their names.
    """

    models: tuple[ServedModel, ...] = ()
    talking: tuple[ServedModel, ...] = ()
    status: int = 0

    @property
    def is_served(self) -> bool:
        """Whether a server of models answered; it may still need a key."""
        return self.status in (200, 401, 403)


class ModelCatalog(Protocol):
    """The providers and models that `nacre init` offers."""

    def offers(self) -> Sequence[Offer]:
        """The providers, in the order in which they are shown."""

    def suggested_model(self, provider_name: str, /) -> str:
        """A model that can call tools; empty for a provider without a suggestion."""

    async def probed(self, address: str, api_key: str = "", /) -> tuple[str, Listing]:
        """The address at which a server of models answers, with `/v1` if needed, and its models.

        Without an answer, the address is the given one.
        """

    def usual_address(self, provider_name: str, /) -> str:
        """The address of a provider that needs none in the settings; empty if there is none."""

    async def offered_models(
        self, provider_name: str, environment: Mapping[str, str], api_key: str, /
    ) -> tuple[int, Sequence[ModelChoice]]:
        """The HTTP status of the provider's answer, 0 if there was none, and its models.

        They are the listed models, or else those with known prices; the suggested one is first.
        """

    def model_choices(self, provider_name: str, models: Sequence[ServedModel], /) -> Sequence[ModelChoice]:
        """Models with their windows and prices, the suggested one first."""

    async def found_choices(self, environment: Mapping[str, str], /) -> Sequence[ModelChoice]:
        """Models of servers on this machine, then one for each provider whose key `environment` has."""

    def key_variables(self, model_name: str, *, is_wanted: bool = False) -> Sequence[str]:
        """The variables for a model's key; none if it needs no key, or more than a key.

        `is_wanted` means that the server refused to answer without a key, so there is a variable.
        """


class BuiltInProviders(ModelProvider, Protocol):
    """The built-in extension `providers`."""

    def reaches(self, config: Config, name: str, /) -> bool:
        """Whether it opens `provider/model`: it knows the provider, or the settings have its address."""

    def reaches_embedder(self, config: Config, settings: MemorySearchSettings, /) -> bool:
        """Whether it opens `memorySearch.provider`: by its name, or by an address in the settings."""

    def model_facts(self, config: Config, name: str, now: Clock, /) -> ModelFacts:
        """The facts about a model in the settings and the environment. Raises `ConfigError`."""

    def missing_extra(self, config: Config, name: str, /) -> str:
        """The extra of Nacre that the model `name` needs and that is not installed; empty if none is."""

    def price_entry(self, name: str, /) -> Mapping[str, Any]:
        """The entry of `provider/model` in the price map; empty for an unknown model."""

    def open_embedder(
        self,
        config: Config,
        settings: MemorySearchSettings,
        now: Clock,
        /,
        *,
        local: Callable[[], Embedder],
        other: OpenOther,
        lent: Lend,
    ) -> Embedder | None:
        """The embedder of `settings` with its fallback. `local` makes the one that comes with Nacre.

        Raises:
            ConfigError: the settings cannot be used.
        """

    def open_reranker(self, config: Config, settings: RerankSettings, now: Clock, /) -> Reranker | None:
        """The re-ranker of `memorySearch.query.rerank`. Raises `ConfigError`."""

    def open_transcribers(self, config: Config, now: Clock, /) -> Sequence[Transcriber]:
        """The models of `tools.media.audio`, in order. Nothing is loaded before the first recording."""

    def catalog(self) -> ModelCatalog:
        """The providers and models that `nacre init` offers."""
