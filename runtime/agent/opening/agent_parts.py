"""The parts of an open agent."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, KeysView
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias, TypeVar

from nacre.closing import stop_tasks
from nacre.memory.contracts.facts import FactMemory
from nacre.runtime.commands.conversation.chosen_models import ChosenModels
from nacre.runtime.commands.registry import Commands
from nacre.runtime.contracts.errors import TurnBroken
from nacre.runtime.contracts.inbound import Inbound
from nacre.runtime.open_sessions.routing import SessionLocks
from nacre.runtime.session_lifecycle.lifecycle import Lifecycle, Upkeep
from nacre.runtime.settings.config import SettingsInFile
from nacre.runtime.turn.loop import TurnBounds, UsageLimits
from nacre.runtime.turn.turn_parts import TurnParts

T = TypeVar("T")

StopAfter: TypeAlias = Literal["now", "tools"]
"""`now` stops tools, too; `tools` lets running tools finish, and records their results."""


class Running:
    """The tasks of one agent by session key."""

    def __init__(self) -> None:
        self._tasks: dict[str, dict[asyncio.Task[Any], Callable[[StopAfter], None]]] = {}
        self._joins: dict[asyncio.Task[Any], Callable[[Inbound], bool]] = {}
        self._loop = asyncio.get_running_loop()

    @property
    def keys(self) -> KeysView[str]:
        """The sessions in which something runs or waits."""
        return self._tasks.keys()

    def start(
        self, key: str, work: Coroutine[Any, Any, T], bounds: TurnBounds | None = None
    ) -> asyncio.Task[T]:
        """Runs `work` for a session. Its `bounds` let a turn be joined, or end with its tools.

        Raises:
            TurnBroken: another event loop is running than the one on which the agent was opened.
        """
        if asyncio.get_running_loop() is not self._loop:
            work.close()
            raise TurnBroken(
                "This agent was opened on another event loop, and its locks and connections belong to that "
                "one. Call it there, with asyncio.run_coroutine_threadsafe from another thread, or use "
                "nacre.BlockingAgent, which any thread may call."
            )
        task = asyncio.create_task(work)
        bounds = bounds or TurnBounds()
        self._joins[task] = bounds.joining.put

        def stop(after: StopAfter) -> None:
            if after == "now" or not bounds.end_after_tools():
                task.cancel()

        self._tasks.setdefault(key, {})[task] = stop
        task.add_done_callback(lambda done: self._forget(key, done))
        return task

    def stop(self, key: str, after: StopAfter) -> bool:
        """Stops everything that runs or waits in a session; `False` if there was nothing."""
        # A task that has just ended may still be listed: it is forgotten in the loop's next step.
        stops = [stop for task, stop in self._tasks.get(key, {}).items() if not task.done()]
        for stop in stops:
            stop(after)
        return bool(stops)

    def join(self, key: str, inbound: Inbound) -> bool:
        """Hands a message to the turn that runs in a session; `False` if no turn accepts it."""
        return any(self._joins[task](inbound) for task in self._tasks.get(key, ()))

    async def close(self) -> None:
        """Stops everything at once, and waits until it has ended."""
        await stop_tasks(*(task for tasks in self._tasks.values() for task in tasks))

    def _forget(self, key: str, task: asyncio.Task[Any]) -> None:
        self._tasks[key].pop(task, None)
        self._joins.pop(task, None)
        if not self._tasks[key]:
            del self._tasks[key]


@dataclass(kw_only=True)
class AgentParts:
    """The parts of an open agent. Only `turn` is ever replaced, by one with changed settings.

    `limits` apply to turns without limits of their own. `closing` releases everything, in the reverse order
    of opening.
    """

    turn: TurnParts
    chosen: ChosenModels
    locks: SessionLocks
    lifecycle: Lifecycle
    upkeep: Upkeep
    notices: tuple[str, ...]
    commands: Commands
    limits: UsageLimits | None
    running: Running
    facts: Callable[[], FactMemory]
    settings_file: SettingsInFile
    closing: AsyncExitStack

    def reread_settings(self) -> None:
        """Applies changed settings that take effect at once. Running turns keep what they began with."""
        settings = self.settings_file.look(self.turn.settings)
        if settings is not None:
            self.turn = replace(self.turn, settings=settings)

    @property
    def agent_id(self) -> str:
        return self.turn.agent_id
