"""Decides what happens to a message in the ledger: it is answered immediately, joins a turn, or waits."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Any, TypeAlias

from nacre.bridges.access.bindings import BoundAgents
from nacre.bridges.access.gate import Gate
from nacre.bridges.answering.turns import TurnRunner, Turns
from nacre.bridges.connections.connections import Connections
from nacre.bridges.queueing.batches import COLLECTING, Steering, may_join
from nacre.bridges.queueing.session_queues import SessionQueues
from nacre.bridges.queueing.session_rules import (
    CHOICE_COMMANDS,
    IMMEDIATE_COMMANDS,
    SessionRules,
    is_stop,
    may_stop,
)
from nacre.runtime.agent.agent import Agent
from nacre.runtime.contracts.clock import Sleep
from nacre.runtime.contracts.inbound import Inbound
from nacre.runtime.hooks.events import BeforeTool, Deny
from nacre.runtime.hooks.hooks import around_answer
from nacre.runtime.ledger.ledger import Ledger, told
from nacre.runtime.ledger.records import Received
from nacre.sessions.contracts.errors import SessionError

log = logging.getLogger(__name__)

UpcomingLines: TypeAlias = Callable[[Agent], Awaitable[Sequence[str]]]
"""Lines about an agent's next heartbeat and job."""

STOPPED = "⚙️ Agent was aborted."
TOO_MANY = "Too many messages are waiting. Please send this again when I have answered."


