"""A model that speaks OpenAI's chat completions, over plain HTTP: no library between it and the wire."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from dataclasses import replace
from threading import Thread

from nacre.extensions.providers.completions.addresses import user_of, without_credentials
from nacre.extensions.providers.completions.errors import CallFacts
from nacre.extensions.providers.completions.keys import from_environment
from nacre.extensions.providers.completions.provider_model import ProviderModel
from nacre.extensions.providers.openai_compatible.answer import HttpAnswer
from nacre.extensions.providers.openai_compatible.body import RequestBodies
from nacre.extensions.providers.openai_compatible.connection import Connection, load_client
from nacre.extensions.providers.openai_compatible.dialect import dialect_of, own_headers
from nacre.extensions.providers.openai_compatible.listing import bearer, served_model
from nacre.extensions.providers.openai_compatible.providers import Endpoint, resolve_endpoint
from nacre.runtime.contracts.errors import BadModelReply, ModelAuthError, ModelError
from nacre.runtime.contracts.model import ModelRequest
from nacre.runtime.settings.sections.models import SERVED_MODEL

LEARN_SECONDS = 3.0
"""How long a server may take to say how large its window is."""


class OpenAICompatibleModel(ProviderModel):
    """A model of a provider in `providers.py`, or at any address that speaks the protocol."""

    api = "openai-completions"
    _bodies: RequestBodies | None = None
    _connection: Connection | None = None
    _resolved: Endpoint | None = None
    _learning: asyncio.Task[None] | None = None
    _reports_progress = False
    _tries_left = 3

    def load_ahead(self) -> None:
        Thread(target=load_client, name="httpx", daemon=True).start()

    async def learn_window(self) -> None:
        """Asks an own server; a provider's only where the price map does not know the model."""
        if self._learning is None or (self._learning.done() and self._tries_left > 0):
            if self._closed or self._unusable or not self._can_tell_more():
                return
            self._learning = asyncio.create_task(self._learn())
        await asyncio.shield(self._learning)

    def _can_tell_more(self) -> bool:
        endpoint = self._endpoint()
        if not endpoint.base_url or not (endpoint.api_key.isascii() and endpoint.api_key.isprintable()):
            return False
        return self._is_own_server() or (bool(endpoint.api_key) and not self._known.context_window_tokens)

    async def _learn(self) -> None:
        endpoint = self._endpoint()
        headers = bearer(endpoint.api_key)
        # its own: a server that closes behind each answer must not break the request that follows
        async with aclosing(Connection(endpoint.base_url)) as asked:
            served = await served_model(
                asked, endpoint.base_url, endpoint.model, headers, seconds=LEARN_SECONDS
            )
        if served is not None:
            self._known.served_window_tokens = served.window_tokens
            self._reports_progress = served.is_llama_cpp
            if endpoint.model == SERVED_MODEL:
                self._resolved = replace(endpoint, model=served.name)
            # Ollama knows the window of a model that is loaded, which it is behind the first answer
            self._tries_left = 0 if served.window_tokens else self._tries_left - 1

    def _is_own_server(self) -> bool:
        """Any address but the provider's own is one."""
        return not self._endpoint().is_providers_own

    async def _load(self) -> None:
        """httpx takes a tenth of a second, in the thread that makes the first connection."""
        if self._learning is None:
            await self.learn_window()

    async def _asked(self, request: ModelRequest) -> HttpAnswer:
        endpoint = self._endpoint()
        self._check(endpoint)
        if self._bodies is None:
            dialect = dialect_of(endpoint, self._known.entry, reports_progress=self._reports_progress)
            self._bodies = RequestBodies(dialect)
        body = self._bodies.body(request)
        headers = own_headers(endpoint, from_environment)
        if self._connection is None:
            self._connection = Connection(endpoint.base_url)
        response = await self._connection.open(endpoint.url, body, headers)
        return HttpAnswer(response, page_error=self._page_error)

    async def _release(self) -> None:
        if self._learning is not None:
            self._learning.cancel()
            await asyncio.gather(self._learning, return_exceptions=True)
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.aclose()

    def _endpoint(self) -> Endpoint:
        # a key that comes into the environment later counts too
        if self._resolved is None or (self._resolved.needs_key and not self._resolved.api_key):
            self._resolved = resolve_endpoint(
                self.name,
                base_url=self._base_url,
                api_key=self._api_key,
                from_environment=from_environment,
            )
        return self._resolved

    def _check(self, endpoint: Endpoint) -> None:
        if endpoint.needs_key and not endpoint.api_key:
            raise ModelAuthError(
                f"The key for the model {self.name!r} is missing. Set the environment variable "
                f"{endpoint.key_variables[-1]} to a valid key."
            )
        if not (endpoint.api_key.isascii() and endpoint.api_key.isprintable()):
            raise ModelAuthError(  # the library's own error would quote it
                f"The key for the model {self.name!r} has a line break or a character that HTTP cannot send."
            )
        if not endpoint.base_url:
            raise ModelError(
                f"The settings do not say where the model {self.name!r} is asked. Set "
                f"models.providers.{endpoint.provider_name}.baseUrl to its address."
            )

    def _page_error(self, page: bytes) -> BadModelReply:
        endpoint = self._endpoint()
        return BadModelReply(
            f"{without_credentials(endpoint.url)} answered with a web page when the model {self.name!r} "
            "was asked. Check the address, which often ends in /v1, in "
            f"models.providers.{endpoint.provider_name}.baseUrl.",
            detail=page[:500].decode("utf-8", "replace"),
        )

    def _facts(self) -> CallFacts:
        endpoint = self._endpoint()
        _, password = user_of(endpoint.base_url) or ("", "")
        return CallFacts(
            model_name=self.name,
            api_base=without_credentials(endpoint.base_url),
            key_is_configured=bool(self._api_key),
            key_place=self._key_place,
            secrets=(endpoint.api_key, password),
            now_seconds=self._now_ms() / 1000,
        )
