"""`HandedOver`: a gateway's turns, run by workers. What it awaits is looked up together, agent by agent."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections import defaultdict
from collections.abc import AsyncGenerator, Awaitable
from contextlib import aclosing, suppress

from nacre.extensions.postgres.server.connections import DatabaseError
from nacre.extensions.postgres.workers.stored_events import event_of, stopped
from nacre.extensions.postgres.workers.turn_rows import Outcome, TurnRows
from nacre.runtime.agent.agent import Agent
from nacre.runtime.contracts.events import ApprovalAsked, Event, MessageJoined
from nacre.runtime.contracts.inbound import Inbound

LOOK_SECONDS = 0.1
"""How often outcomes are looked for while any is awaited."""
LOOKS_A_QUESTION = 5
"""Questions to the owner are looked for with each so many looks: people take longer than that."""
PAUSE_SECONDS = 2.0
"""How long to wait when the database cannot be asked."""

log = logging.getLogger(__name__)


class _Awaited:
    """A turn whose outcome is awaited, and which questions of it were found."""

    def __init__(self) -> None:
        self.found = asyncio.Queue[ApprovalAsked | Outcome]()
        self.asked: set[str] = set()


class HandedOver:
    """Fulfils `TurnRunner`. Close it when the gateway is closed."""

    def __init__(self, rows: TurnRows) -> None:
        self._rows = rows
        self._awaited: dict[tuple[str, str], _Awaited] = {}
        self._looking: asyncio.Task[None] | None = None
        self._telling: set[asyncio.Task[None]] = set()
        self._running: dict[tuple[str, str], str] = {}
        """The turn of each session that is waited for, by agent and key."""

    async def stream(self, agent: Agent, inbound: Inbound) -> AsyncGenerator[Event, None]:
        """What a turn that some worker runs asks the owner, and its last event.

        Commands are carried out here, where the chat is.
        While the database is away it waits; the message stays where it is.
        """
        if self.runs_here(agent, inbound):
            async with aclosing(agent.stream(inbound)) as events:
                async for event in events:
                    yield event
            return
        key = agent.session_key(inbound)
        turn_id = await self._asked(agent.id, key, inbound)
        self._running[agent.id, key] = turn_id
        try:
            async with aclosing(self._found(agent.id, turn_id)) as told:
                async for found in told:
                    if isinstance(found, ApprovalAsked):
                        yield found
                        await _told(self._rows.told(agent.id, turn_id, found))
                    else:
                        outcome = found
        finally:
            self._running.pop((agent.id, key), None)
        for name in outcome.heard:
            yield MessageJoined(inbound_id=name)
        yield event_of(outcome.text)

    def runs_here(self, agent: Agent, inbound: Inbound) -> bool:
        """Only commands do; of the rest workers count how often one ended over it."""
        return not inbound.trigger and bool(agent.command(inbound))

    def join(self, agent: Agent, inbound: Inbound) -> bool:
        """Says something into the turn of a message's session, wherever that runs; whether there is one.

        What the turn did not hear before its end is not among its events.
        """
        turn_id = self._running.get((agent.id, agent.session_key(inbound)))
        if turn_id is None:
            return False
        self._begin(self._rows.say_into(agent.id, turn_id, inbound))
        return True

    def stop(self, agent: Agent, inbound: Inbound) -> None:
        """Ends the turns of a message's session, wherever they run."""
        agent.stop(inbound)  # a command that runs here
        self._begin(self._rows.stop(agent.id, agent.session_key(inbound), stopped()))

    async def close(self) -> None:
        """Looks no more. The turns go on; who hands their messages in again finds how they ended."""
        await asyncio.gather(*self._telling)
        if self._looking is not None:
            self._looking.cancel()
            with suppress(asyncio.CancelledError):
                await self._looking

    def _begin(self, telling: Awaitable[None]) -> None:
        task = asyncio.create_task(_told(telling))
        self._telling.add(task)
        task.add_done_callback(self._telling.discard)

    async def _asked(self, agent_id: str, key: str, inbound: Inbound) -> str:
        while True:
            try:
                return await self._rows.ask(agent_id, key, inbound)
            except DatabaseError as error:
                log.warning("no worker could be asked, and that is tried again: %s", error)
            await asyncio.sleep(PAUSE_SECONDS)

    async def _found(self, agent_id: str, turn_id: str) -> AsyncGenerator[ApprovalAsked | Outcome, None]:
        """What a turn asks, and at last its outcome."""
        name = (agent_id, turn_id)
        awaited = self._awaited[name] = _Awaited()
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._look())
        try:
            while not isinstance(found := await awaited.found.get(), Outcome):
                yield found
            yield found
        finally:
            self._awaited.pop(name, None)

    async def _look(self) -> None:
        for looks in itertools.count():
            if not self._awaited:
                return
            wanted: dict[str, list[str]] = defaultdict(list)
            for agent_id, turn_id in self._awaited:
                wanted[agent_id].append(turn_id)
            try:
                found = await self._rows.outcomes(wanted)
                questions = await self._rows.questions(wanted) if looks % LOOKS_A_QUESTION == 0 else []
            except DatabaseError as error:
                log.warning(
                    "the outcomes of turns could not be looked up, and that is tried again: %s", error
                )
                await asyncio.sleep(PAUSE_SECONDS)
                continue
            for name, outcome in found.items():
                if (awaited := self._awaited.pop(name, None)) is not None:
                    awaited.found.put_nowait(outcome)
            for name, question in questions:  # of a turn that ended nobody is asked any more
                if (awaited := self._awaited.get(name)) and question.approval_id not in awaited.asked:
                    awaited.asked.add(question.approval_id)
                    awaited.found.put_nowait(question)
            await asyncio.sleep(LOOK_SECONDS)


async def _told(telling: Awaitable[None]) -> None:
    try:
        await telling
    except DatabaseError as error:
        log.warning("a turn could not be stopped, or told something: %s", error)
