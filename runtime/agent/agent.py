"""`Agent`: what a bot author embeds. Messages in, events and replies out; one agent, one state folder.

The story of a message is told by `Agent._answer`:

    route ─► lane ─► open the session ─► a command ─► its reply
                                     └─► words ─► (a session whose time has come ends) ─► on disk ─► answer
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from nacre.runtime.agent.approving import ApprovalDoor, answered_in_chat
from nacre.runtime.agent.assembly import Given, assemble
from nacre.runtime.agent.failures import failure_of
from nacre.runtime.agent.given_prompt_parts import given_prompt_parts
from nacre.runtime.agent.given_tools import given_tools
from nacre.runtime.agent.parts import AgentParts
from nacre.runtime.commands.command import CommandRun, Outcome
from nacre.runtime.commands.run import run_command
from nacre.runtime.contracts.clock import Clock
from nacre.runtime.contracts.commands import parse_command
from nacre.runtime.contracts.errors import AgentError, TurnBroken, TurnCancelled
from nacre.runtime.contracts.events import Emit, Event, ReplyReady, Silence, TurnFailed, Warned
from nacre.runtime.contracts.ids import NewId, random_id
from nacre.runtime.contracts.inbound import Attachment, Inbound, Reply
from nacre.runtime.contracts.model import ChatModel
from nacre.runtime.hooks.around import arrived, leaving, without_text
from nacre.runtime.hooks.hooks import Hooks, HookTable
from nacre.runtime.lanes.routing import Route, route
from nacre.runtime.recall.memory_plugin import MemoryPlugin
from nacre.runtime.settings.config import load_config, process_environment
from nacre.runtime.tools.function import FunctionTool
from nacre.runtime.turn.prompt_parts.prompt_part import PromptFunction, PromptPart
from nacre.runtime.turn.settling import settle
from nacre.runtime.turn.turn import Turn
from nacre.sessions.contracts.errors import SessionError


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
        agent: str | None = None,
        state_dir: Path | str | None = None,
        workspace: Path | str | None = None,
        model: ChatModel | str | None = None,
        tools: Sequence[FunctionTool[..., Any] | Callable[..., Any]] = (),
        instructions: str = "",
        hooks: HookTable | None = None,
        prompt_parts: Sequence[PromptPart | PromptFunction] = (),
        memory: MemoryPlugin | None = None,
        environment: Mapping[str, str] | None = None,
        clock: Clock | None = None,
        new_id: NewId = random_id,
        watch: bool = True,
    ) -> Self:
        """Opens an agent and makes the workspace if it is new.

        `agent` is one of `agents.list` in the settings; `$NACRE_AGENT` or the default agent unless given.
        `state_dir` is `$NACRE_STATE_DIR` or `~/.nacre` unless given; `workspace` is a folder in it.
        `model` is a `ChatModel`, or a name such as `openai/gpt-5-mini` for litellm; without one,
        `$NACRE_MODEL` or the settings decide, and else the offline responder answers. `tools` are typed
        functions that the model may call, see `nacre.tool`; `instructions` are added to the system prompt of
        every chat, and `prompt_parts` as sections of their own, see `nacre.prompt_part`. `hooks` are handlers
        by name, see `nacre.Hooks`. `memory` is a memory engine in the place of the one that the settings name,
        see `nacre.MemoryPlugin`. `clock` gives aware datetimes in the owner's zone. `watch` follows changes
        that others make to the notes.

        Raises:
            ConfigError: a setting, the settings file, a tool, a prompt part or a hook cannot be used.
            TurnBroken: the folders cannot be made or read.
        """
        config = load_config(
            process_environment() if environment is None else environment,
            state_dir=None if state_dir is None else Path(state_dir),
            workspace=None if workspace is None else Path(workspace),
            model_name=model if isinstance(model, str) else None,
            agent_id=agent,
        )
        given = Given(
            model=None if isinstance(model, str) else model,
            tools=given_tools(tools),
            hooks=hooks or {},
            prompt_parts=given_prompt_parts(instructions, prompt_parts),
            memory=memory,
        )
        parts = await assemble(config, given, clock=clock, new_id=new_id, watch=watch)
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
        return self._parts.turn.hooks

    @property
    def approvals(self) -> ApprovalDoor:
        """The tool calls that wait for the owner: listed, approved, denied."""
        return ApprovalDoor(parts=self._parts)

    async def ask(
        self, text: str, *, session: str = "", attachments: tuple[Attachment, ...] = ()
    ) -> Reply | None:
        """The reply to what the owner says in private; `None` when the assistant stays silent.

        `session` is the key of the session to say it in, the main one unless given. Bridges, and whoever
        speaks for others than the owner, use `respond` or `stream`.

        Raises:
            AgentError: the turn failed; the message is on disk unless it was refused.
        """
        return await self.respond(
            Inbound(
                text=text,
                chat_kind="direct",
                channel="python",
                is_owner=True,
                session_key=session,
                attachments=attachments,
            )
        )

    async def respond(self, inbound: Inbound) -> Reply | None:
        """Runs one turn and gives its reply, or `None` for silence. Raises as `ask`."""
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
        events, lane = asyncio.Queue[Event | None](), self._lane(inbound)
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
        """Stops the turns of the session of `inbound`, by `TurnCancelled`; `True` if there were any."""
        stopped = [task.cancel() for task in self._running.get(self._lane(inbound), ())]
        return any(stopped)

    async def index_notes(self, *, wait_seconds: float) -> None:
        """Makes the notes that turns wrote searchable, by meaning too, if that takes `wait_seconds` or less.

        An agent that stays open does this by itself; a program that ends after a turn asks for it.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(wait_seconds):
                await self._parts.turn.memory.sync()

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
            await self._parts.closing.aclose()

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
        """One turn, which ends in one way or another: whatever goes wrong is told and not raised."""
        try:
            await self._answer(inbound, emit)
        except asyncio.CancelledError:
            emit(TurnFailed(error=TurnCancelled("The turn was stopped.")))
            raise
        except Exception as error:  # noqa: BLE001 - a bug must end in an answer, not in a chat that hangs
            emit(TurnFailed(error=failure_of(error)))

    async def _answer(self, inbound: Inbound, emit: Emit) -> None:
        """Answers one message in the lane of its session."""
        parts, where = self._parts, self._route(inbound)
        if await answered_in_chat(parts, inbound.text, where, emit):
            return
        async with parts.lanes.enter(where.key, on_wait=lambda text: emit(Warned(message=text))):
            session = await parts.turn.sessions.open(where)
            told = parts.turn.told
            told.once("", (*parts.turn.sessions.index.notices, *parts.upkeep.notices), emit)
            told.once(session.session_id, session.notices, emit)
            try:
                await settle(Turn(session, parts.turn, emit), runs=False)
                hooks, chat = parts.turn.hooks, session.chat(parts.turn.workspace)
                turn = parts.chosen.applied(Turn(session, parts.turn, without_text(hooks, emit)))
                turn, reply = await self._outcome(await arrived(hooks, chat, inbound), turn)
                parts.turn.on_said()
                reply = None if reply is None else await leaving(hooks, chat, reply)
                emit(turn.ending(reply))
            finally:
                parts.lifecycle.finish(where.key)
                parts.upkeep.start_if_due(self._running.keys())

    async def _outcome(self, inbound: Inbound, turn: Turn) -> Outcome:
        """What comes of a message, and the turn that it ended in: a command may have changed the session."""
        parts = self._parts
        triggers = turn.parts.settings.session.reset_triggers
        command = parse_command(inbound.text, reset_triggers=triggers)
        if command is not None and turn.session.policy.is_owner:
            run = CommandRun(
                rest=command.rest,
                attachments=inbound.attachments,
                turn=turn,
                chosen=parts.chosen,
                lifecycle=parts.lifecycle,
            )
            return await run_command(command.name, run)
        if not inbound.text.strip() and not inbound.attachments:
            return turn, None
        # Only words find a session at its end: a command is about the present one.
        before, turn = turn, await parts.lifecycle.after_a_due_reset(turn)
        await turn.write_down(inbound.text, inbound.attachments)
        if turn is not before:
            await before.save_notes()
        await settle(turn, runs=True)
        return turn, await turn.answer()

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
