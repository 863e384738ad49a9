"""Any provider that litellm knows, as a `ChatModel`: one streamed completion for each request."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

from nacre.extensions.providers.completions.errors import CallFacts
from nacre.extensions.providers.completions.keys import key_for_litellm
from nacre.extensions.providers.completions.messages import completion_arguments
from nacre.extensions.providers.completions.provider_model import ProviderModel
from nacre.extensions.providers.completions.replies import ReplyAssembly
from nacre.extensions.providers.litellm import loading as litellm_loading
from nacre.runtime.contracts.errors import ConfigError, ModelError
from nacre.runtime.contracts.model import ModelRequest

_CLOSE_SECONDS = 5.0


class LiteLLMModel(ProviderModel):
    """A model by its litellm name."""

    api = "litellm"
    _retained = False

    def load_ahead(self) -> None:
        litellm_loading.begin_loading()

    async def _load(self) -> None:
        try:
            await litellm_loading.load_litellm()
        except ConfigError as error:
            raise ModelError(str(error)) from error
        if not self._retained:
            self._retained = True
            litellm_loading.retain_clients()

    async def _asked(self, request: ModelRequest) -> LiteLLMAnswer:
        litellm = await litellm_loading.load_litellm()
        wrapper = await litellm.acompletion(
            model=self.name,
            api_base=self._base_url,
            api_key=self._key(),
            stream=True,
            stream_options={"include_usage": True},
            timeout=self._request_timeout_seconds,
            **litellm_loading.quiet_arguments(litellm),
            **completion_arguments(request, model_name=self.name),
        )
        return LiteLLMAnswer(wrapper)

    async def _release(self) -> None:
        """Closes the HTTP connections, unless another open model on this event loop still uses them."""
        if self._retained:
            self._retained = False
            await litellm_loading.release_clients()

    def _key(self) -> str | None:
        if not self.name.startswith("openai/"):
            return self._api_key
        return key_for_litellm(self.name, base_url=self._base_url, api_key=self._api_key)

    def _facts(self) -> CallFacts:
        return CallFacts(
            model_name=self.name,
            api_base=self._base_url,
            key_is_configured=bool(self._api_key),
            key_place=self._key_place,
            secrets=(self._api_key,) if self._api_key else (),
            now_seconds=self._now_ms() / 1000,
        )


class LiteLLMAnswer:
    """An answer that litellm streams."""

    is_alive = False
    """litellm swallows comments."""

    def __init__(self, wrapper: Any) -> None:
        self._wrapper = wrapper

    @property
    def counted(self) -> Any:
        """The provider's last count. litellm keeps it in `chunks` and estimates one when there is none."""
        counts = [getattr(chunk, "usage", None) for chunk in getattr(self._wrapper, "chunks", [])]
        return next((count for count in reversed(counts) if count), None)

    async def next_chunk(self) -> Any | None:
        return await anext(self._wrapper, None)

    def is_ended(self, _assembly: ReplyAssembly) -> bool:
        """Whether the provider ended it: litellm ends a cut stream with a made-up "stop"."""
        names = ("received_finish_reason", "intermittent_finish_reason")
        return any(getattr(self._wrapper, name, None) for name in names) or not hasattr(
            self._wrapper, "received_finish_reason"
        )

    async def close(self) -> None:
        # the answer is complete or already failed; a broken socket adds nothing
        with suppress(Exception):
            async with asyncio.timeout(_CLOSE_SECONDS):
                await self._wrapper.aclose()
