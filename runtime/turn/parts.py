"""What a turn needs: the agent's parts, and from them a session's tools, system prompt and window."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from nacre.memory.engine import MemoryEngine
from nacre.runtime.contracts.budget import ContextBudget
from nacre.runtime.contracts.clock import Clock
from nacre.runtime.contracts.events import Emit, Warned
from nacre.runtime.contracts.ids import NewId
from nacre.runtime.contracts.inbound import Inbound
from nacre.runtime.contracts.model import Ask, ChatModel, SystemPrompt, ToolSpec
from nacre.runtime.contracts.policy import ChatPolicy
from nacre.runtime.lanes.journals import Journals
from nacre.runtime.lanes.open_session import OpenSession
from nacre.runtime.models.failover import ModelChain
from nacre.runtime.recall.memory_tools import memory_tools
from nacre.runtime.recall.unindexed import UnindexedNotes
from nacre.runtime.settings.settings import Settings
from nacre.runtime.tools.files import file_tools
from nacre.runtime.tools.results import ToolResults, result_limits
from nacre.runtime.tools.toolbox import Tool, Toolbox
from nacre.runtime.turn.context import changing_part, system_prompt
from nacre.runtime.turn.notices import Told
from nacre.runtime.turn.window.parts import WindowParts
from nacre.runtime.turn.window.summaries.ladder import SummaryModel, summary_limits
from nacre.runtime.turn.window.window import Window
from nacre.sessions.disk.whole_results import WholeResults
from nacre.sessions.index.index import SessionIndex

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class TurnParts:
    """What every turn of an agent shares. Built once, in `app.py`.

    `memory` is `None` when search is switched off, or when its index cannot be opened: then `unindexed` is
    there in its place.
    """

    settings: Settings
    models: ModelChain
    summary_model: ChatModel | None
    flush_model: ChatModel | None
    offline: ChatModel
    memory: MemoryEngine | None
    unindexed: UnindexedNotes | None
    index: SessionIndex
    journals: Journals
    workspace: Path
    lock_dir: Path
    now: Clock
    new_id: NewId
    count_tokens: Callable[[str], int]
    told: Told = field(default_factory=Told)

    @property
    def model(self) -> ChatModel:
        """The model that the owner chose; a fallback may answer in its place."""
        return self.models.first.model

    def ask(self, emit: Emit, model: ChatModel | None = None) -> Ask:
        """Asks the models in their order, or another one alone; what went wrong on the way is told."""
        if model is None or model is self.model:
            return self.models.ask(emit)
        return self.models.ask_alone(model, emit)

    def cites(self, policy: ChatPolicy) -> bool:
        """Whether search results name their source in this chat."""
        mode = self.settings.memory.citations
        return mode == "on" or (mode == "auto" and policy.is_private)

    def on_notes(self, path: str) -> None:
        """A tool wrote a file: the index has something to read."""
        log.info("%s was written", path)
        if self.memory is not None:
            self.memory.mark_dirty()

    def on_said(self) -> None:
        """A turn is over: where conversations are searched, the next search looks how far they have grown."""
        if self.memory is not None and "sessions" in self.settings.agent.memory_search.sources:
            self.memory.mark_dirty()


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """A session ready to talk: its tools, its system prompt and its window."""

    toolbox: Toolbox
    results: ToolResults
    specs: tuple[ToolSpec, ...]
    system: SystemPrompt
    window: Window
    window_of: Callable[[ContextBudget], Window]
    """The same session in the window of another model."""


async def prepare(session: OpenSession, inbound: Inbound, parts: TurnParts, emit: Emit) -> Prepared:
    """Puts together what the model reads before the conversation, and the window around both."""
    cites = parts.cites(session.policy)
    asked = await parts.models.current()
    whole, limits = WholeResults(session.journal.path), result_limits(asked.budget)
    toolbox = Toolbox(
        _tools(session.policy, parts, cites=cites, whole=whole, page_chars=limits.page_chars),
        now_ms=session.now_ms,
        timeout_seconds=parts.settings.agent.tool_timeout_seconds,
    )
    specs = toolbox.specs()
    if not parts.workspace.is_dir():
        log.warning("the workspace %s is gone", parts.workspace)
        name = parts.workspace.name
        emit(Warned(message=f"The workspace folder {name!r} is gone: no note can be read or written."))
    system, notices = await system_prompt(
        workspace=parts.workspace,
        policy=session.policy,
        settings=parts.settings.agent,
        tools=specs,
        cites=cites,
        changing=changing_part(
            now=parts.now(),
            channel=inbound.channel,
            chat_kind=session.policy.chat_kind,
            model_name=asked.model.name,
        ),
    )
    parts.told.once(session.session_id, notices, emit)

    def window_of(budget: ContextBudget) -> Window:
        window_parts = _window_parts(session.session_id, parts, budget, emit)
        return Window(session, window_parts, system=system, tools=specs, emit=emit)

    return Prepared(
        toolbox=toolbox,
        results=ToolResults(whole, limits, count_tokens=parts.count_tokens, new_id=parts.new_id),
        specs=specs,
        system=system,
        window=window_of(asked.budget),
        window_of=window_of,
    )


def _tools(
    policy: ChatPolicy, parts: TurnParts, *, cites: bool, whole: WholeResults, page_chars: int
) -> tuple[Tool, ...]:
    if not parts.workspace.is_dir():
        # A mount that is not there must not be grown anew: the notes on it would seem lost.
        return ()
    tools = file_tools(
        parts.workspace,
        policy,
        lock_dir=parts.lock_dir,
        on_changed=parts.on_notes,
        now=parts.now,
        whole_results=whole,
        page_chars=page_chars,
    )
    notes = parts.memory or parts.unindexed
    if notes is None or not policy.offers_memory_tools:
        return tools
    return (*tools, *memory_tools(notes, cites=cites))


def _window_parts(session_id: str, parts: TurnParts, budget: ContextBudget, emit: Emit) -> WindowParts:
    settings = parts.settings.agent.compaction
    is_other = parts.summary_model is not None and parts.summary_model.name != parts.model.name
    own = (parts.summary_model,) if parts.summary_model is not None and is_other else ()

    def summary_model(model: ChatModel, ask: Ask) -> SummaryModel:
        window_tokens = model.context_window_tokens if model in own else None
        limits = summary_limits(budget, settings, window_tokens=window_tokens)
        return SummaryModel(name=model.name, ask=ask, limits=limits)

    return WindowParts(
        budget=budget,
        settings=settings,
        workspace=parts.workspace,
        lock_dir=parts.lock_dir,
        now=parts.now,
        count_tokens=parts.count_tokens,
        ask_for_notes=parts.ask(emit, parts.flush_model),
        ask_offline=parts.offline.stream,
        summary_models=tuple(summary_model(model, parts.ask(emit, model)) for model in (*own, parts.model)),
        extractor=summary_model(parts.offline, parts.offline.stream),
        on_notes=parts.on_notes,
        warn_once=lambda warning: parts.told.once(session_id, (warning,), emit),
    )
