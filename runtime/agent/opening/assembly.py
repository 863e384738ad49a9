"""The composition root: builds an agent's parts from a config. No other file knows all of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from functools import cache, partial

from nacre.locks import keeps_out
from nacre.memory.contracts.errors import MemoryIndexError
from nacre.memory.contracts.workspace import PathOutsideRoot, Workspace
from nacre.memory.files.sources.sources import Sources
from nacre.memory.workspace.history.history_keeper import HistoryKeeper
from nacre.memory.workspace.workspace import TemplateMissing, ensure_workspace
from nacre.runtime.agent.opening.agent_parts import AgentParts, Running
from nacre.runtime.agent.opening.author_parts import AuthorParts, extended, with_servers
from nacre.runtime.agent.opening.open_models import open_models, open_voice_notes
from nacre.runtime.agent.opening.shared import Shared, World
from nacre.runtime.agent.opening.sub_agents import SubAgents
from nacre.runtime.commands.conversation.chosen_models import ChosenModels
from nacre.runtime.commands.registry import Commands
from nacre.runtime.contracts.budget import TIGHT_WINDOW_TOKENS, WINDOW_SOURCES, ContextBudget
from nacre.runtime.contracts.clock import Clock, NewId, epoch_ms
from nacre.runtime.contracts.errors import ConfigError, TurnBroken
from nacre.runtime.contracts.model import ChatModel, load_ahead
from nacre.runtime.extensions.loading import EngineParts, engine_parts, load_facts
from nacre.runtime.hooks.hooks import Hooks, HookTable, register_all
from nacre.runtime.hooks.trust import TrustedHooks, register_workspace_hooks
from nacre.runtime.models.failover import ModelChain
from nacre.runtime.models.offline.answers import quotes_nothing
from nacre.runtime.models.offline.model import OfflineModel
from nacre.runtime.open_sessions.open_session import NoticeLog, SessionOpener
from nacre.runtime.open_sessions.routing import SessionLocks, history_turns_of, workspace_access
from nacre.runtime.recall.memory_core import memory_core
from nacre.runtime.recall.memory_plugin import MemoryPlugin
from nacre.runtime.recall.memory_slot import MemorySlot
from nacre.runtime.recall.open_memory import memory_home
from nacre.runtime.session_lifecycle.lifecycle import Lifecycle, Upkeep
from nacre.runtime.session_lifecycle.session_memory import SessionMemory
from nacre.runtime.settings.config import Config, SettingsInFile
from nacre.runtime.settings.disk.agent_folders import keep_private
from nacre.runtime.settings.sections.plugins import MEMORY_CORE, NO_MEMORY
from nacre.runtime.storage.storage import left_in_folder, open_skills, review_queue, storage_of
from nacre.runtime.tools.approvals.approvals import Approvals
from nacre.runtime.tools.approvals.store import Approval
from nacre.runtime.tools.function import ToolSource
from nacre.runtime.turn.system_prompt import PromptParts, SystemPrompts
from nacre.runtime.turn.turn_parts import RunsSubAgent, TurnParts
from nacre.sessions.stores.store import SessionStore

LOCK_WAIT_SECONDS = 600.0


async def open_memory_slot(
    config: Config, given: AuthorParts, world: World, commands: Commands
) -> tuple[MemorySlot, EngineParts]:
    """Opens the memory engine that the author passed or the settings name, and returns what it provides.

    `commands` are those of the agent without the engine's.
    """
    slot = _slot(config, given, world)
    world.closing.push_async_callback(slot.close)
    home = memory_home(config, slot.name, world.now, lent=world.embedder)
    brought = await slot.start(home, lambda engine: engine_parts(engine, commands))
    return slot, brought or EngineParts(commands=commands)


def _slot(config: Config, given: AuthorParts, world: World) -> MemorySlot:
    chosen = config.settings.plugins.slots.memory
    if given.memory is not None:
        return MemorySlot(given.memory, name=given.memory_id or type(given.memory).__name__)
    if chosen == MEMORY_CORE:
        core = memory_core(
            config, world.now, watch=world.watch, lent=world.embedder, on_demand=world.on_demand
        )
        engine: MemoryPlugin | None = core
        if core is not None and given.memory_backend is not None:
            engine = given.memory_backend.engine(config, core, world.now)
        return MemorySlot(engine, name=chosen, why_empty="memory search is switched off")
    if chosen == NO_MEMORY:
        return MemorySlot(None, name=chosen, why_empty="plugins.slots.memory is none")
    return MemorySlot(None, name=chosen, why_empty=f"there is no memory engine {chosen!r}")


async def assemble(
    config: Config,
    given: AuthorParts,
    *,
    clock: Clock | None,
    new_id: NewId,
    watch: bool,
    shared: Shared | None = None,
    on_demand: bool = False,
) -> AgentParts:
    """Builds an agent's parts, making folders that do not exist yet. Their `closing` releases everything.

    `shared` is what the agent shares with other agents of this process, if anything. With `on_demand`, the
    memory index is opened when it is first needed, and changes of the notes are not watched.

    Raises:
        ConfigError: a setting cannot be used.
        TurnBroken: a folder cannot be made or read.
    """
    closing = AsyncExitStack()
    try:
        world = World(
            now=clock or config.clock,
            new_id=new_id,
            watch=watch and not on_demand,
            on_demand=on_demand,
            shared=shared or Shared(),
            closing=closing,
        )
        parts = await _assembled(config, given, world)
        await parts.upkeep.begin()
        parts.lifecycle.finish_pending()
        if watch:  # an agent for one turn asks its model at once
            load_ahead(parts.chosen.default.first.model)
        return parts
    except BaseException as error:
        await closing.aclose()
        if not isinstance(error, (OSError, MemoryIndexError, PathOutsideRoot, TemplateMissing)):
            raise
        raise TurnBroken(f"The agent could not be opened in {config.state_dir}: {error}") from error


async def _assembled(config: Config, given: AuthorParts, world: World) -> AgentParts:
    with_tools = with_servers(config, given)
    opening = world.opening(with_tools, on_note=lambda path: turn.on_notes(path))
    given, commands, extension_notices = extended(given, opening)
    await asyncio.to_thread(keep_private, config.state_dir, config.folders)
    workspace, workspace_notices = await _workspace(config)
    offline = OfflineModel(
        now_ms=lambda: epoch_ms(world.now()), new_id=world.new_id, count_tokens=world.count_tokens("")
    )
    chosen = _open_models(config, given, world, offline)
    memory, of_engine = await open_memory_slot(config, given, world, commands)
    store = storage_of(config).sessions(now=world.now, new_id=world.new_id)
    world.closing.push_async_callback(store.close)
    locks, running = SessionLocks(store, sleep=asyncio.sleep, wait_seconds=LOCK_WAIT_SECONDS), Running()
    turn = _turn_parts(
        config,
        given,
        world,
        offline=offline,
        models=chosen.default,
        memory=memory,
        workspace=workspace,
        store=store,
        tool_sources=tuple(world.tool_source(with_tools, make) for make in given.tool_sources),
        run_sub_agent=SubAgents(given.tools, chosen=chosen, locks=locks, running=running, world=world).run,
    )
    hook_notices = register_hooks(given, of_engine.hooks, turn, config)
    waiting = waiting_notices(await turn.approvals.pending())
    return AgentParts(
        turn=turn,
        chosen=chosen,
        locks=locks,
        lifecycle=Lifecycle(turn, locks=locks, ended_sessions=store.ended_sessions),
        notices=(
            *config.notices,
            *workspace_notices,
            *waiting,
            *extension_notices,
            *hook_notices,
            *memory.notices,
            *_window_notices(chosen.default.first.budget),
        ),
        upkeep=Upkeep(store, config.settings.session, now=world.now),
        commands=of_engine.commands,
        limits=given.limits,
        running=running,
        facts=cache(lambda: given.facts or load_facts(opening)),
        settings_file=SettingsInFile(config),
        closing=world.closing,
    )


def _open_models(config: Config, given: AuthorParts, world: World, offline: ChatModel) -> ChosenModels:
    return open_models(
        config,
        [each if isinstance(each, str) else world.author_model(each) for each in given.models],
        offline=offline,
        model_named=partial(world.model, config),
        now=world.now,
        sleep=asyncio.sleep,
        count_tokens=_token_counter(config, given, world),
    )


def _token_counter(config: Config, given: AuthorParts, world: World) -> Callable[[str], int]:
    first = next(iter(given.models), "")
    return world.count_tokens((first if isinstance(first, str) else first.name) or config.model_name)


def _turn_parts(
    config: Config,
    given: AuthorParts,
    world: World,
    *,
    offline: ChatModel,
    models: ModelChain,
    memory: MemorySlot,
    workspace: Workspace,
    store: SessionStore,
    tool_sources: tuple[ToolSource, ...],
    run_sub_agent: RunsSubAgent,
) -> TurnParts:
    settings, now, new_id, estimate_tokens = config.settings, world.now, world.new_id, world.count_tokens("")
    compaction, review = settings.agent.compaction, review_queue(config)
    return TurnParts(
        agent_id=config.agent_id,
        settings=settings,
        models=models,
        summary_model=_side_model(config, world, compaction.model),
        flush_model=_side_model(config, world, compaction.memory_flush.model),
        offline=offline,
        sessions=SessionOpener(
            store,
            now=now,
            new_id=new_id,
            history_turns=partial(history_turns_of, settings=settings),
            access=partial(workspace_access, settings=settings),
        ),
        memory=memory,
        workspace=workspace,
        sources=Sources(
            workspace,
            secrets=settings.memory.secrets,
            review=review,
            reviews_all=settings.memory.writes == "review",
        ),
        review=review,
        history=_history(config, workspace, world),
        voice_notes=open_voice_notes(config, now, world.closing),
        tools=given.tools,
        tool_sources=tool_sources,
        run_sub_agent=run_sub_agent,
        approvals=open_approvals(config, now, new_id, fence_of=store.fence),
        prompt_parts=PromptParts(given.prompt_parts),
        prompts=SystemPrompts(
            workspace,
            settings.agent,
            settings.skills,
            open_skills(config),
            now=now,
            count_tokens=estimate_tokens,
        ),
        hooks=Hooks(timeout_seconds=settings.hooks.timeout_seconds),
        notice_log=NoticeLog(),
        now=now,
        new_id=new_id,
        count_tokens=_token_counter(config, given, world),
        estimate_tokens=estimate_tokens,
    )


def _side_model(config: Config, world: World, name: str) -> ChatModel | None:
    return world.model(config, name.strip()) if name.strip() else None


def _history(config: Config, workspace: Workspace, world: World) -> HistoryKeeper:
    commits = config.settings.memory.history.commits != "off"
    history = HistoryKeeper(workspace, commits=commits, state_dir=config.state_dir)
    world.closing.push_async_callback(history.close)
    return history


async def _workspace(config: Config) -> tuple[Workspace, tuple[str, ...]]:
    """The owner's Markdown, made if it is new, and notices about it."""
    workspace = storage_of(config).workspace()
    agent = config.settings.agent
    if workspace.is_there and agent.sandbox.is_never_written:
        return workspace, ()
    if workspace.is_there and not workspace.may_change("."):
        return workspace, (f"{workspace.place} may be read and not written: no notes are saved there.",)
    if left := await left_in_folder(config, workspace):
        return workspace, (left,)
    made = await ensure_workspace(workspace, with_templates=not agent.skip_bootstrap)
    if made.is_new and not keeps_out(config.state_dir):
        return workspace, (
            f"Locks have no effect in {config.state_dir}, as on some network drives: two programs at once "
            "can lose notes there. `nacre doctor` says what to do.",
        )
    return workspace, ()


