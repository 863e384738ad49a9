"""Keeps litellm's HTTP clients at the server that they were told. Edge: httpx's clients.

They follow redirects, and would send the conversation, with some providers the key too, wherever a server
points to. litellm makes each client once and puts it into its cache before it is used, so that is where the
guard is set.
"""

from __future__ import annotations

from typing import Any

from nacre.extensions.providers.completions.addresses import SentElsewhere, is_same_server


def guard_clients(cache: Any) -> None:
    """Guards every client that litellm puts into its cache from now on."""
    keep = cache.set_cache

    def set_cache(key: str, value: object, *args: Any, **options: Any) -> Any:
        guard(value)
        return keep(key, value, *args, **options)

    cache.set_cache = set_cache


def guard(holder: Any) -> None:
    """Lets an HTTP handler of litellm's, or a client of OpenAI's library, refuse to go to another server."""
    clients: tuple[Any, ...] = (getattr(holder, "client", None), getattr(holder, "_client", None), holder)
    for client in clients:
        hooks = getattr(client, "event_hooks", None)
        if not isinstance(hooks, dict) or "response" not in hooks:
            continue
        hook = _refuse_elsewhere_soon if hasattr(client, "aclose") else _refuse_elsewhere
        client.event_hooks = {**hooks, "response": [*hooks["response"], hook]}
        if getattr(holder, "event_hooks", client.event_hooks) is None:
            holder.event_hooks = client.event_hooks  # a client that it makes anew has them too
        return


async def _refuse_elsewhere_soon(response: Any) -> None:
    _refuse_elsewhere(response)


def _refuse_elsewhere(response: Any) -> None:
    """Raises before the client goes where the answer sends it."""
    if not response.has_redirect_location:
        return
    asked, onward = str(response.url), str(response.url.join(response.headers["location"]))
    if not is_same_server(asked, onward):
        raise SentElsewhere(asked, onward)
