"""`Agent`: what a bot author embeds. Messages in, events and replies out; one agent, one state folder."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing, suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from nacre.memory.contracts.errors import MemoryIndexError
from nacre.memory.workspace.paths import PathOutsideRoot
from nacre.memory.workspace.workspace import TemplateMissing
from nacre.runtime.agent.assembly import assemble, disassemble
from nacre.runtime.agent.message import answer_message
from nacre.runtime.agent.parts import AgentParts
from nacre.runtime.contracts.clock import Clock
from nacre.runtime.contracts.errors import AgentError, TurnBroken, TurnCancelled
from nacre.runtime.contracts.events import Emit, Event, ReplyReady, Silence, TurnFailed
from nacre.runtime.contracts.ids import NewId, random_id
from nacre.runtime.contracts.inbound import Inbound, Reply
from nacre.runtime.contracts.model import ChatModel
from nacre.runtime.endings.hooks import Hooks
from nacre.runtime.lanes.routing import Route, route
from nacre.runtime.settings.config import load_config, process_environment
from nacre.sessions.contracts.errors import SessionError

log = logging.getLogger(__name__)


class Agent:
    """A personal assistant on one state folder and one workspace.

    Open it with `async with await Agent.open(...)`. Turns of one session run one after the other,
    turns of different sessions at the same time. Two agents in one process do not meet.
    """

    def __init__(self, parts: AgentParts) -> None:
        self._parts = parts
        self._running: dict[str, set[asyncio.Task[None]]] = {}
        self._closed = False

    @classmethod
    async def open(
        cls,
        *,
        state_dir: Path | str | None = None,
        workspace: Path | str | None = None,
        model: ChatModel | str | None = None,
        environment: Mapping[str, str] | None = None,
        clock: Clock | None = None,
        new_id: NewId = random_id,
        watch: bool = True,
    ) -> Self:
        """Opens an agent and makes the workspace if it is new.

        `state_dir` is `$NACRE_STATE_DIR` or `~/.nacre` unless given; `workspace` is a folder in it.
        `model` is a `ChatModel`, or a name such as `openai/gpt-5-mini` for litellm; without one,
        `$NACRE_MODEL` or the settings decide, and else the offline responder answers. `clock` gives
        aware datetimes in the owner's zone. `watch` follows changes that others make to the notes.

        Raises:
            ConfigError: a setting or the settings file cannot be used.
            TurnBroken: the folders cannot be made or read.
        """
        config = load_config(
            process_environment() if environment is None else environment,
            state_dir=None if state_dir is None else Path(state_dir),
            workspace=None if workspace is None else Path(workspace),
            model_name=model if isinstance(model, str) else None,
        )
        try:
            parts = await assemble(
                config,
                model=None if isinstance(model, str) else model,
                clock=clock,
                new_id=new_id,
                watch=watch,
            )
        except (OSError, MemoryIndexError, PathOutsideRoot, TemplateMissing) as error:
            raise TurnBroken(f"The agent could not be opened in {config.state_dir}: {error}") from error
        await parts.upkeep.begin()
        parts.lifecycle.finish_left_over()
        return cls(parts)

    @property
    def notices(self) -> tuple[str, ...]:
        """Sentences for the owner from opening: new files, settings that are not read."""
        return self._parts.notices

    @property
    def model_name(self) -> str:
        """`provider/model` of the model that answers."""
        return self._parts.turn.model.name

    @property
    def is_offline(self) -> bool:
        """Whether the built-in offline responder answers instead of a language model."""
        return self._parts.turn.model is self._parts.turn.window.offline

    @property
    def workspace(self) -> Path:
        """The folder with the notes."""
        return self._parts.turn.workspace

    @property
    def hooks(self) -> Hooks:
        """Where handlers are registered, for example `agent.hooks.on("session_end", handler)`."""
        return self._parts.hooks

    async def respond(self, inbound: Inbound) -> Reply | None:
        """Runs one turn and gives its reply, or `None` when the assistant stays silent.

        Raises:
            AgentError: the turn failed; the message is on disk unless it was refused.
        """
        async with aclosing(self.stream(inbound)) as events:
            async for event in events:
                if isinstance(event, ReplyReady):
                    return event.reply
                if isinstance(event, TurnFailed):
                    raise event.error
        return None

    async def stream(self, inbound: Inbound) -> AsyncGenerator[Event, None]:
        """Runs one turn and yields its events; the last is `ReplyReady`, `Silence` or `TurnFailed`.

        Closing the iterator early, or cancelling the task that reads it, stops the turn.
        """
        if self._closed:
            raise TurnBroken("This agent is closed. Open a new one.")
        events: asyncio.Queue[Event | None] = asyncio.Queue()
        lane = self._lane(inbound)
        task = asyncio.create_task(self._run(inbound, events.put_nowait))
        self._running.setdefault(lane, set()).add(task)
        task.add_done_callback(lambda done: self._forget(lane, done))
        task.add_done_callback(lambda _done: events.put_nowait(None))
        last: Event | None = None
        try:
            while (event := await events.get()) is not None:
                last = event
                yield event
            if not isinstance(last, ReplyReady | Silence | TurnFailed):
                # Stopped before its first step, so that no line of `_run` could say so.
                yield TurnFailed(error=TurnCancelled("The turn was stopped before it began."))
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    def stop(self, inbound: Inbound) -> bool:
        """Stops the running and waiting turns of the session that `inbound` belongs to.

        `True` if there were any. Each ends with `TurnFailed(TurnCancelled)`.
        """
        stopped = [task.cancel() for task in self._running.get(self._lane(inbound), ())]
        return any(stopped)

    async def index_notes(self, *, wait_seconds: float) -> None:
        """Makes the notes that turns wrote searchable, by meaning too, if that takes `wait_seconds` or less.

        An agent that stays open does this by itself; a program that ends after a turn asks for it.
        """
        if self._parts.turn.memory is not None:
            with suppress(TimeoutError, MemoryIndexError):
                async with asyncio.timeout(wait_seconds):
                    await self._parts.turn.memory.sync(reason="turn")

    async def close(self) -> None:
        """Stops running turns, waits for their last writes, and releases everything. Safe to repeat."""
        if self._closed:
            return
        self._closed = True
        tasks = [task for running in self._running.values() for task in running]
        for task in tasks:
            task.cancel()
        try:
            await asyncio.gather(*tasks, return_exceptions=True)
            await self._parts.lifecycle.close()
            await self._parts.upkeep.close()
        finally:
            await disassemble(self._parts)

    async def __aenter__(self) -> Self:
        """The agent itself."""
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Closes the agent."""
        await self.close()

    async def _run(self, inbound: Inbound, emit: Emit) -> None:
        try:
            where = self._route(inbound)
            await answer_message(inbound, where, self._parts, emit, active_keys=self._running.keys())
        except asyncio.CancelledError:
            emit(TurnFailed(error=TurnCancelled("The turn was stopped.")))
            raise
        except AgentError as error:
            emit(TurnFailed(error=error))
        except (SessionError, MemoryIndexError, PathOutsideRoot) as error:
            log.warning("a turn broke off: %s", error)
            emit(TurnFailed(error=_broken(str(error), error)))
        except OSError as error:
            log.warning("a turn broke off: %s", error)
            text = (
                f"The turn broke off: {error}. Check the disk and the folder's permissions, then try again."
            )
            emit(TurnFailed(error=_broken(text, error)))
        except Exception as error:
            # A bug must end in an answer, not in a chat that hangs.
            log.exception("a turn broke off")
            text = f"The turn broke off on an unexpected {type(error).__name__}: {error}. Please report it."
            emit(TurnFailed(error=_broken(text, error)))

    def _forget(self, lane: str, task: asyncio.Task[None]) -> None:
        self._running[lane].discard(task)
        if not self._running[lane]:
            del self._running[lane]

    def _route(self, inbound: Inbound) -> Route:
        return route(inbound, agent_id=self._parts.agent_id, settings=self._parts.turn.settings.session)

    def _lane(self, inbound: Inbound) -> str:
        try:
            return self._route(inbound).key
        except (AgentError, SessionError):
            return ""


def _broken(text: str, cause: BaseException) -> TurnBroken:
    error = TurnBroken(text)
    error.__cause__ = cause
    return error
