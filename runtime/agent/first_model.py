"""Models that a new owner could choose: which there are, which key each needs, and a trial call."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias
from urllib.parse import urlsplit

from nacre.prompts import render
from nacre.record import Record
from nacre.runtime.agent.opening.open_models import connected_model
from nacre.runtime.contracts.clock import epoch_ms, owner_zone, system_clock
from nacre.runtime.contracts.errors import AgentError
from nacre.runtime.contracts.model import ModelRequest, SystemPrompt
from nacre.runtime.models.completions.addresses import is_loopback
from nacre.runtime.models.completions.errors import key_variable
from nacre.runtime.models.completions.price_map import price_map_models
from nacre.runtime.models.openai_compatible.listing import Listing, ServedModel, listing
from nacre.runtime.models.openai_compatible.providers import PROVIDERS, Endpoint, resolve_endpoint
from nacre.runtime.settings.sections.models import ModelsSettings, ProviderSettings
from nacre.sessions.contracts.messages import AssistantMessage, user_message

if TYPE_CHECKING:
    from nacre.runtime.settings.config import Config
    from nacre.sessions.contracts.messages import Usage

KeyPlace: TypeAlias = Literal["environment", "file", "keyring"]
"""The environment of the process, the file `.env` of the state folder, or the system's keyring."""

_MORE_VARIABLES: Mapping[str, tuple[str, ...]] = {"gemini": ("GEMINI_API_KEY", "GOOGLE_API_KEY")}


class Key(Record):
    """A key: its variable, its value, and where it is to be stored."""

    variable: str
    secret: str = field(repr=False)
    place: KeyPlace

    @property
    def in_settings(self) -> str:
        """The reference to it in the settings; empty if the provider finds it by itself."""
        return {
            "environment": "",
            "file": f"${{{self.variable}}}",
            "keyring": f"${{keyring:{self.variable}}}",
        }[self.place]


def key_variables(model_name: str, *, is_wanted: bool = False) -> tuple[str, ...]:
    """The variables in which a model's key is looked up; none if it needs none, or more than a key.

    With `is_wanted` there is one, because the server refused to answer without a key.
    """
    if is_wanted:
        return (key_variable(model_name),)
    provider_name = model_name.partition("/")[0]
    provider = PROVIDERS.get(provider_name)
    if provider is not None:
        return provider.key_variables if provider.needs_key else ()
    names = _MORE_VARIABLES.get(provider_name, (key_variable(model_name),))
    return names if names[0].endswith("_API_KEY") else ()


LOCAL_SERVERS: Mapping[str, str] = {
    "ollama": "Ollama",
    "lm_studio": "LM Studio",
    "hosted_vllm": "vLLM",
    "llamafile": "llama.cpp",
}
"""Servers that are looked for on this machine, by provider name."""

SUGGESTED: Mapping[str, str] = {
    "anthropic": "anthropic/claude-sonnet-5",
    "openai": "openai/gpt-5-mini",
    "openrouter": "openrouter/openrouter/auto",
    "gemini": "gemini/gemini-flash-latest",
    "mistral": "mistral/mistral-medium-latest",
    "xai": "xai/grok-4.5",
    "deepseek": "deepseek/deepseek-v4-flash",
    "groq": "groq/openai/gpt-oss-120b",
    "cerebras": "cerebras/gpt-oss-120b",
    "together_ai": "together_ai/openai/gpt-oss-120b",
}
"""A model with tool calls for each provider. Any other can be chosen by name."""

LOOK_SECONDS = 2.0
"""How long a server on this machine may take to list its models."""
PROBE_SECONDS = 8.0
"""How long a server that the owner named may take."""


class Choice(Record):
    """A model that could be used; `place` says where it was found, or its size and price."""

    model_name: str
    place: str


class Offer(Record):
    """A provider that a new owner can choose. `address` is the usual address of an own server.

    `provider_name` is empty for a server without a name yet.
    """

    label: str
    provider_name: str
    address: str = ""

    @property
    def is_own_server(self) -> bool:
        """Whether the owner runs it, so that its address is asked for."""
        return not self.provider_name or bool(self.address)


OFFERS = (
    Offer(label="OpenAI", provider_name="openai"),
    Offer(label="Anthropic", provider_name="anthropic"),
    Offer(label="Google Gemini", provider_name="gemini"),
    Offer(label="OpenRouter", provider_name="openrouter"),
    *(
        Offer(label=label, provider_name=name, address=PROVIDERS[name].base_url)
        for name, label in LOCAL_SERVERS.items()
    ),
    Offer(label="another address", provider_name=""),
)


async def probed(address: str, api_key: str = "") -> tuple[str, Listing]:
    """The address at which a model server answers, adding `/v1` if needed, and its models.

    Returns the given address if none answers.
    """
    address = address.strip().rstrip("/").removesuffix("/chat/completions")
    if "://" not in address:
        address = f"http://{address}"
    tried = [address] if urlsplit(address).path else [f"{address}/v1", address]
    for each in tried:
        found = await listing(each, api_key=api_key, seconds=PROBE_SECONDS)
        if found.is_served:
            return each, found
    return tried[0], Listing()


def usual_address(provider_name: str) -> str:
    """A provider's default address; empty for one that is known by name only."""
    return PROVIDERS[provider_name].base_url if provider_name in PROVIDERS else ""


