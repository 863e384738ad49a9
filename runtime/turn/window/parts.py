"""What every window of an agent shares, and what a window asks of its turn."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from nacre.memory.contracts.workspace import Workspace
from nacre.runtime.contracts.clock import Clock
from nacre.runtime.contracts.model import ChatModel, SystemPrompt
from nacre.runtime.hooks.hooks import Hooks
from nacre.runtime.lanes.notices import Told
from nacre.runtime.settings.agents import CompactionSettings, ContextPruningSettings


@dataclass(frozen=True, kw_only=True)
class WindowParts:
    """What every window of an agent shares. Built once, by the composition root.

    `summary_model` and `flush_model` are models of their own for these calls; `None` leaves them to the
    models of the conversation. `offline` extracts where no model can be asked.
    """

    settings: CompactionSettings
    pruning: ContextPruningSettings
    summary_model: ChatModel | None
    flush_model: ChatModel | None
    offline: ChatModel
    workspace: Workspace
    now: Clock
    count_tokens: Callable[[str], int]
    on_notes: Callable[[str], None]
    told: Told
    hooks: Hooks


class RequestFrame(Protocol):
    """What every request of a turn carries besides the transcript; made when it is first asked for."""

    async def system(self) -> SystemPrompt:
        """The system prompt."""
        ...

    async def overhead_tokens(self) -> int:
        """Tokens of system prompt and tool schemas together."""
        ...
