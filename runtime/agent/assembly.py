"""The composition root: from a config to an agent's parts. The only file that knows them all."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from nacre.memory.contracts.errors import MemoryIndexError
from nacre.memory.contracts.workspace import PathOutsideRoot, Workspace
from nacre.memory.workspace.folder import FolderWorkspace
from nacre.memory.workspace.workspace import TemplateMissing, ensure_workspace
from nacre.runtime.agent.given_tools import BUILT_IN_TOOLS
from nacre.runtime.agent.open_models import open_models
from nacre.runtime.agent.parts import AgentParts
from nacre.runtime.agent.running import Running
from nacre.runtime.agent.shared import Shared, World
from nacre.runtime.commands.contract.command import Command
from nacre.runtime.commands.registry import Commands
from nacre.runtime.contracts.budget import TIGHT_WINDOW_TOKENS, ContextBudget
from nacre.runtime.contracts.clock import Clock, epoch_ms, owner_zone, system_clock
from nacre.runtime.contracts.errors import TurnBroken
from nacre.runtime.contracts.ids import NewId
from nacre.runtime.contracts.model import ChatModel
from nacre.runtime.endings.hooks import Hooks
from nacre.runtime.endings.lifecycle import Lifecycle
from nacre.runtime.endings.session_memory import SessionMemory
from nacre.runtime.endings.upkeep import Upkeep
from nacre.runtime.extensions.loading import load_extensions
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
from nacre.runtime.settings.disk.private_places import keep_private
from nacre.runtime.settings.plugins import MEMORY_CORE, NO_MEMORY
from nacre.runtime.settings.settings import Settings
from nacre.runtime.tools.function import FunctionTool
from nacre.runtime.turn.loop.limits import UsageLimits
from nacre.runtime.turn.parts import TurnParts
from nacre.runtime.turn.prompt_parts.prompt_part import PromptPart
from nacre.runtime.turn.prompt_parts.sections import PromptParts
from nacre.runtime.turn.system_prompt import SystemPrompts
from nacre.runtime.turn.window.parts import WindowParts
from nacre.sessions.index.index import SessionIndex
from nacre.sessions.stores.files import FileSessionStore, SessionPlaces

LANE_WAIT_SECONDS = 600.0

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Given:
    """What a bot author hands in besides the settings; without a model or a memory engine these decide."""

    model: ChatModel | None = None
    tools: tuple[FunctionTool[..., Any], ...] = ()
    commands: tuple[Command, ...] = ()
    limits: UsageLimits | None = None
    prompt_parts: tuple[PromptPart, ...] = ()
    memory: MemoryPlugin | None = None
    memory_id: str = ""


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
        parts = await _assembled(config, given, world)
        await parts.upkeep.begin()
        parts.lifecycle.finish_left_over()
        return parts
    except BaseException as error:
        await closing.aclose()
        if not isinstance(error, (OSError, MemoryIndexError, PathOutsideRoot, TemplateMissing)):
            raise
        raise TurnBroken(f"The agent could not be opened in {config.state_dir}: {error}") from error


async def _assembled(config: Config, given: Given, world: World) -> AgentParts:
    settings, now = config.settings, world.now
    given, extension_notices = _extended(given, settings)
    commands = Commands(given.commands, reset_triggers=settings.session.reset_triggers)
    await asyncio.to_thread(keep_private, config.state_dir, config.folders)
    workspace, workspace_notices = await _workspace(config)
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
    store = _store(config, world)
    world.closing.push_async_callback(store.close)
    turn = TurnParts(
        agent_id=config.agent_id,
        settings=settings,
        models=chosen.default,
        window=_window_parts(config, world, offline, workspace, memory, count_tokens),
        sessions=_sessions(config, world, store.index),
        memory=memory,
        tools=given.tools,
        prompt_parts=PromptParts(given.prompt_parts),
        prompts=SystemPrompts(workspace, settings.agent, now=now, count_tokens=count_tokens),
        now=now,
        new_id=world.new_id,
        count_tokens=count_tokens,
    )
    lanes = Lanes(config.private_dir / "locks" / "lanes", sleep=asyncio.sleep, wait_seconds=LANE_WAIT_SECONDS)
    hooks = _hooks(turn)
    return AgentParts(
        turn=turn,
        chosen=chosen,
        lanes=lanes,
        hooks=hooks,
        lifecycle=Lifecycle(turn, lanes=lanes, endings=store.endings, hooks=hooks),
        notices=(
            *config.notices,
            *workspace_notices,
            *extension_notices,
            *memory.notices,
            *_window_notices(chosen.default.first.budget),
        ),
        upkeep=Upkeep(turn.sessions.index, settings.session, now=now),
        commands=commands,
        limits=given.limits,
        running=Running(),
        closing=world.closing,
    )


def _sessions(config: Config, world: World, index: SessionIndex) -> SessionOpener:
    now = world.now
    return SessionOpener(
        index,
        Journals(workspace=config.workspace, now=now, new_id=world.new_id),
        now=now,
        new_id=world.new_id,
        history_turns=lambda route: _history_turns(route, config.settings),
    )


def _store(config: Config, world: World) -> FileSessionStore:
    places = SessionPlaces(
        index=config.sessions_file,
        endings=config.folders.agent_dir / "endings",
        lanes=config.private_dir / "locks" / "lanes",
        cwd=config.workspace,
    )
    return FileSessionStore(places, now=world.now, new_id=world.new_id)


def _window_parts(
    config: Config,
    world: World,
    offline: ChatModel,
    workspace: Workspace,
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
        workspace=workspace,
        now=world.now,
        count_tokens=count_tokens,
        on_notes=lambda path: _on_notes(memory, path),
        told=Told(),
    )


def _extended(given: Given, settings: Settings) -> tuple[Given, tuple[str, ...]]:
    """`given` with what the extensions bring behind it, and sentences for the owner.

    A memory engine that the author handed in stays in the place of an extension's.
    """
    loaded = load_extensions(
        settings.plugins,
        tool_names=(*BUILT_IN_TOOLS, *(tool.name for tool in given.tools)),
        part_names=[part.name for part in given.prompt_parts],
        commands=given.commands,
        reset_triggers=settings.session.reset_triggers,
    )
    for host in loaded.hosts:
        given = replace(
            given,
            tools=(*given.tools, *host.tools),
            commands=(*given.commands, *host.commands),
            prompt_parts=(*given.prompt_parts, *host.prompt_parts),
        )
        if given.memory is None and host.engine is not None:
            given = replace(given, memory=host.engine, memory_id=host.extension_id)
    return given, loaded.notices


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
        return MemorySlot(given.memory, name=given.memory_id or type(given.memory).__name__)
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


def _hooks(turn: TurnParts) -> Hooks:
    hooks, internal = Hooks(), turn.settings.hooks.internal
    if internal.enabled and internal.entries.session_memory.enabled:
        handler = SessionMemory(
            workspace=turn.workspace,
            messages=internal.entries.session_memory.messages,
            model=turn.model,
            on_notes=turn.window.on_notes,
        )
        hooks.on("session_end", handler)
    return hooks


async def _workspace(config: Config) -> tuple[Workspace, tuple[str, ...]]:
    """The owner's Markdown, made if it is new, and what the owner should know of that."""
    workspace = FolderWorkspace(config.workspace, lock_dir=config.state_dir / "locks")
    made = await ensure_workspace(workspace, with_templates=not config.settings.agent.skip_bootstrap)
    return workspace, (made.notice,) if made.notice else ()


def _window_notices(budget: ContextBudget) -> tuple[str, ...]:
    if budget.window_tokens >= TIGHT_WINDOW_TOKENS:
        return ()
    return (
        f"The context window has only {budget.window_tokens} tokens (from {budget.window_source}); "
        f"history is compacted above {budget.compact_at}.",
    )
