"""`agents.defaults.contextPruning`: when old tool results are shortened in what a model is sent."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from nacre.runtime.settings.section import SettingsSection
from nacre.runtime.settings.values import count_or

_UNIT_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_DURATION = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)?\s*", re.IGNORECASE)


def _duration(value: object) -> object:
    """A duration as OpenClaw writes it: `"5m"`, `"1h"`; a bare number is minutes."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return value
    if _DURATION.fullmatch(str(value)) is None:
        raise ValueError(f"{value!r} is no duration; write it like '5m', '90s' or '1h'")
    return str(value)


def _share(value: object) -> object:
    """A share of the window, from 0 to 1."""
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value:
        return value
    return min(1.0, max(0.0, float(value)))


Share = Annotated[float, BeforeValidator(_share)]


class SoftTrimSettings(SettingsSection):
    """`contextPruning.softTrim`: an old result keeps its head and its tail."""

    max_chars: Annotated[int, count_or(4_000)] = 4_000
    """Longer results are trimmed."""
    head_chars: Annotated[int, count_or(1_500)] = 1_500
    """How much of the beginning stays."""
    tail_chars: Annotated[int, count_or(1_500)] = 1_500
    """How much of the end stays."""


class HardClearSettings(SettingsSection):
    """`contextPruning.hardClear`: an old result is replaced as a whole."""

    enabled: bool = True
    """Whether that is done at all."""
    placeholder: str = "[Old tool result content cleared]"
    """What stands in its place."""


class PrunedToolsSettings(SettingsSection):
    """`contextPruning.tools`: whose results are pruned; `*` stands for anything, in any case."""

    allow: tuple[str, ...] = ()
    """Only these tools; empty is all."""
    deny: tuple[str, ...] = ()
    """Never these, also where `allow` names them."""


class ContextPruningSettings(SettingsSection):
    """`agents.defaults.contextPruning`."""

    mode: Literal["off", "cache-ttl"] = "off"
    """`cache-ttl` prunes once the provider has forgotten the prompt anyway, or the window is getting full."""
    ttl: Annotated[str, BeforeValidator(_duration)] = "5m"
    """How long a provider remembers a prompt: `"5m"`, `"1h"`; a bare number is minutes, 0 is never."""
    size_trigger_ratio: Share = 0.8
    """From this share of the flush line on a remembered prompt is pruned too; 1 is never."""
    keep_last_assistants: Annotated[int, count_or(3)] = 3
    """So many of the model's last messages, and all that follows them, are left alone."""
    soft_trim_ratio: Share = 0.3
    """Below this share of the window nothing is pruned."""
    hard_clear_ratio: Share = 0.5
    """From this share on, results are replaced as a whole, the oldest first."""
    min_prunable_tool_chars: Annotated[int, count_or(50_000)] = 50_000
    """With less than this in old results none is replaced as a whole."""
    soft_trim: SoftTrimSettings = Field(default_factory=SoftTrimSettings.model_construct)
    hard_clear: HardClearSettings = Field(default_factory=HardClearSettings.model_construct)
    tools: PrunedToolsSettings = Field(default_factory=PrunedToolsSettings.model_construct)

    @property
    def ttl_seconds(self) -> float:
        """`ttl` in seconds."""
        match = _DURATION.fullmatch(self.ttl)
        assert match is not None, "it was validated"
        return float(match[1]) * _UNIT_SECONDS[(match[2] or "m").lower()]
