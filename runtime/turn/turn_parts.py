"""What every turn of an agent shares."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Protocol, TypeAlias

from nacre.memory.contracts.workspace import Workspace
from nacre.record import Record
from nacre.runtime.contracts.clock import Clock
from nacre.runtime.contracts.events import Emit
from nacre.runtime.contracts.ids import NewId
from nacre.runtime.contracts.model import ChatModel
from nacre.runtime.hooks.hooks import Hooks
from nacre.runtime.models.failover import ModelChain
from nacre.runtime.open_sessions.open_session import NoticeLog, OpenSession, SessionOpener
from nacre.runtime.recall.memory_slot import MemorySlot
from nacre.runtime.settings.settings import Settings
from nacre.runtime.tools.approvals.approvals import Approvals
from nacre.runtime.tools.function import ToolSource
from nacre.runtime.tools.toolbox import CallScope
from nacre.runtime.turn.inbound.inbound_message import VoiceNotes
from nacre.runtime.turn.loop.loop import TurnBounds
from nacre.runtime.turn.loop.sub_agent import AuthorTool, SubAgent
from nacre.runtime.turn.prompt_parts.system_prompt import PromptParts, SystemPrompts
from nacre.runtime.turn.window.window_parts import WindowParts
from nacre.sessions.contracts.messages import Usage

log = logging.getLogger(__name__)


class TurnParts(Record):
    """What every turn of an agent shares. Built once, by the composition root.

    `models` are asked in their order; a chat for which another model was chosen has its own chain.
    `memory` holds the memory engine, if there is one. `voice_notes` writes down recordings. `tools` are the
    bot author's, `tool_sources` bring others; `prompt_parts` is what the author adds to the system prompt.
    `run_sub_agent` gives the words that come of a sub-agent's task. `sub_agent` is the one whose turn it is;
    `None` is the agent itself.
    """

    agent_id: str
    settings: Settings
    models: ModelChain
    window: WindowParts
    sessions: SessionOpener
    memory: MemorySlot
    voice_notes: VoiceNotes
    tools: tuple[AuthorTool, ...]
    tool_sources: tuple[ToolSource, ...]
    run_sub_agent: RunsSubAgent
    approvals: Approvals
    prompt_parts: PromptParts
    prompts: SystemPrompts
    now: Clock
    new_id: NewId
    count_tokens: Callable[[str], int]
    sub_agent: SubAgent | None = None

    @property
    def model(self) -> ChatModel:
        """The model that the owner chose; a fallback may answer in its place."""
        return self.models.first.model

    @property
    def workspace(self) -> Workspace:
        """The folder with the notes."""
        return self.window.workspace

    @property
    def told(self) -> NoticeLog:
        """What the owner was told already."""
        return self.window.told

    @property
    def hooks(self) -> Hooks:
        """What others do when something happens."""
        return self.window.hooks

    def on_said(self) -> None:
        """A turn ended: where conversations are searched, the next search looks how far they have grown."""
        self.memory.transcripts_changed()


class CallingTurn(Protocol):
    """The turn that calls a sub-agent."""

    @property
    def session(self) -> OpenSession:
        """The session that it is of."""
        ...

    @property
    def parts(self) -> TurnParts:
        """What it shares with others."""
        ...

    @property
    def emit(self) -> Emit:
        """Who watches it."""
        ...

    @property
    def bounds(self) -> TurnBounds:
        """How far it may go, together with what it calls."""
        ...

    def spend(self, usage: Usage, /) -> None:
        """Adds what was used for it."""
        ...


RunsSubAgent: TypeAlias = Callable[[CallingTurn, SubAgent, str, CallScope], Awaitable[str]]
"""Gives the words that come of a task."""