async def offered_models(
    provider_name: str, environment: Mapping[str, str], api_key: str
) -> tuple[Choice, ...]:
    """The models that a provider lists, or else those of the price map; the suggested one first."""
    known = price_map_models(provider_name)
    base_url = _endpoint(provider_name, environment).base_url
    served: tuple[ServedModel, ...] = ()
    if base_url:
        served = (await listing(base_url, api_key=api_key, seconds=PROBE_SECONDS)).talking
    if not served:
        names = [name.removeprefix(f"{provider_name}/") for name in known]
        served = tuple(ServedModel(name=name) for name in names)
    return model_choices(provider_name, [_with_facts(model, known, provider_name) for model in served])


def model_choices(provider_name: str, models: Sequence[ServedModel]) -> tuple[Choice, ...]:
    """Models with their windows and prices, the suggested one first."""
    suggested = SUGGESTED.get(provider_name, "")
    found = [Choice(model_name=f"{provider_name}/{model.name}", place=_facts_text(model)) for model in models]
    return tuple(sorted(found, key=lambda choice: choice.model_name != suggested))


def _with_facts(model: ServedModel, known: Mapping[str, Mapping[str, Any]], provider: str) -> ServedModel:
    entry = known.get(f"{provider}/{model.name}") or known.get(model.name) or {}
    return replace(
        model,
        window_tokens=model.window_tokens or entry.get("max_input_tokens"),
        input_usd=entry.get("input_cost_per_token") if model.input_usd is None else model.input_usd,
        output_usd=entry.get("output_cost_per_token") if model.output_usd is None else model.output_usd,
    )


def _facts_text(model: ServedModel) -> str:
    window = f"{model.window_tokens:,} tokens" if model.window_tokens else "window unknown"
    if model.input_usd is None or model.output_usd is None:
        return window
    return f"{window}, ${model.input_usd * 1e6:.2f} in and ${model.output_usd * 1e6:.2f} out a million"


async def found_choices(environment: Mapping[str, str]) -> tuple[Choice, ...]:
    """All choices, models of this machine first: they are free, and no word leaves it."""
    found = await asyncio.gather(*(_served(provider, environment) for provider in LOCAL_SERVERS))
    return (*(choice for served in found for choice in served), *keyed_choices(environment))


def keyed_choices(environment: Mapping[str, str]) -> tuple[Choice, ...]:
    """A model for each provider whose key is in the environment."""
    return tuple(
        Choice(model_name=model_name, place=f"key in {variable}")
        for model_name in SUGGESTED.values()
        if (variable := next((name for name in key_variables(model_name) if _has(environment, name)), None))
    )


async def _served(provider: str, environment: Mapping[str, str]) -> tuple[Choice, ...]:
    """The models of a server on this machine, without those that only embed."""
    endpoint = _endpoint(provider, environment)
    if not is_loopback(endpoint.base_url):
        return ()
    found = await listing(endpoint.base_url, seconds=LOOK_SECONDS)
    place = f"{LOCAL_SERVERS[provider]} on this machine"
    return tuple(Choice(model_name=f"{provider}/{model.name}", place=place) for model in found.talking)


def _endpoint(provider: str, environment: Mapping[str, str]) -> Endpoint:
    return resolve_endpoint(
        f"{provider}/",
        base_url=None,
        api_key=None,
        from_environment=lambda *names: next(
            (environment[name] for name in names if _has(environment, name)), None
        ),
    )


def _has(environment: Mapping[str, str], name: str) -> bool:
    return bool(environment.get(name, "").strip())


MAX_OUTPUT_TOKENS = 1024
"""Enough for a model that reasons before it answers."""


class Trial(Record):
    """The result of a trial; `problem` is a sentence, or empty if the model answered."""

    model_name: str
    seconds: float = 0.0
    usage: Usage | None = None
    problem: str = ""

    @property
    def told(self) -> str:
        if self.problem:
            return f"{self.model_name} did not answer: {self.problem}"
        return f"{self.model_name} answered in {self.seconds:.1f} s: {_spent(self.usage)}."


async def tried(config: Config, model_name: str, key: Key | None, base_url: str = "") -> Trial:
    """Asks a model for one word, with this key and address instead of the settings' if given."""
    now = system_clock(owner_zone(None))
    started = time.monotonic()
    usage = None
    try:
        model = connected_model(_with(config, model_name, key, base_url), model_name, now)
        try:
            request = ModelRequest(
                system=SystemPrompt(stable=""),
                messages=(user_message(render("session/trial"), timestamp_ms=epoch_ms(now())),),
                max_output_tokens=MAX_OUTPUT_TOKENS,
            )
            async for item in model.stream(request):
                if isinstance(item, AssistantMessage):
                    usage = item.usage
        finally:
            await model.aclose()
    except AgentError as error:
        return Trial(model_name=model_name, problem=str(error))
    return Trial(model_name=model_name, seconds=time.monotonic() - started, usage=usage)


def _with(config: Config, model_name: str, key: Key | None, base_url: str) -> Config:
    changes = {"api_key": key.secret} if key is not None and key.secret else {}
    changes |= {"base_url": base_url} if base_url else {}
    if not changes:
        return config
    providers = dict(config.settings.models.providers)
    provider = model_name.partition("/")[0]
    providers[provider] = providers.get(provider, ProviderSettings()).model_copy(update=changes)
    models = ModelsSettings(providers=providers)
    return replace(config, settings=config.settings.model_copy(update={"models": models}))


def _spent(usage: Usage | None) -> str:
    if usage is None:
        return "it did not say how many tokens that took"
    tokens = f"{usage.context_tokens} tokens"
    return f"{tokens}, ${usage.cost_usd:.6f}" if usage.cost_usd else f"{tokens}, no price known"
