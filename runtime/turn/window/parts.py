"""What a window needs from its agent, and what every request carries besides the transcript. Pure values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from nacre.runtime.contracts.budget import ContextBudget
from nacre.runtime.contracts.clock import Clock
from nacre.runtime.contracts.model import Ask
from nacre.runtime.settings.agents import CompactionSettings
from nacre.runtime.turn.window.summaries.ladder import SummaryModel


@dataclass(frozen=True, kw_only=True)
class WindowParts:
    """What a window needs from the agent; the same for every session."""

    budget: ContextBudget
    settings: CompactionSettings
    workspace: Path
    lock_dir: Path
    now: Clock
    count_tokens: Callable[[str], int]
    ask_for_notes: Ask
    ask_offline: Ask
    summary_models: tuple[SummaryModel, ...]
    extractor: SummaryModel
    on_notes: Callable[[str], None]
    warn_once: Callable[[str], None]
