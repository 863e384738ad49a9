"""What is known of a model before it is asked: its window and prices, and how long it may be silent."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

from nacre.extensions.providers.completions.price_map import price_map_entry
from nacre.extensions.providers.completions.replies import usage_from_provider
from nacre.runtime.contracts.budget import ANSWER_SHARE, WindowSource
from nacre.runtime.contracts.errors import ContextOverflow, ModelTimedOut
from nacre.runtime.contracts.model import ModelRequest, overhead_tokens
from nacre.runtime.models.spending.ledger import BYTES_PER_TOKEN, Estimate
from nacre.sessions.contracts.messages import Usage
from nacre.sessions.view.sent_view import estimate_message_tokens

_UNKNOWN_ANSWER_TOKENS = 16_384
"""An answer of a model whose limit nobody knows is bounded to this where a cap holds."""


class KnownModel:
    """`provider/model`, with the window, the longest answer and the prices that the settings give it.

    `served_window_tokens` is what its server said, `refused_window_tokens` what an overflow of this process
    taught, `remembered_window_tokens` one of an earlier process.
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
        self._configured_answer_tokens = configured_answer_tokens
        self.served_window_tokens: int | None = None
        self.refused_window_tokens: int | None = None
        self.remembered_window_tokens: int | None = None

    @cached_property
    def entry(self) -> Mapping[str, Any]:
        """What litellm's price map says of it; empty for a model that it does not know."""
        return {**price_map_entry(self.name), **self._prices}

    def estimate(self, request: ModelRequest) -> Estimate | None:
        """The most that a request can cost; `None` for a model whose price nobody knows."""
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
        """The longest answer that the model gives, where the settings or the price map know it."""
        tokens = self._configured_answer_tokens or self.entry.get("max_output_tokens")
        return tokens if isinstance(tokens, int) and tokens > 0 else None

    @property
    def answer_limit_tokens(self) -> int | None:
        """What the settings bound every answer to."""
        return self._configured_answer_tokens

    @property
    def own_server_answer_tokens(self) -> int:
        """The most of one answer where the server itself would go on to the end of its window."""
        window_tokens = self.context_window_tokens or _UNKNOWN_ANSWER_TOKENS * ANSWER_SHARE
        return min(window_tokens // ANSWER_SHARE, _UNKNOWN_ANSWER_TOKENS)

    @property
    def context_window_tokens(self) -> int | None:
        """The configured window, else the server's, else the price map's; no more than was refused."""
        return self._window()[0]

    @property
    def window_source(self) -> WindowSource:
        """Who says so."""
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
        """What the price map says; `None` for a model that it does not know."""
        return bool(self.entry.get("supports_vision")) if self.entry else None

    def usage(self, counted: Any) -> Usage | None:
        """The provider's count in our terms, with its cost; `None` stays `None`.

        Raises:
            ContextOverflow: it counted more than the window holds, so the model saw only a part.
        """
        usage = usage_from_provider(counted, prices=self.entry) if counted else None
        # the configured window may be kept small on purpose: only more than the real one is an overflow
        real_tokens = self.served_window_tokens or self._mapped_window_tokens() or 0
        window_tokens = max(self._configured_window_tokens or 0, real_tokens)
        if usage is None or not window_tokens:
            return usage
        prompt_tokens = usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens
        if prompt_tokens > window_tokens:
            raise ContextOverflow(
                f"The model {self.name!r} was sent {prompt_tokens} tokens, more than its context window of "
                f"{window_tokens}, so it saw only a part. The conversation has to be compacted."
            )
        return usage

    def silence_seconds(
        self, *, has_content: bool, is_alive: bool = False, stall_seconds: float, request_seconds: float
    ) -> float:
        """How long a stream that has begun may bring nothing of an answer.

        Longer before the first word, where the model thinks before it speaks, or the provider says by
        comments that it is still there.
        """
        if not has_content and (is_alive or self.entry.get("supports_reasoning")):
            return max(stall_seconds, request_seconds)
        return stall_seconds

    def fell_silent(self, seconds: float) -> ModelTimedOut:
        """The error for a stream that brought nothing for so long."""
        return ModelTimedOut(
            f"The model {self.name!r} sent nothing for {seconds:.15g} seconds in the middle of its answer. "
            "Ask again."
        )

    def _mapped_window_tokens(self) -> int | None:
        tokens = self.entry.get("max_input_tokens") or self.entry.get("max_tokens")
        return tokens if isinstance(tokens, int) and tokens > 0 else None
