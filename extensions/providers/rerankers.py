"""The re-ranker that the settings name: a cross-encoder on this machine, or any that litellm knows.

A provider gets the question and the texts of the best hits in one request. Its errors become sentences
without keys.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nacre.extensions.providers.completions.errors import CallFacts, classify, key_variable
from nacre.extensions.providers.completions.keys import key_for_litellm
from nacre.extensions.providers.completions.side_calls import SideCalls
from nacre.extensions.providers.litellm import loading as litellm_loading
from nacre.installation import install_command
from nacre.memory.contracts.settings import RerankSettings, at_home
from nacre.memory.search.rerankers.reranker import RerankingFailed
from nacre.runtime.contracts.errors import (
    ConfigError,
    ContextOverflow,
    ModelAuthError,
    NoCredit,
    SpendingCapReached,
)
from nacre.runtime.models.spending import SpendingLedger
from nacre.runtime.settings.disk.variables import unset_in
from nacre.runtime.settings.sections.models import ProviderSettings

if TYPE_CHECKING:
    from sentence_transformers import CrossEncoder

    from nacre.memory.search.rerankers.reranker import Reranker
    from nacre.runtime.models.spending import SpendingLedger

LOCAL = "sentence-transformers"


def reranker_for(
    settings: RerankSettings,
    providers: Mapping[str, ProviderSettings],
    *,
    home: Path,
    now_seconds: Callable[[], float],
    ledger: Callable[[], SpendingLedger],
) -> Reranker | None:
    """The re-ranker that `memorySearch.query.rerank` asks for; `None` without a provider, or with `none`.

    `providers` is `models.providers`, which has what `query.rerank` leaves open: address and key. `home` is
    what a `~` before a model's folder means. `ledger` counts what a provider is paid, and has the cap.

    Raises:
        ConfigError: there is no model.
    """
    provider, model = (settings.provider or "").strip().lower(), (settings.model or "").strip()
    if provider in ("", "none"):
        return None
    if not model:
        raise ConfigError(
            f"memorySearch.query.rerank.model is missing: the provider {provider!r} has no usual re-ranker. "
            "Name one."
        )
    # most searches have no re-ranker
    if provider == LOCAL:
        from nacre.extensions.providers.rerankers import CrossEncoderReranker

        return CrossEncoderReranker(at_home(model, home))
    from nacre.extensions.providers.rerankers import LiteLLMReranker

    shared = providers.get(provider, ProviderSettings())
    if unset_in("" if settings.api_key else shared):
        return None  # the settings' own notice has told it
    return LiteLLMReranker(
        f"{provider}/{model.removeprefix(f'{provider}/')}",
        base_url=(settings.base_url or "").strip() or shared.base_url.strip() or None,
        api_key=(settings.api_key or "").strip() or shared.api_key.strip() or None,
        now_seconds=now_seconds,
        ledger=ledger(),
    )


_BATCH_TEXTS = 8
"""Texts of one length at a time: more are padded to the longest, and no quicker on a processor."""


class CrossEncoderReranker:
    """`Reranker` (its methods are described there) for a model by its name on the hub or its folder."""

    def __init__(self, model: str) -> None:
        self.name = f"sentence-transformers/{model}"
        self._model = model
        self._lock = threading.Lock()
        self._loaded: CrossEncoder | None = None

    async def load(self) -> None:
        await asyncio.to_thread(self._load)

    async def relevance(self, question: str, texts: Sequence[str]) -> Sequence[float]:
        return await asyncio.to_thread(self._relevance, question, list(texts))

    async def close(self) -> None:
        """Frees the model once the texts in hand are done."""
        await asyncio.to_thread(self._unload)

    def _relevance(self, question: str, texts: list[str]) -> list[float]:
        with self._lock:
            model = self._loaded
            if model is None:
                raise RerankingFailed(f"The re-ranker {self.name} is not loaded.")
            try:
                found: Any = model.predict(
                    [(question, text) for text in texts], batch_size=_BATCH_TEXTS, show_progress_bar=False
                )
            # torch and the model's own code raise errors of their own
            except Exception as error:
                raise RerankingFailed(f"The re-ranker {self.name} failed ({error}).") from error
        numbers: list[Any] = found.tolist()
        if any(not isinstance(number, float) for number in numbers):
            raise RerankingFailed(
                f"The model {self._model!r} gives several numbers for a text, so it is no re-ranker. Use a "
                "cross-encoder with one label."
            )
        return numbers

    def _load(self) -> None:
        with self._lock:
            if self._loaded is not None:
                return
            try:
                from sentence_transformers import CrossEncoder
            except ImportError as error:
                raise RerankingFailed(
                    f"The re-ranker {self._model} needs sentence-transformers, which is not installed "
                    f"({error}). Install it with: {install_command('sentence-transformers')}."
                ) from error
            try:
                self._loaded = CrossEncoder(self._model, device="cpu")
            # the library raises errors of its own, of its hub client and of torch
            except Exception as error:
                raise RerankingFailed(
                    f"sentence-transformers could not load the model {self._model!r} ({error}). "
                    "memorySearch.query.rerank.model is its name on the hub or its folder."
                ) from error

    def _unload(self) -> None:
        with self._lock:
            self._loaded = None


_REQUEST_SECONDS = 60.0
"""The client's own limit. Who asks waits less long, and cancels the request."""


