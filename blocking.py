"""`BlockingAgent`: an `Agent` for scripts and notebooks. Its event loop runs on a thread of its own."""

from __future__ import annotations

import asyncio
import sys
import threading
import warnings
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Future, wait
from contextlib import suppress
from pathlib import Path
from typing import Any, ParamSpec, Self, TypeVar, Unpack, overload

from nacre.runtime.agent.agent import Agent
from nacre.runtime.agent.opening.agent_parts import StopAfter
from nacre.runtime.agent.sessions import SessionInfo
from nacre.runtime.commands.conversation.branching import Rewound
from nacre.runtime.commands.conversation.history import SessionLabel, SessionMessage, SessionTurn
from nacre.runtime.commands.conversation.session import EarlierSession, Session
from nacre.runtime.commands.conversation.status import SessionStatus
from nacre.runtime.contracts.errors import TurnBroken, TurnCancelled
from nacre.runtime.contracts.events import CompactionEnded, Event
from nacre.runtime.contracts.inbound import Inbound, Reply
from nacre.runtime.turn.output import TypeForm
from nacre.runtime.turn.turn_parts import AskOptions, CallOptions, MessageOptions
from nacre.sessions.contracts.messages import Usage

P = ParamSpec("P")
T = TypeVar("T")


class _LoopThread:
    """An event loop on a thread of its own, which runs coroutines for other threads."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._has_warned = "ipykernel" in sys.modules  # a notebook has a loop that may be blocked
        self._thread = threading.Thread(target=self._loop.run_forever, name="nacre", daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Runs `work` and returns its result. Ctrl-C cancels it, waits for its end, and is then raised."""
        if not self._thread.is_alive() or threading.current_thread() is self._thread:
            work.close()
            raise TurnBroken(
                "This agent is closed. Open a new one."
                if not self._thread.is_alive()
                else "A blocking agent was called on its own event loop, which would wait for itself. "
                "Use `nacre.Agent` there."
            )
        self._warn_in_a_loop()
        done: Future[T] = Future()
        tasks: list[asyncio.Task[T]] = []

        def begin() -> None:
            tasks.append(self._loop.create_task(work))
            tasks[0].add_done_callback(lambda task: _hand_over(task, done))

        self._loop.call_soon_threadsafe(begin)
        try:
            return done.result()
        except KeyboardInterrupt:
            self._loop.call_soon_threadsafe(lambda: tasks[0].cancel())
            wait([done])
            raise

    def _warn_in_a_loop(self) -> None:
        if self._has_warned:
            return
        with suppress(RuntimeError):
            asyncio.get_running_loop()
            self._has_warned = True
            warnings.warn(
                "A BlockingAgent is used where an event loop runs, and blocks it until each call ends. "
                "Write `async with nacre.Agent.open(…) as agent:` there.",
                RuntimeWarning,
                stacklevel=4,
            )

    def close(self) -> None:
        """Ends the loop and its thread. Safe to repeat."""
        if self._loop.is_closed():
            return
        self.run(self._loop.shutdown_asyncgens())
        self.run(self._loop.shutdown_default_executor())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


def _hand_over(task: asyncio.Task[T], done: Future[T]) -> None:
    if task.cancelled():
        done.set_exception(TurnCancelled("The turn was stopped."))
    elif (error := task.exception()) is not None:
        done.set_exception(error)
    else:
        done.set_result(task.result())


def _blocking_open(opening: Callable[P, Coroutine[Any, Any, Agent]]) -> Callable[P, BlockingAgent]:
    def open(*arguments: P.args, **options: P.kwargs) -> BlockingAgent:
        """Opens an agent; see `Agent.open` for the arguments and errors."""
        loop = _LoopThread()
        try:
            return BlockingAgent(loop.run(opening(*arguments, **options)), loop)
        except BaseException:
            loop.close()
            raise

    return open


