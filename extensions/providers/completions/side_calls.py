"""Paid calls outside of the conversation (re-ranking, transcription): reserved before, settled after."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace

from nacre.extensions.providers.completions.addresses import is_loopback
from nacre.extensions.providers.completions.price_map import price_map_entry
from nacre.runtime.models.spending import BYTES_PER_TOKEN, Estimate, SpendingLedger
from nacre.sessions.contracts.messages import Usage

LEAST_BYTES_A_SECOND, LEAST_PLAIN_BYTES_A_SECOND = 750, 8_000
"""The longest recording of a size: speech at 6 kbit/s, or uncompressed with 8 bits at 8 kHz."""
AUDIO_TOKENS_A_SECOND, WORD_TOKENS_A_SECOND = 50, 8
"""More than providers count for a second of speech, as audio and as text."""


class Bill:
    """The cost of a call by `price`: first the maximum, then what the provider reports.

    `usage.cost_usd` is 0 if the price is unknown.
    """

    def __init__(self, price: Mapping[str, float]) -> None:
        self._price = price
        self.usage = Usage()

    @property
    def is_known(self) -> bool:
        """Whether there is a price."""
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


class SideCalls:
    """The paid calls of one model, `provider/model` at an address, for one `purpose`.

    `now_ms` returns milliseconds since the epoch.
    """

    def __init__(
        self,
        ledger: SpendingLedger,
        purpose: str,
        *,
        model: str,
        address: str | None,
        now_ms: Callable[[], int],
    ) -> None:
        self._ledger = ledger
        self._purpose = purpose
        self._model = model
        self._is_local = address is not None and is_loopback(address)
        self._now_ms = now_ms

    @asynccontextmanager
    async def reranking(self, question: str, texts: Sequence[str]) -> AsyncIterator[Bill]:
        """Wraps one request to a re-ranker. Raises as `SpendingLedger.reserve`."""
        sent_bytes = sum(len(f"{question}{text}".encode(errors="replace")) for text in texts)
        bill = Bill(await self._price())
        bill.took_query(sent_bytes // BYTES_PER_TOKEN + 1)
        async with self._paid(bill):
            yield bill

    @asynccontextmanager
    async def recording(self, file_name: str, size_bytes: int) -> AsyncIterator[Bill]:
        """Wraps the transcription of a recording. Raises as `SpendingLedger.reserve`."""
        is_plain = file_name.lower().endswith((".wav", ".flac"))
        rate = LEAST_PLAIN_BYTES_A_SECOND if is_plain else LEAST_BYTES_A_SECOND
        bill = Bill(await self._price())
        bill.took_seconds(size_bytes / rate + 1)
        async with self._paid(bill):
            yield bill

    async def _price(self) -> Mapping[str, float]:
        """Dollars per token, query or second, from the owner's prices or the price map."""
        own = self._ledger.prices.get(self._model)
        mapped = {} if own is not None else await asyncio.to_thread(price_map_entry, self._model)
        costs = {key: value for key, value in (own or mapped).items() if "_cost_per_" in key}
        return {key: float(value) for key, value in costs.items() if isinstance(value, int | float)}

    @asynccontextmanager
    async def _paid(self, bill: Bill) -> AsyncIterator[None]:
        is_priced = bill.is_known or self._is_local
        estimate = Estimate(prompt_usd=bill.usage.cost_usd) if is_priced else None
        reservation = await self._ledger.reserve(self._purpose, self._model, estimate)
        try:
            try:
                yield
            except asyncio.CancelledError:
                # the caller gave up, but the provider bills the call
                await self._spend(bill)
                raise
            await self._spend(bill)
        finally:
            reservation.release()

    async def _spend(self, bill: Bill) -> None:
        await self._ledger.spend(self._purpose, self._model, bill.usage, at_ms=self._now_ms())
