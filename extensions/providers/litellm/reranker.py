"""Any re-ranker that litellm knows, as the memory room's `Reranker`: one request for each question.

What is sent is the question and the texts of its best places. The provider's errors become sentences without
keys and go no further.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from nacre.extensions.providers.completions.errors import CallFacts, classify, key_variable
from nacre.extensions.providers.completions.keys import key_for_litellm
from nacre.extensions.providers.completions.side_calls import SideCalls
from nacre.extensions.providers.litellm import loading as litellm_loading
from nacre.memory.search.rerankers.reranker import RerankingFailed
from nacre.runtime.contracts.errors import (
    ConfigError,
    ContextOverflow,
    ModelAuthError,
    NoCredit,
    SpendingCapReached,
)
from nacre.runtime.models.spending.ledger import SpendingLedger

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
