"""Which models a server of OpenAI's protocol has. Edge: httpx.

Source: OpenAI's API reference, "List models"; Ollama, LM Studio, vLLM and llama.cpp answer it alike.
"""

from __future__ import annotations

from nacre.runtime.models.openai_compatible.connection import load_client

_MAX_MODELS = 200


async def served_models(base_url: str, *, seconds: float) -> tuple[str, ...] | None:
    """The names that a server of this machine lists, in its order; `None` where none answers in time.

    Whatever else listens there is taken for no server of models.
    """
    httpx = load_client()
    try:
        async with httpx.AsyncClient(timeout=seconds, trust_env=False, verify=False) as client:
            answer = await client.get(f"{base_url.rstrip('/')}/models")
            listed = answer.json()["data"] if answer.is_success else None
    except (httpx.HTTPError, httpx.InvalidURL, ValueError, KeyError, TypeError):
        return None
    if not isinstance(listed, list):
        return None
    names = [entry["id"] for entry in listed if isinstance(entry, dict) and isinstance(entry.get("id"), str)]
    return tuple(name for name in names if name.strip())[:_MAX_MODELS]
