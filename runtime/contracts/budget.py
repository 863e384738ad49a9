"""The one answer to "how full is the window": flush, compaction, status and guards all ask here.

    |<------------------------- window -------------------------->|
    | history                 | soft threshold |     reserve      |
                              ^ flush_at       ^ compact_at

Formulas: the flush and reserve settings are the memory seed's (`contextWindow − reserveTokensFloor
− softThresholdTokens`); small windows are scaled as spec sessions §8.1 says, because a fixed
reserve of 20,000 would make a 16,000-token window compact on every turn.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Literal, TypeAlias

from nacre.record import Record
from nacre.runtime.contracts.errors import ConfigError

FALLBACK_WINDOW_TOKENS = 200_000
SMALLEST_WINDOW_TOKENS = 16_000
TIGHT_WINDOW_TOKENS = 32_000

WindowSource: TypeAlias = Literal["settings", "model", "fallback"]
WINDOW_SOURCES: Mapping[WindowSource, str] = {
    "settings": "from settings",
    "model": "from model",
    "fallback": "assumed, since nobody says how large it is",
}
"""Who said how large the window is, in words."""
Action: TypeAlias = Literal["nothing", "flush", "compact", "flush_then_compact"]


class Decision(Record):
    """What to do before the next model call, and why: `reason` holds the numbers, for the log."""

    action: Action
    reason: str

    @property
    def flushes(self) -> bool:
        return self.action in ("flush", "flush_then_compact")

    @property
    def compacts(self) -> bool:
        return self.action in ("compact", "flush_then_compact")


class ContextBudget(Record):
    """The window and its lines, all in tokens.

    `reserve_tokens` is the effective reserve: room for the answer and for a summary.
    `keep_recent_tokens` is how much of the tail a compaction leaves verbatim.
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
        """Above this many tokens history is compacted."""
        return self.window_tokens - self.reserve_tokens

    @property
    def flush_at(self) -> int:
        """From this many tokens on, the cycle's flush is due."""
        return self.compact_at - self.soft_threshold_tokens

    @property
    def summary_tokens(self) -> int:
        """Most that a summary may take: what the reserve allows, and never half of what is left."""
        return max(256, min(self.reserve_tokens * 4 // 5, self.compact_at // 4))

    def within(self, window_tokens: int) -> ContextBudget:
        """The same lines in a smaller window, of `SMALLEST_WINDOW_TOKENS` at least.

        Reserve, soft threshold and kept tail are cut to at most half of what they come out of.
        """
        window_tokens = min(self.window_tokens, max(window_tokens, SMALLEST_WINDOW_TOKENS))
        reserve_tokens = min(self.reserve_tokens, window_tokens // 2)
        half_tokens = (window_tokens - reserve_tokens) // 2
        return replace(
            self,
            window_tokens=window_tokens,
            reserve_tokens=reserve_tokens,
            soft_threshold_tokens=min(self.soft_threshold_tokens, half_tokens),
            keep_recent_tokens=min(self.keep_recent_tokens, half_tokens),
        )

    def decide(
        self, tokens: int, *, flushed_this_cycle: bool, said_since_compaction_tokens: int | None = None
    ) -> Decision:
        """What `tokens` in the window call for. The flush line is inclusive, the compaction line not.

        In a small window the kept tail alone can reach the flush line. What it holds was flushed
        before the compaction, so a flush waits until half of the soft threshold has been said
        since; `None` stands for a session without a compaction.
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
) -> ContextBudget:
    """The budget for a model: the owner's window wins over the model's own, else 200,000 tokens.

    It is cut as `ContextBudget.within` says, so that a small window has room to talk, to flush and to keep.

    Raises:
        ConfigError: the window is under 16,000 tokens.
    """
    source: WindowSource = "settings"
    window_tokens = configured_window_tokens
    if window_tokens is None:
        source = "fallback" if model_window_tokens is None else "model"
        window_tokens = FALLBACK_WINDOW_TOKENS if model_window_tokens is None else model_window_tokens
    if window_tokens < SMALLEST_WINDOW_TOKENS:
        raise ConfigError(
            f"Context window too small ({window_tokens} tokens, {WINDOW_SOURCES[source]}). "
            f"Minimum is {SMALLEST_WINDOW_TOKENS}. "
            "Choose a larger model or raise agents.defaults.contextTokens."
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
