"""Opens the models of providers: a `BuiltInProviders` (`nacre.runtime.providers.provider`).

Each function imports what it needs, so that an agent with one model loads the code for that model only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from nacre.extensions.providers.completions.keys import from_environment
from nacre.extensions.providers.completions.price_map import is_provider, price_map_entry
from nacre.extensions.providers.openai_compatible.providers import (
    PROVIDERS,
    address_in_environment,
    goes_without_litellm,
    resolve_endpoint,
)
from nacre.memory.contracts.settings import at_home
from nacre.runtime.contracts.clock import epoch_ms
from nacre.runtime.contracts.errors import ConfigError
from nacre.runtime.providers.provider import ModelFacts
from nacre.runtime.settings.disk.variables import unset_in
from nacre.runtime.settings.sections.models import ProviderSettings, with_profile_keys
from nacre.runtime.settings.spending import spending_ledger

if TYPE_CHECKING:
    from pathlib import Path

    from nacre.extensions.providers.completions.provider_model import ProviderModel
    from nacre.extensions.providers.embedding.daily_budget import EmbeddingBudget
    from nacre.extensions.providers.litellm import LiteLLMTranscriber
    from nacre.memory.contracts.embedder import Embedder
    from nacre.memory.contracts.settings import MemorySearchSettings, RerankSettings
    from nacre.memory.search.rerankers.reranker import Reranker
    from nacre.runtime.contracts.clock import Clock
    from nacre.runtime.models.spending import SpendingLedger
    from nacre.runtime.providers.provider import Lend, ModelCatalog, OpenOther
    from nacre.runtime.settings.config import Config
    from nacre.runtime.settings.disk.auth_profiles import AuthProfile

STALL_SECONDS = 60.0
"""The longest silence of a stream that has begun."""


def reaches(config: Config, name: str) -> bool:
    """Whether litellm or this extension knows the provider of `name`, or the settings have its address."""
    provider = name.partition("/")[0].strip()
    own = config.settings.models.providers.get(provider)
    return (
        provider in PROVIDERS
        or (own is not None and bool(own.base_url))
        or bool(price_map_entry(name))
        or is_provider(provider)
    )


def open_model(config: Config, name: str, now: Clock) -> ProviderModel:
    """A model by its name, with the address, key and time-out of the settings.

    The key comes from the settings, else from an auth profile, else from the environment. Unless the settings
    say otherwise, providers that speak OpenAI's chat completions are asked over plain HTTP, all others
    through litellm.

    Raises:
        ConfigError: no provider has this name, or the name has no model.
    """
    from nacre.extensions.providers.completions.provider_model import WINDOWS_FILE, RememberedWindows

    name = _with_provider(name)
    _check_name(config, name)
    timeout_seconds = config.settings.agent.model_timeout_seconds
    provider = config.settings.models.providers.get(name.partition("/")[0], ProviderSettings())
    own = provider.model(name.partition("/")[2])
    profile = None if provider.api_key else _profile(config, name, now)
    return _model_type(name, provider)(
        name,
        context_window_tokens=own.context_window,
        max_answer_tokens=own.max_tokens,
        remembered=RememberedWindows(config.state_dir / WINDOWS_FILE),
        base_url=provider.base_url or None,
        api_key=profile.api_key if profile else provider.api_key or None,
        key_place=profile.place if profile else "",
        unusable=unset_in(name, provider),
        request_timeout_seconds=timeout_seconds,
        stall_timeout_seconds=min(STALL_SECONDS, timeout_seconds),
        now_ms=lambda: epoch_ms(now()),
        ledger=spending_ledger(config, now),
    )


def model_facts(config: Config, name: str, now: Clock) -> ModelFacts:
    """The facts about a model in the settings and the environment. Sends nothing.

    Raises:
        ConfigError: no provider has this name, or the name has no model.
    """
    name = _with_provider(name)
    _check_name(config, name)
    settings = config.settings.models.providers.get(name.partition("/")[0], ProviderSettings())
    profile = _profile(config, name, now)
    found = resolve_endpoint(
        name,
        base_url=settings.base_url or None,
        api_key=settings.api_key or (profile.api_key if profile else None),
        from_environment=from_environment,
    )
    is_plain = _goes_without_litellm(name, settings)
    return ModelFacts(
        name=name,
        address=found.base_url if is_plain else settings.base_url,
        has_key=bool(found.api_key) and not unset_in(settings),
        needs_key=found.needs_key if is_plain else not settings.base_url,
        key_variable=" or ".join(found.key_variables),
    )


def missing_extra(config: Config, name: str) -> str:
    """The extra of Nacre that the model `name` needs and that is not installed; empty if none is."""
    name = _with_provider(name)
    provider = config.settings.models.providers.get(name.partition("/")[0], ProviderSettings())
    if _goes_without_litellm(name, provider):
        return ""
    from nacre.extensions.providers.litellm import EXTRA, is_installed

    return "" if is_installed() else EXTRA


price_entry = price_map_entry


def reaches_embedder(config: Config, settings: MemorySearchSettings) -> bool:
    """Whether `memorySearch.provider` is known here, or the settings have its address."""
    from nacre.extensions.providers.embedding.endpoint import PROVIDERS as ENDPOINTS
    from nacre.extensions.providers.embedding.open_embedder import IN_THIS_PROCESS

    name = (settings.provider or "").strip().lower()
    own = config.settings.models.providers.get(name)
    return (
        name in IN_THIS_PROCESS
        or name in ENDPOINTS
        or bool(settings.remote and settings.remote.base_url)
        or (own is not None and bool(own.base_url))
    )


def open_embedder(
    config: Config,
    settings: MemorySearchSettings,
    now: Clock,
    *,
    local: Callable[[], Embedder],
    other: OpenOther,
    lent: Lend,
) -> Embedder | None:
    """The embedder of `settings` with its fallback. `local` makes the one that comes with Nacre.

    Raises:
        ConfigError: the settings cannot be used.
    """
    from nacre.extensions.providers.embedding.open_embedder import embedder_for

    return embedder_for(
        settings,
        _providers(config, now),
        now_seconds=lambda: now().timestamp(),
        home=config.home,
        models_folder=config.state_dir / "models",
        budget=lambda: _embedding_budget(config, now),
        local=local,
        other=other,
        lent=lent,
    )


def open_reranker(config: Config, settings: RerankSettings, now: Clock) -> Reranker | None:
    """The re-ranker of `settings`, if they name one. Raises `ConfigError` if they name no model."""
    return reranker_for(
        settings,
        _providers(config, now),
        home=config.home,
        now_seconds=lambda: now().timestamp(),
        ledger=lambda: spending_ledger(config, now),
    )


def reranker_for(
    settings: RerankSettings,
    providers: Mapping[str, ProviderSettings],
    *,
    home: Path,
    now_seconds: Callable[[], float],
    ledger: Callable[[], SpendingLedger],
) -> Reranker | None:
    """The re-ranker of `memorySearch.query.rerank`; `None` for no provider or `none`.

    `providers` is `models.providers`; it has the address and the key if `query.rerank` has none. `~` in front
    of a model's folder means `home`. `ledger` counts the cost, and has the cap.

    Raises:
        ConfigError: no model is named.
    """
    provider, model = (settings.provider or "").strip().lower(), (settings.model or "").strip()
    if provider in ("", "none"):
        return None
    if not model:
        raise ConfigError(
            f"memorySearch.query.rerank.model is missing: the provider {provider!r} has no default "
            "re-ranker. Name one."
        )
    if provider == "sentence-transformers":
        from nacre.extensions.providers.embedding.local_models import CrossEncoderReranker

        return CrossEncoderReranker(at_home(model, home))
    from nacre.extensions.providers.litellm import LiteLLMReranker

    shared = providers.get(provider, ProviderSettings())
    if unset_in("" if settings.api_key else shared):
        return None  # a notice of the settings reports it
    return LiteLLMReranker(
        f"{provider}/{model.removeprefix(f'{provider}/')}",
        base_url=(settings.base_url or "").strip() or shared.base_url.strip() or None,
        api_key=(settings.api_key or "").strip() or shared.api_key.strip() or None,
        now_seconds=now_seconds,
        ledger=ledger(),
    )


def open_transcribers(config: Config, now: Clock) -> Sequence[LiteLLMTranscriber]:
    """The models of `tools.media.audio` that have their key. Nothing is loaded before the first recording."""
    from nacre.extensions.providers.litellm import LiteLLMTranscriber

    audio, providers = config.settings.tools.media.audio, _providers(config, now)
    found = ((name, providers.get(name.partition("/")[0], ProviderSettings())) for name in audio.model_names)
    return [
        LiteLLMTranscriber(
            name,
            base_url=provider.base_url.strip() or None,
            api_key=provider.api_key.strip() or None,
            language=audio.language.strip(),
            now_seconds=lambda: now().timestamp(),
            ledger=spending_ledger(config, now),
        )
        for name, provider in found
        if not unset_in(provider)
    ]


def catalog() -> ModelCatalog:
    from nacre.extensions.providers import catalog as found

    return found


def _with_provider(name: str) -> str:
    """`openai/gpt-5-mini` for `gpt-5-mini`: litellm would find the provider only after seconds of imports."""
    full = (f"{provider}/{name}" for provider in ("openai", "anthropic", "gemini"))
    return name if "/" in name else next(filter(price_map_entry, full), name)


def _check_name(config: Config, name: str) -> None:
    """Raises `ConfigError` for an unknown name, and suggests the nearest known one."""
    provider, _, model = name.partition("/")
    provider = provider.strip()
    if price_map_entry(name):
        return
    is_known = provider in config.settings.models.providers or provider in PROVIDERS
    if is_known or is_provider(provider):
        if model.strip():
            return
        raise ConfigError(
            f"{name!r} names a provider and no model. Write it as {provider}/MODEL, or choose one with "
            "`nacre init`."
        )
    nearest = _nearest(config, name)
    if not model.strip():
        raise ConfigError(
            f"{name!r} does not begin with a provider, as in openai/gpt-5-mini. `nacre init` lists them."
            f"{nearest}"
        )
    raise ConfigError(
        f"There is no provider {provider!r}, which the model {name!r} names.{nearest} If it is a server of "
        f"your own, set models.providers.{provider}.baseUrl, or run `nacre init`."
    )


def _nearest(config: Config, name: str) -> str:
    """A suggestion of a similar name, if there is one."""
    from difflib import get_close_matches  # rarely needed

    agent = config.settings.agent
    whole = [agent.model.primary, *agent.model.fallbacks, *agent.models, config.model_name]
    provider, _, model = name.partition("/")
    providers = [*config.settings.models.providers, *PROVIDERS, "anthropic", "gemini"]
    near = get_close_matches(provider, providers, n=1, cutoff=0.6)
    names = [each for each in whole if each.strip() and each != name]
    found = get_close_matches(name, names, n=1, cutoff=0.6) or [f"{each}/{model or 'MODEL'}" for each in near]
    return f" Did you mean {found[0]!r}?" if found else ""


def _profile(config: Config, name: str, now: Clock) -> AuthProfile | None:
    return config.auth.find(name.partition("/")[0], now_ms=epoch_ms(now()))


def _model_type(name: str, provider: ProviderSettings) -> type[ProviderModel]:
    if _goes_without_litellm(name, provider):
        from nacre.extensions.providers.openai_compatible.model import OpenAICompatibleModel

        return OpenAICompatibleModel
    from nacre.extensions.providers.litellm import LiteLLMModel

    return LiteLLMModel


def _goes_without_litellm(name: str, provider: ProviderSettings) -> bool:
    if provider.api:
        return provider.api in ("openai-completions", "ollama")
    address = provider.base_url or address_in_environment(name, from_environment)
    return goes_without_litellm(name, address, price_map_entry(name))


def _providers(config: Config, now: Clock) -> Mapping[str, ProviderSettings]:
    return with_profile_keys(config.settings.models.providers, config.auth, now_ms=epoch_ms(now()))


def _embedding_budget(config: Config, now: Clock) -> EmbeddingBudget:
    from nacre.extensions.providers.embedding.daily_budget import EmbeddingBudget

    remote = config.settings.agent.memory_search.remote
    return EmbeddingBudget(
        config.state_dir / "memory" / "embedding-tokens.json",
        daily_tokens=remote.daily_tokens if remote is not None else None,
        now=now,
        ledger=spending_ledger(config, now),
    )
