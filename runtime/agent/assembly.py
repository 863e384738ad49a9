"""The composition root: from a config to an agent's parts. The only file that knows them all."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from nacre.memory.contracts.errors import MemoryIndexError
from nacre.memory.workspace.paths import PathOutsideRoot
from nacre.memory.workspace.workspace import TemplateMissing, WorkspaceReport, ensure_workspace
from nacre.runtime.agent.open_models import open_models
from nacre.runtime.agent.parts import AgentParts
from nacre.runtime.agent.running import Running
from nacre.runtime.agent.shared import Shared, World
from nacre.runtime.commands.contract.command import Command
from nacre.runtime.commands.registry import Commands
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
from nacre.runtime.recall.memory_core import memory_core
from nacre.runtime.recall.memory_plugin import MemoryHome, MemoryPlugin
from nacre.runtime.recall.memory_slot import MemorySlot
from nacre.runtime.settings.channels import history_turns
from nacre.runtime.settings.config import Config
from nacre.runtime.settings.plugins import MEMORY_CORE, NO_MEMORY
from nacre.runtime.settings.settings import Settings
from nacre.runtime.tools.approvals.approval import Approval
from nacre.runtime.tools.approvals.approvals import Approvals
from nacre.runtime.tools.approvals.folder import ApprovalFolder
from nacre.runtime.tools.function import FunctionTool
from nacre.runtime.turn.loop.limits import UsageLimits
from nacre.runtime.turn.parts import TurnParts
from nacre.runtime.turn.prompt_parts.prompt_part import PromptPart
from nacre.runtime.turn.prompt_parts.sections import PromptParts
from nacre.runtime.turn.system_prompt import SystemPrompts
from nacre.runtime.turn.window.parts import WindowParts
from nacre.sessions.disk.endings import EndingFolder
from nacre.sessions.index.index import SessionIndex

LANE_WAIT_SECONDS = 600.0

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Given:
    """What a bot author hands in besides the settings; without a model or a memory engine these decide."""

    model: ChatModel | None = None
    tools: tuple[FunctionTool[..., Any], ...] = ()
    hooks: HookTable = field(default_factory=lambda: HookTable())
    commands: tuple[Command, ...] = ()
    limits: UsageLimits | None = None
    prompt_parts: tuple[PromptPart, ...] = ()
    memory: MemoryPlugin | None = None


async def assemble(
    config: Config,
    given: Given,
    *,
    clock: Clock | None,
    new_id: NewId,
    watch: bool,
    shared: Shared | None = None,
) -> AgentParts:
    """Builds an agent's parts, making folders that do not exist yet. Their `closing` releases what it opened.

    `shared` is what it has in common with other agents of this process; without it, nothing.

    Raises:
        ConfigError: a setting cannot be used.
        TurnBroken: a folder cannot be made or read.
    """
    closing = AsyncExitStack()
    try:
        world = World(
            now=clock or system_clock(owner_zone(config.settings.agent.user_timezone or None)),
            new_id=new_id,
            watch=watch,
            shared=shared or Shared(),
            closing=closing,
        )
        return await _assembled(config, given, world)
    except BaseException as error:
        await closing.aclose()
        if not isinstance(error, (OSError, MemoryIndexError, PathOutsideRoot, TemplateMissing)):
            raise
        raise TurnBroken(f"The agent could not be opened in {config.state_dir}: {error}") from error


async def _assembled(config: Config, given: Given, world: World) -> AgentParts:
    settings, now = config.settings, world.now
    commands = Commands(given.commands, reset_triggers=settings.session.reset_triggers)
    config.state_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
    workspace = await ensure_workspace(config.workspace, with_templates=not settings.agent.skip_bootstrap)
    count_tokens = world.count_tokens(given.model.name if given.model else config.model_name)
    offline = OfflineModel(now_ms=lambda: epoch_ms(now()), new_id=world.new_id, count_tokens=count_tokens)
    chosen = open_models(
        config,
        world.given(given.model) if given.model else None,
        offline=offline,
        model_named=partial(world.model, config),
        now=now,
        sleep=asyncio.sleep,
        count_tokens=count_tokens,
    )
    memory = await _memory(config, given, world)
    turn = TurnParts(
        agent_id=config.agent_id,
        settings=settings,
        models=chosen.default,
        window=_window_parts(config, world, offline, memory, count_tokens),
        sessions=_sessions(config, world),
        memory=memory,
        tools=given.tools,
        approvals=_approvals(config, now, world.new_id),
        prompt_parts=PromptParts(given.prompt_parts),
        prompts=SystemPrompts(config.workspace, settings.agent, now=now, count_tokens=count_tokens),
        now=now,
        new_id=world.new_id,
        count_tokens=count_tokens,
    )
    lanes = Lanes(config.private_dir / "locks" / "lanes", sleep=asyncio.sleep, wait_seconds=LANE_WAIT_SECONDS)
    _register(given.hooks, turn)
    endings = EndingFolder(config.folders.agent_dir / "endings", now=now)
    return AgentParts(
        turn=turn,
        chosen=chosen,
        lanes=lanes,
        lifecycle=Lifecycle(turn, lanes=lanes, endings=endings),
        notices=(
            *config.notices,
            *_notices(workspace, waiting=await turn.approvals.pending()),
            *memory.notices,
            *_window_notices(chosen.default.first.budget),
        ),
        upkeep=Upkeep(turn.sessions.index, settings.session, now=now),
        commands=commands,
        limits=given.limits,
        running=Running(),
        closing=world.closing,
    )


def _approvals(config: Config, now: Clock, new_id: NewId) -> Approvals:
    approvals = config.settings.tools.approvals
    return Approvals(
        ApprovalFolder(config.folders.agent_dir / "approvals", now=now),
        now_ms=lambda: epoch_ms(now()),
        new_id=new_id,
        wait_seconds=approvals.wait_seconds,
        expire_ms=int(approvals.expire_hours * 3_600_000),
    )


def _sessions(config: Config, world: World) -> SessionOpener:
    now = world.now
    return SessionOpener(
        SessionIndex(config.sessions_file.parent, name=config.sessions_file.name, now=now),
        Journals(workspace=config.workspace, now=now, new_id=world.new_id),
        now=now,
        new_id=world.new_id,
        history_turns=lambda route: _history_turns(route, config.settings),
    )


def _window_parts(
    config: Config,
    world: World,
    offline: ChatModel,
    memory: MemorySlot,
    count_tokens: Callable[[str], int],
) -> WindowParts:
    compaction = config.settings.agent.compaction

    def side_model(name: str) -> ChatModel | None:
        return world.model(config, name.strip()) if name.strip() else None

    return WindowParts(
        settings=compaction,
        pruning=config.settings.agent.context_pruning,
        summary_model=side_model(compaction.model),
        flush_model=side_model(compaction.memory_flush.model),
        offline=offline,
        workspace=config.workspace,
        lock_dir=config.state_dir / "locks",
        now=world.now,
        count_tokens=count_tokens,
        on_notes=lambda path: _on_notes(memory, path),
        told=Told(),
        hooks=Hooks(timeout_seconds=config.settings.hooks.timeout_seconds),
    )


async def _memory(config: Config, given: Given, world: World) -> MemorySlot:
    """The slot with the engine that the author handed in, or that the settings name, started."""
    slot = _slot(config, given, world)
    world.closing.push_async_callback(slot.close)
    home = MemoryHome(
        agent_id=config.agent_id,
        workspace=config.workspace,
        state_dir=config.state_dir,
        engine_id=slot.name,
        now=world.now,
    )
    await slot.start(home)
    return slot


def _slot(config: Config, given: Given, world: World) -> MemorySlot:
    chosen = config.settings.plugins.slots.memory
    if given.memory is not None:
        return MemorySlot(given.memory, name=chosen if chosen != MEMORY_CORE else type(given.memory).__name__)
    if chosen == MEMORY_CORE:
        core = memory_core(config, world.now, watch=world.watch, lent=world.embedder)
        return MemorySlot(core, name=chosen, why_empty="memory search is switched off")
    if chosen == NO_MEMORY:
        return MemorySlot(None, name=chosen, why_empty="plugins.slots.memory is none")
    return MemorySlot(None, name=chosen, why_empty=f"there is no memory engine {chosen!r}")


def _on_notes(memory: MemorySlot, path: str) -> None:
    """A tool wrote a file: the index has something to read."""
    log.info("%s was written", path)
    memory.notes_changed()


def _history_turns(route: Route, settings: Settings) -> int | None:
    origin = route.origin
    return history_turns(
        route.key, channel=origin.channel, sender_id=origin.sender_id, channels=settings.channels
    )


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


def _notices(workspace: WorkspaceReport, *, waiting: Sequence[Approval]) -> tuple[str, ...]:
    named = ", ".join(f"{each.tool_name} ({each.id})" for each in waiting)
    calls = f"Tool calls that wait for your approval: {named}. /approve tells more." if waiting else ""
    return tuple(text for text in (workspace.notice, calls) if text)


def _window_notices(budget: ContextBudget) -> tuple[str, ...]:
    if budget.window_tokens >= TIGHT_WINDOW_TOKENS:
        return ()
    return (
        f"The context window has only {budget.window_tokens} tokens (from {budget.window_source}); "
        f"history is compacted above {budget.compact_at}.",
    )
