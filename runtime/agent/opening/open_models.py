"""From settings to the models that may be asked, each with its window."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace

from nacre.runtime.commands.conversation.chosen_models import ChosenModels, KnownModels
from nacre.runtime.contracts.budget import ContextBudget, WindowSource, resolve_budget
from nacre.runtime.contracts.clock import Clock, epoch_ms
from nacre.runtime.contracts.errors import ConfigError
from nacre.runtime.contracts.model import ChatModel, learn_window
from nacre.runtime.models.completions.keys import from_environment
from nacre.runtime.models.completions.price_map import is_provider, price_map_entry
from nacre.runtime.models.completions.provider_model import ProviderModel
from nacre.runtime.models.completions.remembered_windows import WINDOWS_FILE, RememberedWindows
from nacre.runtime.models.failover import Candidate, ModelChain, Patience
from nacre.runtime.models.litellm.model import LiteLLMModel
from nacre.runtime.models.openai_compatible.model import OpenAICompatibleModel
from nacre.runtime.models.openai_compatible.providers import (
    PROVIDERS,
    address_in_environment,
    goes_without_litellm,
)
from nacre.runtime.models.waits.cooldown import CooldownFile
from nacre.runtime.settings.config import Config
from nacre.runtime.settings.disk.auth_profiles import AuthProfile
from nacre.runtime.settings.disk.variables import unset_in
from nacre.runtime.settings.sections.agents import AgentSettings
from nacre.runtime.settings.sections.models import ProviderSettings, with_profile_keys
from nacre.runtime.settings.spending import spending_ledger
from nacre.runtime.turn.inbound.inbound_message import VoiceNotes

STALL_SECONDS = 60.0
"""A stream that has begun and then says nothing for so long is given up."""


def open_models(
    config: Config,
    given: ChatModel | None,
    *,
    offline: ChatModel,
    model_named: Callable[[str], ChatModel],
    now: Clock,
    sleep: Callable[[float], Awaitable[None]],
    count_tokens: Callable[[str], int],
) -> ChosenModels:
    """The models of an agent, and what may be chosen in their place for single chats.

    By default that is the model of the config with its fallbacks, a given one alone, or else the offline
    responder. Chosen may be what the settings name, and every model of litellm's price map. `model_named`
    opens a model by its name; whoever hands it in closes what it opened.

    Raises:
        ConfigError: a model's window is too small to work in.
    """
    cooldowns = CooldownFile(config.folders.agent_dir / "model-cooldowns.json", now=now)

    patience = Patience(
        slow_seconds=config.settings.agent.model_slow_seconds,
        first_byte_seconds=config.settings.agent.model_first_byte_seconds,
    )

    def chain(models: Sequence[ChatModel]) -> ModelChain:
        def budget(model: ChatModel) -> ContextBudget:
            return _budget(config.settings.agent, model, is_fallback=model is not models[0])

        return ModelChain(
            [Candidate(model=model, budget=budget(model)) for model in models],
            budget=budget,
            cooldowns=cooldowns,
            now=now,
            sleep=sleep,
            count_tokens=count_tokens,
            patience=patience,
        )

    def connected(first_name: str) -> ModelChain:
        names = model_names(replace(config, model_name=first_name))
        return chain([model_named(name) for name in names])

    def opened(model: ChatModel | str) -> ModelChain:
        if not isinstance(model, str):
            return chain([model])
        return chain([offline]) if model == offline.name else connected(model)

    has_name = given is None and bool(config.model_name)
    default = connected(config.model_name) if has_name else chain([given or offline])
    return ChosenModels(
        default,
        known=_known_models(config, default.first.model.name, offline.name),
        open_chain=opened,
        is_model=lambda name: bool(price_map_entry(name)),
    )


def _known_models(config: Config, default_name: str, offline_name: str) -> KnownModels:
    agent = config.settings.agent
    own = [default_name, *model_names(config), agent.model.primary.strip(), *agent.models]
    names = [name for name in dict.fromkeys((*own, offline_name)) if "/" in name]
    # The offline responder's provider has this one model, so `offline/online` is no name.
    providers = [name.partition("/")[0] for name in names if name != offline_name]
    return KnownModels(
        names=names,
        aliases={entry.alias: name for name, entry in agent.models.items() if entry.alias.strip()},
        providers=list(
            dict.fromkeys([*providers, *config.settings.models.providers, *config.auth.providers])
        ),
    )


def model_names(config: Config) -> tuple[str, ...]:
    """Who is asked, in order: the wanted model, the fallbacks, and last the settings' own model.

    Without fallbacks nobody else is asked: whoever names one model for a run means that one.
    """
    choice = config.settings.agent.model
    names = [name.strip() for name in choice.fallbacks if name.strip()]
    own = [choice.primary.strip()] if names and choice.primary.strip() else []
    return tuple(dict.fromkeys([config.model_name, *names, *own]))


def model_key(config: Config, name: str, now: Clock) -> Hashable:
    """All that the settings say of a model: equal keys are the same model, asked in the same way."""
    provider = config.settings.models.providers.get(name.partition("/")[0])
    said = provider.model_dump_json() if provider else ""
    profile = _profile(config, name, now)
    return "model", name, said, profile and profile.api_key, config.settings.agent.model_timeout_seconds


def connected_model(config: Config, name: str, now: Clock) -> ChatModel:
    """A model by its name, with the address, key and time-out of the settings.

    A key of the settings goes before one of the auth profiles, and this before the environment's.
    Who speaks OpenAI's chat completions is asked over plain HTTP, all others through litellm, unless the
    settings say which way.

    Raises:
        ConfigError: the name is that of a provider alone.
    """
    _check_name(config, name)
    timeout_seconds = config.settings.agent.model_timeout_seconds
    provider = config.settings.models.providers.get(name.partition("/")[0], ProviderSettings())
    said = provider.model(name.partition("/")[2])
    profile = None if provider.api_key else _profile(config, name, now)
    return _way_to(name, provider)(
        name,
        context_window_tokens=said.context_window,
        max_answer_tokens=said.max_tokens,
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


def open_voice_notes(config: Config, now: Clock, closing: AsyncExitStack) -> VoiceNotes:
    """What writes recordings down: the models of `tools.media.audio`, as `models.providers` reaches them.

    Nothing is loaded before the first recording comes; `closing` then releases it.
    """
    audio = config.settings.tools.media.audio
    names = audio.model_names if audio.enabled else ()
    if not names:
        return VoiceNotes(audio)
    from nacre.runtime.models.litellm.transcriber import LiteLLMTranscriber  # few agents hear recordings

    providers = with_profile_keys(config.settings.models.providers, config.auth, now_ms=epoch_ms(now()))
    transcribers = []
    for name in names:
        provider = providers.get(name.partition("/")[0], ProviderSettings())
        if unset_in(provider):
            continue
        transcriber = LiteLLMTranscriber(
            name,
            base_url=provider.base_url.strip() or None,
            api_key=provider.api_key.strip() or None,
            language=audio.language.strip(),
            now_seconds=lambda: now().timestamp(),
            ledger=spending_ledger(config, now),
        )
        closing.push_async_callback(transcriber.close)
        transcribers.append(transcriber)
    return VoiceNotes(audio, transcribers)


def load_ahead(model: ChatModel) -> None:
    """Begins to load what the first request to a provider needs, while the person types it."""
    if isinstance(model, ProviderModel):
        model.load_ahead()


def _check_name(config: Config, name: str) -> None:
    """Raises `ConfigError` for a name that leads nowhere, and asks about the nearest that does."""
    provider, _, model = name.partition("/")
    provider = provider.strip()
    own = config.settings.models.providers
    is_known = provider in own or provider in PROVIDERS or bool(price_map_entry(name))
    if is_known and (model.strip() or price_map_entry(name)):
        return
    if is_known or is_provider(provider):
        if model.strip():
            return
        raise ConfigError(
            f"{name!r} names a provider and no model. Write it as {provider}/MODEL in NACRE_MODEL, --model "
            "or agents.defaults.model.primary."
        )
    nearest = _nearest(config, name)
    if not model.strip():
        raise ConfigError(f"{name!r} does not begin with a provider, as in openai/gpt-5-mini.{nearest}")
    raise ConfigError(
        f"There is no provider {provider!r}, as the model {name!r} has it.{nearest} To name a server of your "
        f"own so, set models.providers.{provider}.baseUrl, or run `nacre init`."
    )


def _nearest(config: Config, name: str) -> str:
    """A question about the name that was meant, if one is near."""
    from difflib import get_close_matches  # a slip is rare

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


def _way_to(name: str, provider: ProviderSettings) -> type[OpenAICompatibleModel] | type[LiteLLMModel]:
    if provider.api:
        is_short = provider.api in ("openai-completions", "ollama")
        return OpenAICompatibleModel if is_short else LiteLLMModel
    address = provider.base_url or address_in_environment(name, from_environment)
    is_short = goes_without_litellm(name, address, price_map_entry(name))
    return OpenAICompatibleModel if is_short else LiteLLMModel


async def model_budget(agent: AgentSettings, model: ChatModel) -> ContextBudget:
    """How the window of a model is cut, which is asked for it where it can be.

    Raises:
        ConfigError: it is too small to work in.
    """
    await learn_window(model)
    return _budget(agent, model, is_fallback=False)


def _budget(agent: AgentSettings, model: ChatModel, *, is_fallback: bool) -> ContextBudget:
    """The owner's window wins; a fallback's own window is kept where it is the smaller."""
    configured_tokens, own_tokens = agent.context_tokens, model.context_window_tokens
    if is_fallback and configured_tokens and own_tokens:
        configured_tokens = min(configured_tokens, own_tokens)
    try:
        return _resolved(agent, configured_tokens, own_tokens, getattr(model, "window_source", "model"))
    except ConfigError as error:
        if not is_fallback:
            raise
        raise ConfigError(f"The fallback model {model.name!r} cannot be used. {error}") from error


def _resolved(
    agent: AgentSettings, configured_tokens: int | None, own_tokens: int | None, source: WindowSource
) -> ContextBudget:
    compaction = agent.compaction
    return resolve_budget(
        model_source=source,
        configured_window_tokens=configured_tokens,
        model_window_tokens=own_tokens,
        reserve_tokens=compaction.reserve_tokens,
        reserve_floor_tokens=compaction.reserve_tokens_floor,
        soft_threshold_tokens=compaction.memory_flush.soft_threshold_tokens,
        keep_recent_tokens=compaction.keep_recent_tokens,
        flush_enabled=compaction.memory_flush.enabled,
        compaction_enabled=compaction.enabled,
    )
