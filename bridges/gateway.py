"""`Gateway`: connects agents with the chats of their bridges.

bridge ─► inbox ─► ledger ─► the session's queue ─► turn ─► ledger ─► outbox, part by part
              └─► /stop, /status, approvals: immediately
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Self
from urllib.parse import quote

from nacre.bridges.access.bindings import BoundAgents
from nacre.bridges.access.gate import Gate
from nacre.bridges.access.people import People
from nacre.bridges.answering.dispatch import Dispatcher
from nacre.bridges.answering.turns import RunHere, TurnRunner
from nacre.bridges.connections.connections import Connections, MakeBridge, Sharing
from nacre.bridges.contracts.bridge import Bridge, place_of
from nacre.bridges.delivery.outgoing import parts_of
from nacre.bridges.queueing.session_rules import Choices, SessionRules
from nacre.bridges.schedule.timekeeper import Reach
from nacre.bridges.schedule.timetable import Timetable, upcoming_lines
from nacre.closing import stop_tasks
from nacre.runtime.agent.agent import Agent
from nacre.runtime.agent.open_result import opening
from nacre.runtime.contracts.clock import Clock, NewId, Sleep, owner_clock, random_id
from nacre.runtime.contracts.errors import AgentError
from nacre.runtime.contracts.inbound import Inbound
from nacre.runtime.hooks.hooks import around_delivery
from nacre.runtime.ledger.file_ledger import ledger_file
from nacre.runtime.ledger.ledger import Ledger, LedgerPlace, SharedLedgerPlace
from nacre.runtime.ledger.records import Along, BridgeStatus, OutboundPart, Received
from nacre.runtime.ledger.tables import LedgerTables
from nacre.runtime.settings.config import USER_PREFIX
from nacre.sessions.contracts.errors import SessionError
from nacre.sessions.contracts.messages import sendable

log = logging.getLogger(__name__)

FLUSH_SECONDS = 5.0
MOST_REFUSED = 5
"""How many groups that are not in the settings a status names; anybody can add the assistant to one."""
MOST_ID_CHARS = 2_000
"""The maximum length of all ids of a message together, in keys; databases index no longer ones."""


class Gateway:
    """Runs bridges for one or several agents. Use it as `async with Gateway.open(...)`.

    It does not close the agents or anything else that it was given.
    """

    def __init__(
        self,
        agents: BoundAgents,
        ledger: Ledger,
        *,
        now: Clock,
        new_id: NewId,
        runner: TurnRunner,
        sleep: Sleep,
        make_bridge: MakeBridge | None = None,
    ) -> None:
        self.runner = runner
        self._agents = agents
        self._ledger = ledger
        self._choices = Choices(ledger)
        self._rules = SessionRules(self._choices, lambda: agents.settings)
        self._gate = Gate(
            People(ledger, now=now),
            lambda: agents.settings,
            activation=self._activation,
            new_id=new_id,
        )
        self.connections = Connections(
            ledger,
            receive=self._receive,
            may_send=self._gate.is_still_allowed,
            around=self._around,
            now=now,
            sleep=sleep,
        )
        self._now = now
        self.dispatcher = Dispatcher(
            agents,
            ledger,
            self.connections,
            self._gate,
            self._rules,
            runner=runner,
            upcoming_lines=self._upcoming_lines,
            bridge_elsewhere=lambda chat: self.sharing.unstarted((chat.channel, chat.account)),
            sleep=sleep,
        )
        self._taking: set[asyncio.Task[None]] = set()
        self._may_take = asyncio.Event()
        self._may_take.set()
        self.sharing = Sharing(
            ledger,
            self.connections,
            make=make_bridge,
            resume=self._resume,
            is_busy=self.dispatcher.is_busy_with,
            leave=self.dispatcher.queues.leave,
            sleep=sleep,
        )

    def _around(self, part: OutboundPart) -> AbstractAsyncContextManager[None]:
        agents, asker = self._agents, part.asker
        agent = agents.default if asker is None else agents.for_message(asker)
        return around_delivery(agent.hooks, part.part)

    @classmethod
    @opening
    async def open(
        cls,
        agent: Agent | BoundAgents,
        bridges: Sequence[Bridge],
        *,
        state_dir: Path | str,
        ledger: LedgerPlace | None = None,
        now: Clock | None = None,
        new_id: NewId = random_id,
        runner: TurnRunner | None = None,
        sleep: Sleep = asyncio.sleep,
        make_bridge: MakeBridge | None = None,
    ) -> Self:
        """Opens the ledger, resumes what an earlier program left unfinished, and starts the bridges.

        The ledger is a file in `state_dir` unless `ledger` is given. `now` is the owner's clock if omitted.
        Without a `runner`, this process runs the turns. With `make_bridge`, which makes the bridge of an
        account anew, other programs may serve some of the accounts, if the ledger can be shared.

        Raises:
            LedgerUnusable: the ledger cannot be opened, another program uses it, or the state folder has a
                ledger that was not moved to the database.
            ValueError: two bridges have the same channel and account.
        """
        agents = agent if isinstance(agent, BoundAgents) else BoundAgents([agent], agent.settings)
        now = now or owner_clock(agents.settings.agent.user_timezone)
        place = ledger or ledger_file(Path(state_dir))
        if make_bridge is not None and isinstance(place, SharedLedgerPlace):
            opened = await place.open_shared(now=now, new_id=new_id)
        else:
            opened = await place.open(now=now, new_id=new_id)
        try:
            gateway = cls(
                agents,
                opened,
                now=now,
                new_id=new_id,
                runner=runner or RunHere(),
                sleep=sleep,
                make_bridge=make_bridge,
            )
            for bridge in bridges:
                gateway.sharing.add(bridge)
            gateway.sharing.keep(await gateway.sharing.look())
        except BaseException:
            await opened.close()
            raise
        return gateway

    @property
    def notice(self) -> str:
        """A sentence for the owner about the ledger; empty if there is nothing to say."""
        return self._ledger.notice

    @property
    def statuses(self) -> tuple[BridgeStatus, ...]:
        return self.connections.statuses

    @property
    def is_idle(self) -> bool:
        """Whether every message is answered, and every answer sent as far as possible."""
        return not (self.dispatcher.is_busy or self.connections.is_busy)

    async def add(self, bridge: Bridge) -> None:
        """Starts another bridge and resumes what waits for it.

        Raises:
            ValueError: a bridge with its channel and account exists.
        """
        self.sharing.add(bridge)
        await self.sharing.look()

    @property
    def tables(self) -> LedgerTables:
        """The other tables of the ledger: jobs, people, and the status of the bridges."""
        return self._ledger

    def is_busy_in(self, inbound: Inbound, agent_id: str) -> bool:
        """Whether a turn runs or messages wait in the session of a message to an agent."""
        return self.dispatcher.is_busy_in(self._agent(inbound, agent_id).session_key(inbound))

    async def reach(self, asker: Inbound, agent_id: str) -> Reach:
        """Whether an agent can write to the chat of `asker` now.

        `away` means that the bridge is missing, `elsewhere` that another program runs it, `refused` that the
        agent no longer exists or that the sender's rights have changed.
        """
        if self.connections.find(asker) is None:
            return "away" if self.sharing.unstarted((asker.channel, asker.account)) is None else "elsewhere"
        exists = self._agents.by_id.get(agent_id) is not None
        return "open" if exists and await self._gate.is_still_allowed(asker) else "refused"

    async def submit(self, inbound: Inbound, agent_id: str, *, along: Along) -> None:
        """Answers a message that came from no bridge, such as a reminder.

        The answer goes to the message's chat, with the rights that its sender has at that time. A message
        that was submitted before is dropped. When this returns, the message and `along` are stored.

        Raises:
            AgentError, SessionError: the message has no session.
            JobChanged: `along` no longer applies. Nothing is written.
        """
        key = self._agent(inbound, agent_id).session_key(inbound)
        await self._take(key, lambda: self._ledger.receive(inbound, key, agent_id=agent_id, along=along))

    async def tell(self, asker: Inbound, text: str, *, along: Along) -> None:
        """Sends a text to the chat of `asker`. When this returns, it is in the outbox and `along` is
        stored.
        """
        connection = self.connections.find(asker)
        texts = [text] if connection is None else parts_of(text, connection.bridge.capabilities)
        await self._ledger.tell(asker, texts, along=along)
        self.connections.notify(asker)

    async def close(self, *, turn_seconds: float = 0.0) -> None:
        """Waits up to `turn_seconds` for running turns, then stops them and the bridges.

        Messages that arrive meanwhile are stored. What is not done stays in the ledger for the next start.
        """
        await self.sharing.close()
        await self.dispatcher.finish(turn_seconds)
        if not await self.connections.flush(FLUSH_SECONDS):
            log.info("not everything was sent; the next start sends the rest")
        await self.connections.stop_bridges()
        if self._taking:  # they may wait for a ledger that cannot be reached
            _, left = await asyncio.wait(self._taking, timeout=FLUSH_SECONDS)
            await stop_tasks(*left)
        await self.dispatcher.close()
        await self.connections.close()
        await self._ledger.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_exception: object) -> None:
        await self.close()

    async def _resume(self) -> None:
        await self._choices.load()
        self._may_take.clear()  # messages that are stored while the ledger is read would be taken twice
        try:
            if self._taking:
                await asyncio.wait(self._taking)
            await self._take_open()
        finally:
            self._may_take.set()

    async def _take_open(self) -> None:
        known = set(self.dispatcher.queues.numbers())
        for received in await self._ledger.open_messages():
            # A message whose bridge is missing waits until that is added.
            if received.number in known or self.connections.find(received.inbound) is None:
                continue
            if received.agent_id.startswith(USER_PREFIX):
                with suppress(AgentError):
                    await self._agents.open(received.agent_id)
            if received.agent_id and self._agents.by_id.get(received.agent_id) is None:
                log.warning(
                    "the agent %s no longer exists; another one answers its messages", received.agent_id
                )
                agent = self._agents.for_message(received.inbound)
                key = agent.session_key(received.inbound)
                received = replace(
                    received, agent_id=agent.id, session_key=key, was_begun=False, has_joined=False
                )
            self.dispatcher.take(received)

    async def _receive(self, inbound: Inbound, cursor: str) -> None:
        """Takes a message from a bridge. When this returns, a message that will be answered is on disk."""
        ids = (inbound.chat_id, inbound.sender_id, inbound.message_id, inbound.thread_id)
        written = "/".join(ids)
        is_long = len(quote(written, errors="replace")) > MOST_ID_CHARS
        if is_long or "\0" in written or sendable(written) != written:
            log.warning("a message from %s is not taken: %r cannot be stored", inbound.channel, ids)
            await self._ledger.pass_over(inbound, cursor)
            return
        verdict = await self._gate.verdict(inbound)
        if verdict.outcome != "answer":
            log.info("a message from %s is not answered: %s", inbound.channel, verdict.why)
            connection = self.connections.find(inbound)
            if (
                verdict.is_unlisted
                and connection is not None
                and len(connection.bridge.refused) < MOST_REFUSED
            ):
                connection.bridge.refused[f"a message in {inbound.chat_id}"] = verdict.why
            if verdict.outcome == "pair" and (text := await self._gate.pairing_text(inbound)):
                await self._ledger.outbox.put(place_of(inbound), [text])
                self.connections.notify(inbound)
            await self._ledger.pass_over(inbound, cursor)
            return
        # This is the only place that decides who the owner is.
        inbound = replace(inbound, is_owner=verdict.is_owner)
        try:
            agent = await self._agents.find(inbound, verdict.own_agent)
            key = agent.session_key(inbound)
        except (AgentError, SessionError) as error:
            log.warning("a message from %s was not taken: %s", inbound.channel, error)
            await self._ledger.pass_over(inbound, cursor)
            return

        def receive() -> Awaitable[Received | None]:
            begins = self.dispatcher.begins_at_once(inbound, key, agent)
            return self._ledger.receive(inbound, key, agent_id=agent.id, cursor=cursor, begins=begins)

        await self._take(key, receive)

    async def _take(self, key: str, receive: Callable[[], Awaitable[Received | None]]) -> None:
        """Stores a message and queues it, even if the caller is cancelled in between."""
        while not self._may_take.is_set():  # it may be cleared again before this continues
            await self._may_take.wait()

        async def take() -> None:
            received = await receive()
            if received is None:
                log.info("a repeated message in %s was dropped", key)
            else:
                self.dispatcher.take(received)

        taking = asyncio.create_task(take())
        self._taking.add(taking)
        taking.add_done_callback(self._taking.discard)
        await asyncio.shield(taking)

    def _agent(self, inbound: Inbound, agent_id: str) -> Agent:
        return self._agents.by_id.get(agent_id) or self._agents.for_message(inbound)

    async def _upcoming_lines(self, agent: Agent) -> tuple[str, str]:
        timetable = Timetable(self._ledger, now=self._now)
        return await upcoming_lines(timetable, agent.id, agent.settings.agent.heartbeat, self._now())

    def _activation(self, inbound: Inbound) -> str:
        if inbound.chat_kind == "direct":
            return ""
        try:
            return self._rules.activation(self._agents.for_message(inbound).session_key(inbound))
        except (AgentError, SessionError):
            return ""