class Dispatcher:
    """Decides for each message of a gateway what happens now, and runs it."""

    def __init__(
        self,
        agents: BoundAgents,
        ledger: Ledger,
        connections: Connections,
        gate: Gate,
        rules: SessionRules,
        *,
        runner: TurnRunner,
        upcoming_lines: UpcomingLines,
        sleep: Sleep,
    ) -> None:
        self._agents = agents
        self._ledger = ledger
        self._connections = connections
        self._gate = gate
        self._rules = rules
        self._runner = runner
        self._upcoming_lines = upcoming_lines
        self._unhook = [agent.hooks.on("before_tool", self._check_rights) for agent in agents]
        self._tasks: set[asyncio.Task[None]] = set()
        at_once = asyncio.Semaphore(agents.default.settings.agent.max_concurrent)
        self._are_slots_taken: Callable[[], bool] = lambda: not runner.has_places and at_once.locked()
        self._slots: AbstractAsyncContextManager[None] = nullcontext() if runner.has_places else at_once
        self._stopped: set[str] = set()
        self._is_closing = False
        self.queues = SessionQueues(
            self._answer,
            rules=rules.queue,
            is_alone=lambda received: bool(received.inbound.trigger or self._command(received)),
            on_idle=self._stopped.discard,
            sleep=sleep,
        )
        self._steering = Steering(
            ledger,
            join=lambda received, inbound: runner.join(self._agent_of(received), inbound),
            waiting=self.queues.waiting,
            put=self._enqueue,
        )
        self._turns = Turns(
            ledger,
            runner=runner,
            agent_of=self._agent_of,
            connection_of=connections.find,
            is_stopped=lambda key: key in self._stopped,
            is_allowed=gate.is_still_allowed,
            steering=self._steering,
            sleep=sleep,
        )

    @property
    def is_busy(self) -> bool:
        """Whether anything is being answered or waits for an answer."""
        return bool(self.queues or self._tasks)

    def is_busy_in(self, session_key: str) -> bool:
        return bool(self.queues.running(session_key) or self.queues.depth(session_key))

    def current_message(self, session_key: str) -> Inbound | None:
        running = self.queues.running(session_key)
        return running[-1].inbound if running else None

    def take(self, received: Received) -> None:
        """Takes a message from the ledger. Returns at once."""
        inbound, key = received.inbound, received.session_key
        if self._is_closing:
            return  # it stays in the ledger for the next start
        if not inbound.trigger and is_stop(inbound.text) and may_stop(inbound):
            self._start(self._stop(received, self.queues.clear(key)))
            return
        command = "" if received.was_begun else self._command(received)
        if command in CHOICE_COMMANDS:
            self._start(self._choose(received, command))
        elif command in IMMEDIATE_COMMANDS:
            self._start(self._answer_immediately(received, command))
        elif not command and not received.was_begun and not self._rules.may_answer(received):
            log.info("a message in %s is not answered because sending is off there", key)
            self._start(self._ledger.drop([received]))
        elif not command and self._may_steer(received):
            self._start(self._steering.steer(received, self.queues.running(key)))
        else:
            self._enqueue(received)

    def begins_at_once(self, inbound: Inbound, session_key: str, agent: Agent) -> bool:
        """Whether the turn of a new message starts now: the session is idle, and no debounce applies."""
        if self._is_closing or self._are_slots_taken() or self.is_busy_in(session_key):
            return False
        new = Received(number=0, session_key=session_key, inbound=inbound, agent_id=agent.id)
        rules = self._rules.queue(new)
        waits = rules.mode in COLLECTING and rules.first_debounce_seconds > 0
        is_plain = not (is_stop(inbound.text) or self._command(new))
        return is_plain and not waits and self._rules.may_answer(new)

    async def finish(self, turn_seconds: float) -> None:
        """Starts no further turn and waits up to `turn_seconds` for those that run."""
        self._is_closing = True
        await self.queues.finish(turn_seconds)

    async def close(self) -> None:
        """Cancels what runs. What is not done stays in the ledger for the next start."""
        self._is_closing = True
        for unhook in self._unhook:
            unhook()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.queues.close()

    async def _check_rights(self, event: BeforeTool) -> Deny | None:
        for received in self.queues.running(event.chat.session_key):
            if not await self._gate.is_still_allowed(received.inbound):
                return Deny("The sender no longer has the right to this. End the turn without further tools.")
        return None

    def _agent_of(self, received: Received) -> Agent:
        return self._agents.by_id.get(received.agent_id) or self._agents.for_message(received.inbound)

    def _command(self, received: Received) -> str:
        inbound = received.inbound
        return "" if inbound.trigger else self._agent_of(received).command(inbound)

    async def _answer_immediately(self, received: Received, command: str) -> None:
        lines = await self._status_lines(received) if command == "status" else ()
        await self._turns.answer((received,), cap=1, extra_lines=lines)

    async def _status_lines(self, received: Received) -> tuple[str, ...]:
        """The lines of `/status` about chats. Only the owner in private sees the state of the bridges."""
        key, inbound = received.session_key, received.inbound
        is_running = bool(self.queues.running(key))
        line = self._rules.status_line(received, is_running=is_running, depth=self.queues.depth(key))
        if not (inbound.is_owner is True and inbound.chat_kind == "direct"):
            return (line,)
        return (
            line,
            f"🌉 Bridges: {' · '.join(status.line for status in self._connections.statuses)}",
            f"📮 Messages: {told(await self._ledger.not_done())}",
            *await self._upcoming_lines(self._agent_of(received)),
        )

    def _may_steer(self, received: Received) -> bool:
        running = self.queues.running(received.session_key)
        inbound = received.inbound
        is_new = not received.was_begun and bool(inbound.message_id) and not inbound.trigger
        return is_new and self._rules.queue(received).mode == "steer" and may_join(received, running)

    def _enqueue(self, received: Received) -> None:
        running = self.queues.running(received.session_key)
        outcome, dropped = self.queues.put(received)
        if outcome == "refused":
            self._start(self._turns.finish((received,), TOO_MANY))
        elif outcome == "interrupts":
            self._interrupt(received)
        elif self._steers_copy(received) and may_join(received, running):
            self._steering.steer_copy(received)
        if dropped:
            self._start(self._ledger.drop(dropped))

    def _steers_copy(self, received: Received) -> bool:
        is_message = not (received.was_begun or received.inbound.trigger or self._command(received))
        return is_message and self._rules.queue(received).mode == "steer-backlog"

    async def _answer(self, batch: tuple[Received, ...]) -> None:
        key = batch[0].session_key
        self._stopped.discard(key)
        async with self._slots:
            if key in self._stopped:  # while it waited for a slot
                await self._ledger.drop(batch)
                return
            if not await self._gate.is_still_allowed(batch[-1].inbound):
                log.info("messages in %s are not answered: their sender no longer has the right", key)
                await self._ledger.drop(batch)
                return
            messages = tuple(received.inbound for received in batch)
            async with around_answer(self._agent_of(batch[0]).hooks, messages):
                await self._turns.answer(batch, cap=self._rules.queue(batch[0]).cap)

    def _interrupt(self, received: Received) -> None:
        if self.queues.running(received.session_key):
            self._stopped.add(received.session_key)
        self._runner.stop(self._agent_of(received), received.inbound)

    async def _stop(self, received: Received, waiting: list[Received]) -> None:
        self._interrupt(received)
        await self._ledger.drop(waiting)
        try:
            await self._agent_of(received).approvals.withdraw(received.session_key)
        except SessionError as error:
            log.warning("open approvals of %s could not be withdrawn: %s", received.session_key, error)
        await self._turns.finish((received,), STOPPED)

    async def _choose(self, received: Received, command: str) -> None:
        arguments = received.inbound.text.strip().partition(" ")[2]
        answer = await self._rules.run_command(received, command, arguments)
        await self._turns.finish((received,), answer)

    def _start(self, coroutine: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._on_done)

    def _on_done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()):
            log.error("a message could not be answered and waits for the next start: %s", error)
