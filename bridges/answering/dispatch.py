"""What becomes of a message that stands in the ledger: heard at once, said into a turn, or left to wait."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from typing import Any, TypeAlias

from nacre.bridges.access.bindings import BoundAgents
from nacre.bridges.access.gate import Gate
from nacre.bridges.answering.runner import TurnRunner
from nacre.bridges.answering.turns import Turns
from nacre.bridges.connections.connections import Connections
from nacre.bridges.delivery.throttle import Sleep
from nacre.bridges.queueing.chat_commands import CHOICES
from nacre.bridges.queueing.commands import AT_ONCE, is_stop, may_stop
from nacre.bridges.queueing.joining import Joining, may_join
from nacre.bridges.queueing.session_queues import SessionQueues
from nacre.bridges.queueing.session_rules import SessionRules
from nacre.runtime.agent.agent import Agent
from nacre.runtime.contracts.inbound import Inbound
from nacre.runtime.hooks.events import BeforeTool, Deny
from nacre.runtime.ledger.ledger import Ledger, told
from nacre.runtime.ledger.records import Received
from nacre.sessions.contracts.errors import SessionError

log = logging.getLogger(__name__)

Coming: TypeAlias = Callable[[Agent], Awaitable[Sequence[str]]]

STOPPED = "⚙️ Agent was aborted."
TOO_MANY = "Too many messages wait already. Say it again when I have answered."


class Dispatch:
    """That of one gateway."""

    def __init__(
        self,
        agents: BoundAgents,
        ledger: Ledger,
        connections: Connections,
        gate: Gate,
        rules: SessionRules,
        *,
        runner: TurnRunner,
        coming: Coming,
        sleep: Sleep,
    ) -> None:
        """`coming` gives lines about what comes next without being asked."""
        self._agents = agents
        self._ledger = ledger
        self._connections = connections
        self._gate = gate
        self._rules = rules
        self._runner = runner
        self._coming = coming
        self._off = [agent.hooks.on("before_tool", self._may_go_on) for agent in agents]
        self._aside: set[asyncio.Task[None]] = set()
        self._slots = asyncio.Semaphore(agents.default.settings.agent.max_concurrent)
        self._stopped: set[str] = set()
        self._is_ending = False
        self._queues = SessionQueues(
            self._answer,
            rules=rules.queue,
            is_alone=lambda received: bool(received.inbound.trigger or self._command(received)),
            on_idle=self._stopped.discard,
            sleep=sleep,
        )
        self._joining = Joining(
            ledger,
            hand_in=lambda received, inbound: runner.join(self._agent_of(received), inbound),
            waiting=self._queues.waiting,
            put=self._wait,
        )
        self._turns = Turns(
            ledger,
            runner=runner,
            agent_of=self._agent_of,
            connection_of=connections.find,
            is_stopped=lambda key: key in self._stopped,
            may_see=gate.still_holds,
            joining=self._joining,
            sleep=sleep,
        )

    @property
    def is_busy(self) -> bool:
        """Whether anything is being answered, or waits for that."""
        return bool(self._queues or self._aside)

    def is_busy_in(self, session_key: str) -> bool:
        """Whether a turn runs, or messages wait, in a session."""
        return bool(self._queues.running(session_key) or self._queues.depth(session_key))

    def numbers(self) -> Iterator[int]:
        """The messages that wait or are being answered, by number."""
        return self._queues.numbers()

    def speaking(self, session_key: str) -> Inbound | None:
        """The message that is being answered in a session."""
        running = self._queues.running(session_key)
        return running[-1].inbound if running else None

    def take(self, received: Received) -> None:
        """Hands a message on. Waits for nothing itself."""
        inbound, key = received.inbound, received.session_key
        if self._is_ending:
            return  # it is in the ledger, for the next start
        if not inbound.trigger and is_stop(inbound.text) and may_stop(inbound):
            self._begin(self._stop(received, self._queues.clear(key)))
            return
        command = "" if received.was_begun else self._command(received)
        if command in CHOICES:
            self._begin(self._choose(received, command))
        elif command in AT_ONCE:
            self._begin(self._at_once(received, command))
        elif not command and not received.was_begun and not self._rules.may_answer(received):
            log.info("a message of %s is not answered: sending is off there", key)
            self._begin(self._ledger.drop([received]))
        elif not command and self._may_steer(received):
            self._begin(self._joining.steer(received, self._queues.running(key)))
        else:
            self._wait(received)

    async def finish(self, turn_seconds: float) -> None:
        """Begins no further turn, and lets those that run end, so long at most."""
        self._is_ending = True
        await self._queues.finish(turn_seconds)

    async def close(self) -> None:
        """Ends what runs. What is not done stays in the ledger, for the next start."""
        self._is_ending = True
        for off in self._off:
            off()
        for task in list(self._aside):
            task.cancel()
        await asyncio.gather(*self._aside, return_exceptions=True)
        await self._queues.close()

    async def _may_go_on(self, event: BeforeTool) -> Deny | None:
        """A tool call of somebody whose right to speak was taken back meanwhile is not run."""
        for received in self._queues.running(event.chat.session_key):
            if not await self._gate.still_holds(received.inbound):
                return Deny("Whoever asked for this may not any more. End the turn without further tools.")
        return None

    def _agent_of(self, received: Received) -> Agent:
        return self._agents.named(received.agent_id) or self._agents.of(received.inbound)

    def _command(self, received: Received) -> str:
        inbound = received.inbound
        return "" if inbound.trigger else self._agent_of(received).command(inbound)

    async def _at_once(self, received: Received, command: str) -> None:
        below = await self._status_lines(received) if command == "status" else ()
        await self._turns.answer((received,), cap=1, below=below)

    async def _status_lines(self, received: Received) -> tuple[str, ...]:
        """What `/status` says of the chats; how the bridges are is the owner's affair alone."""
        key, inbound = received.session_key, received.inbound
        is_running = bool(self._queues.running(key))
        line = self._rules.line(received, is_running=is_running, depth=self._queues.depth(key))
        if not (inbound.is_owner is True and inbound.chat_kind == "direct"):
            return (line,)
        return (
            line,
            f"🌉 Bridges: {' · '.join(status.line for status in self._connections.statuses)}",
            f"📮 Messages: {told(await self._ledger.not_done())}",
            *await self._coming(self._agent_of(received)),
        )

    def _may_steer(self, received: Received) -> bool:
        running = self._queues.running(received.session_key)
        inbound = received.inbound
        is_new = not received.was_begun and bool(inbound.message_id) and not inbound.trigger
        return is_new and self._rules.queue(received).rules.mode == "steer" and may_join(received, running)

    def _wait(self, received: Received) -> None:
        running = self._queues.running(received.session_key)
        outcome, dropped = self._queues.put(received)
        if outcome == "refused":
            self._begin(self._turns.say((received,), TOO_MANY))
        elif outcome == "interrupts":
            self._interrupt(received)
        elif self._joins_as_well(received) and may_join(received, running):
            self._joining.copy_in(received)
        if dropped:
            self._begin(self._ledger.drop(dropped))

    def _joins_as_well(self, received: Received) -> bool:
        is_words = not (received.was_begun or received.inbound.trigger or self._command(received))
        return is_words and self._rules.queue(received).rules.mode == "steer-backlog"

    async def _answer(self, batch: tuple[Received, ...]) -> None:
        key = batch[0].session_key
        self._stopped.discard(key)
        async with self._slots:
            if key in self._stopped:  # while it waited for a slot
                await self._ledger.drop(batch)
                return
            if not await self._gate.still_holds(batch[-1].inbound):
                log.info("messages of %s are not answered: their sender may not speak any more", key)
                await self._ledger.drop(batch)
                return
            await self._turns.answer(batch, cap=self._rules.queue(batch[0]).rules.cap)

    def _interrupt(self, received: Received) -> None:
        if self._queues.running(received.session_key):
            self._stopped.add(received.session_key)
        self._runner.stop(self._agent_of(received), received.inbound)

    async def _stop(self, received: Received, waiting: list[Received]) -> None:
        self._interrupt(received)
        await self._ledger.drop(waiting)
        try:
            await self._agent_of(received).approvals.withdraw(received.session_key)
        except SessionError as error:
            log.warning("what %s asks its owner could not be withdrawn: %s", received.session_key, error)
        await self._turns.say((received,), STOPPED)

    async def _choose(self, received: Received, command: str) -> None:
        rest = received.inbound.text.strip().partition(" ")[2]
        await self._turns.say((received,), await self._rules.choose(received, command, rest))

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        """Runs something beside the queues."""
        task = asyncio.create_task(work)
        self._aside.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._aside.discard(task)
        if not task.cancelled() and (error := task.exception()):
            log.error("a message could not be answered and waits for the next start: %s", error)
