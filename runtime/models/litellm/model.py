"""Any provider that litellm knows, as a `ChatModel`: one streamed completion for each request.

It keeps the contract of `nacre.runtime.contracts.model`. It never retries, never logs a request, and
never touches the network before the first request.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import Any

from nacre.runtime.contracts.errors import ConfigError, ModelError
from nacre.runtime.contracts.model import ModelRequest, TextDelta
from nacre.runtime.models.completions.errors import CallFacts, classify, key_variable
from nacre.runtime.models.completions.keys import from_environment
from nacre.runtime.models.completions.known_model import KnownModel
from nacre.runtime.models.completions.messages import completion_arguments
from nacre.runtime.models.completions.replies import ReplyAssembly
from nacre.runtime.models.litellm import loading as litellm_loading
from nacre.sessions.contracts.messages import AssistantMessage, Usage

_CLOSE_SECONDS = 5.0


class LiteLLMModel:
    """A model by its litellm name, `provider/model`, e.g. `openai/gpt-4o` or `ollama/llama3`.

    `context_window_tokens` `None` takes the window from litellm's price map. `base_url` is the address of
    an own or compatible server; `api_key` `None` lets litellm look for the provider's variable in the
    environment, `key_place` says where it stands if not in the settings. `request_timeout_seconds` bounds the
    wait for an answer to begin. A stream that is silent for `stall_timeout_seconds` is given up; models that
    think before they speak may be silent until the request time-out before the first word. `now_ms` stamps
    the answers.
    """

    def __init__(
        self,
        name: str,
        *,
        context_window_tokens: int | None = None,
        base_url: str | None = None,
        api_key: str | None = None,
        key_place: str = "",
        request_timeout_seconds: float = 600,
        stall_timeout_seconds: float = 60,
        now_ms: Callable[[], int],
    ) -> None:
        self.name = name
        self._known = KnownModel(name, configured_window_tokens=context_window_tokens)
        self._base_url = base_url
        self._api_key = api_key
        self._key_place = key_place
        self._request_timeout_seconds = request_timeout_seconds
        self._stall_timeout_seconds = stall_timeout_seconds
        self._now_ms = now_ms
        self._retained = False
        self._closed = False

    @property
    def context_window_tokens(self) -> int | None:
        """The configured window, else what litellm's price map says, else `None`."""
        return self._known.context_window_tokens

    async def stream(self, request: ModelRequest) -> AsyncIterator[TextDelta | AssistantMessage]:
        """Answers one request; raises `ModelError` itself after `aclose`."""
        if self._closed:
            raise ModelError(f"The model {self.name!r} was closed; open the agent again to use it.")
        assembly = ReplyAssembly(model_name=self.name, api="litellm")
        wrapper: Any = None
        try:
            wrapper = await self._opened(request)
            while (chunk := await self._next_chunk(wrapper, assembly)) is not None:
                if text := assembly.add(chunk):
                    yield TextDelta(text=text)
            usage = self._usage(wrapper)
            yield assembly.message(
                ended=_has_finish_reason(wrapper),
                usage=usage,
                timestamp_ms=self._now_ms(),
                request_size=len(request.messages),
            )
        except ConfigError as error:
            raise ModelError(str(error)) from error
        except Exception as error:
            raise classify(error, self._facts()) from error
        finally:
            if wrapper is not None:
                await _close(wrapper)

    async def aclose(self) -> None:
        """Closes the HTTP connections, unless another open model on this event loop still uses them."""
        self._closed = True
        if self._retained:
            self._retained = False
            await litellm_loading.release_clients()

    async def _opened(self, request: ModelRequest) -> Any:
        litellm = await litellm_loading.load_litellm()
        if not self._retained:
            self._retained = True
            litellm_loading.retain_clients()
        arguments = completion_arguments(request, model_name=self.name)
        # its own deadline: the `timeout` below bounds the silence between bytes, not the whole wait
        try:
            async with asyncio.timeout(self._request_timeout_seconds):
                return await litellm.acompletion(
                    model=self.name,
                    api_base=self._base_url,
                    api_key=self._key(),
                    stream=True,
                    stream_options={"include_usage": True},
                    timeout=self._request_timeout_seconds,
                    **litellm_loading.quiet_arguments(litellm),
                    **arguments,
                )
        except TimeoutError as error:
            raise classify(error, self._facts()) from error

    async def _next_chunk(self, wrapper: Any, assembly: ReplyAssembly) -> Any | None:
        seconds = self._known.silence_seconds(
            has_content=assembly.has_content,
            stall_seconds=self._stall_timeout_seconds,
            request_seconds=self._request_timeout_seconds,
        )
        try:
            async with asyncio.timeout(seconds):
                return await anext(wrapper, None)
        except TimeoutError as error:
            raise self._known.fell_silent(seconds) from error

    def _key(self) -> str | None:
        if self._api_key is not None or self._base_url is None or not self.name.startswith("openai/"):
            return self._api_key
        # servers on one's own machine need no key, but OpenAI's client refuses to start without one
        return None if from_environment(key_variable(self.name)) else "no-key"

    def _usage(self, wrapper: Any) -> Usage | None:
        """The provider's last count. litellm keeps it in `chunks` and estimates one when there is none."""
        counted = [
            usage for chunk in getattr(wrapper, "chunks", []) if (usage := getattr(chunk, "usage", None))
        ]
        return self._known.usage(counted[-1] if counted else None)

    def _facts(self) -> CallFacts:
        return CallFacts(
            model_name=self.name,
            api_base=self._base_url,
            key_is_configured=bool(self._api_key),
            key_place=self._key_place,
            secrets=(self._api_key,) if self._api_key else (),
            now_seconds=self._now_ms() / 1000,
        )


def _has_finish_reason(wrapper: Any) -> bool:
    # litellm ends a cut stream with a made-up "stop"; what the provider really sent is kept here
    seen = [getattr(wrapper, name, None) for name in ("received_finish_reason", "intermittent_finish_reason")]
    return any(seen) or not hasattr(wrapper, "received_finish_reason")


async def _close(wrapper: Any) -> None:
    # the answer is complete or already failed; a broken socket adds nothing
    with suppress(Exception):
        async with asyncio.timeout(_CLOSE_SECONDS):
            await wrapper.aclose()
