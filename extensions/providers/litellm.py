"""Chat, re-ranking and transcription at any provider that litellm knows: the only importer of litellm.

The library is the extra `litellm`, because it brings 180 MB along. It is imported late, off the event loop,
quiet and offline. A program that imported it before keeps its own settings. litellm's clients follow
redirects, and would send the conversation, with some providers also the key, wherever a server points. So
each client gets a guard when litellm caches it, which is before its first request. Errors of providers become
`ModelError` or `RerankingFailed`, without keys.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import inspect
import logging
import math
import os
import sys
import threading
import warnings
import weakref
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, ClassVar

from nacre.extensions.providers.completions.addresses import SentElsewhere, is_loopback, is_same_server
from nacre.extensions.providers.completions.errors import CallFacts, classify, key_variable
from nacre.extensions.providers.completions.keys import key_for_litellm
from nacre.extensions.providers.completions.messages import completion_arguments
from nacre.extensions.providers.completions.price_map import price_map_entry
from nacre.extensions.providers.completions.provider_model import ProviderModel
from nacre.extensions.providers.completions.replies import ReplyAssembly
from nacre.installation import install_command
from nacre.memory.search.rerankers.reranker import RerankingFailed
from nacre.runtime.contracts.errors import (
    BadModelReply,
    ConfigError,
    ContextOverflow,
    ModelAuthError,
    ModelError,
    NoCredit,
    SpendingCapReached,
)
from nacre.runtime.contracts.model import ModelRequest
from nacre.runtime.models.spending import BYTES_PER_TOKEN, Estimate, SpendingLedger
from nacre.sessions.contracts.messages import Usage

EXTRA = "litellm"
"""The extra of Nacre that installs it."""

_ENVIRONMENT = {
    # Use its own price map instead of fetching one on import.
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    # Do not load `.env` from the working directory.
    "LITELLM_MODE": "PRODUCTION",
    # Its aiohttp sessions, made on import, warn when a loop ends before them. httpx closes with its client.
    "DISABLE_AIOHTTP_TRANSPORT": "True",
}
_LOGGERS = ("LiteLLM", "LiteLLM Proxy", "LiteLLM Proxy.stdout", "LiteLLM Router")
_PYDANTIC_ABOUT_LITELLM = (r".*`ReadOnly` qualifier", r".*conflict with protected namespace")

# How many models are open on each event loop. litellm keeps one cache of HTTP clients for the whole
# process; the count tells when those of a loop have no user left and may be closed.
_open_models: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, int] = weakref.WeakKeyDictionary()

_lock = threading.Lock()
_loading: Future[Any] | None = None


async def load_litellm(model_name: str) -> Any:
    """The litellm module, imported in a thread on first use (it takes seconds).

    Raises:
        ConfigError: litellm is not installed or cannot be imported, which `model_name` needs.
    """
    try:
        return await asyncio.wrap_future(begin_loading())
    except ImportError as error:
        problem = f"cannot be imported ({error})" if is_installed() else "is not installed"
        command = install_command(EXTRA)
        raise ConfigError(
            f"The model {model_name!r} needs litellm, which {problem}. Install it with: {command}"
        ) from error


def is_installed() -> bool:
    return importlib.util.find_spec("litellm") is not None


def begin_loading() -> Future[Any]:
    """Begins to import litellm in a thread, once in a process; the future gives the module.

    A program that ends meanwhile does not wait for the thread.
    """
    global _loading
    with _lock:
        if _loading is None or (_loading.done() and _loading.exception() is not None):
            _loading = Future()
            _loading.set_running_or_notify_cancel()  # a cancelled caller does not cancel the loading
            threading.Thread(target=_load, args=(_loading,), name="litellm", daemon=True).start()
        return _loading


def _load(loading: Future[Any]) -> None:
    try:
        loading.set_result(_import_litellm())
    except BaseException as error:  # noqa: BLE001 - it is raised where the module is waited for
        loading.set_exception(error)


def quiet_arguments(module: Any) -> dict[str, Any]:
    """Arguments for `acompletion` and `arerank`: `one_request_arguments`, and one that skips litellm's MCP.

    Releases around 1.106 import their MCP gateway whenever a request has tools, and it needs a package that
    they do not bring. The argument that skips it is passed only to releases that know it, because others
    would send it to the provider.
    """
    arguments = one_request_arguments()
    if "_skip_mcp_handler" in inspect.unwrap(module.main.completion).__code__.co_consts:
        arguments["_skip_mcp_handler"] = True
    return arguments


def one_request_arguments() -> dict[str, Any]:
    """Arguments that keep a call of litellm to one request; silences warnings about litellm's own code."""
    # litellm silences pydantic's warnings about its classes only once, on import. A later filter, such as
    # warnings as errors in a test suite, would turn them into failed requests.
    warnings.filterwarnings("ignore", category=DeprecationWarning, module=r"litellm\.")
    for message in _PYDANTIC_ABOUT_LITELLM:
        warnings.filterwarnings("ignore", message=message, category=UserWarning, module=r"pydantic\.")
    return {"num_retries": 0, "max_retries": 0, "drop_params": True}


