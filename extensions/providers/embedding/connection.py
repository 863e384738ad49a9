"""One provider's endpoint over HTTP: its key, its requests, and its failures as `ModelError`."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from typing import Any

from nacre.extensions.providers.completions.addresses import user_of, without_credentials, without_user
from nacre.extensions.providers.completions.errors import CallFacts, ProviderAnswered, classify, redacted
from nacre.extensions.providers.completions.http_client import LazyClient
from nacre.extensions.providers.completions.keys import from_environment
from nacre.extensions.providers.embedding.endpoint import EmbeddingEndpoint, is_secret_header
from nacre.memory.contracts.embedder import EmbeddingFailed
from nacre.runtime.contracts.errors import BadModelReply, ModelAuthError, ModelError, NoCredit


class EmbeddingConnection:
    """Sends requests to one endpoint. `now_seconds` is the time, for a `Retry-After` that names a date."""

    def __init__(self, endpoint: EmbeddingEndpoint, now_seconds: Callable[[], float]) -> None:
        self._endpoint = endpoint
        self._now_seconds = now_seconds
        self._client = LazyClient(endpoint.base_url)
        self.close = self._client.close

    async def send(
        self, method: str, url: str, *, seconds: float, headers: Mapping[str, str] | None = None, **body: Any
    ) -> bytes:
        """The body of a successful response within `seconds`. `body` is httpx's: `json`, `content`, `files` …

        Headers are the key's, replaced by the owner's, replaced by `headers`.

        Raises:
            ModelError: there was no such response. Neither the error nor its cause contains a key.
            EmbeddingFailed: a required key is missing, or a header cannot be sent.
        """
        sent = self._headers() | dict(headers or {})
        try:
            async with asyncio.timeout(seconds):
                client = await self._client.get()
                response = await client.request(method, without_user(url), headers=sent, **body)
            if not response.is_success:
                said = redacted(response.text, self._secrets())
                raise ProviderAnswered(response.status_code, response.headers, said)
        except Exception as error:
            raise self._failure(error) from error
        return bytes(response.content)

    async def send_for_json(self, method: str, url: str, **request: Any) -> Mapping[str, Any]:
        """The JSON object of a successful response. Arguments and errors are those of `send`.

        Raises:
            BadModelReply: the response is something else, such as a web page.
        """
        content = await self.send(method, url, **request)
        try:
            answer = json.loads(content)
        except ValueError:
            answer = None
        if not isinstance(answer, dict):
            raise BadModelReply(
                f"{without_credentials(url)} did not answer with a JSON object when the model "
                f"{self._endpoint.name!r} was asked. Check the address."
            )
        return answer

    def _key(self) -> str | None:
        return self._endpoint.api_key or from_environment(*self._endpoint.key_variables)

    @property
    def lack(self) -> str:
        """A sentence if a required key is missing; empty otherwise."""
        endpoint = self._endpoint
        if endpoint.unusable or self._key() or not endpoint.needs_key:
            return endpoint.unusable
        return (
            f"There is no key for the embedding provider {endpoint.provider!r}. Set "
            f"{' or '.join(endpoint.key_variables)} in the environment, or memorySearch.remote.apiKey."
        )

    def _headers(self) -> dict[str, str]:
        endpoint, key = self._endpoint, self._key()
        if lack := self.lack:
            raise EmbeddingFailed(lack)
        headers: dict[str, str] = {}
        if key:
            gemini = endpoint.provider == "gemini"
            headers = {"x-goog-api-key": key} if gemini else {"authorization": f"Bearer {key}"}
        headers |= {name.lower(): value for name, value in endpoint.headers.items()}
        for name, value in headers.items():
            if not (value.isascii() and value.isprintable()):  # the library's own error would quote it
                raise EmbeddingFailed(
                    f"The header {name!r} for {endpoint.provider} has a line break or a character that HTTP "
                    "cannot send. Check the key and memorySearch.remote.headers."
                )
        return headers

    def _failure(self, error: Exception) -> ModelError:
        endpoint = self._endpoint
        facts = CallFacts(
            model_name=endpoint.name,
            api_base=without_credentials(endpoint.base_url),
            secrets=self._secrets(),
            now_seconds=self._now_seconds(),
        )
        failure = classify(error, facts)
        if isinstance(failure, ModelAuthError) and not isinstance(failure, NoCredit):
            status = f" (HTTP {error.status_code})" if isinstance(error, ProviderAnswered) else ""
            return ModelAuthError(
                f"The key for the model {endpoint.name!r} is missing or was refused{status}. "
                f"{self._advice()}",
                detail=failure.detail,
            )
        return failure

    def _secrets(self) -> tuple[str, ...]:
        _, password = user_of(self._endpoint.base_url) or ("", "")
        return (self._key() or "", password, *self._endpoint.secrets)

    def _advice(self) -> str:
        endpoint = self._endpoint
        if any(map(is_secret_header, endpoint.headers)):
            return "Check the key in memorySearch.remote.headers."
        if endpoint.api_key:
            return (
                "Check the key in the settings: memorySearch.remote.apiKey, or else the provider's in "
                "models.providers, or in the auth profiles."
            )
        if self._key():
            return f"Check the key in the environment: {' or '.join(endpoint.key_variables)}."
        return "It was sent no key: set memorySearch.remote.apiKey."
