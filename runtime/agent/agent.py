"""`Agent`, the class that bot authors embed. `answering.py` has the course of a turn."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Self, TypeVar, Unpack, overload
from weakref import finalize

from nacre.memory.contracts.facts import FactMemory
from nacre.runtime.agent.answering import (
    EventQueue,
    check_chat,
    message_and_options,
    never_began,
    owner_message,
    refuse,
    run_turn,
    wait_for_ending,
    warn_unread,
)
from nacre.runtime.agent.approvals import PendingApprovals
from nacre.runtime.agent.open_result import opening
from nacre.runtime.agent.opening.agent_parts import AgentParts, StopAfter
from nacre.runtime.agent.opening.assembly import assemble
from nacre.runtime.agent.opening.author_parts import AgentKeywords, author_parts
from nacre.runtime.agent.sessions import Sessions
from nacre.runtime.commands.command import Command
from nacre.runtime.commands.function import FunctionCommand
from nacre.runtime.contracts.clock import Clock, NewId, random_id
from nacre.runtime.contracts.errors import AgentError, TurnBroken
from nacre.runtime.contracts.events import Emit, Event, ReplyReady, Silence, TurnFailed
from nacre.runtime.contracts.inbound import Inbound, Reply
from nacre.runtime.contracts.model import Answering, ChatModel, ModelRequest
from nacre.runtime.hooks.hooks import Hooks, HookTable
from nacre.runtime.open_sessions.routing import Route, route as route_of
from nacre.runtime.recall.memory_plugin import MemoryPlugin
from nacre.runtime.settings.config import load_config, process_environment
from nacre.runtime.settings.sections.agents import Profile
from nacre.runtime.settings.settings import Settings
from nacre.runtime.tools.function import ToolChats
from nacre.runtime.turn.loop import TurnBounds, UsageLimits
from nacre.runtime.turn.output import TypeForm
from nacre.runtime.turn.prompt_part import PromptFunction, PromptPart
from nacre.runtime.turn.turn_parts import AskOptions, CallOptions, TurnOptions, turn_options
from nacre.sessions.contracts.errors import SessionError

T = TypeVar("T")


class Agent:
    """A personal assistant with one state folder and one workspace.

    Open it with `async with Agent.open(...)`; to open several at once, use `Runtime`. Turns of one
    session run one after the other, turns of different sessions concurrently. Agents of one process share
    nothing.
    """

    def __new__(cls, parts: object = None, **_options: object) -> Self:
        if not isinstance(parts, AgentParts):
            raise TypeError(
                f"{cls.__name__}(…) opens nothing. Write `async with {cls.__name__}.open(…) as agent:`."
            )
        return super().__new__(cls)

    def __init__(self, parts: AgentParts) -> None:
        self._parts = parts
        self._closed = False
        self.sessions = Sessions(parts, self._respond, lambda: self._closed)
        """The agent's sessions as objects: `await agent.sessions.get("main")`."""

    @classmethod
    @opening
    async def open(
        cls,
        *,
        agent: str | None = None,
        state_dir: Path | str | None = None,
        workspace: Path | str | None = None,
        model: ChatModel | str | Sequence[ChatModel | str] | None = None,
        tools: Sequence[object] = (),
        tool_chats: Sequence[ToolChats] | None = None,
        instructions: str = "",
        profile: Profile | None = None,
        commands: Sequence[FunctionCommand] = (),
        limits: UsageLimits | None = None,
        prompt_parts: Sequence[PromptPart | PromptFunction] = (),
        memory: MemoryPlugin | None = None,
        hooks: HookTable | None = None,
        environment: Mapping[str, str] | None = None,
        clock: Clock | None = None,
        new_id: NewId = random_id,
        watch: bool = True,
    ) -> Self:
        """Opens an agent, and creates the workspace if it is new.

        `agent` is an id of `agents.list` in the settings, by default `$NACRE_AGENT`, then the default agent.
        `state_dir` defaults to `$NACRE_STATE_DIR`, then `~/.nacre`; `workspace` to a folder in it. `model` is
        a `ChatModel`, a name such as `openai/gpt-5-mini`, or a list of these, asked in turn when one fails;
        without one, `$NACRE_MODEL` or the settings decide, else the offline responder answers. `tools` are
        what the model may call: typed functions (`nacre.tool`), objects with such methods, toolsets
        (`nacre.Toolset`, `nacre.mcp_server`) and sub-agents. `tool_chats` are the chats of tools that name
        none: some of `private` (the owner alone, the default), `direct` (somebody else) and `group`.
        `profile` chooses the system prompt: `assistant`, `bot` or the smallest, `bare`. `instructions` are
        added to it in every chat, and `prompt_parts` become further sections (`nacre.prompt_part`).
        `commands` are chat commands (`nacre.command`). `limits` apply to turns without limits of their own.
        `memory` replaces the memory engine of the settings (`nacre.MemoryPlugin`). `hooks` are handlers by
        name (`nacre.Hooks`). `clock` returns aware datetimes in the owner's zone. `watch` follows the notes.

        Raises:
            ConfigError: a setting, the settings file, or an argument cannot be used.
            TurnBroken: the folders cannot be made or read.
        """
        config = load_config(
            process_environment() if environment is None else environment,
            state_dir=None if state_dir is None else Path(state_dir),
            workspace=None if workspace is None else Path(workspace),
            model_name=model if isinstance(model, str) else None,
            agent_id=agent,
            profile=profile or "",
        )
        given = AgentKeywords(
            model=model,
            tools=tools,
            tool_chats=tool_chats,
            instructions=instructions,
            commands=commands,
            limits=limits,
            prompt_parts=prompt_parts,
            memory=memory,
            hooks=hooks,
        )
        return cls(await assemble(config, author_parts(given), clock=clock, new_id=new_id, watch=watch))

    @property
    def id(self) -> str:
        """The agent's id in its state folder."""
        return self._parts.agent_id

    @property
    def is_closed(self) -> bool:
        return self._closed

    @property
    def is_busy(self) -> bool:
        """Whether a turn runs or waits."""
        return bool(self._parts.running.keys)

    @property
    def notices(self) -> tuple[str, ...]:
        """Sentences for the owner from opening: new files, settings that are ignored."""
        return self._parts.notices

    @property
    def model_name(self) -> str:
        """`provider/model` of the model that answers."""
        return self._parts.turn.model.name

    @property
    def is_offline(self) -> bool:
        """Whether the built-in offline responder answers instead of a language model."""
        return self._parts.turn.model is self._parts.turn.offline

    @property
    def settings(self) -> Settings:
        """The settings of this agent."""
        return self._parts.turn.settings

    def reread_settings(self) -> tuple[str, ...]:
        """Checks for changed settings, as every turn does first; returns sentences about what takes
        effect when.
        """
        self._parts.reread_settings()
        return self._parts.settings_file.take_notices()

    @property
    def workspace(self) -> Path:
        """The folder with the notes."""
        return Path(self._parts.turn.workspace.place)

    @property
    def memory(self) -> FactMemory:
        """Facts and notes of identities: `await agent.memory.set_fact("anna", "city", "Porto")`.

        Raises:
            ConfigError: `plugins.deny` names the extension `facts`, or it cannot be loaded.
        """
        return self._parts.facts()

    @property
    def hooks(self) -> Hooks:
        """Where handlers are registered, for example `agent.hooks.on("session_end", handler)`."""
        return self._parts.turn.hooks

    @property
    def approvals(self) -> PendingApprovals:
        """The tool calls that wait for the owner: list, approve, deny."""
        return PendingApprovals(parts=self._parts)

    def commands(self, inbound: Inbound) -> tuple[Command, ...]:
        """The chat commands that the sender of a message may use in its chat, in the order of `/help`.

        Raises:
            PrivacyError, SessionKeyInvalid: the message may not name this session, or its key is invalid.
        """
        return self._parts.commands.offered(self._route(inbound).policy)

    def session_key(self, inbound: Inbound) -> str:
        """The key of the session that a message belongs to. Raises like `commands`."""
        return self._route(inbound).key

    def command(self, inbound: Inbound) -> str:
        """The name of the chat command that a message calls; empty for other messages. A command raises like
        `commands`.
        """
        if self._parts.commands.is_message(inbound.text):
            return ""  # bridges ask this four times about each message
        called = self._parts.commands.called(inbound.text, self._route(inbound).policy)
        return called.command.name if called is not None else ""

    @overload
    async def ask(
        self, text: str, *, output_type: None = None, **options: Unpack[AskOptions]
    ) -> Reply[None] | None: ...

    @overload
    async def ask(
        self, text: str, *, output_type: TypeForm[T], **options: Unpack[AskOptions]
    ) -> Reply[T]: ...

    async def ask(
        self, text: str, *, output_type: TypeForm[Any] | None = None, **options: Unpack[AskOptions]
    ) -> Reply[Any] | None:
        """The reply to a private message of the owner; `None` if the assistant stays silent.

        The options are `session`, `attachments`, `limits`, `parameters`, `tools` and `context`, as
        `AskOptions` says; `output_type` is as in `respond`. Bridges, and programs that speak for others than
        the owner, use `respond` or `stream`.

        Raises:
            AgentError: the turn failed; the message is on disk unless it was refused.
        """
        inbound, of_turn = message_and_options(text, options)
        return await self._respond(inbound, turn_options(output_type, **of_turn))

    @overload
    async def respond(
        self, inbound: Inbound, *, output_type: None = None, **options: Unpack[CallOptions]
    ) -> Reply[None] | None: ...

    @overload
    async def respond(
        self, inbound: Inbound, *, output_type: TypeForm[T], **options: Unpack[CallOptions]
    ) -> Reply[T]: ...

    async def respond(
        self, inbound: Inbound, *, output_type: TypeForm[Any] | None = None, **options: Unpack[CallOptions]
    ) -> Reply[Any] | None:
        """Runs one turn and returns its reply, or `None` if the assistant stays silent.

        With `output_type`, a pydantic model, a dataclass, a union or another type that pydantic can check,
        the answer is a value of it, `reply.output`. A wrong answer is asked for again, twice at most. The
        other options are `limits`, `parameters` and `tools`, as `CallOptions` says.

        Raises:
            ConfigError: the `output_type` has no schema.
            OutputInvalid: there is no such value: the answers were wrong, or the assistant was silent.
            AgentError: the turn failed; the message is on disk unless it was refused.
        """
        return await self._respond(inbound, turn_options(output_type, **options))

    async def _respond(self, inbound: Inbound, options: TurnOptions) -> Reply[Any] | None:
        events: list[Event] = []
        ending = await wait_for_ending(self._start(inbound, events.append, options), events)
        if isinstance(ending, TurnFailed):
            raise ending.error
        return options.checked(ending.reply if isinstance(ending, ReplyReady) else None)

    def stream(
        self, inbound: Inbound, *, output_type: TypeForm[Any] | None = None, **options: Unpack[CallOptions]
    ) -> AsyncGenerator[Event, None]:
        """Runs one turn and yields its events; the last is `ReplyReady`, `Silence` or `TurnFailed`.

        Closing the iterator early, or canceling the task that reads it, stops the turn. The options are
        those of `respond`. With `output_type`, the streamed text is JSON or nothing, and `reply.output` has
        the value.

        Raises:
            ConfigError: the `output_type` has no schema.
        """
        begun: list[bool] = []
        events = self._events(inbound, turn_options(output_type, **options), begun)
        finalize(events, warn_unread, begun).atexit = False
        return events

    async def _events(
        self, inbound: Inbound, options: TurnOptions, begun: list[bool]
    ) -> AsyncGenerator[Event, None]:
        begun.append(True)
        events = EventQueue()
        task = self._start(inbound, events.put, options)
        task.add_done_callback(lambda _done: events.put(None))
        last: Event | None = None
        try:
            while (event := await events.get()) is not None:
                last = event
                yield event
            if not isinstance(last, ReplyReady | Silence | TurnFailed):
                yield never_began()
        finally:
            if task.cancel():  # cancelled once: `gather` would hand on each of its own cancellations
                await asyncio.wait((task,))

    def ask_model(self, request: ModelRequest) -> AsyncIterator[Answering]:
        """Sends a request to the agent's models, without its prompt, notes and transcript. Its cost is
        counted.
        """
        return self._parts.turn.models.ask(lambda _event: None)(request)

    def stop(self, session: Inbound | str = "", *, after: StopAfter = "now") -> bool:
        """Stops the running and waiting turns of a session, named by a message to it or by its key.

        Returns `True` if there were any. Each ends with `TurnFailed(TurnCancelled)`; everything until then
        is on disk. With `after="tools"`, a turn whose tools are running ends when they are done, and their
        results are recorded.
        """
        inbound = owner_message("", session) if isinstance(session, str) else session
        try:
            return self._parts.running.stop(self._route(inbound).key, after)
        except (AgentError, SessionError):
            return False

    def join(self, inbound: Inbound) -> bool:
        """Adds a message to a session's running turn, after its tools; `False` if no turn can read it.

        `MessageJoined` says that the turn has read it. If the turn calls no further tool, send the message
        again.
        """
        return self._parts.running.join(self.session_key(inbound), inbound)

    async def index_notes(self, *, wait_seconds: float) -> None:
        """Makes the notes that turns wrote searchable, by meaning too, if that takes at most
        `wait_seconds`.

        An agent that stays open does this by itself; a program that ends after a turn calls it.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(wait_seconds):
                await self._parts.turn.memory.sync()

    async def close(self) -> None:
        """Stops running turns, waits for their last writes, and releases everything. Safe to repeat."""
        if self._closed:
            return
        self._closed = True
        try:
            await self._parts.running.close()
            await self._parts.lifecycle.close()
            await self._parts.upkeep.close()
        finally:
            await self._parts.closing.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_ended: object) -> None:
        await self.close()

    def _start(self, inbound: Inbound, emit: Emit, options: TurnOptions) -> asyncio.Task[None]:
        if self._closed:
            raise TurnBroken("This agent is closed. Open a new one.")
        parts, bounds = self._parts, TurnBounds(options.limits or self._parts.limits)
        try:
            check_chat(inbound)
            route = self._route(inbound)
        except Exception as error:  # noqa: BLE001 - as in the turn itself: a bug ends in an answer
            return asyncio.create_task(refuse(error, emit))
        return parts.running.start(route.key, run_turn(parts, inbound, route, emit, bounds, options), bounds)

    def _route(self, inbound: Inbound) -> Route:
        return route_of(inbound, agent_id=self._parts.agent_id, settings=self._parts.turn.settings.session)
