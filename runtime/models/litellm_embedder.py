"""A remote embedding model through litellm, as the memory room's `Embedder`.

litellm is loaded on the first question, off the event loop. Requests go out one at a time for each call,
bounded in tokens and in time; failures become `EmbeddingFailed` with a sentence and without a key.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from nacre.memory.embedder import EmbeddingFailed, TextRefused
from nacre.runtime.errors import ConfigError, ContextOverflow, ModelError
from nacre.runtime.models import litellm_errors, litellm_loading
from nacre.runtime.models.embedding_wire import (
    EmbeddingEndpoint,
    Purpose,
    fingerprint_of,
    is_secret_header,
    packed,
    request_arguments,
    vectors_of,
    without_credentials,
)
from nacre.runtime.retry import call_with_retries

BATCH_TEXTS = 20
"""Chunks of the usual 400 tokens that fill one request."""

QUERY_SECONDS = 10.0
REQUEST_SECONDS = 60.0
WHOLE_CHUNK_TOKENS = 2_000
"""A model that reads this much takes any chunk whole; a shorter one gets pieces of half its length."""

_REFUSED = (
    "too many tokens",
    "too large to process",
    "fit into the model",
    "exceeding max",
    "maximum context",
    "maximum input",
    "input is too long",
    "content_policy",
    "content policy",
)
"""Words of providers about a text that they will not take, beside those for a full context window."""


class LiteLLMEmbedder:
    """The embedder at an endpoint.

    `sleep` waits between retries; `now_seconds` is the time, for a `Retry-After` that names a date.
    """

    batch_texts = BATCH_TEXTS

    def __init__(
        self,
        endpoint: EmbeddingEndpoint,
        *,
        now_seconds: Callable[[], float],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        query_seconds: float = QUERY_SECONDS,
        request_seconds: float = REQUEST_SECONDS,
    ) -> None:
        self._endpoint = endpoint
        self._now_seconds = now_seconds
        self._sleep = sleep
        self._query_seconds = query_seconds
        self._request_seconds = request_seconds
        self._retained = False

    @property
    def provider(self) -> str:
        """The provider's name in the settings."""
        return self._endpoint.provider

    @property
    def model(self) -> str:
        """The model's name at the provider."""
        return self._endpoint.model

    @property
    def fingerprint(self) -> str:
        """A hash of address, model and those headers that are no secret; another key does not change it."""
        return fingerprint_of(self._endpoint)

    @property
    def max_input_tokens(self) -> int:
        """The longest text that the model reads."""
        return self._endpoint.max_input_tokens

    @property
    def piece_tokens(self) -> int | None:
        """`None` for whole chunks, or the length of pieces for a model that reads less than a chunk."""
        limit = self._endpoint.max_input_tokens
        return None if limit >= WHOLE_CHUNK_TOKENS else limit // 2

    def reads(self, text: str) -> float:  # noqa: ARG002 - the protocol's argument
        """1: nothing is known against any script."""
        return 1.0

    async def embed_query(self, text: str) -> Sequence[float]:
        """The vector of a question; asked once, within ten seconds, because somebody waits.

        Raises:
            EmbeddingFailed: no vector could be had.
        """
        # every character counts as a token: a question cut short is better than one refused
        texts = [text[: self._endpoint.max_input_tokens]]
        try:
            return (await self._asked(texts, "query", self._query_seconds))[0]
        except ModelError as error:
            raise self._failure(error) from error

    async def embed_documents(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """One vector for each text, in order; what fails in passing is asked again up to three times.

        Raises:
            TextRefused: a text is too long, or not allowed.
            EmbeddingFailed: no vectors could be had.
        """
        vectors: list[Sequence[float]] = []
        for part in packed(texts):

            async def ask(part: Sequence[str] = part) -> Sequence[Sequence[float]]:
                return await self._asked(part, "document", self._request_seconds)

            try:
                vectors += await call_with_retries(ask, sleep=self._sleep)
            except ModelError as error:
                raise self._failure(error) from error
        return vectors

    async def close(self) -> None:
        """Closes the connections, unless a model on this event loop still uses them."""
        if self._retained:
            self._retained = False
            await litellm_loading.release_clients()

    async def _asked(
        self, texts: Sequence[str], purpose: Purpose, seconds: float
    ) -> Sequence[Sequence[float]]:
        """One request. Raises `ModelError` or `EmbeddingFailed`."""
        key = self._key()
        try:
            async with asyncio.timeout(seconds):
                litellm = await litellm_loading.load_litellm()
                if not self._retained:
                    self._retained = True
                    litellm_loading.retain_clients()
                quiet = litellm_loading.quiet_arguments(litellm)
                quiet.pop("_skip_mcp_handler", None)
                response = await litellm.aembedding(
                    **request_arguments(self._endpoint, texts, purpose),
                    api_key=key,
                    timeout=seconds,
                    **quiet,
                )
        except ConfigError as error:
            raise EmbeddingFailed(str(error)) from error
        except Exception as error:
            raise litellm_errors.classify(error, self._facts(key)) from error
        return vectors_of(response, len(texts), self._facts(key).model_name)

    def _key(self) -> str:
        endpoint = self._endpoint
        key = endpoint.api_key or litellm_loading.key_in_environment(*endpoint.key_variables)
        if key:
            return key
        if endpoint.needs_key:
            raise EmbeddingFailed(
                f"There is no key for {endpoint.provider!r}, which should make the embeddings. Set "
                f"{' or '.join(endpoint.key_variables)} in the environment, or memorySearch.remote.apiKey."
            )
        # never another provider's key, which litellm would look for by itself
        return "no-key"

    def _facts(self, key: str) -> litellm_errors.CallFacts:
        secrets = [value for name, value in self._endpoint.headers.items() if is_secret_header(name)]
        return litellm_errors.CallFacts(
            model_name=f"{self._endpoint.provider}/{self._endpoint.model}",
            api_base=without_credentials(self._endpoint.base_url),
            secrets=(key, *secrets),
            now_seconds=self._now_seconds(),
        )

    def _failure(self, error: ModelError) -> EmbeddingFailed:
        name = f"{self._endpoint.provider}/{self._endpoint.model}"
        said = error.detail.lower()
        if isinstance(error, ContextOverflow) or any(words in said for words in _REFUSED):
            return TextRefused(f"The embedding model {name!r} does not take a text of this length or kind.")
        return EmbeddingFailed(str(error))
