"""The composition root: from a config to an agent's parts. The only file that knows them all."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from nacre.memory.contracts.errors import IndexUnusable, MemoryIndexError
from nacre.memory.engine import MemoryEngine
from nacre.memory.workspace.paths import PathOutsideRoot
from nacre.memory.workspace.workspace import TemplateMissing, WorkspaceReport, ensure_workspace
from nacre.runtime.agent.open_models import open_models, side_model
from nacre.runtime.agent.parts import AgentParts
from nacre.runtime.contracts.budget import TIGHT_WINDOW_TOKENS, ContextBudget
from nacre.runtime.contracts.clock import Clock, epoch_ms, owner_zone, system_clock
from nacre.runtime.contracts.errors import ConfigError, TurnBroken
from nacre.runtime.contracts.ids import NewId
from nacre.runtime.contracts.model import ChatModel
from nacre.runtime.endings.lifecycle import Lifecycle
from nacre.runtime.endings.session_memory import SessionMemory
from nacre.runtime.endings.upkeep import Upkeep
from nacre.runtime.hooks.hooks import Hooks, HookTable, register_all
from nacre.runtime.lanes.journals import Journals
from nacre.runtime.lanes.lanes import Lanes
from nacre.runtime.lanes.notices import Told
from nacre.runtime.lanes.opening import SessionOpener
from nacre.runtime.lanes.routing import Route
from nacre.runtime.models.offline.model import OfflineModel
from nacre.runtime.models.tokenizer import count_tokens_for, counted_once, estimate_tokens
from nacre.runtime.recall.open_memory import open_memory, unindexed_notes
from nacre.runtime.recall.unindexed import UnindexedNotes
from nacre.runtime.settings.channels import history_turns
from nacre.runtime.settings.config import AGENT_ID, Config
from nacre.runtime.settings.settings import Settings
from nacre.runtime.tools.approvals.approval import Approval
from nacre.runtime.tools.approvals.approvals import Approvals
from nacre.runtime.tools.approvals.folder import ApprovalFolder
from nacre.runtime.tools.function import FunctionTool
from nacre.runtime.turn.parts import TurnParts
from nacre.runtime.turn.window.parts import WindowParts
from nacre.sessions.disk.endings import EndingFolder
from nacre.sessions.index.index import SessionIndex

LANE_WAIT_SECONDS = 600.0

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Given:
    """What a bot author hands in besides the settings; without a model the settings decide."""

    model: ChatModel | None = None
    tools: tuple[FunctionTool[..., Any], ...] = ()
    instructions: str = ""
    hooks: HookTable = field(default_factory=lambda: HookTable())


async def assemble(
    config: Config, given: Given, *, clock: Clock | None, new_id: NewId, watch: bool
) -> AgentParts:
    """Builds an agent's parts, making folders that do not exist yet.

    Raises:
        ConfigError: a setting cannot be used.
        TurnBroken: a folder cannot be made or read.
    """
    try:
        return await _assembled(config, given, clock=clock, new_id=new_id, watch=watch)
    except (OSError, MemoryIndexError, PathOutsideRoot, TemplateMissing) as error:
        raise TurnBroken(f"The agent could not be opened in {config.state_dir}: {error}") from error


async def _assembled(
    config: Config, given: Given, *, clock: Clock | None, new_id: NewId, watch: bool
) -> AgentParts:
    settings, model = config.settings, given.model
    now = clock or system_clock(owner_zone(settings.agent.user_timezone or None))
    config.state_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
    workspace = await ensure_workspace(config.workspace, with_templates=not settings.agent.skip_bootstrap)
    name = model.name if model else config.model_name
    # The offline responder has no tokenizer of its own, and a table takes most of a second to load.
    count_tokens = counted_once(count_tokens_for(name) if name else estimate_tokens)
    offline = OfflineModel(now_ms=lambda: epoch_ms(now()), new_id=new_id, count_tokens=count_tokens)
    chosen = open_models(
        config, model, offline=offline, now=now, sleep=asyncio.sleep, count_tokens=count_tokens
    )
    memory, unindexed = await _memory(config, now)
    if memory is not None and watch:
        await memory.start_watching()
    turn = TurnParts(
        settings=settings,
        models=chosen.default,
        window=_window_parts(config, offline, memory, now, count_tokens),
        sessions=SessionOpener(
            SessionIndex(config.sessions_file.parent, name=config.sessions_file.name, now=now),
            Journals(workspace=config.workspace, now=now, new_id=new_id),
            now=now,
            new_id=new_id,
            history_turns=lambda route: _history_turns(route, settings),
        ),
        memory=memory,
        unindexed=unindexed,
        tools=given.tools,
        instructions=given.instructions,
        approvals=_approvals(config, now, new_id),
        now=now,
        new_id=new_id,
        count_tokens=count_tokens,
    )
    waiting = await turn.approvals.pending()
    lanes = Lanes(config.state_dir / "locks" / "lanes", sleep=asyncio.sleep, wait_seconds=LANE_WAIT_SECONDS)
    _register(given.hooks, turn)
    endings = EndingFolder(config.state_dir / "agents" / AGENT_ID / "endings", now=now)
    return AgentParts(
        agent_id=AGENT_ID,
        turn=turn,
        chosen=chosen,
        lanes=lanes,
        lifecycle=Lifecycle(turn, lanes=lanes, endings=endings),
        notices=(
            *config.notices,
            *_notices(workspace),
            *_approval_notices(waiting),
            *_memory_notices(unindexed),
            *_window_notices(chosen.default.first.budget),
        ),
        upkeep=Upkeep(turn.sessions.index, settings.session, now=now),
    )


def _approvals(config: Config, now: Clock, new_id: NewId) -> Approvals:
    approvals = config.settings.tools.approvals
    return Approvals(
        ApprovalFolder(config.state_dir / "agents" / AGENT_ID / "approvals", now=now),
        now_ms=lambda: epoch_ms(now()),
        new_id=new_id,
        wait_seconds=approvals.wait_seconds,
        expire_ms=int(approvals.expire_hours * 3_600_000),
    )


def _window_parts(
    config: Config,
    offline: ChatModel,
    memory: MemoryEngine | None,
    now: Clock,
    count_tokens: Callable[[str], int],
) -> WindowParts:
    compaction = config.settings.agent.compaction
    return WindowParts(
        settings=compaction,
        pruning=config.settings.agent.context_pruning,
        summary_model=side_model(config, compaction.model, now),
        flush_model=side_model(config, compaction.memory_flush.model, now),
        offline=offline,
        workspace=config.workspace,
        lock_dir=config.state_dir / "locks",
        now=now,
        count_tokens=count_tokens,
        on_notes=lambda path: _on_notes(memory, path),
        told=Told(),
        hooks=Hooks(timeout_seconds=config.settings.hooks.timeout_seconds),
    )


async def disassemble(parts: AgentParts) -> None:
    """Releases what `assemble` opened."""
    try:
        if parts.turn.memory is not None:
            await parts.turn.memory.close()
    finally:
        turn = parts.turn
        for model in (turn.models, turn.window.summary_model, turn.window.flush_model):
            if model is not None:
                await model.aclose()
        await parts.chosen.aclose()


async def _memory(config: Config, now: Clock) -> tuple[MemoryEngine | None, UnindexedNotes | None]:
    """The engine, or what is left of memory when its index cannot be opened: people can talk without it."""
    try:
        return await open_memory(config, now), None
    except IndexUnusable as error:
        log.warning("memory search is not available: %s", error)
        return None, unindexed_notes(config, str(error))


def _on_notes(memory: MemoryEngine | None, path: str) -> None:
    """A tool wrote a file: the index has something to read."""
    log.info("%s was written", path)
    if memory is not None:
        memory.mark_dirty()


def _history_turns(route: Route, settings: Settings) -> int | None:
    origin = route.origin
    return history_turns(
        route.key, channel=origin.channel, sender_id=origin.sender_id, channels=settings.channels
    )


def _memory_notices(unindexed: UnindexedNotes | None) -> tuple[str, ...]:
    if unindexed is None:
        return ()
    return (f"Memory cannot be searched until the next start. {unindexed.problem}",)


def _register(given: HookTable, turn: TurnParts) -> None:
    """The built-in handlers, then the bot author's."""
    internal = turn.settings.hooks.internal
    if internal.enabled and internal.entries.session_memory.enabled:
        handler = SessionMemory(
            workspace=turn.workspace,
            lock_dir=turn.window.lock_dir,
            messages=internal.entries.session_memory.messages,
            model=turn.model,
            on_notes=turn.window.on_notes,
        )
        turn.hooks.on("session_end", handler)
    try:
        register_all(turn.hooks, given)
    except ValueError as error:
        raise ConfigError(f"{error} It stands in Agent.open(hooks=...).") from error


def _notices(workspace: WorkspaceReport) -> tuple[str, ...]:
    return (workspace.notice,) if workspace.notice else ()


def _approval_notices(waiting: Sequence[Approval]) -> tuple[str, ...]:
    if not waiting:
        return ()
    named = ", ".join(f"{each.tool_name} ({each.id})" for each in waiting)
    return (f"Tool calls that wait for your approval: {named}. /approve tells more.",)


def _window_notices(budget: ContextBudget) -> tuple[str, ...]:
    if budget.window_tokens >= TIGHT_WINDOW_TOKENS:
        return ()
    return (
        f"The context window has only {budget.window_tokens} tokens (from {budget.window_source}); "
        f"history is compacted above {budget.compact_at}.",
    )
