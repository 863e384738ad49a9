"""`agents.defaults.compaction`: when and how old history becomes a summary, and notes before that."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from nacre.runtime.settings.section import SettingsSection
from nacre.runtime.settings.values import bytes_or, count_or

FLUSH_SOFT_THRESHOLD_TOKENS = 4_000
RESERVE_TOKENS = 16_384
RESERVE_FLOOR_TOKENS = 20_000
KEEP_RECENT_TOKENS = 20_000
FORCE_FLUSH_TRANSCRIPT_BYTES = 2 * 1024 * 1024


class MemoryFlushSettings(SettingsSection):
    """`agents.defaults.compaction.memoryFlush`: the silent turn that saves notes before a compaction."""

    enabled: bool = True
    """Whether notes are written before history is compacted."""
    soft_threshold_tokens: Annotated[int, count_or(FLUSH_SOFT_THRESHOLD_TOKENS)] = FLUSH_SOFT_THRESHOLD_TOKENS
    """How many tokens before the compaction line the flush is due."""
    prompt: str = ""
    """The flush turn's user prompt; blank is the built-in one. `YYYY-MM-DD` becomes today's date."""
    system_prompt: str = ""
    """What is added to the system prompt in the flush turn; blank is the built-in text."""
    model: str = ""
    """`provider/model` for the flush turn alone; blank is the model that answers."""
    force_flush_transcript_bytes: Annotated[int, bytes_or(FORCE_FLUSH_TRANSCRIPT_BYTES)] = (
        FORCE_FLUSH_TRANSCRIPT_BYTES
    )
    """After how many bytes of text since the last flush there is one, however full the window; 0 is never."""


class CompactionSettings(SettingsSection):
    """`agents.defaults.compaction`: when and how old history becomes a summary."""

    enabled: bool = True
    """`false` stops only the threshold trigger; overflow recovery and `/compact` stay."""
    reserve_tokens: Annotated[int, count_or(RESERVE_TOKENS)] = RESERVE_TOKENS
    """Room kept free for the answer; the floor below raises it."""
    reserve_tokens_floor: Annotated[int, count_or(RESERVE_FLOOR_TOKENS)] = RESERVE_FLOOR_TOKENS
    """Least reserve, whatever `reserveTokens` says; 0 switches the floor off."""
    keep_recent_tokens: Annotated[int, count_or(KEEP_RECENT_TOKENS)] = KEEP_RECENT_TOKENS
    """How much of the tail stays verbatim."""
    custom_instructions: str = ""
    """What every summary should pay attention to, also in automatic compactions."""
    model: str = ""
    """`provider/model` for summaries alone; blank is the model that answers, and is asked when this fails."""
    max_summary_tokens: Annotated[int, Field(ge=256)] | None = None
    """Most that a summary may take; unset is four fifths of the reserve, at most a quarter of the history."""
    timeout_seconds: Annotated[float, Field(gt=0)] = 180.0
    """Longest that the summary of one part of a long history may take; finished parts are kept."""
    memory_flush: MemoryFlushSettings = Field(default_factory=MemoryFlushSettings.model_construct)
