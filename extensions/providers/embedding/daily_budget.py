"""The daily limit of an embedding provider in tokens, in one small file for all processes, and in money.

A mistake in the settings or a folder of a million lines should cost a day's budget, not a month's. Questions
are counted, but only the cap in money stops them: they are short, and somebody waits.
"""

from __future__ import annotations

import asyncio
import json
import logging
from functools import lru_cache
from pathlib import Path

from nacre.extensions.providers.completions.price_map import price_map_entry
from nacre.memory.contracts.embedder import BudgetUsedUp
from nacre.runtime.contracts.clock import Clock, epoch_ms
from nacre.runtime.contracts.errors import SpendingCapReached
from nacre.runtime.models.spending import Estimate, Reservation, SpendingLedger
from nacre.sessions.contracts.errors import SessionError
from nacre.sessions.contracts.messages import Usage
from nacre.sessions.disk.durable import locked, read_plain, replace_file, set_aside

log = logging.getLogger(__name__)


class EmbeddingBudget:
    """The tokens of a day. `path` is the file of the counter, `now` the time in the owner's time zone.

    Without `daily_tokens` there is no file. `ledger` records the cost of each call, and has the cap in money.
    """

    def __init__(
        self, path: Path, *, daily_tokens: int | None, now: Clock, ledger: SpendingLedger | None = None
    ) -> None:
        self._path = path
        self._daily_tokens = daily_tokens
        self._now = now
        self._ledger = ledger
        self._known_prices = lru_cache(maxsize=8)(price_map_entry)  # a megabyte is read for each

    async def allow(self, tokens: int, model_name: str, *, is_local: bool) -> Reservation:
        """Reserves about `tokens` for documents; release the reservation after the call.

        Raises:
            BudgetUsedUp: they exceed the day's budget, or the cap in money is near.
        """
        if self._daily_tokens is not None:
            await self._check_tokens(tokens, self._daily_tokens)
        return await self.reserve(tokens, model_name, is_local=is_local)

    async def reserve(self, tokens: int, model_name: str, *, is_local: bool) -> Reservation:
        """The same for a question, which only the cap in money limits."""
        if self._ledger is None or not self._ledger.has_cap:
            return Reservation()
        price_usd = await asyncio.to_thread(self._price_usd, model_name)
        estimate = None if price_usd is None else Estimate(prompt_usd=tokens * price_usd)
        if estimate is None and is_local:
            estimate = Estimate()
        try:
            return await self._ledger.reserve("embedding", model_name, estimate)
        except SpendingCapReached as reached:
            raise BudgetUsedUp(str(reached)) from reached

    async def _check_tokens(self, tokens: int, daily_tokens: int) -> None:
        try:
            used_tokens = await asyncio.to_thread(self._counted)
        except SessionError as error:
            log.warning("the count of embedded tokens cannot be read: %s", error)
            used_tokens = 0
        if used_tokens + tokens > daily_tokens:
            raise BudgetUsedUp(
                f"The budget of {daily_tokens:,} tokens a day for embeddings is used up "
                f"({used_tokens:,} today). The rest follows tomorrow; until then, search uses words only. "
                "memorySearch.remote.dailyTokens is the limit."
            )

    async def spend(self, tokens: int, model_name: str) -> None:
        """Counts the tokens of a call of `provider/model`."""
        if self._ledger is not None:
            price_usd = await asyncio.to_thread(self._price_usd, model_name)
            usage = Usage(input_tokens=tokens, cost_usd=tokens * (price_usd or 0.0))
            await self._ledger.spend("embedding", model_name, usage, at_ms=epoch_ms(self._now()))
        if self._daily_tokens is not None:
            await asyncio.to_thread(self._spend, tokens)

    def _spend(self, tokens: int) -> None:
        try:
            with locked(self._path):
                used_tokens = self._counted(sets_aside=True)
                day = {"date": self._today(), "tokens": used_tokens + tokens}
                replace_file(self._path, json.dumps(day).encode())
        except SessionError as error:
            # the vectors are worth more than the count
            log.warning("%d embedded tokens were not counted: %s", tokens, error)

    def _counted(self, *, sets_aside: bool = False) -> int:
        """Today's tokens in the file; 0 if it has another day or cannot be read."""
        found = read_plain(self._path)
        if found is None:
            return 0
        try:
            value = json.loads(found[0])
            date, tokens = str(value["date"]), int(value["tokens"])
        except (ValueError, KeyError, TypeError):
            if sets_aside:
                set_aside(self._path, found[0], now=self._now)
            return 0
        return tokens if date == self._today() else 0

    def _today(self) -> str:
        return self._now().date().isoformat()

    def _price_usd(self, model_name: str) -> float | None:
        own = self._ledger.prices.get(model_name) if self._ledger is not None else None
        price = (own or self._known_prices(model_name)).get("input_cost_per_token")
        return float(price) if isinstance(price, int | float) else None
