"""Models that could be asked: of servers on this machine, and one for each key in the environment. Edge."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

from nacre.record import Record
from nacre.runtime.agent.first_model.key_places import key_variables
from nacre.runtime.models.completions.addresses import is_loopback
from nacre.runtime.models.completions.price_map import price_map_models
from nacre.runtime.models.openai_compatible.listing import Listing, ServedModel, listing
from nacre.runtime.models.openai_compatible.providers import PROVIDERS, Endpoint, resolve_endpoint

LOCAL_SERVERS: Mapping[str, str] = {
    "ollama": "Ollama",
    "lm_studio": "LM Studio",
    "hosted_vllm": "vLLM",
    "llamafile": "llama.cpp",
}
"""Servers that are looked for on this machine, by their provider's name."""

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
"""A model that can call tools, for whoever has a provider's key. All can be chosen by their names."""

LOOK_SECONDS = 2.0
"""How long a server on this machine may take to list its models."""
PROBE_SECONDS = 8.0
"""How long a server that the owner named may."""


class Choice(Record):
    """A model that could be asked; `place` says where it was found, or how large and dear it is."""

    model_name: str
    place: str


class Offer(Record):
    """A provider that a new owner may choose. `address` is where a server of the owner's usually is.

    `provider_name` is empty for a server that has no name yet.
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
    """The address at which a server of models answers, with `/v1` where it was left out, and its models.

    It is the given address where none answers.
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
    """Where a provider is found without its address in the settings; empty for one that has a name only."""
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
    """What was found, models of this machine first: they cost nothing, and no word leaves it."""
    found = await asyncio.gather(*(_served(provider, environment) for provider in LOCAL_SERVERS))
    return (*(choice for served in found for choice in served), *keyed_choices(environment))


def keyed_choices(environment: Mapping[str, str]) -> tuple[Choice, ...]:
    """A model for each provider whose key the environment has."""
    return tuple(
        Choice(model_name=model_name, place=f"key in {variable}")
        for model_name in SUGGESTED.values()
        if (variable := next((name for name in key_variables(model_name) if _has(environment, name)), None))
    )


async def _served(provider: str, environment: Mapping[str, str]) -> tuple[Choice, ...]:
    """What a server on this machine has, without models that only embed."""
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
