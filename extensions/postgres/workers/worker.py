"""`Worker` and `nacre admin worker`: claims turns of any agent of a state folder, and runs them."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

import click

from nacre.cli.invocation import begin, shared_options
from nacre.closing import stop_tasks, using
from nacre.extensions.postgres.server.connections import ConnectionLimits, DatabaseError
from nacre.extensions.postgres.server.database import (
    LEFT_LANES,
    Database,
    LeftLanes,
    Notifications,
    Pace,
    shared_database,
)
from nacre.extensions.postgres.workers.stored_events import given_up, outcome_of, over_quota, usage_of
from nacre.extensions.postgres.workers.streams import Sender, SentStream
from nacre.extensions.postgres.workers.turn_rows import TakenTurn, TurnKey, TurnRows
from nacre.runtime.agent.agent import Agent
from nacre.runtime.agent.runtime import Runtime
from nacre.runtime.contracts.errors import ConfigError
from nacre.runtime.contracts.events import ApprovalAsked, Event, MessageJoined
from nacre.runtime.settings.config import Config
from nacre.sessions.contracts.messages import Usage

if TYPE_CHECKING:
    from nacre.cli.invocation import Invocation

MOST_TRIES = 10
"""After this many workers died during a turn, it is given up."""
PROGRESS_SECONDS = 900.0
"""A turn without an event for this time is given up by its worker; a minute later, others may claim it."""
CONNECTIONS = 3
"""The connections of a worker, besides one that listens."""
POLL_SECONDS = 1.0
"""The polling interval without notifications, or while a turn runs."""
PAUSE_SECONDS = 1.0
"""The pause before the next worker continues an unfinished turn."""
TURN_SECONDS = 30.0
"""How long running turns may continue when the program stops."""
FORGET_SECONDS = 60.0
"""The interval at which old turns are removed."""
STUCK_SECONDS = 120.0
"""A program whose worker has not even tried to query the database for this time exits."""

AgentOf: TypeAlias = Callable[[str], AbstractAsyncContextManager[Agent]]

log = logging.getLogger(__name__)


class _Running:
    """A turn that this worker runs."""

    def __init__(self, turn: TakenTurn) -> None:
        self.turn = turn
        self.agent: Agent | None = None
        """The agent while the turn runs; `None` also as soon as it is being stopped."""
        self.task: asyncio.Task[None] | None = None
        self.progress_at = self.extended_at = time.monotonic()
        self.left_lanes = LeftLanes()
        self.usage: Usage | None = None
        self.stream = SentStream(turn)
        self.payloads: list[str] = []
        """The last payloads of the stream, sent with the outcome."""
        self.is_asking = False
        """Whether it waits for its owner, which counts as progress."""


class Worker:
    """Claims turns and runs them. `agent_of` lends the agent with an ID, opened on first use."""

    def __init__(self, database: Database, agent_of: AgentOf, *, most_at_once: int) -> None:
        self._process = database.process
        self._process.places = most_at_once
        self._database = database
        self._rows = TurnRows(database)
        self._agent_of = agent_of
        self._most_at_once = most_at_once
        self._running: dict[TurnKey, _Running] = {}
        self._sender = Sender(self._rows)
        self._notifications: Notifications | None = None
        self._changed = asyncio.Event()
        self._is_told = False
        self._is_stopping = False
        self._forgets_at = time.monotonic() + FORGET_SECONDS
        self.looked_at = time.monotonic()
        """The time of the last query, successful or not."""

    async def run(self, *, last_seconds: float) -> None:
        """Runs turns until it is cancelled; running ones may then take `last_seconds` to end.

        Waits while the database is unreachable.

        Raises:
            DatabaseError: the database cannot be used at the start.
        """
        await self._process.beat()
        self._notifications = self._database.notifications(self._on_notification)
        looking, sending = asyncio.create_task(self._look()), asyncio.create_task(self._sender.run())
        try:
            await looking  # it ends only when it is cancelled
        except asyncio.CancelledError:
            self._is_stopping = True
            looking = asyncio.create_task(self._look())  # it sends heartbeats until the end
            tasks = [running.task for running in self._running.values() if running.task is not None]
            if tasks:
                _, left = await asyncio.wait(tasks, timeout=last_seconds)
                await stop_tasks(*left)
            raise
        finally:
            await stop_tasks(looking, sending)
            await self._notifications.close()
            with suppress(DatabaseError):
                await self._process.leave()

    def _on_notification(self, payload: str) -> None:
        if payload in ("", "said"):
            self._is_told = True
        if payload != "ended":
            self._changed.set()

    async def _look(self) -> None:
        while True:
            self._changed.clear()
            try:
                await self._process.beat()
                await self._claim()
                if time.monotonic() > self._forgets_at:
                    self._forgets_at = time.monotonic() + FORGET_SECONDS
                    await self._rows.forget_over()
                if self._running:
                    await self._look_at_running()
            except DatabaseError as error:
                log.warning("the database refused the worker, which tries again: %s", error)
            self.looked_at = time.monotonic()
            with suppress(TimeoutError):
                async with asyncio.timeout(self._look_seconds):
                    await self._changed.wait()

    @property
    def _look_seconds(self) -> float:
        is_listening = self._notifications is not None and self._notifications.is_listening
        return self._process.pace.beat_seconds if is_listening else POLL_SECONDS

    async def _claim(self) -> None:
        free = self._most_at_once - len(self._running)
        if free <= 0 or self._is_stopping:
            return
        for turn in await self._rows.claim(free, PROGRESS_SECONDS + 60, mine=self._running):
            running = self._running[turn.key] = _Running(turn)
            running.task = asyncio.create_task(self._work(running))

    async def _look_at_running(self) -> None:
        """Passes new messages to running turns, and ends those that this worker no longer holds: the database
        would refuse their writes anyway."""
        looked_at = {key: running for key, running in self._running.items() if running.agent is not None}
        if not looked_at:
            return
        found = await self._rows.look({key: running.turn for key, running in looked_at.items()})
        for key, running in looked_at.items():
            agent, turn = running.agent, running.turn
            if agent is None or self._running.get(key) is not running:
                continue
            if key not in found:
                running.agent = None
                if running.task is not None:  # only this turn: the next one of its session may wait here
                    running.task.cancel()
                continue
            for number, inbound in found[key]:
                agent.join(inbound)
                running.turn = turn = replace(turn, words=number)
            now = time.monotonic()
            since = now if running.is_asking else running.progress_at
            if since - running.extended_at > 60:
                await self._rows.progressed(turn, PROGRESS_SECONDS + 60)
                running.extended_at = now

    async def _work(self, running: _Running) -> None:
        turn, outcome, is_counted = running.turn, "", False
        LEFT_LANES.set(running.left_lanes)
        try:
            if turn.tries > MOST_TRIES:
                outcome = given_up(MOST_TRIES)
            elif turn.quota_reached:
                outcome = over_quota(turn.quota_reached)
            else:
                ending = await self._ending(running)
                running.payloads = await self._sender.rest(running.stream)
                outcome = outcome_of(ending, sent_chars=running.stream.sent_chars)
                running.usage = usage_of(ending)
        except TimeoutError:
            is_counted = True
            log.warning("the turn %s made no progress for %.0f s", turn.id, PROGRESS_SECONDS)
        except DatabaseError as error:
            log.warning("the turn %s did not finish: %s", turn.id, error)
        except Exception:
            is_counted = True
            log.exception("the turn %s of %s did not finish", turn.id, turn.agent_id)
        finally:
            running.agent = None
            await self._end(running, outcome, is_counted=is_counted)

    async def _end(self, running: _Running, outcome: str, *, is_counted: bool) -> None:
        """Stores the outcome, or returns the turn to the queue, as soon as the database accepts it."""
        turn, lanes = running.turn, running.left_lanes.close()
        lane = turn.agent_id, turn.session_key
        if (unused := self._process.taken_lanes.pop(lane, None)) is not None:
            lanes[lane] = unused.fence
        try:
            while True:
                try:
                    if not outcome:
                        await self._rows.give_back(
                            turn, is_counted=is_counted, pause_seconds=PAUSE_SECONDS, lanes=lanes
                        )
                        return
                    has_next = await self._rows.finish(turn, outcome, lanes, running.usage, running.payloads)
                    if has_next is None:
                        log.warning("another worker has taken the turn %s, or it was stopped", turn.id)
                    elif has_next or len(self._running) >= self._most_at_once:
                        self._changed.set()
                    return
                except DatabaseError as error:
                    log.warning("the outcome of the turn %s is not stored yet: %s", turn.id, error)
                if self._is_stopping:
                    return
                await asyncio.sleep(PAUSE_SECONDS)
        finally:
            self._running.pop(turn.key, None)

    async def _ending(self, running: _Running) -> Event | None:
        """The last event of the turn. Raises `TimeoutError` without progress."""
        turn, ending = running.turn, None
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(PROGRESS_SECONDS) as limit, self._agent_of(turn.agent_id) as agent:
            running.agent = agent
            async with aclosing(agent.stream(turn.inbound)) as events:
                async for event in events:
                    running.is_asking = isinstance(event, ApprovalAsked)
                    limit.reschedule(None if running.is_asking else loop.time() + PROGRESS_SECONDS)
                    running.progress_at = time.monotonic()
                    if isinstance(event, MessageJoined):
                        await self._rows.heard(turn, event.inbound_id)
                    elif isinstance(event, ApprovalAsked):
                        await self._rows.ask_owner(turn, event)
                    self._sender.put(running.stream, event)
                    ending = event
        return ending


@asynccontextmanager
async def opened_worker(
    config: Config, environment: Mapping[str, str], *, most_at_once: int, pace: Pace | None = None
) -> AsyncIterator[Worker]:
    """A worker for the agents of a state folder, each opened for its first turn.

    Raises:
        ConfigError: the settings name no database, or cannot be used.
        DatabaseError: the database cannot be used.
    """
    if config.is_in_files:
        raise ConfigError(
            "Workers take turns from a PostgreSQL database, and the settings name none. Set storage.url or "
            "NACRE_DATABASE_URL: postgresql://user:password@host:5432/database."
        )
    url = config.folders.storage.url
    limits = ConnectionLimits(most_connections=CONNECTIONS)
    async with (
        using(shared_database(url, limits=limits, pace=pace)) as database,
        await Runtime.open(state_dir=config.state_dir, environment=environment) as runtime,
    ):
        worker = Worker(database, runtime.lent, most_at_once=most_at_once)
        await database.process.beat()  # reports an unusable database before the worker starts
        yield worker


@click.command("worker")
@click.option("--at-once", metavar="N", type=click.IntRange(min=1), help="Run at most N turns at once.")
@shared_options
def command(context: click.Context, at_once: int | None) -> int:
    """Run turns from the database in the settings, until a signal ends it.

    Any number of workers may run, on any number of machines. SIGTERM and Ctrl-C let running turns end, for
    up to half a minute; other workers continue the rest. The exit code is 0 after a signal, 2 for unusable
    settings, and 1 for a database that cannot be used or a worker that is stuck.
    """
    from nacre.cli.signals import run_until_asked

    invocation = begin(context)
    try:
        run_until_asked(lambda asked: _work(invocation, asked, at_once))
    except DatabaseError as error:
        raise click.ClickException(str(error)) from error
    return 0


async def _work(invocation: Invocation, asked: asyncio.Event, at_once: int | None) -> None:
    most_at_once = at_once or invocation.config.settings.agent.max_concurrent
    opening = opened_worker(invocation.config, invocation.environment, most_at_once=most_at_once)
    async with opening as worker:
        working = asyncio.create_task(worker.run(last_seconds=TURN_SECONDS))
        threading.Thread(target=_exit_when_stuck, args=(worker, asked), daemon=True).start()
        invocation.say(f"Working, at most {most_at_once} turns at once.")
        asking = asyncio.create_task(asked.wait())
        await asyncio.wait({working, asking}, return_when=asyncio.FIRST_COMPLETED)
        asking.cancel()
        working.cancel()
        ended = await asyncio.gather(working, return_exceptions=True)
        if isinstance(ended[0], Exception):
            raise ended[0]


def _exit_when_stuck(worker: Worker, asked: asyncio.Event, most_seconds: float = STUCK_SECONDS) -> None:
    asked_seconds = stuck_seconds = 0  # counted while the program runs: a paused one is not stuck
    while True:
        time.sleep(1)
        asked_seconds += asked.is_set()
        stuck_seconds = stuck_seconds + 1 if time.monotonic() - worker.looked_at > 2 * POLL_SECONDS else 0
        if stuck_seconds > most_seconds or asked_seconds > TURN_SECONDS + most_seconds:
            log.critical("the worker is stuck and exits; other workers continue its turns")
            os._exit(1)
