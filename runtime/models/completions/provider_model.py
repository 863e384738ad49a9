"""What every model of a provider does: asks, puts the answer together, bounds the silence, tells failures.

It keeps the contract of `nacre.runtime.contracts.model`. How a request is sent and where the chunks of its
answer come from is each way's own.
"""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from typing import Any, ClassVar, Protocol

from nacre.runtime.contracts.errors import ModelAuthError, ModelError
from nacre.runtime.contracts.model import ModelAlive, ModelRequest, StreamItem, TextDelta
from nacre.runtime.models.completions.addresses import is_loopback
from nacre.runtime.models.completions.errors import CallFacts, classify
from nacre.runtime.models.completions.known_model import KnownModel
from nacre.runtime.models.completions.replies import ReplyAssembly
from nacre.runtime.models.spending.ledger import Estimate, Reservation, SpendingLedger

log = logging.getLogger(__name__)


class OpenAnswer(Protocol):
    """An answer that has begun to come."""

    @property
    def is_alive(self) -> bool:
        """Whether the provider said last that it is still there, and nothing else."""

    @property
    def counted(self) -> Any:
        """The usage that the provider counted so far, `None` for none."""

    async def next_chunk(self) -> Any | None:
        """The next chunk, an object or a mapping; `None` at the end, an empty one for a mere sign of life."""

    def is_ended(self, assembly: ReplyAssembly) -> bool:
        """Whether the provider, and nobody for it, said why the answer is over."""

    async def close(self) -> None:
        """Ends the request. Never raises."""


