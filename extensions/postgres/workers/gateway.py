"""The gateway's side of workers: it hands turns over, waits for their outcomes, and reports figures."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import TypeVar
from weakref import WeakValueDictionary

from nacre.closing import using
from nacre.extensions.postgres.server.connections import DatabaseError
from nacre.extensions.postgres.server.database import CHANNEL, Database, shared_database
from nacre.extensions.postgres.workers.stored_events import QUOTA_TEXTS, STOPPED, events_of, usage_of
from nacre.extensions.postgres.workers.streams import HeardStream, parse_payload
from nacre.extensions.postgres.workers.turn_rows import (
    OWN_CHANNEL,
    STOP_WORD,
    Admission,
    Outcome,
    TurnKey,
    TurnRows,
    id_of_turn,
)
from nacre.runtime.agent.agent import Agent
from nacre.runtime.contracts.clock import random_id
from nacre.runtime.contracts.errors import AgentError, AgentPaused, SpendingCapReached, TurnBroken
from nacre.runtime.contracts.events import ApprovalAsked, Event, MessageJoined, TurnFailed
from nacre.runtime.contracts.inbound import Inbound
from nacre.runtime.settings.config import Config

POLL_SECONDS = 0.2
"""How often outcomes are queried for where notifications do not arrive."""
LOOK_SECONDS = 5.0
"""How often they are queried for where notifications arrive: one may be lost with its connection."""
GATHER_SECONDS = 0.01
"""How long a notification waits for others, so that one query answers several."""
PAUSE_SECONDS = 2.0
"""How long to wait when the database cannot be queried."""
CLIENT_SECONDS = 3.0
"""How often it is asked whether a worker lives, while a client waits and hears nothing."""
NO_WORKER_LIVES = "No worker lives: run `nacre admin worker`, or unset storage.workers."
NO_WORKER = "The last worker ended, so nothing answers this. Send it again when a worker runs."

log = logging.getLogger(__name__)
T = TypeVar("T")


class _Awaited:
    """A turn whose outcome is awaited: its events, and the approvals that were already requested."""

    def __init__(self) -> None:
        self.found = asyncio.Queue[Event | Outcome]()
        self.asked: set[str] = set()
        self.stream = HeardStream()


class HandedOver:
    """A member of `TurnRunner` whose turns run in workers, or all here. Close it with the gateway."""

    def __init__(self, database: Database, *, runs_here: bool) -> None:
        self.has_places = not runs_here
        self._rows = TurnRows(database)
        self._here = WeakValueDictionary[str, Agent]()
        """The agents that had turns in this process."""
        self._awaited: dict[TurnKey, _Awaited] = {}
        self._sending: set[asyncio.Task[None]] = set()
        self._running: dict[TurnKey, str] = {}
        """The awaited turn of each session, by agent and session key."""
        self._changed = asyncio.Event()
        self._process = database.process
        self._asked: dict[TurnKey, bool] = {}
        self._process.asked = None if runs_here else self._asked
        self._wanted = set[TurnKey]()  # the turns of the next query
        self._had_workers = True
        self._channel = f"{OWN_CHANNEL}{random_id().replace('-', '_')}"
        self._notifications = database.notifications(self._on_notification, self._channel)
        self._looking = asyncio.create_task(self._look())

    async def stream(self, agent: Agent, inbound: Inbound) -> AsyncGenerator[Event, None]:
        """Yields the events of a turn that a worker runs; all but the last one and questions may be missing.

        Commands run in the gateway. While the database is unreachable or the agent is paused, this waits; the
        message stays in the ledger. A message without an id comes from a client that waits for the answer.
        Its turn ends with its reader, is refused if the agent is paused or has reached a limit, and runs here
        if no worker lives. If the last worker dies meanwhile and none comes back, it fails.
        """
        is_command = self.runs_here(agent, inbound)
        if not self.has_places:
            is_here = True
        elif not inbound.message_id:
            admission = await self._admission(agent.id)
            if (refusal := _refusal(agent.id, admission, is_command=is_command)) is not None:
                yield TurnFailed(error=refusal)
                return
            is_here = is_command or not admission.has_workers
        elif is_here := is_command:
            while (await self._admission(agent.id)).is_paused:  # noqa: ASYNC110 - others resume it
                await asyncio.sleep(PAUSE_SECONDS)
        if is_here:
            self._here[agent.id] = agent
        events = self._counted(agent.id, agent.stream(inbound)) if is_here else self._handed(agent, inbound)
        async with aclosing(events):
            async for event in events:
                yield event

    async def admit(self, agent: Agent, inbound: Inbound) -> None:
        """Raises `AgentPaused` or `SpendingCapReached` if the message of a client would be refused."""
        if self.has_places:
            admission, is_command = await self._admission(agent.id), self.runs_here(agent, inbound)
            if (refusal := _refusal(agent.id, admission, is_command=is_command)) is not None:
                raise refusal

    async def problem(self, agent: Agent) -> str:
        if not self.has_places or (await self._admission(agent.id)).has_workers:
            return ""
        return NO_WORKER_LIVES

    async def limited(self, agent: Agent, events: AsyncGenerator[Event, None]) -> AsyncGenerator[Event, None]:
        """The events of a request to the model that is no turn. It counts and is refused like a turn."""
        async with aclosing(self._counted(agent.id, events)) as counted:
            refusal = _refusal(agent.id, await self._admission(agent.id)) if self.has_places else None
            if refusal is not None:
                yield TurnFailed(error=refusal)
                return
            async for event in counted:
                yield event

    async def _counted(
        self, agent_id: str, events: AsyncGenerator[Event, None]
    ) -> AsyncGenerator[Event, None]:
        async with aclosing(events):
            async for event in events:
                if self.has_places and (usage := usage_of(event)) is not None:
                    await _sent(self._rows.count(agent_id, usage))
                yield event

    async def _handed(self, agent: Agent, inbound: Inbound) -> AsyncGenerator[Event, None]:
        is_clients = not inbound.message_id
        if is_clients:
            inbound = replace(inbound, message_id=random_id())
        session = agent.id, agent.session_key(inbound)
        key = agent.id, id_of_turn(inbound)
        awaited = self._awaited[key] = _Awaited()
        found: Event | Outcome | None = None
        self._running.setdefault(session, key[1])
        try:
            is_new = self._asked.pop(key, None)
            if is_new:
                self._send(self._rows.notify([(CHANNEL, "asked")]))
            elif is_new is None:
                _, is_new = await _accepted(lambda: self._rows.ask(*session, inbound), "a turn")
            if not is_new or not self._notifications.is_listening:  # it may be over
                self._look_at(key)
            while not isinstance(found := await self._next(agent.id, awaited, is_clients), Outcome):
                yield found
                if isinstance(found, TurnFailed):
                    return
                if isinstance(found, ApprovalAsked):
                    await _sent(self._rows.told(key, found))
        finally:
            self._awaited.pop(key, None)
            if self._running.get(session) == key[1]:
                del self._running[session]
            if is_clients and not isinstance(found, Outcome):
                self._send(self._rows.stop(*session, STOPPED, [key[1]]))
        for name in found.heard:
            yield MessageJoined(inbound_id=name)
        for event in events_of(found.text, heard_chars=awaited.stream.heard_chars):
            yield event

    async def _next(self, agent_id: str, awaited: _Awaited, is_clients: bool) -> Event | Outcome:
        """The next event or the outcome of a turn; for a client an error if no worker lives at two looks."""
        had_workers = has_workers = True
        while had_workers or has_workers:
            try:
                async with asyncio.timeout(CLIENT_SECONDS if is_clients else None):
                    return await awaited.found.get()
            except TimeoutError:
                had_workers, has_workers = has_workers, (await self._admission(agent_id)).has_workers
        return TurnFailed(error=TurnBroken(NO_WORKER))

    def runs_here(self, agent: Agent, inbound: Inbound) -> bool:
        """Whether a message is a command. For other messages, workers count the failed attempts."""
        return not self.has_places or (not inbound.trigger and bool(agent.command(inbound)))

    def join(self, agent: Agent, inbound: Inbound) -> bool:
        """Adds a message to the turn of its session, wherever that runs. Returns whether there is one.

        Without a `MessageJoined` among the turn's events, the turn ended before it read the message.
        """
        turn_id = self._running.get((agent.id, agent.session_key(inbound)))
        if turn_id is None:
            return not self.has_places and agent.join(inbound)
        self._send(self._rows.say_into(agent.id, turn_id, inbound))
        return True

    def stop(self, agent: Agent, inbound: Inbound) -> None:
        agent.stop(inbound)
        session = agent.id, agent.session_key(inbound)
        # Only the present turns of this process: the next one may be requested before this is stored.
        known = [turn_id for agent_id, turn_id in (*self._awaited, *self._asked) if agent_id == agent.id]
        self._send(self._rows.stop(*session, STOPPED, known, besides=self._process.stream))
        self._send(self._rows.notify([(CHANNEL, STOP_WORD + json.dumps([self._channel, *session]))]))

    async def close(self) -> None:
        """Stops waiting. The turns continue; a message that is submitted again finds its outcome."""
        self._process.asked, self._process.stream = None, ""
        await asyncio.gather(*self._sending)
        self._looking.cancel()
        with suppress(asyncio.CancelledError):
            await self._looking
        await self._notifications.close()

    def _send(self, sending: Awaitable[None]) -> None:
        task = asyncio.create_task(_sent(sending))
        self._sending.add(task)
        task.add_done_callback(self._sending.discard)

    def _on_notification(self, payload: str) -> None:
        if (piece := parse_payload(payload)) is not None:
            key, fence, begin, text = piece
            if begin < 0:
                self._look_at(key)
            elif (awaited := self._awaited.get(key)) is not None:
                for event in awaited.stream.read(fence, begin, text):
                    awaited.found.put_nowait(event)
        elif payload.startswith(STOP_WORD):
            channel, agent_id, key = json.loads(payload.removeprefix(STOP_WORD))
            agent = self._here.get(agent_id) if channel != self._channel else None
            if agent is not None:
                agent.stop(key)
        elif payload in ("", "ended"):
            self._process.stream = self._channel
            self._look_at(*self._awaited, *self._asked)

    def _look_at(self, *keys: TurnKey) -> None:
        """Queries outcomes of turns soon."""
        self._wanted.update(keys)
        self._asked.update(dict.fromkeys(self._asked.keys() & {*keys}, False))
        self._changed.set()

    async def _admission(self, agent_id: str) -> Admission:
        return await _accepted(lambda: self._rows.admission(agent_id), f"whether {agent_id} may answer")

    async def _look(self) -> None:
        while True:
            is_told = self._notifications.is_listening or not self._awaited
            try:
                async with asyncio.timeout(LOOK_SECONDS if is_told else POLL_SECONDS):
                    await self._changed.wait()
            except TimeoutError:
                self._wanted.update(self._awaited)
                await self._check_workers()
            await asyncio.sleep(GATHER_SECONDS)
            self._changed.clear()
            wanted, self._wanted = self._wanted & self._awaited.keys(), set()
            if not wanted:
                continue
            found = await _accepted(partial(self._rows.news, wanted), "how turns ended")
            for key, news in found.items():
                awaited = self._awaited.get(key)
                if awaited is None:
                    continue
                if isinstance(news, Outcome):
                    del self._awaited[key]
                    awaited.found.put_nowait(news)
                else:
                    for question in news:
                        if question.approval_id not in awaited.asked:
                            awaited.asked.add(question.approval_id)
                            awaited.found.put_nowait(question)

    async def _check_workers(self) -> None:
        """Logs that turns wait and no worker lives, once until one does."""
        if self._awaited:
            had_workers, admission = self._had_workers, await self._admission(next(iter(self._awaited))[0])
            self._had_workers = admission.has_workers
            if had_workers and not self._had_workers:
                log.warning("%d turns wait. %s", len(self._awaited), NO_WORKER_LIVES)


def _refusal(agent_id: str, admission: Admission, *, is_command: bool = False) -> AgentError | None:
    if admission.is_paused:
        return AgentPaused(f"The agent {agent_id} is paused. Send this again later.")
    if admission.quota_reached and not is_command:
        return SpendingCapReached(QUOTA_TEXTS[admission.quota_reached])
    return None


async def _accepted(call: Callable[[], Awaitable[T]], what: str) -> T:
    """Calls until the database accepts it."""
    while True:
        try:
            return await call()
        except DatabaseError as error:
            log.warning("a query about %s failed and is repeated: %s", what, error)
        await asyncio.sleep(PAUSE_SECONDS)


async def _sent(sending: Awaitable[None]) -> None:
    try:
        await sending
    except DatabaseError as error:
        log.warning("a message to a running turn, its stop or its usage was not stored: %s", error)


@asynccontextmanager
async def handed_over(config: Config, *, runs_here: bool = False) -> AsyncIterator[HandedOver]:
    """The turn runner of a gateway whose turns run in workers, or all in this process.

    Raises:
        DatabaseError: the database cannot be used.
    """
    async with using(shared_database(config.folders.storage.url)) as database:
        await database.process.beat()
        async with using(HandedOver(database, runs_here=runs_here)) as runner:
            yield runner


async def figures(config: Config) -> Mapping[str, float]:
    """Figures about the turns of the settings' agent and about the workers; see `TurnWorkers`.

    Raises:
        DatabaseError: the database cannot be used.
    """
    return await TurnRows(shared_database(config.folders.storage.url)).figures(config.agent_id)