class BlockingAgent:
    """An `Agent` with blocking methods, for scripts and notebooks.

    Open it with `with BlockingAgent.open(…)`. Ctrl-C stops the turn that is waited for; what was said until
    then is on disk. Several threads may use it. Code with an event loop uses `Agent`.
    """

    open = staticmethod(_blocking_open(Agent.open))

    def __new__(cls, *parts: object, **_options: object) -> Self:
        if len(parts) != 2:
            raise TypeError("BlockingAgent(…) opens nothing. Write `with BlockingAgent.open(…) as agent:`.")
        return super().__new__(cls)

    def __init__(self, agent: Agent, loop: _LoopThread) -> None:
        self._agent = agent
        self._loop = loop
        self.sessions = BlockingSessions(agent, loop)
        """The agent's sessions as objects: `agent.sessions.get("main")`."""

    @property
    def notices(self) -> tuple[str, ...]:
        """Sentences for the owner from opening: new files, settings that are ignored."""
        return self._agent.notices

    @property
    def model_name(self) -> str:
        """`provider/model` of the model that answers."""
        return self._agent.model_name

    @property
    def workspace(self) -> Path:
        """The folder with the notes."""
        return self._agent.workspace

    @overload
    def ask(
        self, text: str, *, output_type: None = None, **options: Unpack[AskOptions]
    ) -> Reply[None] | None: ...

    @overload
    def ask(self, text: str, *, output_type: TypeForm[T], **options: Unpack[AskOptions]) -> Reply[T]: ...

    def ask(
        self, text: str, *, output_type: TypeForm[Any] | None = None, **options: Unpack[AskOptions]
    ) -> Reply[Any] | None:
        """The reply to a private message of the owner; see `Agent.ask`."""
        return self._loop.run(self._agent.ask(text, output_type=output_type, **options))

    @overload
    def respond(
        self, inbound: Inbound, *, output_type: None = None, **options: Unpack[CallOptions]
    ) -> Reply[None] | None: ...

    @overload
    def respond(
        self, inbound: Inbound, *, output_type: TypeForm[T], **options: Unpack[CallOptions]
    ) -> Reply[T]: ...

    def respond(
        self, inbound: Inbound, *, output_type: TypeForm[Any] | None = None, **options: Unpack[CallOptions]
    ) -> Reply[Any] | None:
        """Runs one turn and returns its reply; see `Agent.respond`."""
        return self._loop.run(self._agent.respond(inbound, output_type=output_type, **options))

    def stream(
        self, inbound: Inbound, *, output_type: TypeForm[Any] | None = None, **options: Unpack[CallOptions]
    ) -> Iterator[Event]:
        """Runs one turn and yields its events; see `Agent.stream`. Leaving the loop early stops the turn."""
        events = self._agent.stream(inbound, output_type=output_type, **options)

        async def following() -> Event | None:
            return await anext(events, None)

        try:
            while (event := self._loop.run(following())) is not None:
                yield event
        finally:
            self._loop.run(events.aclose())

    def stop(self, session: Inbound | str = "", *, after: StopAfter = "now") -> bool:
        """Stops the turns of a session, from another thread; see `Agent.stop`."""

        async def stopping() -> bool:
            return self._agent.stop(session, after=after)

        return self._loop.run(stopping())

    def close(self) -> None:
        """Stops running turns, waits for their last writes, and releases everything. Safe to repeat."""
        with suppress(TurnBroken):  # closed before
            try:
                self._loop.run(self._agent.close())
            finally:
                self._loop.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_ended: object) -> None:
        self.close()


class BlockingSessions:
    def __init__(self, agent: Agent, loop: _LoopThread) -> None:
        self._agent = agent
        self._loop = loop

    def get(self, key: str = "main") -> BlockingSession:
        """The session with this key; see `Sessions.get`."""
        return BlockingSession(self._loop.run(self._agent.sessions.get(key)), self._loop)

    def list(self) -> tuple[SessionInfo, ...]:
        """The current session of each key, most recently active first."""
        return self._loop.run(self._agent.sessions.list())


class BlockingSession:
    """A `Session` with blocking methods; see there for what each does and raises."""

    def __init__(self, session: Session, loop: _LoopThread) -> None:
        self._session = session
        self._loop = loop

    @property
    def key(self) -> str:
        return self._session.key

    @property
    def session_id(self) -> str:
        """The id of the transcript that the key named when it was last looked up."""
        return self._session.session_id

    @overload
    def ask(
        self, text: str, *, output_type: None = None, **options: Unpack[MessageOptions]
    ) -> Reply[None] | None: ...

    @overload
    def ask(self, text: str, *, output_type: TypeForm[T], **options: Unpack[MessageOptions]) -> Reply[T]: ...

    def ask(
        self, text: str, *, output_type: TypeForm[Any] | None = None, **options: Unpack[MessageOptions]
    ) -> Reply[Any] | None:
        """The reply to a message of the owner in this session; see `Session.ask`."""
        return self._loop.run(self._session.ask(text, output_type=output_type, **options))

    def history(self, *, limit: int | None = None) -> tuple[SessionMessage, ...]:
        """The messages, oldest first."""
        return self._loop.run(self._session.history(limit=limit))

    def turns(self, *, limit: int | None = None) -> tuple[SessionTurn, ...]:
        """The messages of people, newest first: places to return to."""
        return self._loop.run(self._session.turns(limit=limit))

    def labels(self) -> tuple[SessionLabel, ...]:
        """The named places."""
        return self._loop.run(self._session.labels())

    def usage(self) -> Usage:
        """Tokens and cost of all model calls of this transcript."""
        return self._loop.run(self._session.usage())

    def status(self) -> SessionStatus:
        """The state of the session."""
        return self._loop.run(self._session.status())

    def rewind(self, place: str | SessionTurn, note: str = "") -> Rewound:
        """Returns to a place."""
        return self._loop.run(self._session.rewind(place, note))

    def fork(self, place: str | SessionTurn | None = None, *, key: str = "") -> BlockingSession:
        """A copy of the session up to a place, or of all of it."""
        return BlockingSession(self._loop.run(self._session.fork(place, key=key)), self._loop)

    def label(self, name: str) -> None:
        """Names the current place."""
        self._loop.run(self._session.label(name))

    def compact(self, focus: str = "") -> CompactionEnded:
        """Replaces old history by a summary in the model's view."""
        return self._loop.run(self._session.compact(focus))

    def new(self, *, model: str = "") -> None:
        """Ends the session and starts a new one."""
        self._loop.run(self._session.new(model=model))

    def earlier(self) -> tuple[EarlierSession, ...]:
        """The latest sessions that this key named before."""
        return self._loop.run(self._session.earlier())

    def resume(self, session_id: str) -> None:
        """Returns to an earlier session."""
        self._loop.run(self._session.resume(session_id))