class ProviderModel(ABC):
    """A model by its name, `provider/model`, e.g. `openai/gpt-4o` or `ollama/llama3`.

    `context_window_tokens` `None` takes the window from litellm's price map. `base_url` is the address of
    an own or compatible server, `None` the provider's; `api_key` `None` looks for the provider's variable in
    the environment, `key_place` says where it stands if not in the settings. `unusable` says why it cannot be
    asked at all, and is what every request fails with. `request_timeout_seconds` bounds
    the wait for an answer to begin. A stream that is silent for `stall_timeout_seconds` is given up; models
    that think before they speak may be silent until the request time-out before the first word. `now_ms`
    stamps the answers. It never retries, never logs a request, and never touches the network before the
    first request.
    """

    api: ClassVar[str]
    """What transcripts say of such answers, in pi's words."""

    def __init__(
        self,
        name: str,
        *,
        context_window_tokens: int | None = None,
        base_url: str | None = None,
        api_key: str | None = None,
        key_place: str = "",
        unusable: str = "",
        request_timeout_seconds: float = 600,
        stall_timeout_seconds: float = 60,
        now_ms: Callable[[], int],
        ledger: SpendingLedger | None = None,
    ) -> None:
        self.name = name
        self._known = KnownModel(
            name,
            configured_window_tokens=context_window_tokens,
            prices=ledger.prices.get(name) if ledger is not None else None,
        )
        self._base_url = base_url
        self._api_key = api_key
        self._key_place = key_place
        self._unusable = unusable
        self._request_timeout_seconds = request_timeout_seconds
        self._stall_timeout_seconds = stall_timeout_seconds
        self._now_ms = now_ms
        self._ledger = ledger
        self._closed = False

    @property
    def context_window_tokens(self) -> int | None:
        """The configured window, else what litellm's price map says, else `None`."""
        return self._known.context_window_tokens

    @property
    def takes_images(self) -> bool | None:
        """What is known of it; `None` at an own server, where a known name may stand for anything."""
        return None if self._base_url else self._known.takes_images

    async def stream(self, request: ModelRequest) -> AsyncIterator[StreamItem]:
        """Answers one request; raises `ModelError` itself after `aclose`."""
        if self._closed:
            raise ModelError(f"The model {self.name!r} was closed; open the agent again to use it.")
        if self._unusable:
            raise ModelAuthError(self._unusable)
        estimate = self._estimate(request)
        reservation = Reservation()
        if self._ledger is not None:
            reservation = await self._ledger.reserve(request.purpose, self.name, estimate)
        request = self._bounded(request, reservation)
        assembly = ReplyAssembly(model_name=self.name, api=self.api)
        answer: OpenAnswer | None = None
        shown_bytes, is_settled = 0, False
        try:
            await self._load()
            # its own deadline: a client's time-outs bound the silence between bytes, not the whole wait
            async with asyncio.timeout(self._request_timeout_seconds):
                answer = await self._asked(request)
            yield ModelAlive()
            while (chunk := await self._next_chunk(answer, assembly)) is not None:
                text = assembly.add(chunk)
                shown_bytes += len(text.encode(errors="replace"))
                yield TextDelta(text=text) if text else ModelAlive()
            usage, ended_ms = self._known.usage(answer.counted), self._now_ms()
            if self._ledger is not None and usage is not None:
                await self._ledger.spend(request.purpose, self.name, usage, at_ms=ended_ms)
                is_settled = True
            yield assembly.message(
                ended=answer.is_ended(assembly),
                usage=usage,
                timestamp_ms=ended_ms,
                request_size=len(request.messages),
            )
        except Exception as error:
            failure = classify(error, self._facts())
            if failure.detail:
                log.warning("the model %s failed, and was told: %s", self.name, failure.detail)
            raise failure from error
        finally:
            try:
                if answer is not None:
                    await answer.close()
                    if not is_settled and reservation.is_capped and estimate and self._ledger:
                        # a provider is also paid for an answer that was broken off before it was counted
                        took, at_ms = estimate.usage(shown_bytes), self._now_ms()
                        await self._ledger.spend(request.purpose, self.name, took, at_ms=at_ms)
            finally:
                reservation.release()

    def _estimate(self, request: ModelRequest) -> Estimate | None:
        """The most that a request can cost; nothing for an unknown model on this machine."""
        if self._ledger is None or not self._ledger.has_cap:
            return Estimate()
        estimate = self._known.estimate(request)
        return Estimate() if estimate is None and self._is_on_this_machine() else estimate

    def _is_on_this_machine(self) -> bool:
        address = self._facts().api_base
        return bool(address) and is_loopback(str(address))

    def _bounded(self, request: ModelRequest, reservation: Reservation) -> ModelRequest:
        """The request with the answer that was reserved, unless the model's own limit is that."""
        most_tokens = request.max_output_tokens or self._known.most_answer_tokens
        if reservation.answer_tokens is None or reservation.answer_tokens == most_tokens:
            return request
        return replace(request, max_output_tokens=reservation.answer_tokens)

    async def aclose(self) -> None:
        """Closes the connections."""
        self._closed = True
        await self._release()

    async def _next_chunk(self, answer: OpenAnswer, assembly: ReplyAssembly) -> Any | None:
        seconds = self._known.silence_seconds(
            has_content=assembly.has_content,
            is_alive=answer.is_alive,
            stall_seconds=self._stall_timeout_seconds,
            request_seconds=self._request_timeout_seconds,
        )
        try:
            async with asyncio.timeout(seconds):
                return await answer.next_chunk()
        except TimeoutError as error:
            raise self._known.fell_silent(seconds) from error

    @abstractmethod
    def load_ahead(self) -> None:
        """Begins to load, on a thread, what the first request needs; the request waits for it.

        Nothing is sent. What cannot be loaded is the first request's failure.
        """

    @abstractmethod
    async def _load(self) -> None:
        """Loads what a request needs; it may take longer than a request may."""

    @abstractmethod
    async def _asked(self, request: ModelRequest) -> OpenAnswer:
        """Sends a request; what comes back has begun to be an answer."""

    @abstractmethod
    async def _release(self) -> None:
        """Closes the connections."""

    @abstractmethod
    def _facts(self) -> CallFacts:
        """What a sentence about a failed call needs."""