def _window_notices(budget: ContextBudget) -> tuple[str, ...]:
    if budget.window_tokens >= TIGHT_WINDOW_TOKENS:
        return ()
    source = WINDOW_SOURCES[budget.window_source]
    return (
        f"The context window has only {budget.window_tokens} tokens ({source}); "
        f"history is compacted above {budget.compact_at}.",
    )


def open_approvals(
    config: Config, now: Clock, new_id: NewId, *, fence_of: Callable[[str], int | None]
) -> Approvals:
    """The tool calls of an agent that wait for its owner. `fence_of` returns the fence of a session's
    lock.
    """
    approvals = config.settings.tools.approvals
    return Approvals(
        storage_of(config).approvals(now=now, fence_of=fence_of),
        now_ms=lambda: epoch_ms(now()),
        new_id=new_id,
        wait_seconds=approvals.wait_seconds,
        expire_ms=int(approvals.expire_hours * 3_600_000),
    )


def _decisions_of(said: Sequence[tuple[str, str]]) -> Sequence[str]:
    from nacre.runtime.models.offline.responder import decisions_of

    return decisions_of(said)


def register_hooks(
    given: AuthorParts, of_engine: HookTable, turn: TurnParts, config: Config
) -> tuple[str, ...]:
    """Registers the handlers: built-in, author's, extensions', memory engine's, trusted ones of the
    workspace.

    Returns a sentence for the owner for each ignored file in the workspace's `hooks/`.

    Raises:
        ConfigError: a name is unknown, or a handler cannot be called.
    """
    internal = turn.settings.hooks.internal
    if internal.enabled and internal.entries.session_memory.enabled:
        handler = SessionMemory(
            says_nothing=quotes_nothing,
            workspace=turn.workspace,
            messages=internal.entries.session_memory.messages,
            model=turn.model,
            on_notes=turn.on_notes,
            sources=turn.sources,
            may_write=lambda key: workspace_access(key, turn.settings) == "rw",
            decisions=_decisions_of,
        )
        turn.hooks.on("session_end", handler)
    try:
        register_all(turn.hooks, given.hooks)
    except ValueError as error:
        raise ConfigError(f"{error} Correct it in Agent.open(hooks=...).") from error
    for name, of_extension in given.extension_hooks:
        turn.hooks.add(name, of_extension)
    register_all(turn.hooks, of_engine)
    trusted = TrustedHooks(config.folders.trusted_hooks)
    return register_workspace_hooks(config.workspace, trusted, turn.hooks)


def waiting_notices(waiting: Sequence[Approval]) -> tuple[str, ...]:
    named = ", ".join(f"{each.tool_name} ({each.id})" for each in waiting)
    return (f"Tool calls that wait for your approval: {named}. /approve shows them.",) if waiting else ()
