"""Hooks: what others do when something happens in an agent. Knows no event's meaning.

A handler is registered for a kind of event (`session_end`) or for one action of it
(`session_end:daily`). What a handler raises is logged and stops neither the others nor the agent.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Any, Protocol, TypeAlias

log = logging.getLogger(__name__)

Handler: TypeAlias = Callable[[Any], Awaitable[None]]
"""Gets the event. It may be called a second time with the same event, after a crash."""


class HookEvent(Protocol):
    """What every event tells: its kind, and which of its actions this is."""

    @property
    def type(self) -> str:
        """The kind, such as `session_end`."""

    @property
    def action(self) -> str:
        """Which of the kind's actions, such as `daily`."""


class Hooks:
    """The handlers of one agent."""

    def __init__(self) -> None:
        self._handlers: dict[str, list[Handler]] = {}

    def on(self, name: str, handler: Handler) -> Callable[[], None]:
        """Registers a handler for `type` or `type:action`; the call that is returned takes it back.

        Raises:
            ValueError: the name is empty.
        """
        if not name.strip():
            raise ValueError("A hook needs the name of an event, such as 'session_end'.")
        handlers = self._handlers.setdefault(name, [])
        handlers.append(handler)

        def off() -> None:
            if handler in handlers:
                handlers.remove(handler)

        return off

    async def trigger(self, event: HookEvent) -> tuple[str, ...]:
        """Runs the kind's handlers and then the action's, each in the order of registration.

        Returns one sentence for each handler that failed.
        """
        handlers = [
            *self._handlers.get(event.type, ()),
            *self._handlers.get(f"{event.type}:{event.action}", ()),
        ]
        problems = []
        for handler in handlers:
            try:
                await handler(event)
            except Exception as error:
                # Foreign code: whatever it raises is its own.
                name = getattr(handler, "__qualname__", type(handler).__name__)
                log.exception("the hook %s failed on %s:%s", name, event.type, event.action)
                problems.append(f"The hook {name} failed with {type(error).__name__}: {error}")
        return tuple(problems)
