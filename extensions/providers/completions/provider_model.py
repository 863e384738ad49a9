"""The base class of providers' models: one request, its cost, its time-outs and its errors.

It implements `nacre.runtime.contracts.model`. Subclasses send the request and read the chunks.
"""

from __future__ import annotations

import asyncio
import json
import logging
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Protocol

from nacre.extensions.providers.completions.addresses import is_loopback
from nacre.extensions.providers.completions.errors import CallFacts, classify, reported_window_tokens
from nacre.extensions.providers.completions.price_map import price_map_entry
from nacre.extensions.providers.completions.replies import (
    RepetitionWatch,
    ReplyAssembly,
    prompt_progress,
    usage_from_provider,
)
from nacre.runtime.contracts.budget import ANSWER_SHARE, WindowSource
from nacre.runtime.contracts.errors import ContextOverflow, ModelAuthError, ModelError, ModelTimedOut
from nacre.runtime.contracts.model import ModelAlive, ModelRequest, StreamItem, TextDelta, overhead_tokens
from nacre.runtime.models.spending import BYTES_PER_TOKEN, Estimate, Reservation, SpendingLedger
from nacre.sessions.contracts.errors import SessionError
from nacre.sessions.contracts.messages import Usage
from nacre.sessions.disk.durable import locked, read_plain, replace_file
from nacre.sessions.view.sent_view import estimate_message_tokens

log = logging.getLogger(__name__)


class OpenAnswer(Protocol):
    """An answer that has begun to arrive."""

    @property
    def is_alive(self) -> bool:
        """Whether the last bytes were only a sign of life, such as a comment."""

    @property
    def counted(self) -> Any:
        """The usage that the provider has reported, if any."""

    async def next_chunk(self) -> Any | None:
        """The next chunk, an object or a mapping; `None` at the end, an empty one for a sign of life."""

    def is_ended(self, assembly: ReplyAssembly) -> bool:
        """Whether the provider itself ended the answer."""

    async def close(self) -> None:
        """Ends the request. Never raises."""


