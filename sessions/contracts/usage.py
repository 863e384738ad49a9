"""Tokens of one model call, as the provider counted them. Values only; nothing is guessed here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_MOST = 2**53
"""Numbers above are no counts: JSON's do not reach further."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Usage:
    """Tokens of one model call as the provider counted them; `input_tokens` excludes cached ones."""

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    cost_usd: float = 0.0

    @property
    def context_tokens(self) -> int:
        """Tokens that the window held when the call ended: prompt, cached or not, and answer."""
        return self.input_tokens + self.output_tokens + self.cache_read_tokens + self.cache_write_tokens

    def __add__(self, other: Usage) -> Usage:
        """Both calls together. A sum says what was paid for, not how full the window is."""
        return Usage(
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            cache_read_tokens=self.cache_read_tokens + other.cache_read_tokens,
            cache_write_tokens=self.cache_write_tokens + other.cache_write_tokens,
            cost_usd=self.cost_usd + other.cost_usd,
        )

    def to_json(self) -> dict[str, Any]:
        """The `usage` object as pi stores it."""
        return {
            "input": self.input_tokens,
            "output": self.output_tokens,
            "cacheRead": self.cache_read_tokens,
            "cacheWrite": self.cache_write_tokens,
            "totalTokens": self.context_tokens,
            "cost": {"total": self.cost_usd},
        }


def usage_from_json(raw: object) -> Usage | None:
    """Reads a usage object under pi's, Anthropic's or OpenAI's key names; `None` when nothing counts.

    OpenAI's `prompt_tokens` include the cached ones, which `prompt_tokens_details` tells; they are
    taken out. An object that knows only a total counts it as input.
    """
    # A type that is asked for by name is many times cheaper, and a transcript has thousands of these.
    if type(raw) is not dict and not isinstance(raw, Mapping):
        return None
    input_tokens = _first_number(raw, "input", "inputTokens", "input_tokens")
    output_tokens = _first_number(
        raw, "output", "outputTokens", "output_tokens", "completionTokens", "completion_tokens"
    )
    cache_read_tokens = _first_number(raw, "cacheRead", "cache_read", "cache_read_input_tokens")
    cache_write_tokens = _first_number(raw, "cacheWrite", "cache_write", "cache_creation_input_tokens")
    prompt_tokens = 0 if input_tokens else _first_number(raw, "promptTokens", "prompt_tokens")
    if prompt_tokens:
        details = raw.get("prompt_tokens_details")
        if not cache_read_tokens and isinstance(details, Mapping):
            cache_read_tokens = min(prompt_tokens, _first_number(details, "cached_tokens"))
        input_tokens = max(0, prompt_tokens - cache_read_tokens - cache_write_tokens)
    if not (input_tokens or output_tokens or cache_read_tokens or cache_write_tokens):
        input_tokens = _first_number(raw, "totalTokens", "total", "total_tokens")
    usage = Usage(
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        cache_read_tokens=cache_read_tokens,
        cache_write_tokens=cache_write_tokens,
        cost_usd=_cost_usd(raw.get("cost")),
    )
    return usage if usage.context_tokens > 0 else None


def whole_number(value: object) -> int:
    """A number from a foreign file as a whole number of at least zero; zero for anything else."""
    if type(value) is int and 0 <= value <= _MOST:
        return value
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value:
        return 0
    return int(max(0, min(value, _MOST)))


def _cost_usd(raw: object) -> float:
    total = raw.get("total") if type(raw) is dict or isinstance(raw, Mapping) else raw
    if type(total) is float and abs(total) < _MOST:
        return total
    if isinstance(total, bool) or not isinstance(total, int | float):
        return 0.0
    return float(total) if abs(total) < _MOST else 0.0


def _first_number(raw: Mapping[str, Any], *keys: str) -> int:
    for key in keys:
        value = raw.get(key)
        if value is not None:
            return value if type(value) is int and 0 <= value <= _MOST else whole_number(value)
    return 0
