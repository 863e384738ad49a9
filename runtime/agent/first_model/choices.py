"""Models that could be asked: of servers on this machine, and one for each key in the environment. Edge."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping

from nacre.record import Record
from nacre.runtime.agent.first_model.key_places import key_variables
from nacre.runtime.models.completions.addresses import is_loopback
from nacre.runtime.models.openai_compatible.listing import listing
from nacre.runtime.models.openai_compatible.providers import resolve_endpoint

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

_EMBEDS = re.compile(r"embed|minilm|\bbge\b|\be5\b|rerank|whisper", re.IGNORECASE)


class Choice(Record):
    """A model that could be asked; `place` says where it, or its key, was found."""

    model_name: str
    place: str


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
    endpoint = resolve_endpoint(
        f"{provider}/",
        base_url=None,
        api_key=None,
        from_environment=lambda *names: next(
            (environment[name] for name in names if _has(environment, name)), None
        ),
    )
    if not is_loopback(endpoint.base_url):
        return ()
    names = [model.name for model in (await listing(endpoint.base_url, seconds=LOOK_SECONDS)).models]
    place = f"{LOCAL_SERVERS[provider]} on this machine"
    return tuple(
        Choice(model_name=f"{provider}/{name}", place=place) for name in names if not _EMBEDS.search(name)
    )


def _has(environment: Mapping[str, str], name: str) -> bool:
    return bool(environment.get(name, "").strip())
