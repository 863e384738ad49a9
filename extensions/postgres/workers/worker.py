"""`Worker`: runs turns that gateways ask for, of any agent of a state folder."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing, asynccontextmanager, suppress
from typing import Any, TypeAlias

from nacre.bridges.contracts.errors import BridgeError
from nacre.extensions.postgres.server.connections import DatabaseError
from nacre.extensions.postgres.server.database import shared_database
from nacre.extensions.postgres.server.job_queue import JobQueue, Pace
from nacre.extensions.postgres.workers.handing_over import HandedOver
from nacre.extensions.postgres.workers.stored_events import given_up, outcome_of
from nacre.extensions.postgres.workers.turn_rows import OpenTurns, TakenTurn, TurnRows
from nacre.runtime.agent.agent import Agent
from nacre.runtime.agent.runtime import Runtime
from nacre.runtime.contracts.errors import ConfigError
from nacre.runtime.contracts.events import ApprovalAsked, Event, MessageJoined
from nacre.runtime.settings.config import Config

MOST_TRIES = 10
"""A turn that so many workers took and ended over is not tried again."""
LOOK_SECONDS = 1.0
"""How often a worker looks whether a turn is still its own, and whether something was said into it."""

AgentOf: TypeAlias = Callable[[str], Awaitable[Agent]]

log = logging.getLogger(__name__)


class TurnNotOver(BridgeError):
    """A turn ended without an outcome; it is tried again."""


class Worker:
    """`agent_of` gives the agent of an id, opened when it is first asked for."""

    def __init__(self, rows: TurnRows, jobs: JobQueue, agent_of: AgentOf, *, most_at_once: int) -> None:
        self._rows = rows
        self._jobs = jobs
        self._agent_of = agent_of
        self._most_at_once = most_at_once

    async def run(self, *, last_seconds: float) -> None:
        """Runs turns until it is cancelled; those that run may then take `last_seconds` to end.

        Raises:
            DatabaseError: the database cannot be used.
        """
        await self._jobs.prepare()
        await self._jobs.run(self._work, most_at_once=self._most_at_once, last_seconds=last_seconds)

    async def _work(self, job: Mapping[str, Any]) -> None:
        turn = await self._rows.take(job["agent"], job["turn"])
        if turn is None:
            return
        if turn.tries > MOST_TRIES:
            outcome = given_up(MOST_TRIES)
        else:
            outcome = outcome_of(await self._ending(turn))
        if not outcome and await self._rows.give_back(turn):
            raise TurnNotOver(f"The turn {turn.id} of {turn.agent_id} did not come to its end.")
        if outcome and not await self._rows.finish(turn, outcome):
            log.warning(
                "the turn %s of %s is another worker's by now, or was stopped", turn.id, turn.agent_id
            )

    async def _ending(self, turn: TakenTurn) -> Event | None:
        """The event that the turn ended with."""
        agent, ending = await self._agent_of(turn.agent_id), None
        looking = asyncio.create_task(self._look(turn, agent))
        try:
            async with aclosing(agent.stream(turn.inbound)) as events:
                async for event in events:
                    if isinstance(event, MessageJoined):
                        await self._rows.heard(turn, event.inbound_id)
                    elif isinstance(event, ApprovalAsked):
                        await self._rows.ask_owner(turn, event)
                    ending = event
        finally:
            looking.cancel()
            with suppress(asyncio.CancelledError):
                await looking
        return ending

    async def _look(self, turn: TakenTurn, agent: Agent) -> None:
        """Says into the turn what its chat says meanwhile, and ends one that is not this worker's any more;
        the database would refuse its words anyway."""
        last = turn.words
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            try:
                if await self._rows.holds(turn):
                    for number, inbound in await self._rows.said_into(turn, last):
                        agent.join(inbound)
                        last = number
                    continue
            except DatabaseError as error:
                log.warning("it is not known whose the turn %s is: %s", turn.id, error)
                continue
            agent.stop(turn.inbound)
            return


QUEUE = "nacre-turns"
"""What procrastinate knows the turns by. A contract."""


@asynccontextmanager
async def opened_worker(
    config: Config, environment: Mapping[str, str], *, most_at_once: int, pace: Pace | None = None
) -> AsyncIterator[Worker]:
    """A worker for the agents of a state folder, each opened when a turn of it comes.

    Raises:
        ConfigError: the settings name no database, or are not of any use otherwise.
    """
    if config.is_in_files:
        raise ConfigError(
            "Workers take turns from a PostgreSQL database, and the settings name none. Set storage.url or "
            "NACRE_DATABASE_URL: postgresql://user:password@host:5432/database."
        )
    opening = Runtime.open(state_dir=config.state_dir, environment=environment)
    async with _rows(config, pace) as (rows, jobs), await opening as runtime:
        yield Worker(rows, jobs, runtime.agent, most_at_once=most_at_once)


@asynccontextmanager
async def handed_over(config: Config) -> AsyncIterator[HandedOver]:
    """What runs a gateway's turns when workers do.

    Raises:
        DatabaseError: the database cannot be used.
    """
    async with _rows(config, None) as (rows, jobs):
        await jobs.prepare()
        runner = HandedOver(rows)
        try:
            yield runner
        finally:
            await runner.close()


async def figures(config: Config) -> Mapping[str, float]:
    """How much workers have to do for the settings' agent, as `TurnWorkers` says.

    Raises:
        DatabaseError: the database cannot be used.
    """
    async with _rows(config, None) as (rows, jobs):
        await jobs.prepare()
        return figures_of(await rows.open_turns(config.agent_id), await jobs.workers())


@asynccontextmanager
async def _rows(config: Config, pace: Pace | None) -> AsyncIterator[tuple[TurnRows, JobQueue]]:
    database = shared_database(config.folders.storage.url)
    jobs = JobQueue(database, config.folders.storage.url, QUEUE, pace=pace)
    try:
        yield TurnRows(database, jobs), jobs
    finally:
        await database.close()


def figures_of(turns: OpenTurns, workers: int) -> Mapping[str, float]:
    """The same of what was found."""
    return {
        "waiting": turns.waiting,
        "running": turns.running,
        "waiting_seconds": turns.waiting_seconds,
        "oldest_seconds": turns.oldest_seconds,
        "leases": turns.leases,
        "leases_run_out": turns.leases_run_out,
        "workers": workers,
    }
