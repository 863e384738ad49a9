"""Opens the models that the settings name, in the extension that reaches them.

The name of a provider decides: the built-in extension `providers` reaches those that it knows and those with
an address in the settings; every other name is the id of an installed extension. An extension is imported
when a model needs it. If it cannot be loaded, only its model fails, with one sentence.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import aclosing, suppress
from functools import cache
from typing import TYPE_CHECKING, Any, cast

from nacre.runtime.contracts.errors import ConfigError, ModelError
from nacre.runtime.contracts.foreign_code import ForeignCodeFailed, run_foreign
from nacre.runtime.extensions.installed.discovery import Installed, built_in_extension, installed_extensions
from nacre.runtime.models.offline.answers import PROVIDER as OFFLINE_PROVIDER

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nacre.memory.contracts.embedder import Embedder
    from nacre.memory.contracts.settings import MemorySearchSettings, RerankSettings
    from nacre.memory.search.rerankers.reranker import Reranker
    from nacre.runtime.contracts.budget import ContextBudget
    from nacre.runtime.contracts.clock import Clock
    from nacre.runtime.contracts.model import ChatModel, ModelRequest, StreamItem
    from nacre.runtime.providers.provider import (
        BuiltInProviders,
        Lend,
        ModelCatalog,
        ModelFacts,
        ModelProvider,
        Transcriber,
    )
    from nacre.runtime.settings.config import Config
    from nacre.runtime.settings.sections.agents import AgentSettings

log = logging.getLogger(__name__)

BUILT_IN = "providers"
"""The id of the built-in extension."""
SHIPPED = ("", "local")
"""The values of `memorySearch.provider` that mean the model that comes with Nacre."""


class ProviderMissing(ConfigError):
    """The extension that reaches a model cannot be used; the message is a sentence for the owner."""


@cache
def built_in_providers() -> BuiltInProviders:
    """The built-in extension, imported on the first call.

    Raises:
        ProviderMissing: it is not installed, or cannot be imported.
    """
    item = built_in_extension(BUILT_IN)
    problem = item.problem if item is not None else "It is not part of this installation."
    if item is not None and not problem:
        try:
            return cast("BuiltInProviders", run_foreign(item.entry_point.load, BUILT_IN))
        except ForeignCodeFailed as error:
            log.warning("the extension %s cannot be loaded", BUILT_IN, exc_info=error.__cause__)
            problem = f"It cannot be loaded: {error}."
    raise ProviderMissing(
        f"Models of providers need the extension {BUILT_IN!r}. {problem} Install Nacre again, or choose the "
        "model 'offline'."
    )


def connected_model(config: Config, name: str, now: Clock) -> ChatModel:
    """The model `provider/model`, with the address, key and time-out of the settings.

    A model whose extension cannot be loaded fails each request with the reason.

    Raises:
        ConfigError: no provider has this name, or the name has no model.
    """
    try:
        other = _other(config, name.partition("/")[0], lambda known: known.reaches(config, name))
        if other is None:
            return built_in_providers().open_model(config, name, now)
        return cast("ChatModel", _called(other, "open_model", config, name, now))
    except ProviderMissing as problem:
        return UnreachableModel(name, str(problem))


class UnreachableModel:
    """A model whose extension cannot be loaded: each request fails with `problem`."""

    context_window_tokens = None

    def __init__(self, name: str, problem: str) -> None:
        self.name = name
        self._problem = problem

    async def stream(self, _request: ModelRequest) -> AsyncIterator[StreamItem]:
        """Raises `ModelError`."""
        nothing: tuple[StreamItem, ...] = ()
        for item in nothing:  # makes this an asynchronous generator
            yield item
        raise ModelError(self._problem)

    async def aclose(self) -> None:
        """Does nothing."""


def model_facts(config: Config, now: Clock) -> ModelFacts:
    """The facts about the model of `config` in the settings and the environment, without asking it.

    Raises:
        ConfigError: no provider has this name, the name has no model, or its extension cannot be loaded.
    """
    from nacre.runtime.providers.provider import ModelFacts

    name = config.model_name
    if not name:
        return ModelFacts()
    if _other(config, name.partition("/")[0], lambda known: known.reaches(config, name)) is not None:
        return ModelFacts(name=name)
    return built_in_providers().model_facts(config, name, now)


async def budget_of(config: Config, now: Clock) -> ContextBudget:
    """The budget for the window of the model of `config`. Asks its server for the size.

    Raises:
        ConfigError: the window is too small.
    """
    if not config.model_name:
        from nacre.runtime.contracts.clock import epoch_ms, random_id
        from nacre.runtime.models.offline.model import OfflineModel

        offline = OfflineModel(lambda: epoch_ms(now()), new_id=random_id, count_tokens=len)
        return settled_budget(config.settings.agent, offline, is_fallback=False)
    async with aclosing(connected_model(config, config.model_name, now)) as model:
        return await model_budget(config.settings.agent, model)


async def model_budget(agent: AgentSettings, model: ChatModel) -> ContextBudget:
    """The budget for a model's window. Asks the model's server for its size if possible.

    Raises:
        ConfigError: the window is too small.
    """
    from nacre.runtime.contracts.model import learn_window

    await learn_window(model)
    return settled_budget(agent, model, is_fallback=False)


def settled_budget(agent: AgentSettings, model: ChatModel, *, is_fallback: bool) -> ContextBudget:
    """The budget for the window that a model is known to have, without asking its server.

    The owner's window wins, except that a fallback keeps its own window if it is smaller.

    Raises:
        ConfigError: the window is too small.
    """
    from nacre.runtime.contracts.budget import resolve_budget

    configured_tokens, own_tokens = agent.context_tokens, model.context_window_tokens
    if is_fallback and configured_tokens and own_tokens:
        configured_tokens = min(configured_tokens, own_tokens)
    compaction = agent.compaction
    try:
        return resolve_budget(
            model_source=getattr(model, "window_source", "model"),
            configured_window_tokens=configured_tokens,
            model_window_tokens=own_tokens,
            reserve_tokens=compaction.reserve_tokens,
            reserve_floor_tokens=compaction.reserve_tokens_floor,
            soft_threshold_tokens=compaction.memory_flush.soft_threshold_tokens,
            keep_recent_tokens=compaction.keep_recent_tokens,
            flush_enabled=compaction.memory_flush.enabled,
            compaction_enabled=compaction.enabled,
        )
    except ConfigError as error:
        if not is_fallback:
            raise
        raise ConfigError(f"The fallback model {model.name!r} cannot be used. {error}") from error


def missing_extra(config: Config, name: str) -> str:
    """The extra of Nacre that the model `name` needs and that is not installed; empty if none is."""
    with suppress(ConfigError):
        if _other(config, name.partition("/")[0], lambda known: known.reaches(config, name)) is None:
            return built_in_providers().missing_extra(config, name)
    return ""


def price_entry(name: str) -> Mapping[str, Any]:
    """The entry of `provider/model` in the price map; empty for an unknown model."""
    with suppress(ProviderMissing):
        return built_in_providers().price_entry(name)
    return {}


def has_price(config: Config, name: str) -> bool:
    """Whether the price of `provider/model` is known: the offline responder and a server without a key on
    this machine are free."""
    if name.startswith(f"{OFFLINE_PROVIDER}/") or "input_cost_per_token" in price_entry(name):
        return True
    from nacre.runtime.contracts.clock import owner_zone, system_clock

    with suppress(ConfigError, ProviderMissing):
        facts = built_in_providers().model_facts(config, name, system_clock(owner_zone(None)))
        return facts.is_local and not (facts.has_key or facts.needs_key)
    return False


def new_for_each(_key: object, make: Callable[[], Embedder]) -> Embedder:
    """A `Lend` that makes an embedder for each call."""
    return make()


def open_embedder(
    config: Config, settings: MemorySearchSettings, now: Clock, *, local: Callable[[], Embedder], lent: Lend
) -> Embedder | None:
    """The embedder of `settings` (`memorySearch`), or `None` for the provider `none`.

    `local` makes the one that comes with Nacre, which needs no extension. `lent` may share one embedder among
    several agents.

    Raises:
        ConfigError: the settings cannot be used.
    """
    name = (settings.provider or "").strip().lower()
    if name == "none":
        return None
    has_fallback = settings.fallback.strip().lower() not in ("", "none")
    is_plain = bool(name) or settings.remote is None
    if name in SHIPPED and is_plain and not (has_fallback or settings.local.model_path):
        return lent("shipped", local)

    def other(settings: MemorySearchSettings) -> Embedder | None:
        name = (settings.provider or "").strip().lower()
        item = _other(config, name, lambda known: known.reaches_embedder(config, settings))
        if item is None:
            return None
        key = name, settings.model_dump_json()
        return lent(key, lambda: cast("Embedder", _called(item, "open_embedder", config, settings, now)))

    if not has_fallback and (embedder := other(settings)) is not None:
        return embedder
    return built_in_providers().open_embedder(config, settings, now, local=local, other=other, lent=lent)


def open_reranker(config: Config, settings: RerankSettings, now: Clock) -> Reranker | None:
    """The re-ranker of `settings` (`memorySearch.query.rerank`), if they name one.

    Raises:
        ConfigError: the settings cannot be used.
    """
    if (settings.provider or "").strip().lower() in ("", "none"):
        return None
    return built_in_providers().open_reranker(config, settings, now)


def open_transcribers(config: Config, now: Clock) -> Sequence[Transcriber]:
    """The models of `tools.media.audio`, in order; none if their extension cannot be loaded."""
    audio = config.settings.tools.media.audio
    if not (audio.enabled and audio.model_names):
        return ()
    try:
        return built_in_providers().open_transcribers(config, now)
    except ProviderMissing as problem:
        log.warning("recordings are not transcribed: %s", problem)
        return ()


def model_catalog() -> ModelCatalog:
    """The providers and models that `nacre init` offers. Raises `ProviderMissing`."""
    return built_in_providers().catalog()


def _other(config: Config, name: str, is_known: Callable[[BuiltInProviders], bool]) -> Installed | None:
    """The extension of another package that reaches the provider `name`, unless the built-in one does.

    Raises:
        ProviderMissing: it is disabled, or its installation is broken.
    """
    with suppress(ProviderMissing):
        if is_known(built_in_providers()):
            return None
    item = next((item for item in installed_extensions() if item.id == name), None)
    if item is None or item.manifest is None or item.manifest.kind != "provider":
        return None
    plugins = config.settings.plugins
    if not plugins.enabled or name in plugins.deny:
        raise ProviderMissing(f"The provider {name!r} is an extension that the setting plugins disables.")
    if item.problem:
        raise ProviderMissing(f"The provider {name!r} cannot be used. {item.problem}")
    return item


def _called(item: Installed, function: str, *arguments: object) -> object:
    """Calls a function of an extension.

    Raises:
        ProviderMissing: the extension cannot be loaded, lacks the function, or the function fails.
    """
    try:
        loaded: ModelProvider = run_foreign(item.entry_point.load, item.id)
        found = run_foreign(lambda: getattr(loaded, function)(*arguments), item.id)
    except ForeignCodeFailed as error:
        if isinstance(error.__cause__, ConfigError):
            raise error.__cause__ from error
        log.warning("the provider %s failed to open", item.id, exc_info=error.__cause__)
        raise ProviderMissing(
            f"The provider {item.id!r} of the package {item.package!r} cannot be used: {error}."
        ) from error
    if inspect.iscoroutine(found):
        found.close()
        raise ProviderMissing(f"{function} of the provider {item.id!r} must be a plain function.")
    return found