class ProviderModel(ABC):
    """A model by its name, `provider/model`, e.g. `openai/gpt-4o` or `ollama/llama3`.

    Without `context_window_tokens`, the server reports the window, or else the price map has it. An answer
    has at most `max_answer_tokens`. `remembered` holds windows learned from overflows. `base_url` is the
    address of the owner's server; `None` means the provider's. Without `api_key`, the provider's variable in
    the environment has the key. `key_place` names the place of a key that is not in the settings. If
    `unusable` is not empty, each request fails with this sentence. `request_timeout_seconds` limits the wait
    for the beginning of an answer. A stream that is silent for `stall_timeout_seconds` is given up; models
    that reason may be silent until the request time-out before the first word. `now_ms` stamps the answers.
    It never retries, never logs a request, and sends nothing before the first request.
    """

    api: ClassVar[str]
    """The field `api` of such answers in transcripts, in pi's format."""

    def __init__(
        self,
        name: str,
        *,
        context_window_tokens: int | None = None,
        max_answer_tokens: int | None = None,
        remembered: RememberedWindows | None = None,
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
            configured_answer_tokens=max_answer_tokens,
            prices=ledger.prices.get(name) if ledger is not None else None,
        )
        self._remembered = remembered
        if remembered is not None:
            self._known.remembered_window_tokens = remembered.of(name, base_url or "")
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
        """The configured window, else the server's or the price map's; at most the one of a refusal."""
        return self._known.context_window_tokens

    @property
    def window_source(self) -> WindowSource:
        return self._known.window_source

    async def learn_window(self) -> None:
        """Asks the server for the window, if possible. Never raises."""
        return

    @property
    def takes_images(self) -> bool | None:
        """`None` if unknown, and at the owner's server, where a known name may be any model."""
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
        assembly, watch = ReplyAssembly(model_name=self.name, api=self.api), RepetitionWatch()
        answer: OpenAnswer | None = None
        shown_bytes, is_settled = 0, False
        try:
            await self._load()
            request = self._bounded(request, reservation)
            # A client's time-outs bound the silence between bytes, not the whole wait.
            async with asyncio.timeout(self._request_timeout_seconds):
                answer = await self._send(request)
            yield ModelAlive(is_reading=self._reads_here())
            while (chunk := await self._next_chunk(answer, assembly)) is not None:
                text = assembly.add(chunk)
                shown_bytes += len(text.encode(errors="replace"))
                yield TextDelta(text=text) if text else self._alive(chunk, assembly)
                if repeated := watch.repeated(text):
                    assembly.cut_off(repeated)
                    break
            usage, ended_ms = self._known.usage(answer.counted), self._now_ms()
            if self._ledger is not None and usage is not None:
                await self._ledger.spend(request.purpose, self.name, usage, at_ms=ended_ms)
                is_settled = True
            yield assembly.message(
                ended=assembly.is_cut_off or answer.is_ended(assembly),
                usage=usage,
                timestamp_ms=ended_ms,
                request_size=len(request.messages),
            )
        except Exception as error:
            failure = classify(error, self._facts())
            if failure.detail:
                log.warning("the model %s failed, and was told: %s", self.name, failure.detail)
            if isinstance(failure, ContextOverflow):
                await self._learn_from(failure)
            raise failure from error
        finally:
            try:
                if answer is not None:
                    await answer.close()
                    if not is_settled and reservation.is_capped and estimate and self._ledger:
                        # Providers also charge for an answer that was broken off before they counted it.
                        took, at_ms = estimate.usage(shown_bytes), self._now_ms()
                        await self._ledger.spend(request.purpose, self.name, took, at_ms=at_ms)
            finally:
                reservation.release()

    def _estimate(self, request: ModelRequest) -> Estimate | None:
        """The most that a request can cost; free for an unknown model on this machine."""
        if self._ledger is None or not self._ledger.has_cap:
            return Estimate()
        estimate = self._known.estimate(request)
        return Estimate() if estimate is None and self._is_on_this_machine() else estimate

    def _is_on_this_machine(self) -> bool:
        address = self._facts().api_base
        return bool(address) and is_loopback(str(address))

    def _bounded(self, request: ModelRequest, reservation: Reservation) -> ModelRequest:
        """The request with the lowest limit for its answer.

        Limits are the settings', what was reserved, unless that is the model's own limit, and a quarter of
        the window for the owner's server, which would otherwise continue to the end of its window.
        """
        most_tokens = request.max_output_tokens or self._known.most_answer_tokens
        limits = [request.max_output_tokens, self._known.configured_answer_tokens]
        if reservation.answer_tokens is not None and reservation.answer_tokens != most_tokens:
            limits.append(reservation.answer_tokens)
        if self._is_own_server():
            limits.append(self._known.own_server_answer_tokens)
        return replace(request, max_output_tokens=min((each for each in limits if each), default=None))

    async def _learn_from(self, overflow: ContextOverflow) -> None:
        tokens = reported_window_tokens(overflow.detail)
        if tokens is None or tokens == self._known.refused_window_tokens:
            return
        self._known.refused_window_tokens = tokens
        if self._remembered is not None:
            await self._remembered.keep(self.name, self._base_url or "", tokens)

    def _is_own_server(self) -> bool:
        """Whether the owner runs the server, so that nobody else limits an answer."""
        return self._is_on_this_machine()

    def _reads_here(self) -> bool:
        """Whether a silence before the first word probably means that the prompt is being read."""
        return self._is_own_server() and not self._known.entry.get("supports_reasoning")

    def _alive(self, chunk: Any, assembly: ReplyAssembly) -> ModelAlive:
        if assembly.has_content:
            return ModelAlive()
        progress = prompt_progress(chunk)
        if progress is None:
            return ModelAlive(is_reading=self._reads_here())
        read_tokens, prompt_tokens = progress
        return ModelAlive(is_reading=True, read_tokens=read_tokens, prompt_tokens=prompt_tokens)

    async def aclose(self) -> None:
        self._closed = True
        await self._release()

    async def _next_chunk(self, answer: OpenAnswer, assembly: ReplyAssembly) -> Any | None:
        seconds = self._stall_timeout_seconds
        # Before the first word, a model that reasons is silent for longer, and comments are a sign of life.
        if not assembly.has_content and (answer.is_alive or self._known.entry.get("supports_reasoning")):
            seconds = max(seconds, self._request_timeout_seconds)
        try:
            async with asyncio.timeout(seconds):
                return await answer.next_chunk()
        except TimeoutError as error:
            raise ModelTimedOut(
                f"The model {self.name!r} sent nothing for {seconds:.15g} seconds in the middle of its "
                "answer. Ask again."
            ) from error

    @abstractmethod
    def load_ahead(self) -> None:
        """Begins to load what the first request needs, on a thread; the request waits for it.

        Nothing is sent. If loading fails, so does the first request.
        """

    @abstractmethod
    async def _load(self) -> None:
        """Loads what a request needs; not limited by the request time-out."""

    @abstractmethod
    async def _send(self, request: ModelRequest) -> OpenAnswer:
        """Sends a request, and returns when its answer begins."""

    @abstractmethod
    async def _release(self) -> None:
        """Closes the connections."""

    @abstractmethod
    def _facts(self) -> CallFacts:
        """The facts for the sentence about a failed call."""