class LiteLLMReranker:
    """A re-ranker by its litellm name, `provider/model`, at `base_url` or the provider's own address.

    Without an `api_key` the provider's variable in the environment has it; a server of one's own needs none.
    `ledger` gets what each question cost, and has the cap.
    """

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
        self._retained = False
        self._calls = SideCalls(
            ledger, "rerank", model=name, address=base_url, now_ms=lambda: int(now_seconds() * 1000)
        )

    async def load(self) -> None:
        try:
            await litellm_loading.load_litellm()
        except ConfigError as error:
            raise RerankingFailed(str(error)) from error
        if not self._retained:
            self._retained = True
            litellm_loading.retain_clients()

    async def relevance(self, question: str, texts: Sequence[str]) -> Sequence[float]:
        try:
            async with self._calls.reranking(question, texts) as bill:
                answer = await self._asked(question, texts)
                if tokens := _billed_tokens(answer):
                    bill.took_query(tokens)
        except SpendingCapReached as reached:
            raise RerankingFailed(str(reached)) from reached
        return self._in_order(answer.results, len(texts))

    async def _asked(self, question: str, texts: Sequence[str]) -> Any:
        try:
            litellm = await litellm_loading.load_litellm()
            return await litellm.arerank(
                model=self.name,
                query=question,
                documents=list(texts),
                return_documents=False,
                api_base=self._base_url,
                api_key=key_for_litellm(self.name, base_url=self._base_url, api_key=self._api_key),
                timeout=_REQUEST_SECONDS,
                **litellm_loading.quiet_arguments(litellm),
            )
        # litellm raises its own errors, those of httpx, and bare ones of Python
        except Exception as error:
            raise RerankingFailed(self._sentence(error)) from error

    async def close(self) -> None:
        """Closes the connections, unless an open model on this event loop still uses them."""
        if self._retained:
            self._retained = False
            await litellm_loading.release_clients()

    def _in_order(self, results: Any, count: int) -> Sequence[float]:
        """The numbers in the order of the texts; a provider gives them in its own, with the text's number."""
        found: dict[int, float] = {}
        for result in results or ():
            at = result["index"]
            if not 0 <= at < count or at in found:
                raise RerankingFailed(
                    f"The re-ranker {self.name!r} spoke of text {at}, which it was not given or had told "
                    f"already, when it was asked about {count}."
                )
            found[at] = float(result["relevance_score"])
        if len(found) < count:
            raise RerankingFailed(f"The re-ranker {self.name!r} gave {len(found)} numbers for {count} texts.")
        return [found[at] for at in range(count)]

    def _sentence(self, error: Exception) -> str:
        facts = CallFacts(
            model_name=self.name,
            api_base=self._base_url,
            key_is_configured=bool(self._api_key),
            secrets=(self._api_key,) if self._api_key else (),
            now_seconds=self._now_seconds(),
        )
        failure = classify(error, facts)
        if isinstance(failure, ContextOverflow):
            return (
                f"The re-ranker {self.name!r} does not take texts of this length. Let its server cut them, "
                "or choose a model that reads more."
            )
        if isinstance(failure, ModelAuthError) and not isinstance(failure, NoCredit):
            return (
                f"The key for the re-ranker {self.name!r} is missing or was refused. Set "
                f"memorySearch.query.rerank.apiKey, or {key_variable(self.name)} in the environment."
            )
        return str(failure)


def _billed_tokens(answer: Any) -> int | None:
    """The tokens that the provider told; `None` where it did not."""
    meta = getattr(answer, "meta", None) or {}
    billed, counted = meta.get("billed_units") or {}, meta.get("tokens") or {}
    told = billed.get("total_tokens") or counted.get("input_tokens")
    return told if isinstance(told, int) and told > 0 else None
