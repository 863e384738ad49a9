"""Models that could be asked: of servers on this machine, and one for each key in the environment. Edge."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

from nacre.extensions.providers.completions.addresses import is_loopback
from nacre.extensions.providers.completions.errors import key_variable
from nacre.extensions.providers.completions.price_map import price_map_models
from nacre.extensions.providers.openai_compatible.listing import listing
from nacre.extensions.providers.openai_compatible.providers import PROVIDERS, Endpoint, resolve_endpoint
from nacre.runtime.providers.provider import Choice, Listing, Offer, ServedModel

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

_MORE_VARIABLES: Mapping[str, tuple[str, ...]] = {"gemini": ("GEMINI_API_KEY", "GOOGLE_API_KEY")}

LOOK_SECONDS = 2.0
"""How long a server on this machine may take to list its models."""
PROBE_SECONDS = 8.0
"""How long a server that the owner named may."""


def offers() -> tuple[Offer, ...]:
    """The providers that a new owner may choose, in the order in which they are shown."""
    servers = (
        Offer(label=label, provider_name=name, address=PROVIDERS[name].base_url)
        for name, label in LOCAL_SERVERS.items()
    )
    return (
        Offer(label="OpenAI", provider_name="openai"),
        Offer(label="Anthropic", provider_name="anthropic"),
        Offer(label="Google Gemini", provider_name="gemini"),
        Offer(label="OpenRouter", provider_name="openrouter"),
        *servers,
        Offer(label="another address", provider_name=""),
    )


def suggested_model(provider_name: str) -> str:
    """A model that can call tools; empty for a provider without a suggestion."""
    return SUGGESTED.get(provider_name, "")


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
    suggested = suggested_model(provider_name)
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


def key_variables(model_name: str, *, is_wanted: bool = False) -> tuple[str, ...]:
    """The variables that a model's key is looked up in; none where it wants none, or more than a key.

    With `is_wanted` there is one: its server refused to answer without a key.
    """
    if is_wanted:
        return (key_variable(model_name),)
    provider_name = model_name.partition("/")[0]
    provider = PROVIDERS.get(provider_name)
    if provider is not None:
        return provider.key_variables if provider.needs_key else ()
    names = _MORE_VARIABLES.get(provider_name, (key_variable(model_name),))
    return names if names[0].endswith("_API_KEY") else ()


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
