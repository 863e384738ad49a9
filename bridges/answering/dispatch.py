"""Decides what happens to a message in the ledger: it is answered immediately, joins a turn, or waits.

Each session has a queue of messages that wait, and a task that answers them.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import Any, Literal, TypeAlias

from nacre.bridges.access.bindings import BoundAgents
from nacre.bridges.access.gate import Gate
from nacre.bridges.answering.turns import TurnRunner, Turns
from nacre.bridges.connections.connections import Connections
from nacre.bridges.contracts.bridge import Bridge, place_of
from nacre.bridges.queueing.batches import COLLECTING, Steering, may_join, next_batch
from nacre.bridges.queueing.session_rules import (
    CHOICE_COMMANDS,
    IMMEDIATE_COMMANDS,
    QueueRules,
    SessionRules,
    is_stop,
    may_stop,
)
from nacre.closing import stop_tasks
from nacre.runtime.agent.agent import Agent
from nacre.runtime.contracts.clock import Sleep
from nacre.runtime.contracts.inbound import Inbound
from nacre.runtime.hooks.events import BeforeTool, Deny
from nacre.runtime.hooks.hooks import around_answer
from nacre.runtime.ledger.ledger import AccountId, Ledger, counts_text
from nacre.runtime.ledger.records import Received
from nacre.sessions.contracts.errors import SessionError

log = logging.getLogger(__name__)

RETRY_SECONDS = 5.0

Answer: TypeAlias = Callable[[tuple[Received, ...]], Awaitable[None]]
"""Answers a batch. Raises if the batch has to stay in the ledger."""
PutOutcome: TypeAlias = Literal["waits", "refused", "interrupts"]


class SessionQueue:
    """The queue of the session of a message, one of `queues`."""

    def __init__(self, queues: SessionQueues, received: Received) -> None:
        self._queues = queues
        self._first = received
        self._waiting: list[Received] = []
        self._last_put = 0.0
        self.running: tuple[Received, ...] = ()
        """The messages that are being answered."""
        self.task: asyncio.Task[None] | None = None

    @property
    def numbers(self) -> list[int]:
        return [received.number for received in (*self.running, *self._waiting)]

    @property
    def depth(self) -> int:
        return len(self._waiting)

    def put(self, received: Received) -> None:
        """Appends a message. If nothing runs, it is answered now."""
        self._waiting.append(received)
        self._last_put = _now()
        if self.task is None:
            self.task = asyncio.create_task(self._drain())

    @property
    def waiting(self) -> tuple[Received, ...]:
        return tuple(self._waiting)

    def take(self, count: int) -> list[Received]:
        taken, self._waiting = self._waiting[:count], self._waiting[count:]
        return taken

    def clear(self) -> list[Received]:
        return self.take(len(self._waiting))

    def has(self, account: AccountId) -> bool:
        """Whether messages of an account wait or are being answered."""
        return any(_account(received) == account for received in (*self.running, *self._waiting))

    def forget(self, account: AccountId) -> None:
        """Forgets the waiting messages of an account; the ledger has them."""
        self._waiting = [received for received in self._waiting if _account(received) != account]

    async def close(self) -> None:
        """Cancels the task. The batch that it was answering stays open in the ledger."""
        await stop_tasks(self.task)

    async def _drain(self) -> None:
        is_first = True
        try:
            while self._waiting:
                await self._debounce(is_first=is_first)
                is_first = False
                if not self._waiting:
                    break
                rules, is_alone = self._queues.rules(self._first), self._queues.is_alone
                batch = next_batch(self._waiting, rules.mode, cap=rules.cap, is_alone=is_alone)
                self.take(len(batch))
                self.running = batch
                await self._try_answer(batch)
                self.running = ()
        finally:
            self.running = ()
            self.task = None
            self._queues.end(self._first.session_key)

    async def _try_answer(self, batch: tuple[Received, ...]) -> None:
        try:
            await self._queues.answer(batch)
        except Exception:
            # Most likely the ledger failed. The turn is resumed as after a kill.
            log.exception("a turn could not be finished; the next attempt is in %g s", RETRY_SECONDS)
            turn = batch[0].number
            self._waiting[:0] = [replace(received, was_begun=True, turn=turn) for received in batch]
            self.running = ()
            await self._queues.sleep(RETRY_SECONDS)

    async def _debounce(self, *, is_first: bool) -> None:
        """Waits until no message has arrived for as long as the rules say."""
        while self._waiting:
            first = self._waiting[0]
            if is_first and (first.begins or first.was_begun):
                return
            rules = self._queues.rules(self._first)
            seconds = rules.first_debounce_seconds if is_first else rules.debounce_seconds
            if is_first and (rules.mode not in COLLECTING or self._queues.is_alone(first)):
                return  # no other message would join its batch
            left = self._last_put + seconds - _now()
            if left <= 0:
                return
            await self._queues.sleep(left)


def _now() -> float:
    return asyncio.get_running_loop().time()


def _account(received: Received) -> AccountId:
    return received.inbound.channel, received.inbound.account


class SessionQueues:
    """The queues of all sessions.

    `answer` answers a batch. `rules` is called for each batch. `is_alone` tells which messages form a batch
    alone.
    """

    def __init__(
        self,
        answer: Answer,
        *,
        rules: Callable[[Received], QueueRules],
        is_alone: Callable[[Received], bool],
        on_idle: Callable[[str], None],
        sleep: Sleep,
    ) -> None:
        self.answer = answer
        self.rules = rules
        self.is_alone = is_alone
        self.sleep = sleep
        self._on_idle = on_idle
        self._queues: dict[str, SessionQueue] = {}

    def __bool__(self) -> bool:
        return bool(self._queues)

    def running(self, key: str) -> tuple[Received, ...]:
        queue = self._queues.get(key)
        return queue.running if queue is not None else ()

    def waiting(self, key: str) -> tuple[Received, ...]:
        queue = self._queues.get(key)
        return queue.waiting if queue is not None else ()

    def depth(self, key: str) -> int:
        return len(self.waiting(key))

    def numbers(self) -> Iterator[int]:
        for queue in self._queues.values():
            yield from queue.numbers

    def put(self, received: Received) -> tuple[PutOutcome, list[Received]]:
        """Appends a message to its session's queue.

        Returns the outcome and the messages that are dropped for it. `interrupts` asks the caller to stop the
        running turn.
        """
        rules = self.rules(received)
        queue = self._queues.setdefault(received.session_key, SessionQueue(self, received))
        if rules.drop == "new" and queue.depth >= rules.cap and queue.running:
            return "refused", []
        is_new = not received.was_begun and not received.inbound.trigger
        interrupts = rules.mode == "interrupt" and bool(queue.running) and is_new
        queue.put(received)
        dropped: list[Received] = []
        if rules.drop == "old" and queue.running and queue.depth > rules.cap:
            dropped = queue.take(queue.depth - rules.cap)
        return "interrupts" if interrupts else "waits", dropped

    def clear(self, key: str) -> list[Received]:
        queue = self._queues.get(key)
        return queue.clear() if queue is not None else []

    def has(self, account: AccountId) -> bool:
        """Whether messages of an account wait or are being answered."""
        return any(queue.has(account) for queue in self._queues.values())

    async def leave(self, account: AccountId, seconds: float) -> None:
        """Forgets the messages of an account, but waits up to `seconds` for those that are being answered.

        Those of other accounts may be forgotten with them.
        """
        for queue in self._queues.values():
            queue.forget(account)
        having = [queue for queue in self._queues.values() if queue.has(account)]
        if having and seconds > 0:
            await asyncio.wait([queue.task for queue in having if queue.task is not None], timeout=seconds)
        await asyncio.gather(*(queue.close() for queue in having if queue.has(account)))

    async def finish(self, seconds: float) -> None:
        """Starts no further batch and waits up to `seconds` for those that run."""
        for queue in list(self._queues.values()):
            queue.clear()
        tasks = [queue.task for queue in self._queues.values() if queue.task is not None]
        if tasks and seconds > 0:
            await asyncio.wait(tasks, timeout=seconds)

    async def close(self) -> None:
        """Cancels all tasks. The batches that they were answering stay open in the ledger."""
        await asyncio.gather(*(queue.close() for queue in list(self._queues.values())))

    def end(self, key: str) -> None:
        """Removes an empty queue."""
        self._queues.pop(key, None)
        self._on_idle(key)


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
        bridge_elsewhere: Callable[[Inbound], Bridge | None],
        sleep: Sleep,
    ) -> None:
        self._agents = agents
        self._ledger = ledger
        self._connections = connections
        self._gate = gate
        self._rules = rules
        self._runner = runner
        self._upcoming_lines = upcoming_lines
        self._slots = asyncio.Semaphore(agents.default.settings.agent.max_concurrent)
        """The turns that run here at once."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._stopped: set[str] = set()
        self._is_closing = False
        self._unhook: list[Callable[[], None]] = []
        agents.on_added = self._check_tools_of
        for agent in agents:
            self._check_tools_of(agent)
        self.queues = SessionQueues(
            self._answer,
            rules=rules.queue,
            is_alone=self._is_alone,
            on_idle=self._stopped.discard,
            sleep=sleep,
        )
        self._steering = Steering(ledger, join=self._join, waiting=self.queues.waiting, put=self._enqueue)
        self._turns = Turns(
            ledger,
            runner=runner,
            agent_of=self._agent_of,
            connection_of=connections.find,
            bridge_elsewhere=bridge_elsewhere,
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

    def is_busy_with(self, account: AccountId) -> bool:
        """Whether anything of an account may be in progress."""
        return bool(self._tasks) or self.queues.has(account)

    def current_message(self, session_key: str) -> Inbound | None:
        running = self.queues.running(session_key)
        return running[-1].inbound if running else None

    def take(self, received: Received) -> None:
        """Takes a message from the ledger. Returns at once."""
        inbound, key = received.inbound, received.session_key
        if self._is_closing:
            return  # it stays in the ledger for the next start
        is_busy = self.is_busy_in(key)
        connection = self._connections.find(inbound)
        has_work = is_busy or (connection is not None and connection.outgoing.is_sending(inbound.chat_id))
        if not inbound.trigger and is_stop(inbound.text, is_busy=has_work) and may_stop(inbound):
            self._start(self._stop(received, self.queues.clear(key)))
            return
        if received.begins and not is_busy:
            self._enqueue(received)
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
        if self._is_closing or self._slots.locked() or self.is_busy_in(session_key):
            return False
        new = Received(number=0, session_key=session_key, inbound=inbound, agent_id=agent.id)
        rules = self._rules.queue(new)
        waits = rules.mode in COLLECTING and rules.first_debounce_seconds > 0
        is_plain = not (is_stop(inbound.text, is_busy=False) or self._command(new))
        return is_plain and not waits and self._rules.may_answer(new)

    async def finish(self, turn_seconds: float) -> None:
        """Starts no further turn and waits up to `turn_seconds` for those that run."""
        self._is_closing = True
        await self.queues.finish(turn_seconds)

    async def close(self) -> None:
        """Cancels everything. Unfinished work stays in the ledger for the next start."""
        self._is_closing = True
        for unhook in self._unhook:
            unhook()
        await stop_tasks(*self._tasks)
        await self.queues.close()

    def _check_tools_of(self, agent: Agent) -> None:
        self._unhook.append(agent.hooks.on("before_tool", self._check_rights))

    async def _check_rights(self, event: BeforeTool) -> Deny | None:
        for received in self.queues.running(event.chat.session_key):
            if not await self._gate.is_still_allowed(received.inbound):
                return Deny("The sender no longer has the right to this. End the turn without further tools.")
        return None

    def _agent_of(self, received: Received) -> Agent:
        return self._agents.by_id.get(received.agent_id) or self._agents.for_message(received.inbound)

    def _command(self, received: Received) -> str:
        return "" if received.inbound.trigger else self._agent_of(received).command(received.inbound)

    def _is_alone(self, received: Received) -> bool:
        return bool(received.inbound.trigger or self._command(received))

    def _join(self, received: Received, inbound: Inbound) -> bool:
        return self._runner.join(self._agent_of(received), inbound)

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
        agent = self._agent_of(received)
        problem = await self._runner.problem(agent)
        return (
            line,
            *([f"⚠️ {problem}"] if problem else []),
            f"🌉 Bridges: {' · '.join(status.line for status in self._connections.statuses)}",
            f"📮 Messages: {counts_text(Counter(await self._ledger.not_done()) - Counter(waiting=1))}",
            *await self._upcoming_lines(agent),
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
        elif may_join(received, running) and self._steers_copy(received):
            self._steering.steer_copy(received)
        if dropped:
            self._start(self._ledger.drop(dropped))

    def _steers_copy(self, received: Received) -> bool:
        is_message = not (received.was_begun or received.inbound.trigger or self._command(received))
        return is_message and self._rules.queue(received).mode == "steer-backlog"

    async def _answer(self, batch: tuple[Received, ...]) -> None:
        key, first = batch[0].session_key, batch[0]
        self._stopped.discard(key)
        # A message that begins at once was checked a moment ago.
        is_allowed = first.begins and not first.was_begun and len(batch) == 1 and not self._slots.locked()
        async with nullcontext() if self._runner.has_places else self._slots:
            if key in self._stopped:  # while it waited for a slot
                await self._ledger.drop(batch)
                return
            if not (is_allowed or await self._gate.is_still_allowed(batch[-1].inbound)):
                log.info("messages in %s are not answered: their sender no longer has the right", key)
                await self._ledger.drop(batch)
                return
            messages = tuple(received.inbound for received in batch)
            async with around_answer(self._agent_of(first).hooks, messages):
                await self._turns.answer(batch, cap=self._rules.queue(first).cap)

    def _interrupt(self, received: Received) -> None:
        if self.queues.running(received.session_key):
            self._stopped.add(received.session_key)
        self._runner.stop(self._agent_of(received), received.inbound)

    async def _stop(self, received: Received, waiting: list[Received]) -> None:
        self._interrupt(received)
        await self._ledger.drop(waiting)
        await self._ledger.outbox.drop(place_of(received.inbound))
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
