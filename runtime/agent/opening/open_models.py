"""Opens the models that the settings name, each with its window."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace

from nacre.runtime.commands.conversation.chosen_models import ChosenModels, KnownModels
from nacre.runtime.contracts.budget import ContextBudget
from nacre.runtime.contracts.clock import Clock, epoch_ms
from nacre.runtime.contracts.model import ChatModel
from nacre.runtime.models.cooldown import CooldownFile
from nacre.runtime.models.failover import Candidate, ModelChain, Patience
from nacre.runtime.providers.opening import open_transcribers, price_entry, settled_budget
from nacre.runtime.settings.config import OFFLINE_NAMES, Config
from nacre.runtime.turn.inbound_message import VoiceNotes


def open_models(
    config: Config,
    given: Sequence[ChatModel | str],
    *,
    offline: ChatModel,
    model_named: Callable[[str], ChatModel],
    now: Clock,
    sleep: Callable[[float], Awaitable[None]],
    count_tokens: Callable[[str], int],
) -> ChosenModels:
    """The models of an agent, and those that may be chosen instead for single chats.

    The default is the config's model with its fallbacks, the `given` models alone, or else the offline
    responder. Models that the settings name, and every model of litellm's price map, may be chosen.
    `model_named` opens a model by name; the caller closes what it opened.

    Raises:
        ConfigError: a model's window is too small.
    """
    cooldowns = CooldownFile(config.folders.agent_dir / "model-cooldowns.json", now=now)
    patience = Patience(
        slow_seconds=config.settings.agent.model_slow_seconds,
        first_byte_seconds=config.settings.agent.model_first_byte_seconds,
    )

    def opened(model: ChatModel | str) -> ChatModel:
        if not isinstance(model, str):
            return model
        return offline if model in OFFLINE_NAMES else model_named(model)

    def chain(named: Sequence[ChatModel | str]) -> ModelChain:
        models = [opened(each) for each in named]

        def budget(model: ChatModel) -> ContextBudget:
            return settled_budget(config.settings.agent, model, is_fallback=model is not models[0])

        return ModelChain(
            [Candidate(model=model, budget=budget(model)) for model in models],
            budget=budget,
            cooldowns=cooldowns,
            now=now,
            sleep=sleep,
            count_tokens=count_tokens,
            patience=patience,
        )

    def chain_of(model: ChatModel | str) -> ModelChain:
        if not isinstance(model, str) or model == offline.name:
            return chain([model])
        return chain(model_names(replace(config, model_name=model)))

    default = chain(given) if given else chain_of(config.model_name or offline)
    return ChosenModels(
        default,
        known=_known_models(config, default.first.model.name, offline.name),
        open_chain=chain_of,
        is_model=lambda name: bool(price_entry(name)),
    )


def _known_models(config: Config, default_name: str, offline_name: str) -> KnownModels:
    agent = config.settings.agent
    own = [default_name, *model_names(config), agent.model.primary.strip(), *agent.models]
    names = [name for name in dict.fromkeys((*own, offline_name)) if "/" in name]
    # The offline responder's provider has this one model, so `offline/online` is no name.
    providers = [name.partition("/")[0] for name in names if name != offline_name]
    return KnownModels(
        names=names,
        aliases={
            "offline": offline_name,
            **{entry.alias: name for name, entry in agent.models.items() if entry.alias.strip()},
        },
        providers=list(
            dict.fromkeys([*providers, *config.settings.models.providers, *config.auth.providers])
        ),
    )


def model_names(config: Config) -> tuple[str, ...]:
    """The models to ask, in order: the wanted one, the fallbacks, and last the settings' own model.

    Without fallbacks there is only the first, because whoever names one model for a run means that one.
    """
    choice = config.settings.agent.model
    names = [name.strip() for name in choice.fallbacks if name.strip()]
    own = [choice.primary.strip()] if names and choice.primary.strip() else []
    return tuple(dict.fromkeys([config.model_name, *names, *own]))


def model_key(config: Config, name: str, now: Clock) -> Hashable:
    """Everything that the settings say about a model: equal keys are the same model, asked in the same
    way.
    """
    provider_name = name.partition("/")[0]
    provider = config.settings.models.providers.get(provider_name)
    said = provider.model_dump_json() if provider else ""
    profile = config.auth.find(provider_name, now_ms=epoch_ms(now()))
    return "model", name, said, profile and profile.api_key, config.settings.agent.model_timeout_seconds


def open_voice_notes(config: Config, now: Clock, closing: AsyncExitStack) -> VoiceNotes:
    """Transcribes recordings with the models of `tools.media.audio`; `closing` closes their connections."""
    transcribers = open_transcribers(config, now)
    for each in transcribers:
        closing.push_async_callback(each.close)
    return VoiceNotes(config.settings.tools.media.audio, transcribers)