_UNKNOWN_ANSWER_TOKENS = 16_384
"""The limit of an answer under a cap if the model's own is unknown."""


class KnownModel:
    """`provider/model`, with the window, the longest answer and the prices in the settings.

    `served_window_tokens` is the window that its server reports. `refused_window_tokens` was learned from an
    overflow in this process, `remembered_window_tokens` in an earlier one.
    """

    def __init__(
        self,
        name: str,
        *,
        configured_window_tokens: int | None,
        configured_answer_tokens: int | None = None,
        prices: Mapping[str, float] | None = None,
    ) -> None:
        self.name = name
        self._prices = prices or {}
        self._configured_window_tokens = configured_window_tokens
        self.configured_answer_tokens = configured_answer_tokens
        self.served_window_tokens: int | None = None
        self.refused_window_tokens: int | None = None
        self.remembered_window_tokens: int | None = None

    @cached_property
    def entry(self) -> Mapping[str, Any]:
        """The entry in the price map with the owner's prices; empty for an unknown model."""
        return {**price_map_entry(self.name), **self._prices}

    def estimate(self, request: ModelRequest) -> Estimate | None:
        """The most that a request can cost; `None` for a model without a known price."""
        input_usd, output_usd = (self.entry.get(f"{side}_cost_per_token") for side in ("input", "output"))
        if not isinstance(input_usd, int | float):
            return None

        def tokens(text: str) -> int:
            return len(text.encode(errors="replace")) // BYTES_PER_TOKEN + 1

        prompt_tokens = overhead_tokens(request.system, request.tools, tokens) + sum(
            estimate_message_tokens(message, tokens) for message in request.messages
        )
        written_usd = self.entry.get("cache_creation_input_token_cost")
        dearest_usd = max(input_usd, written_usd) if isinstance(written_usd, int | float) else input_usd
        return Estimate(
            prompt_tokens=prompt_tokens,
            prompt_usd=prompt_tokens * dearest_usd,
            answer_tokens=request.max_output_tokens or self.most_answer_tokens or _UNKNOWN_ANSWER_TOKENS,
            answer_token_usd=output_usd if isinstance(output_usd, int | float) else input_usd,
        )

    @property
    def most_answer_tokens(self) -> int | None:
        """The longest answer of the model, from the settings or the price map."""
        tokens = self.configured_answer_tokens or self.entry.get("max_output_tokens")
        return tokens if isinstance(tokens, int) and tokens > 0 else None

    @property
    def own_server_answer_tokens(self) -> int:
        """The limit of an answer if the server itself has none but its window."""
        window_tokens = self.context_window_tokens or _UNKNOWN_ANSWER_TOKENS * ANSWER_SHARE
        return min(window_tokens // ANSWER_SHARE, _UNKNOWN_ANSWER_TOKENS)

    @property
    def context_window_tokens(self) -> int | None:
        """The configured window, else the server's, else the price map's; no more than was refused."""
        return self._window()[0]

    @property
    def window_source(self) -> WindowSource:
        return self._window()[1]

    def _window(self) -> tuple[int | None, WindowSource]:
        known: tuple[int | None, WindowSource] = self._mapped_window_tokens(), "model"
        if self.remembered_window_tokens:
            known = self.remembered_window_tokens, "remembered"
        if self._configured_window_tokens:
            known = self._configured_window_tokens, "settings"
        served_tokens, refused_tokens = self.served_window_tokens, self.refused_window_tokens
        if served_tokens and (known[1] != "settings" or served_tokens < (known[0] or 0)):
            known = served_tokens, "server"
        if refused_tokens and (known[0] is None or refused_tokens < known[0]):
            known = refused_tokens, "refusal"
        return known

    @property
    def takes_images(self) -> bool | None:
        """From the price map; `None` for an unknown model."""
        return bool(self.entry.get("supports_vision")) if self.entry else None

    def usage(self, counted: Any) -> Usage | None:
        """The provider's usage with its cost.

        Raises:
            ContextOverflow: it exceeds the window, so the model saw only a part.
        """
        usage = usage_from_provider(counted, prices=self.entry) if counted else None
        # the configured window may be kept small on purpose: only more than the real one is an overflow
        real_tokens = self.served_window_tokens or self._mapped_window_tokens() or 0
        window_tokens = max(self._configured_window_tokens or 0, real_tokens)
        if usage is None or not window_tokens:
            return usage
        if usage.prompt_tokens > window_tokens:
            raise ContextOverflow(
                f"The model {self.name!r} was sent {usage.prompt_tokens} tokens, more than its context "
                f"window of {window_tokens}, so it saw only a part. The conversation has to be compacted."
            )
        return usage

    def _mapped_window_tokens(self) -> int | None:
        tokens = self.entry.get("max_input_tokens") or self.entry.get("max_tokens")
        return tokens if isinstance(tokens, int) and tokens > 0 else None


WINDOWS_FILE = "model-windows.json"
VERSION = 1


class RememberedWindows:
    """Windows in tokens, by model and address, learned from overflows. A missing or broken file is empty."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def of(self, model_name: str, address: str) -> int | None:
        """The window of a model at an address, if it was learned."""
        try:
            return self._stored().get(_key(model_name, address))
        except SessionError as error:
            log.warning("what was learned of windows cannot be read: %s", error)
            return None

    async def keep(self, model_name: str, address: str, tokens: int) -> None:
        """Stores a window that an overflow taught."""
        try:
            await asyncio.to_thread(self._keep, _key(model_name, address), tokens)
        except SessionError as error:
            log.warning("the window of %s is not remembered: %s", model_name, error)

    def _keep(self, key: str, tokens: int) -> None:
        with locked(self._path):
            windows = {**self._stored(), key: tokens}
            text = json.dumps({"version": VERSION, "windows": windows}, indent=2)
            replace_file(self._path, text.encode("utf-8"))

    def _stored(self) -> dict[str, int]:
        found = read_plain(self._path)
        try:
            raw = json.loads(found[0]) if found else {"windows": {}}
            return {key: value for key, value in raw["windows"].items() if isinstance(value, int)}
        except (ValueError, KeyError, TypeError, AttributeError):
            log.warning("%s holds no windows that can be read", self._path)
            return {}


def _key(model_name: str, address: str) -> str:
    return f"{model_name} {address}".strip()
