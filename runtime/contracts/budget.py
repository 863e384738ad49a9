"""The division of the context window, and when a flush or a compaction is due.

    |<------------------------- window ------------------------->|
    | history                     | soft threshold |   reserve   |
                                  ^ flush_at       ^ compact_at

The formulas of flush and reserve are the memory seed's (`contextWindow − reserveTokensFloor −
softThresholdTokens`). In a small window they are shares of it, because a fixed reserve of 20,000 would
leave no room in 16,000 tokens; the shares fall from a half at 24,000 to a quarter, so that Nacre's own
prompt leaves room to talk in 4,000.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Literal, TypeAlias

from nacre.record import Record
from nacre.runtime.contracts.errors import ConfigError

FALLBACK_WINDOW_TOKENS = 200_000
SMALLEST_WINDOW_TOKENS = 4_000
"""Nacre's own prompt, a message and its answer need this many tokens."""
SMALL_WINDOW_TOKENS = 24_000
TIGHT_WINDOW_TOKENS = 32_000

ANSWER_SHARE = 4
"""In the smallest windows, a quarter is the reserve, and thus the room for an answer."""
SOFT_SHARE = 6
WindowSource: TypeAlias = Literal["settings", "server", "refusal", "remembered", "model", "fallback"]
WINDOW_SOURCES: Mapping[WindowSource, str] = {
    "settings": "from settings",
    "server": "from the server",
    "refusal": "learned when the server refused more",
    "remembered": "learned earlier, when the server refused more",
    "model": "from model",
    "fallback": "assumed, because its size is unknown",
}
"""Where the size of the window comes from, in words."""
Action: TypeAlias = Literal["nothing", "flush", "compact", "flush_then_compact"]


class Decision(Record):
    """What to do before the next model call; `reason` has the numbers, for the log."""

    action: Action
    reason: str

    @property
    def flushes(self) -> bool:
        return self.action in ("flush", "flush_then_compact")

    @property
    def compacts(self) -> bool:
        return self.action in ("compact", "flush_then_compact")


class ContextBudget(Record):
    """The window and its limits, in tokens. `reserve_tokens` is the room for the answer and for a summary.
    A compaction leaves `keep_recent_tokens` of the tail verbatim.
    """

    window_tokens: int
    window_source: WindowSource
    reserve_tokens: int
    soft_threshold_tokens: int
    keep_recent_tokens: int
    flush_enabled: bool = True
    compaction_enabled: bool = True

    @property
    def compact_at(self) -> int:
        """History is compacted above this many tokens."""
        return self.window_tokens - self.reserve_tokens

    @property
    def flush_at(self) -> int:
        """The cycle's flush is due at this many tokens."""
        return self.compact_at - self.soft_threshold_tokens

    @property
    def summary_tokens(self) -> int:
        """The most tokens of a summary: what the reserve allows, but at most a quarter of `compact_at`."""
        return max(256, min(self.reserve_tokens * 4 // 5, self.compact_at // 4))

    def within(self, window_tokens: int) -> ContextBudget:
        """The same limits in a smaller window, of at least `SMALLEST_WINDOW_TOKENS`.

        Reserve, soft threshold and kept tail are cut to at most half of the room that they divide. Below
        `SMALL_WINDOW_TOKENS`, the reserve falls to a quarter of the window before history gets less room,
        and the soft threshold is at most a sixth of the window.
        """
        window_tokens = min(self.window_tokens, max(window_tokens, SMALLEST_WINDOW_TOKENS))
        half_tokens = min(window_tokens // 2, window_tokens - SMALL_WINDOW_TOKENS // 2)
        reserve_tokens = min(self.reserve_tokens, max(window_tokens // ANSWER_SHARE, half_tokens))
        history_tokens = window_tokens - reserve_tokens
        is_small = window_tokens < SMALL_WINDOW_TOKENS
        soft_tokens = window_tokens // SOFT_SHARE if is_small else history_tokens // 2
        return replace(
            self,
            window_tokens=window_tokens,
            reserve_tokens=reserve_tokens,
            soft_threshold_tokens=min(self.soft_threshold_tokens, soft_tokens),
            keep_recent_tokens=min(self.keep_recent_tokens, history_tokens // 2),
        )

    def decide(
        self, tokens: int, *, flushed_this_cycle: bool, said_since_compaction_tokens: int | None = None
    ) -> Decision:
        """What is due with `tokens` in the window: a flush at `flush_at`, a compaction above `compact_at`.

        In a small window, the kept tail alone can reach `flush_at`. It was flushed before the compaction, so
        a flush waits until half of the soft threshold has been said since; `None` means a session without a
        compaction.
        """
        numbers = (
            f"{tokens} tokens of {self.window_tokens}, "
            f"flush at {self.flush_at}, compact above {self.compact_at}"
        )
        over = tokens > self.compact_at
        if over and not self.compaction_enabled:
            return Decision(action="nothing", reason=f"compaction is switched off: {numbers}")
        if not over and tokens < self.flush_at:
            return Decision(action="nothing", reason=f"there is room: {numbers}")
        if flushed_this_cycle or not self.flush_enabled:
            why = "this cycle was flushed already" if self.flush_enabled else "memory flush is switched off"
            return Decision(action="compact" if over else "nothing", reason=f"{why}: {numbers}")
        said = said_since_compaction_tokens
        if not over and said is not None and said < self.soft_threshold_tokens // 2:
            reason = f"only {said} tokens were said since the compaction: {numbers}"
            return Decision(action="nothing", reason=reason)
        return Decision(action="flush_then_compact" if over else "flush", reason=numbers)


def resolve_budget(
    *,
    configured_window_tokens: int | None,
    model_window_tokens: int | None,
    reserve_tokens: int,
    reserve_floor_tokens: int,
    soft_threshold_tokens: int,
    keep_recent_tokens: int,
    flush_enabled: bool = True,
    compaction_enabled: bool = True,
    model_source: WindowSource = "model",
) -> ContextBudget:
    """The budget for a model. The owner's window takes precedence over the model's, except over a smaller one
    that a server reported or enforced. `model_source` is the source of the model's window.

    Raises:
        ConfigError: the window is under `SMALLEST_WINDOW_TOKENS`.
    """
    source: WindowSource = "fallback"
    window_tokens = FALLBACK_WINDOW_TOKENS
    if model_window_tokens is not None:
        source, window_tokens = model_source, model_window_tokens
    is_fact = source in ("server", "refusal")
    if configured_window_tokens is not None and not (is_fact and window_tokens < configured_window_tokens):
        source, window_tokens = "settings", configured_window_tokens
    if window_tokens < SMALLEST_WINDOW_TOKENS:
        raise ConfigError(
            f"Context window too small ({window_tokens} tokens, {WINDOW_SOURCES[source]}). "
            f"Minimum is {SMALLEST_WINDOW_TOKENS}. "
            "Choose a larger model, start its server with a larger context, or raise "
            "agents.defaults.contextTokens."
        )
    wanted = ContextBudget(
        window_tokens=window_tokens,
        window_source=source,
        reserve_tokens=max(reserve_tokens, reserve_floor_tokens),
        soft_threshold_tokens=soft_threshold_tokens,
        keep_recent_tokens=keep_recent_tokens,
        flush_enabled=flush_enabled,
        compaction_enabled=compaction_enabled,
    )
    return wanted.within(window_tokens)
