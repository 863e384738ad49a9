"""Opens what gateways and workers need of the database that the settings name."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from nacre.bridges.workers.handing_over import HandedOver
from nacre.bridges.workers.turn_rows import OpenTurns, TurnRows
from nacre.bridges.workers.worker import Worker
from nacre.postgres.jobs import JobQueue, Pace
from nacre.postgres.shared import shared_database
from nacre.runtime.agent.runtime import Runtime
from nacre.runtime.contracts.errors import ConfigError
from nacre.runtime.settings.config import Config

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
    if not config.database_url:
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


async def at_work(config: Config) -> tuple[OpenTurns, int]:
    """The turns of the settings' agent that are not over, and how many workers live.

    Raises:
        DatabaseError: the database cannot be used.
    """
    async with _rows(config, None) as (rows, jobs):
        await jobs.prepare()
        return await rows.open_turns(config.agent_id), await jobs.workers()


@asynccontextmanager
async def _rows(config: Config, pace: Pace | None) -> AsyncIterator[tuple[TurnRows, JobQueue]]:
    database = shared_database(config.database_url)
    jobs = JobQueue(database, config.database_url, QUEUE, pace=pace)
    try:
        yield TurnRows(database, jobs), jobs
    finally:
        await database.close()
