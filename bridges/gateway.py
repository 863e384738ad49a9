"""`Gateway`: agents in the chats of their bridges.

bridge ─► door ─► ledger ─► the session's queue ─► turn ─► ledger ─► out, part by part
              └─► /stop, /status, approvals: at once
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Self

from nacre.bridges.access.bindings import BoundAgents
from nacre.bridges.access.gate import Gate
from nacre.bridges.access.people import People
from nacre.bridges.answering.dispatch import Dispatch
from nacre.bridges.answering.runner import RunHere, TurnRunner
from nacre.bridges.connections.connections import AccountId, Connections
from nacre.bridges.connections.supervisor import BridgeStatus
from nacre.bridges.contracts.bridge import Bridge, place_of
from nacre.bridges.delivery.outgoing import parts_of
from nacre.bridges.delivery.throttle import Sleep
from nacre.bridges.queueing.choices import Choices
from nacre.bridges.queueing.session_rules import SessionRules
from nacre.bridges.schedule.coming import coming_lines
from nacre.bridges.schedule.timekeeper import Reach
from nacre.bridges.schedule.timetable import Timetable
from nacre.runtime.agent.agent import Agent
from nacre.runtime.contracts.clock import Clock
from nacre.runtime.contracts.errors import AgentError
from nacre.runtime.contracts.ids import NewId, random_id
from nacre.runtime.contracts.inbound import Inbound
from nacre.runtime.ledger.file_ledger import ledger_file
from nacre.runtime.ledger.ledger import Ledger, LedgerPlace, LedgerTables
from nacre.runtime.ledger.records import Along
from nacre.sessions.contracts.errors import SessionError

log = logging.getLogger(__name__)

FLUSH_SECONDS = 5.0


class Gateway:
    """Runs bridges for one agent, or for several. Use it as `async with await Gateway.open(...)`.

    It closes neither the agents nor anything else that it was given.
    """

    def __init__(
        self,
        agents: BoundAgents,
        ledger: Ledger,
        choices: Choices,
        *,
        now: Clock,
        new_id: NewId,
        runner: TurnRunner,
        sleep: Sleep,
    ) -> None:
        self._agents = agents
        self._ledger = ledger
        self._rules = SessionRules(choices, lambda: agents.settings)
        self._gate = Gate(
            People(ledger, now=now),
            lambda: agents.settings,
            activation=self._activation,
            new_id=new_id,
        )
        self._connections = Connections(
            ledger, receive=self._receive, may_send=self._gate.still_holds, sleep=sleep
        )
        self._now = now
        self._dispatch = Dispatch(
            agents,
            ledger,
            self._connections,
            self._gate,
            self._rules,
            runner=runner,
            coming=self._coming,
            sleep=sleep,
        )
        self._taking: set[asyncio.Task[None]] = set()

    @classmethod
    async def open(
        cls,
        agent: Agent | BoundAgents,
        bridges: Sequence[Bridge],
        *,
        state_dir: Path,
        ledger: LedgerPlace | None = None,
        now: Clock,
        new_id: NewId = random_id,
        runner: TurnRunner | None = None,
        sleep: Sleep = asyncio.sleep,
    ) -> Self:
        """Opens the ledger, goes on with what an earlier program left, and starts the bridges.

        The ledger is the file of `state_dir` unless a `ledger` is given. Turns are run by `runner`, in this
        process without one.

        Raises:
            LedgerUnusable: the ledger cannot be opened, another program is at it, or the state folder has one
                that was not brought to the database.
            ValueError: two bridges have one channel and account.
        """
        agents = agent if isinstance(agent, BoundAgents) else BoundAgents([agent], agent.settings)
        opened = await (ledger or ledger_file(state_dir)).open(now=now, new_id=new_id)
        try:
            choices = await Choices.load(opened)
            gateway = cls(
                agents, opened, choices, now=now, new_id=new_id, runner=runner or RunHere(), sleep=sleep
            )
            for bridge in bridges:
                gateway._connections.add(bridge)
            await gateway._resume()
            await gateway._connections.start_all()
        except BaseException:
            await opened.close()
            raise
        return gateway

    @property
    def notice(self) -> str:
        """A sentence for the owner about the ledger, or nothing."""
        return self._ledger.notice

    @property
    def statuses(self) -> tuple[BridgeStatus, ...]:
        """How each bridge is."""
        return self._connections.statuses

    async def undelivered(self) -> dict[str, int]:
        """How many parts did not arrive yet, by their state: `pending`, `sending`, `unsure`, `failed`."""
        return await self._ledger.outbox.counts()

    @property
    def is_idle(self) -> bool:
        """Whether everything that was taken is answered, and sent as far as it can be."""
        return not (self._dispatch.is_busy or self._connections.is_busy)

    async def add(self, bridge: Bridge) -> None:
        """Starts one more bridge, and goes on with what waits for it.

        Raises:
            ValueError: there is one of its channel and account.
        """
        connection = self._connections.add(bridge)
        await self._resume()
        await self._connections.start(connection)

    async def remove(self, name: AccountId) -> None:
        """Stops the bridge of a channel and account. What is not sent waits until it is back."""
        await self._connections.remove(name)

    @property
    def tables(self) -> LedgerTables:
        """What else is kept in the ledger: jobs, and how the bridges are."""
        return self._ledger

    def is_busy_in(self, inbound: Inbound, agent_id: str) -> bool:
        """Whether a turn runs, or messages wait, in the session of a message to an agent."""
        return self._dispatch.is_busy_in(self._agent(inbound, agent_id).session_key(inbound))

    def speaking(self, session_key: str) -> Inbound | None:
        """The message that is being answered in a session."""
        return self._dispatch.speaking(session_key)

    async def reach(self, asker: Inbound, agent_id: str) -> Reach:
        """Whether `asker` can be told something now: not while their bridge is away, and not by an agent that
        is gone or with rights that are not as they were."""
        if self._connections.find(asker) is None:
            return "away"
        is_here = self._agents.named(agent_id) is not None
        return "open" if is_here and await self._gate.still_holds(asker) else "refused"

    async def submit(self, inbound: Inbound, agent_id: str, *, along: Along) -> None:
        """Has a message answered that no bridge brought, such as a reminder, in its chat and by the rights
        that its sender has then. One that was submitted before is dropped.

        Its words are kept when this returns, and `along` with them.

        Raises:
            AgentError, SessionError: there is no session for it.
            JobChanged: what is said `along` does not hold any more; then nothing is written.
        """
        key = self._agent(inbound, agent_id).session_key(inbound)
        received = await self._ledger.receive(inbound, key, agent_id=agent_id, along=along)
        if received is not None:
            self._dispatch.take(received)

    async def tell(self, asker: Inbound, text: str, *, along: Along) -> None:
        """Tells `asker` a text that no model wrote; it is in the outbox when this returns, with `along`."""
        connection = self._connections.find(asker)
        texts = [text] if connection is None else parts_of(text, connection.bridge.capabilities)
        await self._ledger.tell(asker, texts, along=along)
        self._connections.notify(asker)

    async def close(self, *, turn_seconds: float = 0.0) -> None:
        """Stops the bridges and the turns, which may take `turn_seconds` to end by themselves first.

        Messages that come meanwhile are kept. What is not done stays in the ledger, for the next start.
        """
        await self._dispatch.finish(turn_seconds)
        if not await self._connections.flush(FLUSH_SECONDS):
            log.info("not everything was sent; the next start goes on with it")
        await self._connections.stop_bridges()
        await asyncio.gather(*self._taking, return_exceptions=True)
        await self._dispatch.close()
        await self._connections.close()
        await self._ledger.close()

    async def __aenter__(self) -> Self:
        """The gateway itself."""
        return self

    async def __aexit__(self, *_ended: object) -> None:
        """Closes the gateway."""
        await self.close()

    async def _resume(self) -> None:
        """Goes on with messages that are open and that nobody is at."""
        known = set(self._dispatch.numbers())
        for received in await self._ledger.open_messages():
            # What came by a bridge that is not here now waits until it is.
            if received.number in known or self._connections.find(received.inbound) is None:
                continue
            if received.agent_id and self._agents.named(received.agent_id) is None:
                log.warning("the agent %s is gone; another answers what it left", received.agent_id)
                agent = self._agents.of(received.inbound)
                key = agent.session_key(received.inbound)
                received = replace(
                    received, agent_id=agent.id, session_key=key, was_begun=False, has_joined=False
                )
            self._dispatch.take(received)

    async def _receive(self, inbound: Inbound, cursor: str) -> None:
        """Takes a message from a bridge; its words are on disk when this returns, if they are answered.

        A bridge that is cancelled over it leaves no message on disk that nobody is at: it is taken whole.
        """
        taking = asyncio.create_task(self._take_in(inbound, cursor))
        self._taking.add(taking)
        taking.add_done_callback(self._taking.discard)
        await asyncio.shield(taking)

    async def _take_in(self, inbound: Inbound, cursor: str) -> None:
        verdict = await self._gate.verdict(inbound)
        if verdict.outcome != "answer":
            log.info("a message of %s is not answered: %s", inbound.channel, verdict.why)
            if verdict.outcome == "pair" and (text := await self._gate.invitation(inbound)):
                await self._ledger.outbox.put(place_of(inbound), [text])
                self._connections.notify(inbound)
            await self._ledger.pass_over(inbound, cursor)
            return
        # Who the owner is, is decided here and nowhere else.
        inbound = replace(inbound, is_owner=verdict.is_owner)
        agent = self._agents.of(inbound)
        try:
            key = agent.session_key(inbound)
        except (AgentError, SessionError) as error:
            log.warning("a message of %s was not taken: %s", inbound.channel, error)
            await self._ledger.pass_over(inbound, cursor)
            return
        received = await self._ledger.receive(inbound, key, agent_id=agent.id, cursor=cursor)
        if received is None:
            log.info("a message of %s came before and was dropped", key)
        else:
            self._dispatch.take(received)

    def _agent(self, inbound: Inbound, agent_id: str) -> Agent:
        return self._agents.named(agent_id) or self._agents.of(inbound)

    async def _coming(self, agent: Agent) -> tuple[str, str]:
        timetable = Timetable(self._ledger, now=self._now)
        return await coming_lines(timetable, agent.id, agent.settings.agent.heartbeat, self._now())

    def _activation(self, inbound: Inbound) -> str:
        if inbound.chat_kind == "direct":
            return ""
        try:
            return self._rules.activation(self._agents.of(inbound).session_key(inbound))
        except (AgentError, SessionError):
            return ""
