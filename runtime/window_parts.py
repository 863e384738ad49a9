"""What a window needs from its agent, and what every request carries besides the transcript. Pure values."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from nacre.runtime.budget import ContextBudget
from nacre.runtime.clock import Clock
from nacre.runtime.compaction_settings import CompactionSettings
from nacre.runtime.compactor import SummaryModel
from nacre.runtime.loop import Ask
from nacre.runtime.model import SystemPrompt, ToolSpec


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


def overhead_tokens(
    system: SystemPrompt, tools: Sequence[ToolSpec], count_tokens: Callable[[str], int]
) -> int:
    """Tokens that every request carries besides the transcript: system prompt and tool schemas."""
    schemas = json.dumps([[tool.name, tool.description, dict(tool.parameters)] for tool in tools])
    return count_tokens(system.joined()) + count_tokens(schemas)
