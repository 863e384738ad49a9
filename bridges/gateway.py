"""`Gateway`: one agent in the chats of its bridges.

bridge ─► door ─► ledger ─► the session's queue ─► turn ─► ledger ─► out, part by part
              └─► /stop, /status, approvals: at once
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

from nacre.bridges.access.gate import Gate
from nacre.bridges.access.people import People
from nacre.bridges.contracts.bridge import Bridge
from nacre.bridges.delivery.outgoing import Outgoing
from nacre.bridges.delivery.throttle import Sleep
from nacre.bridges.door import BridgeDoor
from nacre.bridges.ledger.ledger import LEDGER_FILE, Ledger, Received
from nacre.bridges.queueing.commands import AT_ONCE, is_stop, may_stop
from nacre.bridges.queueing.session_queue import QueueRules, SessionQueue
from nacre.bridges.supervisor import BridgeStatus, Supervisor
from nacre.bridges.turns import ChatDoor, Turns, place_of
from nacre.runtime.agent.agent import Agent
from nacre.runtime.contracts.clock import Clock
from nacre.runtime.contracts.errors import AgentError
from nacre.runtime.contracts.ids import NewId, random_id
from nacre.runtime.contracts.inbound import Inbound
from nacre.runtime.hooks.events import BeforeTool, Deny
from nacre.runtime.settings.channels import QueueMode, queue_mode
from nacre.sessions.contracts.errors import SessionError

log = logging.getLogger(__name__)

STOPPED = "⚙️ Agent was aborted."
TOO_MANY = "Too many messages wait already. Say it again when I have answered."
FLUSH_SECONDS = 5.0


class Gateway:
    """Runs bridges for one agent. Use it as `async with await Gateway.open(...)`.

    It closes neither the agent nor anything else that it was given.
    """

    def __init__(
        self,
        agent: Agent,
        bridges: Sequence[Bridge],
        ledger: Ledger,
        *,
        now: Clock,
        new_id: NewId,
        sleep: Sleep,
    ) -> None:
        self._agent = agent
        self._ledger = ledger
        self._sleep = sleep
        self._gate = Gate(People(ledger.database, now=now), agent.settings, new_id=new_id)
        self._off = agent.hooks.on("before_tool", self._may_go_on)
        self._queues: dict[str, SessionQueue] = {}
        self._aside: set[asyncio.Task[None]] = set()
        self._slots = asyncio.Semaphore(agent.settings.agent.max_concurrent)
        self._stopped: set[str] = set()
        self._turns = Turns(
            agent,
            ledger,
            door_of=self._door_of,
            is_stopped=lambda key: key in self._stopped,
            sleep=sleep,
        )
        self._supervisors: dict[tuple[str, str], Supervisor] = {}
        self._outgoing: dict[tuple[str, str], Outgoing] = {}
        for bridge in bridges:
            self._add(bridge)

    @classmethod
    async def open(
        cls,
        agent: Agent,
        bridges: Sequence[Bridge],
        *,
        state_dir: Path,
        now: Clock,
        new_id: NewId = random_id,
        sleep: Sleep = asyncio.sleep,
    ) -> Self:
        """Opens the ledger, goes on with what an earlier program left, and starts the bridges.

        Raises:
            LedgerUnusable: the ledger cannot be opened, or another program is at it.
            ValueError: two bridges have one channel and account.
        """
        ledger = await Ledger.open(state_dir / LEDGER_FILE, now=now, new_id=new_id)
        try:
            gateway = cls(agent, bridges, ledger, now=now, new_id=new_id, sleep=sleep)
            await gateway._resume()
        except BaseException:
            await ledger.close()
            raise
        return gateway

    @property
    def notice(self) -> str:
        """A sentence for the owner about the ledger, or nothing."""
        return self._ledger.notice

    @property
    def statuses(self) -> tuple[BridgeStatus, ...]:
        """How each bridge is."""
        return tuple(supervisor.status for supervisor in self._supervisors.values())

    async def undelivered(self) -> dict[str, int]:
        """How many parts did not arrive yet, by their state: `pending`, `sending`, `unsure`, `failed`."""
        return await self._ledger.outbox.counts()

    @property
    def is_idle(self) -> bool:
        """Whether everything that was taken is answered, and sent as far as it can be."""
        return not (self._queues or self._aside or any(out.is_busy for out in self._outgoing.values()))

    async def close(self) -> None:
        """Stops the bridges and the turns. What is not done stays in the ledger, for the next start."""
        self._off()
        try:
            async with asyncio.timeout(FLUSH_SECONDS):
                await asyncio.gather(*(outgoing.flush() for outgoing in self._outgoing.values()))
        except TimeoutError:
            log.info("not everything was sent; the next start goes on with it")
        await asyncio.gather(*(supervisor.stop() for supervisor in self._supervisors.values()))
        for task in list(self._aside):
            task.cancel()
        await asyncio.gather(*self._aside, return_exceptions=True)
        await asyncio.gather(*(queue.close() for queue in list(self._queues.values())))
        await asyncio.gather(*(outgoing.close() for outgoing in self._outgoing.values()))
        await self._ledger.close()

    async def __aenter__(self) -> Self:
        """The gateway itself."""
        return self

    async def __aexit__(self, *_ended: object) -> None:
        """Closes the gateway."""
        await self.close()

    def _add(self, bridge: Bridge) -> None:
        name = (bridge.channel, bridge.account)
        if name in self._supervisors:
            raise ValueError(f"There are two bridges for the account {name[1]!r} of {name[0]!r}.")
        supervisor = Supervisor(bridge, lambda up: self._door(name, up), sleep=self._sleep)
        self._supervisors[name] = supervisor
        self._outgoing[name] = Outgoing(bridge, self._ledger.outbox, supervisor.up, sleep=self._sleep)

    def _door_of(self, inbound: Inbound) -> ChatDoor:
        name = (inbound.channel, inbound.account)
        supervisor = self._supervisors[name]
        return ChatDoor(bridge=supervisor.bridge, outgoing=self._outgoing[name], is_up=supervisor.up.is_set)

    async def _door(self, name: tuple[str, str], connected: Callable[[], None]) -> BridgeDoor:
        return BridgeDoor(await self._ledger.cursor(*name), connected, self._receive)

    async def _resume(self) -> None:
        for received in await self._ledger.open_messages():
            inbound = received.inbound
            # What came by a bridge that is not here now waits until it is.
            if (inbound.channel, inbound.account) in self._supervisors:
                self._dispatch(received)
        for outgoing in self._outgoing.values():
            await outgoing.resume()
        for supervisor in self._supervisors.values():
            supervisor.start()

    async def _receive(self, inbound: Inbound, cursor: str) -> None:
        """Takes a message from a bridge; its words are on disk when this returns, if they are answered."""
        verdict = await self._gate.verdict(inbound)
        if verdict.outcome != "answer":
            log.info("a message of %s is not answered: %s", inbound.channel, verdict.why)
            if verdict.outcome == "pair" and (text := await self._gate.invitation(inbound)):
                await self._ledger.outbox.put(place_of(inbound), [text])
                self._door_of(inbound).outgoing.notify(inbound.chat_id)
            await self._ledger.pass_over(inbound, cursor)
            return
        # Who the owner is, is decided here and nowhere else.
        inbound = replace(inbound, is_owner=verdict.is_owner)
        try:
            key = self._agent.session_key(inbound)
        except (AgentError, SessionError) as error:
            log.warning("a message of %s was not taken: %s", inbound.channel, error)
            await self._ledger.pass_over(inbound, cursor)
            return
        received = await self._ledger.receive(inbound, key, cursor=cursor)
        if received is None:
            log.info("a message of %s came before and was dropped", key)
        else:
            self._dispatch(received)

    async def _may_go_on(self, event: BeforeTool) -> Deny | None:
        """A tool call of somebody whose right to speak was taken back meanwhile is not run."""
        queue = self._queues.get(event.chat.session_key)
        for received in queue.running if queue is not None else ():
            if not await self._gate.still_holds(received.inbound):
                return Deny("Whoever asked for this may not any more. End the turn without further tools.")
        return None

    def _dispatch(self, received: Received) -> None:
        """Hands a message on: to be heard at once, or to wait for its turn. Waits for nothing itself."""
        inbound, key = received.inbound, received.session_key
        if is_stop(inbound.text) and may_stop(inbound):
            self._begin(self._stop(received, self._cleared(key)))
        elif not received.was_begun and (command := self._agent.command(inbound)) in AT_ONCE:
            below = self._status_lines(received) if command == "status" else ()
            self._begin(self._turns.answer((received,), cap=1, below=below))
        else:
            self._wait(received)

    def _status_lines(self, received: Received) -> tuple[str, ...]:
        """What `/status` says of the chats; how the bridges are is the owner's affair alone."""
        settings, inbound = self._agent.settings.messages.queue, received.inbound
        queue = self._queues.get(received.session_key)
        running = "a turn runs" if queue is not None and queue.running else "idle"
        depth = queue.depth if queue is not None else 0
        line = f"🪢 Queue: {queue_mode(settings, inbound.channel)} ({running}, {depth} waiting)"
        if not (inbound.is_owner is True and inbound.chat_kind == "direct"):
            return (line,)
        return (line, f"🌉 Bridges: {' · '.join(status.line for status in self.statuses)}")

    def _wait(self, received: Received) -> None:
        settings, key = self._agent.settings.messages.queue, received.session_key
        mode = queue_mode(settings, received.inbound.channel)
        queue = self._queues.get(key)
        if queue is None:
            queue = self._queues[key] = self._new_queue(key, mode)
        if settings.drop == "new" and queue.depth >= settings.cap and queue.running:
            self._begin(self._turns.say((received,), TOO_MANY))
            return
        if mode == "interrupt" and queue.running and not received.was_begun:
            self._interrupt(received)
        queue.put(received)
        if settings.drop == "old" and queue.running and queue.depth > settings.cap:
            self._begin(self._ledger.drop(queue.oldest(queue.depth - settings.cap)))

    def _new_queue(self, key: str, mode: QueueMode) -> SessionQueue:
        settings = self._agent.settings.messages.queue
        rules = QueueRules(mode=mode, debounce_seconds=settings.debounce_ms / 1000, cap=settings.cap)
        return SessionQueue(
            self._answer,
            rules=lambda: rules,
            is_alone=lambda received: bool(self._agent.command(received.inbound)),
            clock=asyncio.get_running_loop().time,
            sleep=self._sleep,
            on_idle=lambda: self._idle(key),
        )

    def _idle(self, key: str) -> None:
        self._queues.pop(key, None)
        self._stopped.discard(key)

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
            await self._turns.answer(batch, cap=self._agent.settings.messages.queue.cap)

    def _cleared(self, key: str) -> list[Received]:
        """What waited in a session, taken out."""
        queue = self._queues.get(key)
        return queue.clear() if queue is not None else []

    def _interrupt(self, received: Received) -> None:
        queue = self._queues.get(received.session_key)
        if queue is not None and queue.running:
            self._stopped.add(received.session_key)
        self._agent.stop(received.inbound)

    async def _stop(self, received: Received, waiting: list[Received]) -> None:
        self._interrupt(received)
        await self._ledger.drop(waiting)
        await self._turns.say((received,), STOPPED)

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        """Runs something beside the queues."""
        task = asyncio.create_task(work)
        self._aside.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._aside.discard(task)
        if not task.cancelled() and (error := task.exception()):
            log.error("a message could not be answered and waits for the next start: %s", error)