class _ClientUser:
    """A model that uses litellm's HTTP clients, and counts as open from its first use on."""

    name: str
    _retained = False

    async def _loaded(self) -> Any:
        """The litellm module. Raises as `load_litellm`."""
        litellm = await load_litellm(self.name)
        if not self._retained:
            self._retained = True
            loop = asyncio.get_running_loop()
            _open_models[loop] = _open_models.get(loop, 0) + 1
        return litellm

    async def _release(self) -> None:
        """Closes the HTTP connections, unless another open model on this event loop still uses them."""
        if not self._retained:
            return
        self._retained = False
        loop = asyncio.get_running_loop()
        left = _open_models.get(loop, 0) - 1
        if left > 0:
            _open_models[loop] = left
            return
        _open_models.pop(loop, None)
        cache = getattr(sys.modules.get("litellm"), "in_memory_llm_clients_cache", None)
        clients: dict[str, Any] = getattr(cache, "cache_dict", {})
        for key in [key for key in clients if key.endswith(f"-{id(loop)}")]:
            close = getattr(clients.pop(key), "close", None)
            with contextlib.suppress(OSError, RuntimeError):  # it may be broken or closed already
                result = close() if callable(close) else None
                if inspect.isawaitable(result):
                    await result


def _import_litellm() -> Any:
    theirs = "litellm" in sys.modules
    if not theirs and "LITELLM_LOG" not in os.environ:
        for name in _LOGGERS:
            # litellm logs failures that are raised anyway, with parts of the request.
            logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    for name, value in _ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    module: Any = importlib.import_module("litellm")
    guard_clients(module.in_memory_llm_clients_cache)
    if not theirs:
        module.telemetry = False
        module.suppress_debug_info = True
        # Otherwise it downloads a tokenizer to count the tokens that some providers do not report.
        module.disable_hf_tokenizer_download = True
        # Some providers refuse a history with tool calls in a request without tools, such as a summary.
        module.modify_params = True
    return module


def guard_clients(cache: Any) -> None:
    """Guards every client that litellm puts into its cache from now on."""
    keep = cache.set_cache

    def set_cache(key: str, value: object, *args: Any, **options: Any) -> Any:
        guard(value)
        return keep(key, value, *args, **options)

    cache.set_cache = set_cache


def guard(holder: Any) -> None:
    """Lets an HTTP handler of litellm's, or a client of OpenAI's library, refuse to go to another server."""
    clients: tuple[Any, ...] = (getattr(holder, "client", None), getattr(holder, "_client", None), holder)
    for client in clients:
        hooks = getattr(client, "event_hooks", None)
        if not isinstance(hooks, dict) or "response" not in hooks:
            continue
        hook = _refuse_elsewhere_soon if hasattr(client, "aclose") else _refuse_elsewhere
        client.event_hooks = {**hooks, "response": [*hooks["response"], hook]}
        if getattr(holder, "event_hooks", client.event_hooks) is None:
            holder.event_hooks = client.event_hooks  # also for a client that replaces this one
        return


