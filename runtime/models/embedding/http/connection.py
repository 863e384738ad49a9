"""One provider's endpoint over HTTP: its key, its connections, and its failures as `ModelError`. Edge.

httpx is loaded on the first request, off the event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from nacre.memory.contracts.embedder import EmbeddingFailed
from nacre.runtime.contracts.errors import ModelAuthError, ModelError, NoCredit
from nacre.runtime.models.embedding.http.endpoint import (
    EmbeddingEndpoint,
    is_loopback,
    is_secret_header,
    user_of,
    without_credentials,
    without_user,
)
from nacre.runtime.models.litellm import errors as litellm_errors
from nacre.runtime.models.litellm.loading import key_in_environment

if TYPE_CHECKING:
    import httpx


class ProviderAnswered(Exception):
    """An answer that is no success: `status_code` and `headers` as they came, the body without keys."""

    def __init__(self, status_code: int, headers: Mapping[str, str], text: str) -> None:
        super().__init__(text)
        self.status_code = status_code
        self.headers = headers


class EmbeddingConnection:
    """Sends requests to one endpoint. `now_seconds` is the time, for a `Retry-After` that names a date."""

    def __init__(self, endpoint: EmbeddingEndpoint, now_seconds: Callable[[], float]) -> None:
        self._endpoint = endpoint
        self._now_seconds = now_seconds
        self._client: httpx.AsyncClient | None = None

    def key(self) -> str | None:
        """The key to send; `None` for a server that needs none.

        Raises:
            EmbeddingFailed: there is none where one is needed.
        """
        endpoint = self._endpoint
        key = endpoint.api_key or key_in_environment(*endpoint.key_variables)
        if not key and endpoint.needs_key:
            raise EmbeddingFailed(
                f"There is no key for {endpoint.provider!r}, which should make the embeddings. Set "
                f"{' or '.join(endpoint.key_variables)} in the environment, or memorySearch.remote.apiKey."
            )
        return key

    async def send(
        self, method: str, url: str, headers: Mapping[str, str], *, seconds: float, **body: Any
    ) -> bytes:
        """The body of a successful answer within `seconds`. `body` is httpx's: `json`, `content`, `files` …

        Raises:
            ModelError: there was none. Neither it nor what caused it has a key in it.
            EmbeddingFailed: a header cannot be sent.
        """
        _check_headers(headers, self._endpoint.provider)
        try:
            async with asyncio.timeout(seconds):
                client = await self._connected()
                response = await client.request(method, without_user(url), headers=headers, **body)
            if not response.is_success:
                said = litellm_errors.redacted(response.text, self._secrets())
                raise ProviderAnswered(response.status_code, response.headers, said)
        except Exception as error:
            raise self._failure(error) from error
        return response.content

    async def close(self) -> None:
        """Closes the connections."""
        if self._client is not None:
            await self._client.aclose()
            self._client = None

    async def _connected(self) -> httpx.AsyncClient:
        if self._client is not None:
            return self._client
        httpx = await asyncio.to_thread(_import_httpx)
        # Whoever else waited for the import may have made it by now: of two, one would never be closed.
        if self._client is None:
            # No redirects: a key is for the address that the owner named. A proxy has no way to this machine.
            self._client = httpx.AsyncClient(
                timeout=None,
                auth=user_of(self._endpoint.base_url),
                follow_redirects=False,
                trust_env=not is_loopback(self._endpoint.base_url),
            )
        return self._client

    def _failure(self, error: Exception) -> ModelError:
        endpoint = self._endpoint
        facts = litellm_errors.CallFacts(
            model_name=endpoint.name,
            api_base=without_credentials(endpoint.base_url),
            secrets=self._secrets(),
            now_seconds=self._now_seconds(),
        )
        failure = litellm_errors.classify(error, facts)
        if isinstance(failure, ModelAuthError) and not isinstance(failure, NoCredit):
            status = f" (HTTP {error.status_code})" if isinstance(error, ProviderAnswered) else ""
            return ModelAuthError(
                f"The key for the model {endpoint.name!r} is missing or was refused{status}. "
                f"{self._advice()}",
                detail=failure.detail,
            )
        return failure

    def _secrets(self) -> tuple[str, ...]:
        endpoint = self._endpoint
        _, password = user_of(endpoint.base_url) or ("", "")
        environment_key = key_in_environment(*endpoint.key_variables) or ""
        return (endpoint.api_key or "", environment_key, password, *endpoint.secrets)

    def _advice(self) -> str:
        """Where the key that was refused comes from."""
        endpoint = self._endpoint
        if any(is_secret_header(name) for name in endpoint.headers):
            return "Check the key in memorySearch.remote.headers."
        if endpoint.api_key:
            return (
                "Check the key in the settings: memorySearch.remote.apiKey, or else the provider's in "
                "models.providers."
            )
        if key_in_environment(*endpoint.key_variables):
            return f"Check the key in the environment: {' or '.join(endpoint.key_variables)}."
        return "It was sent no key: set memorySearch.remote.apiKey."


def _check_headers(headers: Mapping[str, str], provider: str) -> None:
    """Raises `EmbeddingFailed` for what HTTP cannot carry; the library's own error would quote it."""
    for name, value in headers.items():
        if not (value.isascii() and value.isprintable()):
            raise EmbeddingFailed(
                f"The header {name!r} for {provider} has a line break or a character that HTTP cannot send. "
                "Check the key and memorySearch.remote.headers."
            )


def _import_httpx() -> Any:
    import httpx

    return httpx
