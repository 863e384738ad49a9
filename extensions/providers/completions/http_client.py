"""Loads httpx without its command line, and makes clients with it."""

from __future__ import annotations

import asyncio
import sys
from importlib import import_module
from threading import Lock
from typing import Any

from nacre.extensions.providers.completions.addresses import is_loopback, user_of

CONNECT_SECONDS = 20.0
KEEP_CONNECTION_SECONDS = 60.0
"""A person's next message often comes after httpx's five seconds, and a TLS handshake takes time."""
KEPT_CONNECTIONS = 8
"""How many stay open unused. At each request, httpx looks at all connections once for each of these."""
_COMMAND_LINE = "httpx._main"
"""It imports rich and pygments, which take as long as the rest. httpx works without it."""
_loading = Lock()


def load_client() -> Any:
    """httpx, imported on first use. Any thread may call it."""
    with _loading:
        if "httpx" not in sys.modules:
            sys.modules[_COMMAND_LINE] = None  # type: ignore[assignment]  # makes its import fail
            try:
                return import_module("httpx")
            finally:
                sys.modules.pop(_COMMAND_LINE, None)
    return import_module("httpx")


class LazyClient:
    """An `httpx.AsyncClient` for one address. It and the certificates are loaded on first use, on a thread.

    It follows no redirects, because the key is for this address.
    """

    def __init__(self, base_url: str) -> None:
        self._base_url = base_url
        self._client: Any = None

    async def get(self) -> Any:
        """The client. Any number of tasks may ask at once."""
        if self._client is None:
            client = await asyncio.to_thread(self._make)
            self._client, spare = self._client or client, self._client and client
            if spare is not None:  # another task has made one meanwhile
                await spare.aclose()
        return self._client

    async def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    def _make(self) -> Any:
        httpx = load_client()
        local = is_loopback(self._base_url)
        return httpx.AsyncClient(
            timeout=httpx.Timeout(None, connect=CONNECT_SECONDS),
            limits=httpx.Limits(
                max_connections=None,
                max_keepalive_connections=KEPT_CONNECTIONS,
                keepalive_expiry=KEEP_CONNECTION_SECONDS,
            ),
            auth=user_of(self._base_url),
            follow_redirects=False,
            trust_env=not local,  # no proxy reaches this machine
            # Reading all certificates takes 0.1 s, and plain HTTP needs none.
            verify=False if local and self._base_url.startswith("http://") else httpx.create_ssl_context(),
        )
