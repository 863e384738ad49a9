"""The providers and models that `nacre init` offers, and the models of servers on this machine. Edge."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

from nacre.extensions.providers.completions.addresses import is_loopback
from nacre.extensions.providers.completions.errors import key_variable
from nacre.extensions.providers.completions.price_map import price_map_models
from nacre.extensions.providers.openai_compatible.listing import is_talking, listing
from nacre.extensions.providers.openai_compatible.providers import PROVIDERS, Endpoint, resolve_endpoint
from nacre.runtime.providers.provider import Listing, ModelChoice, Offer, ServedModel

LOCAL_SERVERS: Mapping[str, str] = {
    "ollama": "Ollama",
    "lm_studio": "LM Studio",
    "hosted_vllm": "vLLM",
    "llama_cpp": "llama.cpp",
}
"""Servers that `found_choices` looks for on this machine, by the name of the provider."""

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
"""A model with tool calls for each provider with a key."""

LOOK_SECONDS = 2.0
"""The time-out for the models of a server on this machine."""
PROBE_SECONDS = 8.0
"""The time-out for the models of any other server."""
_SNAPSHOT = re.compile(r"-(\d{4}-\d{2}-\d{2}|\d{8})$")
"""The end of the name of a dated copy of a model."""
_NUMBER = re.compile(r"\d+")
_TRY = re.compile(r"preview|research|\bexp")


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
    """The address at which a server of models answers, with `/v1` if it is missing, and its models.

    Without an answer it is the given address.
    """
    address = address.strip().rstrip("/").removesuffix("/chat/completions")
    if "://" not in address:
        address = f"http://{address}"
    tried = [address] if urlsplit(address).path else [f"{address}/v1", address]
    for each in tried:
        found = await listing(each, api_key=api_key, seconds=PROBE_SECONDS)
        if found.is_served:
            return each, found
    return tried[0], found


def usual_address(provider_name: str) -> str:
    """The address of a provider that needs none in the settings; empty if there is none."""
    return PROVIDERS[provider_name].base_url if provider_name in PROVIDERS else ""


async def offered_models(
    provider_name: str, environment: Mapping[str, str], api_key: str
) -> tuple[int, tuple[ModelChoice, ...]]:
    """The HTTP status of a provider's list of models, 0 without an answer, and its models.

    Without a list they come from the price map. The suggested model is the first.
    """
    known = price_map_models(provider_name)
    base_url = _endpoint(provider_name, environment).base_url
    found = (
        await listing(base_url, api_key=api_key, seconds=PROBE_SECONDS) if base_url else Listing(status=200)
    )
    served = found.talking or _priced_models(provider_name, known)
    choices = model_choices(provider_name, [_with_facts(model, known, provider_name) for model in served])
    return found.status, choices


def _priced_models(provider_name: str, known: Mapping[str, Any]) -> tuple[ServedModel, ...]:
    """The models of the price map that hold conversations, each once: the highest version first, previews
    last."""
    names = {name.removeprefix(f"{provider_name}/") for name in known if not name.startswith("ft:")}
    talking = {name for name in names if is_talking(name) and _SNAPSHOT.sub("", name) not in names - {name}}
    talking = talking or {suggested_model(provider_name).removeprefix(f"{provider_name}/")}
    listed = sorted(talking, key=lambda name: (tuple(map(int, _NUMBER.findall(name))), name), reverse=True)
    return tuple(ServedModel(name=name) for name in sorted(listed, key=lambda name: bool(_TRY.search(name))))


def model_choices(provider_name: str, models: Sequence[ServedModel]) -> tuple[ModelChoice, ...]:
    """Models with their windows and prices, the suggested one first."""
    suggested = suggested_model(provider_name)
    found = [
        ModelChoice(model_name=f"{provider_name}/{model.name}", place=_facts_text(model)) for model in models
    ]
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


async def found_choices(environment: Mapping[str, str]) -> tuple[ModelChoice, ...]:
    """Models of servers on this machine, which cost nothing, then one for each provider with a key."""
    found = await asyncio.gather(*(_served(provider, environment) for provider in LOCAL_SERVERS))
    return (*(choice for served in found for choice in served), *keyed_choices(environment))


def keyed_choices(environment: Mapping[str, str]) -> tuple[ModelChoice, ...]:
    """A model for each provider with a key in the environment."""
    return tuple(
        ModelChoice(model_name=model_name, place=f"key in {variable}")
        for model_name in SUGGESTED.values()
        if (variable := next((name for name in key_variables(model_name) if _has(environment, name)), None))
    )


def key_variables(model_name: str, *, is_wanted: bool = False) -> tuple[str, ...]:
    """The variables of a model's key; none if it needs no key, or more than a key.

    With `is_wanted` there is one: the server refused to answer without a key.
    """
    if is_wanted:
        return (key_variable(model_name),)
    provider_name = model_name.partition("/")[0]
    provider = PROVIDERS.get(provider_name)
    if provider is not None:
        return provider.key_variables if provider.needs_key else ()
    name = key_variable(model_name)
    return (name,) if name.endswith("_API_KEY") else ()


async def _served(provider: str, environment: Mapping[str, str]) -> tuple[ModelChoice, ...]:
    """The models of a server on this machine, without embedding models."""
    endpoint = _endpoint(provider, environment)
    if not is_loopback(endpoint.base_url):
        return ()
    found = await listing(endpoint.base_url, seconds=LOOK_SECONDS)
    place = f"{LOCAL_SERVERS[provider]} on this machine"
    return tuple(ModelChoice(model_name=f"{provider}/{model.name}", place=place) for model in found.talking)


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