async def _refuse_elsewhere_soon(response: Any) -> None:
    _refuse_elsewhere(response)


def _refuse_elsewhere(response: Any) -> None:
    """Raises before the client goes where the answer sends it."""
    if not response.has_redirect_location:
        return
    asked, onward = str(response.url), str(response.url.join(response.headers["location"]))
    if not is_same_server(asked, onward):
        raise SentElsewhere(asked, onward)


_CLOSE_SECONDS = 5.0


class LiteLLMModel(_ClientUser, ProviderModel):
    """A chat model by its litellm name."""

    api = "litellm"

    def load_ahead(self) -> None:
        begin_loading()

    async def _load(self) -> None:
        try:
            await self._loaded()
        except ConfigError as error:
            raise ModelError(str(error)) from error

    async def _send(self, request: ModelRequest) -> LiteLLMAnswer:
        litellm, key = await load_litellm(self.name), self._api_key
        if self.name.startswith("openai/"):
            key = key_for_litellm(self.name, base_url=self._base_url, api_key=key)
        wrapper = await litellm.acompletion(
            model=self.name,
            api_base=self._base_url,
            api_key=key,
            stream=True,
            stream_options={"include_usage": True},
            timeout=self._request_timeout_seconds,
            **quiet_arguments(litellm),
            **completion_arguments(request, model_name=self.name),
        )
        return LiteLLMAnswer(wrapper)

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
        with contextlib.suppress(Exception):
            async with asyncio.timeout(_CLOSE_SECONDS):
                await self._wrapper.aclose()


_RERANK_SECONDS = 60.0
"""The limit of the client. The caller waits less long, and cancels the request."""


class _SideModel(_ClientUser):
    """A model beside the conversation, by its litellm name, `provider/model`, at `base_url` or the provider's
    own address.

    Without an `api_key`, the provider's variable in the environment has it; a server of one's own needs none.
    `ledger` gets the cost of each call, and has the cap.
    """

    purpose: ClassVar[str]

    def __init__(
        self,
        name: str,
        *,
        base_url: str | None,
        api_key: str | None,
        now_seconds: Callable[[], float],
        ledger: SpendingLedger,
    ) -> None:
        self.name = name
        self._base_url = base_url
        self._api_key = api_key
        self._now_seconds = now_seconds
        self._ledger = ledger
        self._is_local = base_url is not None and is_loopback(base_url)

    async def close(self) -> None:
        await self._release()

    def _failure(self, error: Exception) -> ModelError:
        facts = CallFacts(
            model_name=self.name,
            api_base=self._base_url,
            key_is_configured=bool(self._api_key),
            secrets=(self._api_key,) if self._api_key else (),
            now_seconds=self._now_seconds(),
        )
        return classify(error, facts)

    async def _bill(self) -> Bill:
        """A bill by the owner's prices or the price map: dollars per token, query or second."""
        own = self._ledger.prices.get(self.name)
        mapped = {} if own is not None else await asyncio.to_thread(price_map_entry, self.name)
        costs = {key: value for key, value in (own or mapped).items() if "_cost_per_" in key}
        return Bill({key: float(value) for key, value in costs.items() if isinstance(value, int | float)})

    @asynccontextmanager
    async def _paid(self, bill: Bill) -> AsyncIterator[None]:
        """Wraps one request. `bill` has the most that it can cost. Raises as `SpendingLedger.reserve`."""
        estimate = Estimate(prompt_usd=bill.usage.cost_usd) if bill.is_known or self._is_local else None
        with await self._ledger.reserve(self.purpose, self.name, estimate):
            try:
                yield
            except asyncio.CancelledError:
                # the caller gave up, but the provider bills the call
                await self._spend(bill)
                raise
            await self._spend(bill)

    async def _spend(self, bill: Bill) -> None:
        at_ms = int(self._now_seconds() * 1000)
        await self._ledger.spend(self.purpose, self.name, bill.usage, at_ms=at_ms)


