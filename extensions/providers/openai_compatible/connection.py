"""Requests to one endpoint over HTTP, and their responses."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from nacre.extensions.providers.completions.addresses import SentElsewhere, is_same_server, without_user
from nacre.extensions.providers.completions.errors import ProviderAnswered
from nacre.extensions.providers.completions.http_client import LazyClient, load_client

if TYPE_CHECKING:
    import httpx

MAX_REDIRECTS = 3
MAX_ERROR_BYTES = 200_000
MAX_LIST_BYTES = 8 * 1024 * 1024
_CLOSE_SECONDS = 5.0


class Connection:
    """Connections to one address."""

    def __init__(self, base_url: str) -> None:
        self._client = LazyClient(base_url)
        self.aclose = self._client.close

    async def open(self, url: str, body: bytes, headers: Mapping[str, str]) -> httpx.Response:
        """A successful response whose body is not read yet; the caller closes it with `hang_up`.

        Only redirects to the same server are followed.

        Raises:
            ProviderAnswered: the response is not a success.
            BadModelReply: the server redirects to another one.
        """
        client = await self._client.get()
        target = without_user(url)
        for _ in range(MAX_REDIRECTS + 1):
            request = client.build_request("POST", target, content=body, headers=dict(headers))
            response = await _sent(client, request)
            if response.is_success:
                return response
            try:
                if not response.has_redirect_location:
                    said = (await _beginning(response, MAX_ERROR_BYTES)).decode("utf-8", "replace")
                    raise ProviderAnswered(
                        response.status_code, response.headers, said or f"HTTP {response.status_code}"
                    )
                onward = response.url.join(response.headers["location"])
            finally:
                await hang_up(response)
            if response.status_code not in (307, 308) or not is_same_server(str(onward), target):
                break
            target = str(onward)
        raise SentElsewhere(url, str(onward))

    async def get_json(
        self,
        url: str,
        headers: Mapping[str, str],
        *,
        seconds: float,
        sent: Mapping[str, Any] | None = None,
    ) -> tuple[int, Any]:
        """The status and the JSON of a response; status 0 if none came within `seconds`, `None` without JSON.

        A GET request, or a POST of `sent`. Redirects are not followed.
        """
        client = await self._client.get()
        method, body = ("GET", None) if sent is None else ("POST", dict(sent))
        try:
            async with asyncio.timeout(seconds):
                request = client.build_request(method, without_user(url), json=body, headers=dict(headers))
                response = await client.send(request, stream=True)
                try:
                    text = await _beginning(response, MAX_LIST_BYTES)
                finally:
                    await hang_up(response)
        except (load_client().HTTPError, load_client().InvalidURL, TimeoutError, ValueError):
            return 0, None
        try:
            return response.status_code, json.loads(text)
        except ValueError:
            return response.status_code, None


async def _sent(client: httpx.AsyncClient, request: httpx.Request) -> httpx.Response:
    """The response; a request on a connection that the server has closed is sent once more."""
    try:
        return await client.send(request, stream=True)
    except load_client().RemoteProtocolError:  # not a byte came back: llama.cpp closes after five seconds
        return await client.send(request, stream=True)


async def hang_up(response: httpx.Response) -> None:
    """Closes a response; one that was not read completely closes its connection."""
    # the answer is complete or has failed already; a broken socket adds nothing
    with suppress(Exception):
        async with asyncio.timeout(_CLOSE_SECONDS):
            await response.aclose()


async def _beginning(response: httpx.Response, most_bytes: int) -> bytes:
    body = b""
    async for piece in response.aiter_bytes():
        body += piece
        if len(body) >= most_bytes:
            break
    return body
