"""How one model wants its requests: the fields, and the headers beside the key. Pure.

Sources: each provider's API reference, and what litellm 1.106 sends them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from nacre.extensions.providers.completions.messages import takes_cache_marks
from nacre.extensions.providers.completions.role_order import Family, provider_family
from nacre.extensions.providers.openai_compatible.providers import Endpoint
from nacre.record import Record

_COUNTS_THINKING = re.compile(r"o\d|gpt-(?:[5-9]|\d\d)(?!-chat)")


class Dialect(Record):
    """`options` are further fields of each request; the others are those of `Provider` and what they say."""

    model: str
    family: Family
    takes_cache_marks: bool = False
    max_tokens_field: str = "max_tokens"
    counts_unasked: bool = False
    refused_schema_keys: frozenset[str] = frozenset()
    takes_images: bool = True
    options: tuple[tuple[str, Any], ...] = ()


def dialect_of(endpoint: Endpoint, entry: Mapping[str, Any], *, reports_progress: bool = False) -> Dialect:
    """The dialect of a model; `entry` is the price map's. `reports_progress` has a llama.cpp server say how
    far it has read a prompt.
    """
    options: list[tuple[str, Any]] = []
    if endpoint.provider_name == "openrouter":
        options.append(("usage", {"include": True}))  # asks OpenRouter for what it charged
    if reports_progress:
        options.append(("return_progress", True))
    name = f"{endpoint.provider_name}/{endpoint.model}"
    # OpenAI's reasoning models refuse the older name of the limit
    is_thinking = endpoint.provider_name == "openai" and _COUNTS_THINKING.match(endpoint.model)
    return Dialect(
        model=endpoint.model,
        family=provider_family(name),
        takes_cache_marks=takes_cache_marks(name),
        max_tokens_field="max_completion_tokens" if is_thinking else "max_tokens",
        counts_unasked=endpoint.provider.counts_unasked,
        refused_schema_keys=endpoint.provider.refused_schema_keys,
        takes_images=endpoint.provider.takes_images or bool(entry.get("supports_vision")),
        options=tuple(options),
    )


def own_headers(endpoint: Endpoint, from_environment: Callable[..., str | None]) -> dict[str, str]:
    """The headers of each request. Who asks is told to OpenRouter only where the owner has set it."""
    named = {
        "openai": (("openai-organization", "OPENAI_ORGANIZATION"), ("openai-project", "OPENAI_PROJECT_ID"))
    }
    named["openrouter"] = (("http-referer", "OR_SITE_URL"), ("x-title", "OR_APP_NAME"))
    headers = {"content-type": "application/json", "accept": "text/event-stream"}
    if endpoint.api_key:
        headers["authorization"] = f"Bearer {endpoint.api_key}"
    for header, variable in named.get(endpoint.provider_name, ()):
        if value := from_environment(variable):
            headers[header] = value
    return headers
