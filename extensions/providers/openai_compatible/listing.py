"""The models of a server that speaks OpenAI's protocol, and their windows.

Sources: OpenAI's API reference, "List models", which Ollama, LM Studio, vLLM and llama.cpp answer alike; for
the window, which that reference lacks, llama.cpp's `meta.n_ctx` and `/props`, vLLM's `max_model_len`,
OpenRouter's and Together's `context_length`, Groq's `context_window`, Mistral's `max_context_length`, LM
Studio's `/api/v0/models`, Ollama's `/api/ps` and `/api/show`.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator, Mapping
from contextlib import aclosing
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from nacre.extensions.providers.openai_compatible.connection import Connection
from nacre.runtime.providers.provider import Listing, ServedModel
from nacre.runtime.settings.sections.models import SERVED_MODEL

_MAX_MODELS = 1_000
_WINDOW_KEYS = (
    "n_ctx",
    "max_model_len",
    "loaded_context_length",
    "context_length",
    "context_window",
    "max_context_length",
)
_TALKS_NOT = re.compile(
    r"embed|minilm|\bbge\b|\be5\b|rerank|whisper|\btts\b|dall-e|moderation|transcribe|realtime|computer-use"
    r"|\bgpt.*-(image|audio|search)|^(sora|lyria|container|babbage|davinci)|robotics|turbo-instruct",
    re.IGNORECASE,
)
_NUM_CTX = re.compile(r"^num_ctx\s+(\d+)\s*$", re.MULTILINE)


async def listing(base_url: str, *, api_key: str = "", seconds: float) -> Listing:
    """The models at an address, the newest first as far as the server dates them. Never raises.

    Any other server counts as one that does not answer.
    """
    async with aclosing(Connection(base_url)) as connection:
        return await _listing(connection, base_url, bearer(api_key), seconds=seconds)


async def served_model(
    connection: Connection, base_url: str, name: str, headers: Mapping[str, str], *, seconds: float
) -> ServedModel | None:
    """What the server reports about one model within `seconds`; `None` if nothing."""
    try:
        async with asyncio.timeout(seconds):
            found = await _listing(connection, base_url, headers, seconds=seconds)
            of_name = [model for model in found.models if model.name == name]
            # llama.cpp serves one model, whatever name it is asked by
            alone = found.models if len(found.models) == 1 and found.models[0].is_llama_cpp else ()
            talking = found.talking if name == SERVED_MODEL else ()
            model = next(iter(of_name or alone or talking), None)
            if model is None or (model.window_tokens and not model.is_llama_cpp):
                return model
            window_tokens = await _other_window(connection, base_url, model.name, headers, seconds=seconds)
            known = [tokens for tokens in (model.window_tokens, window_tokens) if tokens]
            return replace(model, window_tokens=min(known, default=None))
    except TimeoutError:
        return None


def bearer(api_key: str) -> dict[str, str]:
    return {"authorization": f"Bearer {api_key}"} if api_key else {}


async def _listing(
    connection: Connection, base_url: str, headers: Mapping[str, str], *, seconds: float
) -> Listing:
    status, body = await connection.get_json(f"{base_url.rstrip('/')}/models", headers, seconds=seconds)
    listed = body.get("data") if isinstance(body, Mapping) else body
    if status != 200 or not isinstance(listed, list):
        return Listing(status=404 if status == 200 else status)
    models = tuple(_models(sorted(listed, key=_created, reverse=True)))[:_MAX_MODELS]
    talking = tuple(model for model in models if is_talking(model.name))
    return Listing(models=models, talking=talking, status=200)


def is_talking(name: str) -> bool:
    """Whether a model holds conversations, as far as its name says."""
    return _TALKS_NOT.search(name) is None


def _created(entry: Any) -> float:
    at = entry.get("created") if isinstance(entry, Mapping) else None
    return at if isinstance(at, int | float) else 0


def _models(listed: list[Any]) -> Iterator[ServedModel]:
    for entry in listed:
        if not isinstance(entry, Mapping):
            continue
        name = entry.get("id")
        if not (isinstance(name, str) and name.strip()):
            continue
        prices = entry.get("pricing")
        yield ServedModel(
            name=name.removeprefix("models/"),  # Google's
            window_tokens=_window_of(entry),
            input_usd=_price(prices, "prompt"),
            output_usd=_price(prices, "completion"),
            is_llama_cpp=entry.get("owned_by") == "llamacpp",
        )


async def _other_window(
    connection: Connection, base_url: str, name: str, headers: Mapping[str, str], *, seconds: float
) -> int | None:
    parts = urlsplit(base_url.rstrip("/"))
    root = urlunsplit(parts._replace(path=re.sub(r"/v\d+$", "", parts.path)))
    _, props = await connection.get_json(f"{root}/props", headers, seconds=seconds)
    settings = props.get("default_generation_settings") if isinstance(props, Mapping) else None
    if isinstance(settings, Mapping) and (tokens := _window_of(settings)):
        return tokens
    _, studio = await connection.get_json(f"{root}/api/v0/models/{name}", headers, seconds=seconds)
    if isinstance(studio, Mapping) and (tokens := _window_of(studio)):
        return tokens
    return await _ollamas(connection, root, name, headers, seconds=seconds)


async def _ollamas(
    connection: Connection, root: str, name: str, headers: Mapping[str, str], *, seconds: float
) -> int | None:
    """The window with which Ollama loaded a model, or will load it; not the one of its training."""
    _, loaded = await connection.get_json(f"{root}/api/ps", headers, seconds=seconds)
    for each in (loaded.get("models") or ()) if isinstance(loaded, Mapping) else ():
        if isinstance(each, Mapping) and name in (each.get("name"), each.get("model")):
            return _window_of(each)
    _, shown = await connection.get_json(f"{root}/api/show", headers, seconds=seconds, sent={"model": name})
    parameters = shown.get("parameters") if isinstance(shown, Mapping) else None
    asked = _NUM_CTX.search(parameters) if isinstance(parameters, str) else None
    return int(asked[1]) if asked else None


def _window_of(entry: Mapping[str, Any]) -> int | None:
    meta = entry.get("meta")
    for place in (meta if isinstance(meta, Mapping) else {}, entry):
        for key in _WINDOW_KEYS:
            tokens = place.get(key)
            if isinstance(tokens, int) and not isinstance(tokens, bool) and tokens > 0:
                return tokens
    return None


def _price(prices: Any, key: str) -> float | None:
    try:
        usd = float(prices[key])
    except (TypeError, KeyError, ValueError):
        return None
    return usd if usd >= 0 else None
