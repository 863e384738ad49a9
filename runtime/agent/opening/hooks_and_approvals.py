"""From settings and what a bot author hands in to the hooks and approvals of an agent."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from nacre.runtime.agent.opening.given import Given
from nacre.runtime.contracts.clock import Clock, epoch_ms
from nacre.runtime.contracts.errors import ConfigError
from nacre.runtime.contracts.ids import NewId
from nacre.runtime.endings.session_memory import SessionMemory
from nacre.runtime.hooks.hooks import HookTable, register_all
from nacre.runtime.hooks.trust import TrustedHooks
from nacre.runtime.hooks.workspace_hooks import register_workspace_hooks
from nacre.runtime.lanes.routing import workspace_access
from nacre.runtime.settings.config import Config
from nacre.runtime.tools.approvals.approval import Approval
from nacre.runtime.tools.approvals.approvals import Approvals
from nacre.runtime.tools.approvals.folder import ApprovalFolder
from nacre.runtime.tools.approvals.store import ApprovalStore
from nacre.runtime.turn.parts import TurnParts


def open_approvals(
    config: Config, now: Clock, new_id: NewId, *, fence_of: Callable[[str], int | None]
) -> Approvals:
    """The calls of an agent that wait for its owner, where its sessions are. `fence_of` is that of a lane."""
    approvals = config.settings.tools.approvals
    return Approvals(
        approval_store(config, now, fence_of=fence_of),
        now_ms=lambda: epoch_ms(now()),
        new_id=new_id,
        wait_seconds=approvals.wait_seconds,
        expire_ms=int(approvals.expire_hours * 3_600_000),
    )


def approval_store(config: Config, now: Clock, *, fence_of: Callable[[str], int | None]) -> ApprovalStore:
    """What keeps the approvals of the agent that a config describes; touches nothing yet."""
    if not config.database_url:
        return ApprovalFolder(config.folders.approvals, now=now)
    from nacre.postgres.shared import shared_database
    from nacre.runtime.tools.approvals.table import ApprovalTable

    database = shared_database(config.database_url)
    return ApprovalTable(database, agent=config.agent_id, fence_of=fence_of)


def register_hooks(given: Given, of_engine: HookTable, turn: TurnParts, config: Config) -> tuple[str, ...]:
    """Registers the built-in handlers, the author's, the extensions', the memory engine's, the trusted ones.

    Gives a sentence for the owner about each file of the workspace's `hooks/` that was left out.

    Raises:
        ConfigError: a name is unknown, or what stands there cannot be called.
    """
    internal = turn.settings.hooks.internal
    if internal.enabled and internal.entries.session_memory.enabled:
        handler = SessionMemory(
            workspace=turn.workspace,
            messages=internal.entries.session_memory.messages,
            model=turn.model,
            on_notes=turn.window.on_notes,
            sources=turn.window.sources,
            may_write=lambda key: workspace_access(key, turn.settings) == "rw",
        )
        turn.hooks.on("session_end", handler)
    try:
        register_all(turn.hooks, given.hooks)
    except ValueError as error:
        raise ConfigError(f"{error} It stands in Agent.open(hooks=...).") from error
    for name, of_extension in given.extension_hooks:
        turn.hooks.add(name, of_extension)
    register_all(turn.hooks, of_engine)
    trusted = TrustedHooks(config.folders.trusted_hooks)
    return register_workspace_hooks(config.workspace, trusted, turn.hooks)


def waiting_notices(waiting: Sequence[Approval]) -> tuple[str, ...]:
    """What the owner should know at the start of calls that wait."""
    named = ", ".join(f"{each.tool_name} ({each.id})" for each in waiting)
    return (f"Tool calls that wait for your approval: {named}. /approve tells more.",) if waiting else ()
