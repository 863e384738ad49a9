"""What every window of an agent shares, and what a window asks of its turn."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from nacre.memory.contracts.workspace import Workspace
from nacre.memory.files.proposals import ReviewQueue
from nacre.memory.files.sources.sources import Sources
from nacre.record import Record
from nacre.runtime.contracts.budget import ContextBudget
from nacre.runtime.contracts.clock import Clock
from nacre.runtime.contracts.events import Emit
from nacre.runtime.contracts.model import ChatModel, SystemPrompt
from nacre.runtime.hooks.hooks import Hooks
from nacre.runtime.models.failover import ModelChain
from nacre.runtime.open_sessions.open_session import NoticeLog, OpenSession
from nacre.runtime.settings.sections.agents import CompactionSettings, ContextPruningSettings


class WindowParts(Record):
    """What every window of an agent shares. Built once, by the composition root.

    `summary_model` and `flush_model` are models of their own for these calls; `None` leaves them to the
    models of the conversation. `offline` extracts where no model can be asked. `sources` are those of the
    workspace's lines, `review` is what waits for the owner. `has_bank` is whether pages are
    made of what the owner's logs retain.
    """

    settings: CompactionSettings
    pruning: ContextPruningSettings
    summary_model: ChatModel | None
    flush_model: ChatModel | None
    offline: ChatModel
    workspace: Workspace
    sources: Sources
    review: ReviewQueue
    has_bank: bool
    now: Clock
    count_tokens: Callable[[str], int]
    on_notes: Callable[[str], None]
    told: NoticeLog
    hooks: Hooks


class RequestFrame(Protocol):
    """What every request of a turn carries besides the transcript; made when it is first asked for."""

    async def system(self) -> SystemPrompt:
        """The system prompt."""
        ...

    async def drop_deleted(self) -> None:
        """Has the transcript say what was deleted of the system prompt, so that it is in no request."""
        ...

    async def overhead_tokens(self) -> int:
        """Tokens of system prompt and tool schemas together."""
        ...


class WindowTurn(Record):
    """One session in one turn, as its window sees it.

    `budget` is that of the model that is asked next of `models`; `frame` is what every request carries
    besides the transcript, and counts until the provider has reported a usage.
    """

    session: OpenSession
    parts: WindowParts
    models: ModelChain
    budget: ContextBudget
    frame: RequestFrame
    emit: Emit
