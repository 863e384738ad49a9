"""The re-ranker that the settings name: a cross-encoder on this machine, or one that litellm knows."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nacre.installation import install_command
from nacre.memory.contracts.settings import RerankSettings, at_home
from nacre.memory.search.rerankers.reranker import RerankingFailed
from nacre.runtime.contracts.errors import ConfigError
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
    """The re-ranker of `memorySearch.query.rerank`; `None` for no provider or `none`.

    `providers` is `models.providers`; it has the address and the key if `query.rerank` has none. `~` in front
    of a model's folder means `home`. `ledger` counts the cost, and has the cap.

    Raises:
        ConfigError: no model is named.
    """
    provider, model = (settings.provider or "").strip().lower(), (settings.model or "").strip()
    if provider in ("", "none"):
        return None
    if not model:
        raise ConfigError(
            f"memorySearch.query.rerank.model is missing: the provider {provider!r} has no default "
            "re-ranker. Name one."
        )
    if provider == LOCAL:
        return CrossEncoderReranker(at_home(model, home))
    from nacre.extensions.providers.litellm import LiteLLMReranker

    shared = providers.get(provider, ProviderSettings())
    if unset_in("" if settings.api_key else shared):
        return None  # a notice of the settings reports it
    return LiteLLMReranker(
        f"{provider}/{model.removeprefix(f'{provider}/')}",
        base_url=(settings.base_url or "").strip() or shared.base_url.strip() or None,
        api_key=(settings.api_key or "").strip() or shared.api_key.strip() or None,
        now_seconds=now_seconds,
        ledger=ledger(),
    )


_BATCH_TEXTS = 8
"""Larger batches pad more texts to the longest one, and are not faster on a CPU."""


class CrossEncoderReranker:
    """A `Reranker` (see there for its methods) for a model by its name on the hub or its folder."""

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
        """Frees the model after the current texts."""
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
                f"The model {self._model!r} returns several numbers for a text, so it is not a re-ranker. "
                "Use a cross-encoder with one label."
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