class LiteLLMReranker(_SideModel):
    """A re-ranker."""

    purpose = "rerank"

    async def load(self) -> None:
        try:
            await self._loaded()
        except ConfigError as error:
            raise RerankingFailed(str(error)) from error

    async def relevance(self, question: str, texts: Sequence[str]) -> Sequence[float]:
        sent_bytes = sum(len(f"{question}{text}".encode(errors="replace")) for text in texts)
        bill = await self._bill()
        bill.took_query(sent_bytes // BYTES_PER_TOKEN + 1)
        try:
            async with self._paid(bill):
                answer = await self._send(question, texts)
                if tokens := _billed_tokens(answer):
                    bill.took_query(tokens)
        except SpendingCapReached as reached:
            raise RerankingFailed(str(reached)) from reached
        return self._in_order(answer.results, len(texts))

    async def _send(self, question: str, texts: Sequence[str]) -> Any:
        try:
            litellm = await load_litellm(self.name)
            return await litellm.arerank(
                model=self.name,
                query=question,
                documents=list(texts),
                return_documents=False,
                api_base=self._base_url,
                api_key=key_for_litellm(self.name, base_url=self._base_url, api_key=self._api_key),
                timeout=_RERANK_SECONDS,
                **quiet_arguments(litellm),
            )
        # litellm raises its own errors, those of httpx, and bare ones of Python
        except Exception as error:
            raise RerankingFailed(self._sentence(error)) from error

    def _in_order(self, results: Any, count: int) -> Sequence[float]:
        """The scores in the order of the texts; a provider returns them in its own order, with indices."""
        found: dict[int, float] = {}
        for result in results or ():
            at = result["index"]
            if not 0 <= at < count or at in found:
                raise RerankingFailed(
                    f"The re-ranker {self.name!r} returned the index {at} twice or beyond the {count} texts."
                )
            found[at] = float(result["relevance_score"])
        if len(found) < count:
            raise RerankingFailed(
                f"The re-ranker {self.name!r} returned {len(found)} scores for {count} texts."
            )
        return [found[at] for at in range(count)]

    def _sentence(self, error: Exception) -> str:
        failure = self._failure(error)
        if isinstance(failure, ContextOverflow):
            return (
                f"The re-ranker {self.name!r} refuses texts of this length. Let its server truncate them, or "
                "choose a model with a larger window."
            )
        if isinstance(failure, ModelAuthError) and not isinstance(failure, NoCredit):
            return (
                f"The key for the re-ranker {self.name!r} is missing or was refused. Set "
                f"memorySearch.query.rerank.apiKey, or {key_variable(self.name)} in the environment."
            )
        return str(failure)


def _billed_tokens(answer: Any) -> int | None:
    """The tokens that the provider reports, if any."""
    meta = getattr(answer, "meta", None) or {}
    billed, counted = meta.get("billed_units") or {}, meta.get("tokens") or {}
    told = billed.get("total_tokens") or counted.get("input_tokens")
    return told if isinstance(told, int) and told > 0 else None


class LiteLLMTranscriber(_SideModel):
    """A transcriber. `language` is a code such as `de`; blank lets the model find it out."""

    purpose = "transcription"

    def __init__(
        self,
        name: str,
        *,
        base_url: str | None,
        api_key: str | None,
        language: str,
        now_seconds: Callable[[], float],
        ledger: SpendingLedger,
    ) -> None:
        super().__init__(name, base_url=base_url, api_key=api_key, now_seconds=now_seconds, ledger=ledger)
        self._language = language

    async def transcribe(self, file_name: str, data: bytes, *, timeout_seconds: float) -> str:
        """The words of a recording. Providers derive its format from `file_name`.

        Raises:
            ModelError: the model returned none. There is no retry.
        """
        is_plain = file_name.lower().endswith((".wav", ".flac"))
        rate = LEAST_PLAIN_BYTES_A_SECOND if is_plain else LEAST_BYTES_A_SECOND
        bill = await self._bill()
        bill.took_seconds(len(data) / rate + 1)
        async with self._paid(bill):
            answer = await self._send(file_name, data, timeout_seconds)
            _settle(bill, answer)
        text = getattr(answer, "text", None)
        if not isinstance(text, str):
            raise BadModelReply(f"The model {self.name!r} answered a recording without text.")
        return text

    async def _send(self, file_name: str, data: bytes, timeout_seconds: float) -> Any:
        try:
            litellm = await self._loaded()
            return await litellm.atranscription(
                model=self.name,
                file=(file_name, data),
                api_base=self._base_url,
                api_key=key_for_litellm(self.name, base_url=self._base_url, api_key=self._api_key),
                timeout=timeout_seconds,
                **({"language": self._language} if self._language else {}),
                **one_request_arguments(),
            )
        except ConfigError as error:
            raise ModelError(str(error)) from error
        # litellm raises its own errors, those of httpx and OpenAI's library, and bare ones of Python
        except Exception as error:
            raise self._failure(error) from error


def _settle(bill: Bill, answer: Any) -> None:
    """Bills the seconds or tokens that the provider reports, if any."""
    usage = getattr(answer, "usage", None)
    seconds = getattr(usage, "seconds", None) or getattr(answer, "duration", None)
    heard, written = getattr(usage, "input_tokens", None), getattr(usage, "output_tokens", None)
    if isinstance(seconds, int | float) and seconds > 0:
        bill.took_seconds(seconds)
    elif isinstance(heard, int) and heard > 0:
        bill.took_tokens(heard, written if isinstance(written, int) else 0)


LEAST_BYTES_A_SECOND, LEAST_PLAIN_BYTES_A_SECOND = 750, 8_000
"""The longest recording of a size: speech at 6 kbit/s, or uncompressed with 8 bits at 8 kHz."""
AUDIO_TOKENS_A_SECOND, WORD_TOKENS_A_SECOND = 50, 8
"""Upper bounds for the tokens of a second of speech, as audio and as text."""


class Bill:
    """The cost of a call by `price`: first the maximum, then what the provider reports.

    `usage.cost_usd` is 0 if the price is unknown.
    """

    def __init__(self, price: Mapping[str, float]) -> None:
        self._price = price
        self.usage = Usage()

    @property
    def is_known(self) -> bool:
        return bool(self._price)

    def took_query(self, tokens: int) -> None:
        """Sets the cost of a question to a re-ranker; `tokens` includes its texts."""
        usd = self._usd("input_cost_per_query") + tokens * self._usd("input_cost_per_token")
        self.usage = Usage(input_tokens=tokens, cost_usd=usd)

    def took_seconds(self, seconds: float) -> None:
        """Sets the cost of a recording by its length."""
        self.took_tokens(
            math.ceil(seconds * AUDIO_TOKENS_A_SECOND), math.ceil(seconds * WORD_TOKENS_A_SECOND)
        )
        second_usd = max(self._usd("input_cost_per_second"), self._usd("output_cost_per_second"))
        if second_usd:
            self.usage = replace(self.usage, cost_usd=seconds * second_usd)

    def took_tokens(self, heard: int, written: int) -> None:
        """Sets the cost of a recording by its tokens and those of its text."""
        heard_usd = self._usd("input_cost_per_audio_token") or self._usd("input_cost_per_token")
        usd = heard * heard_usd + written * self._usd("output_cost_per_token")
        self.usage = Usage(input_tokens=heard, output_tokens=written, cost_usd=usd)

    def _usd(self, key: str) -> float:
        return self._price.get(key, 0.0)
