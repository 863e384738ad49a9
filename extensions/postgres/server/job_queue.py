"""Jobs in a database: who adds one, who runs it, and who takes it over. Edge.

The queue, its locks and heartbeats are procrastinate's. A job is added in a transaction of others, so that it
is there with what it is about, or not at all. Jobs of one lock are run one after the other. A job may be run
more than once: by somebody who was paused and by whoever took it over. What it does has to bear that.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from importlib.resources import files
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from nacre.extensions.postgres.server.connections import (
    GONE_SECONDS,
    ConnectionLimits,
    DatabaseUnusable,
    connection_arguments,
    is_lost,
    reason,
)
from nacre.installation import install_command

if TYPE_CHECKING:
    from procrastinate import App, JobContext, PsycopgConnector
    from procrastinate.jobs import Job
    from procrastinate.worker import Worker
    from psycopg import AsyncConnection
    from psycopg_pool import AsyncConnectionPool

    from nacre.extensions.postgres.server.connections import Connection
    from nacre.extensions.postgres.server.database import Database


_LOCK = 0x6E6163726A
"""The number of the lock: `nacrj`."""
_TABLE = """
CREATE TABLE IF NOT EXISTS nacre_job_migrations (
    name TEXT PRIMARY KEY, applied_at TIMESTAMPTZ NOT NULL DEFAULT now()
)
"""


def bring_job_tables(connection: Connection) -> None:
    """Makes the tables or brings them up to date, within a transaction; whoever starts at once waits.

    Raises:
        DatabaseUnusable: procrastinate is missing, or a newer one made the tables.
    """
    try:
        from procrastinate.schema import SchemaManager
    except ImportError as error:
        raise DatabaseUnusable(
            f"Workers need procrastinate, which cannot be used here ({error}). Install it with "
            f"`{install_command('postgres')}`."
        ) from error
    changes = {
        file.name: file.read_text(encoding="utf-8")
        for file in files("procrastinate.sql").joinpath("migrations").iterdir()
        if file.name.endswith(".sql")
    }
    if _applied(connection) >= set(changes):
        _refuse_newer(_applied(connection), set(changes))
        return
    connection.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
    connection.execute(_TABLE)
    applied = _applied(connection)
    _refuse_newer(applied, set(changes))
    if not applied:
        connection.execute(SchemaManager.get_schema().encode())
    for name in sorted(set(changes) - applied):
        if applied:
            connection.execute(changes[name].encode())
        connection.execute("INSERT INTO nacre_job_migrations (name) VALUES (%s)", (name,))


def _applied(connection: Connection) -> set[str]:
    if connection.execute("SELECT to_regclass('nacre_job_migrations')").fetchone() == (None,):
        return set()
    return {str(name) for (name,) in connection.execute("SELECT name FROM nacre_job_migrations")}


def _refuse_newer(applied: set[str], known: set[str]) -> None:
    if newer := sorted(applied - known):
        raise DatabaseUnusable(
            f"A newer procrastinate made the tables of jobs ({newer[-1]} is not known here). Use the version "
            "of Nacre that made them; nothing was changed."
        )


PAUSE_SECONDS = 0.2
WITH_THE_LIBRARY = 3
"""Connections for heartbeats and looks, beside those of the jobs."""

T = TypeVar("T")

log = logging.getLogger(__name__)


def patient_connector(url: str, most_at_once: int) -> PsycopgConnector:
    """A connector whose queries are tried again on a new connection when one was lost.

    A query may so be run twice: a job may be fetched by nobody, or finished twice. `JobQueue` looks for such.
    To finish a job that was taken over does nothing.
    """
    from procrastinate import PsycopgConnector
    from procrastinate.exceptions import ConnectorException
    from psycopg.errors import RaiseException

    limits = ConnectionLimits()
    arguments = {name: value for name, value in connection_arguments(url).items() if name != "autocommit"}

    class Patient(PsycopgConnector):
        async def execute_query_async(self, query: Any, **arguments: Any) -> None:
            try:
                await _patiently(
                    lambda: super(Patient, self).execute_query_async(query, **arguments), limits.retry_seconds
                )
            except ConnectorException as error:
                if not isinstance(error.__cause__, RaiseException):
                    raise
                log.info("a job is another worker's by now: %s", reason(error.__cause__))

        async def execute_query_one_async(self, query: Any, **arguments: Any) -> dict[str, Any]:
            return await _patiently(
                lambda: super(Patient, self).execute_query_one_async(query, **arguments), limits.retry_seconds
            )

        async def execute_query_all_async(self, query: Any, **arguments: Any) -> list[dict[str, Any]]:
            return await _patiently(
                lambda: super(Patient, self).execute_query_all_async(query, **arguments), limits.retry_seconds
            )

        async def listen_notify(self, on_notification: Any, channels: Any) -> None:
            while True:  # its own connection may go at any time; jobs are also asked for without being told
                await _patiently(
                    lambda: super(Patient, self).listen_notify(on_notification, channels), float("inf")
                )

    return Patient(
        kwargs=arguments,  # the library says itself how the connection begins that it listens on
        configure=_committing,
        pool_factory=_unchecked,
        name="nacre-jobs",
        min_size=1,
        max_size=min(most_at_once + WITH_THE_LIBRARY, limits.most_connections),
        timeout=limits.retry_seconds,
        reconnect_timeout=limits.retry_seconds,
    )


async def _committing(connection: AsyncConnection[Any]) -> None:
    """Each query is one statement, and a transaction of its own: one round trip instead of three.

    It waits for the disk: a fetched job that a crash of the server forgot would be fetched by a second one,
    and the first would finish it under that one's hands.
    """
    await connection.set_autocommit(True)


def _unchecked(**arguments: Any) -> AsyncConnectionPool:
    """A pool that asks no connection whether it lives: a query on one that does not is tried again."""
    from psycopg_pool import AsyncConnectionPool

    return AsyncConnectionPool(**{**arguments, "check": None})


async def _patiently(query: Callable[[], Awaitable[T]], seconds: float) -> T:
    from procrastinate.exceptions import ConnectorException

    began = time.monotonic()
    while True:
        try:
            return await query()
        except ConnectorException as error:
            cause = error.__cause__
            is_over = time.monotonic() - began > seconds
            if is_over or not isinstance(cause, Exception) or not is_lost(cause):
                raise
        await asyncio.sleep(PAUSE_SECONDS)


Work: TypeAlias = Callable[[Mapping[str, Any]], Awaitable[None]]
"""Does what a job's arguments say. It is tried again, for ever, when it raises."""

RETRY_SECONDS = 2
_WORKER_LOCKS = 0x6E61
"""The upper half of the numbers of workers' locks."""
_HELD = b"""
SELECT classid::bigint << 32 | objid::bigint FROM pg_locks
WHERE locktype = 'advisory' AND granted AND objsubid = 1
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
    AND (classid::bigint << 32 | objid::bigint) = ANY(%s)
"""


@dataclass(frozen=True, kw_only=True)
class Pace:
    """How often a worker says that it lives, and after how long a silence its jobs are others'."""

    heartbeat_seconds: float = 5.0
    stalled_seconds: float = 20.0

    @property
    def gone_seconds(self) -> float:
        """After how long a silence those of a worker whose connections ended are."""
        return min(GONE_SECONDS, self.stalled_seconds)


class JobQueue:
    """The jobs of one name."""

    def __init__(self, database: Database, url: str, name: str, *, pace: Pace | None = None) -> None:
        self._database = database
        self._url = url
        self._name = name
        self._pace = pace or Pace()
        self._adding: App | None = None

    async def prepare(self) -> None:
        """Makes the tables, or brings them up to date; safe for many at once.

        Raises:
            DatabaseUnreachable: there is no server.
            DatabaseUnusable: procrastinate is missing, or a newer one made the tables.
        """
        await self._database.write(bring_job_tables)

    def add(self, connection: Connection, arguments: Mapping[str, str], *, lock: str) -> None:
        """Adds a job within a transaction, behind those of its lock."""
        from procrastinate import App, SyncPsycopgConnector
        from procrastinate.jobs import Job

        if self._adding is None:
            self._adding = App(connector=SyncPsycopgConnector())
        job = Job(
            id=None,
            queue=self._name,
            lock=lock,
            queueing_lock=None,
            task_name=self._name,
            task_kwargs=dict(arguments),
        )
        self._adding.job_manager.batch_defer_jobs([job], connection=connection)

    async def workers(self) -> int:
        """How many workers said lately that they live. Raises as `prepare`, which goes before."""
        query = (
            "SELECT count(*) FROM procrastinate_workers "
            "WHERE last_heartbeat > clock_timestamp() - make_interval(secs => %s)"
        )
        row = await self._database.read(
            lambda connection: connection.execute(query, (self._pace.stalled_seconds,)).fetchone()
        )
        return int(row[0]) if row else 0

    async def run(self, work: Work, *, most_at_once: int, last_seconds: float) -> None:
        """Runs jobs until it is cancelled; those that run may then take `last_seconds` to end.

        Also takes over the jobs of workers that are silent for too long.
        """
        from procrastinate import App, RetryStrategy
        from procrastinate.worker import Worker

        mine: set[int] = set()
        app = App(connector=patient_connector(self._url, most_at_once))

        async def job(context: JobContext, /, **arguments: Any) -> None:
            mine.add(context.job.id or 0)
            try:
                await work(arguments)
            finally:
                mine.discard(context.job.id or 0)

        retry = RetryStrategy(wait=RETRY_SECONDS)
        app.task(name=self._name, queue=self._name, pass_context=True, retry=retry)(job)
        async with app.open_async():
            while True:
                worker = Worker(
                    app,
                    queues=[self._name],
                    concurrency=most_at_once,
                    delete_jobs="always",
                    install_signal_handlers=False,
                    shutdown_graceful_timeout=last_seconds,
                    update_heartbeat_interval=self._pace.heartbeat_seconds,
                    stalled_worker_timeout=self._pace.stalled_seconds,
                    fetch_job_polling_interval=min(RETRY_SECONDS, self._pace.heartbeat_seconds),
                )
                watching = asyncio.gather(
                    self._watch(app, worker, mine), self._watch_ended(app, worker), return_exceptions=True
                )
                try:
                    await worker.run()
                except Exception as error:  # noqa: BLE001 - whatever it is, the next one begins anew
                    log.warning("the worker begins anew: %s", error)
                finally:
                    watching.cancel()
                    await asyncio.gather(watching, return_exceptions=True)
                await asyncio.sleep(RETRY_SECONDS)

    async def _watch(self, app: App, worker: Worker, mine: set[int]) -> None:
        """Takes over what nobody is at: jobs of silent workers, and own ones lost with a connection."""
        lost_before: set[int | None] = set()
        while True:
            await asyncio.sleep(self._pace.heartbeat_seconds)
            try:
                stalled = await app.job_manager.get_stalled_jobs(
                    queue=self._name, seconds_since_heartbeat=self._pace.stalled_seconds
                )
                doing = await app.job_manager.list_jobs_async(
                    queue=self._name, status="doing", worker_id=worker.worker_id or -1
                )
                lost = [each for each in doing if each.id not in mine]
                for each in (*stalled, *(each for each in lost if each.id in lost_before)):
                    await self._take_over(app, each)
                lost_before = {each.id for each in lost}
            except Exception as error:  # noqa: BLE001 - the next look may go well
                log.warning("stalled jobs were not looked for: %s", error)

    async def _watch_ended(self, app: App, worker: Worker) -> None:
        """Says that this worker lives, and takes over the jobs of those that have ended."""
        while True:
            await asyncio.sleep(min(1.0, self._pace.heartbeat_seconds))
            try:
                if worker.worker_id is not None:
                    await asyncio.to_thread(self._database.life.hold, _lock_of(worker.worker_id))
                silent = await app.job_manager.get_stalled_jobs(
                    queue=self._name, seconds_since_heartbeat=self._pace.gone_seconds
                )
                locks = [_lock_of(each.worker_id) for each in silent if each.worker_id is not None]
                living = await self._database.read(partial(_living, locks=locks)) if locks else set()
                for each in silent:
                    if each.worker_id is not None and _lock_of(each.worker_id) not in living:
                        await self._take_over(app, each)
            except Exception as error:  # noqa: BLE001 - the next look may go well
                log.warning("workers that ended were not looked for: %s", error)

    async def _take_over(self, app: App, job: Job) -> None:
        """Puts a new job in the place of one; what its earlier worker still says is of the old."""
        from procrastinate.exceptions import AlreadyEnqueued
        from procrastinate.jobs import Status

        assert job.id is not None  # it comes from the database
        log.warning("the job %s of another worker, or a lost one, is taken over", job.id)
        again = app.configure_task(
            self._name,
            queue=self._name,
            lock=job.lock,
            queueing_lock=f"after {job.id}",
            priority=job.priority + 1,  # before what waits for the same lock
        )
        with suppress(AlreadyEnqueued):
            await again.defer_async(**job.task_kwargs)
        await app.job_manager.finish_job_by_id_async(job.id, status=Status.ABORTED, delete_job=True)


def _lock_of(worker_id: int) -> int:
    """The number of the lock that a worker has while it lives."""
    return _WORKER_LOCKS << 32 | worker_id


def _living(connection: Connection, *, locks: list[int]) -> set[int]:
    """Those of some numbers whose lock somebody has in this database."""
    return {int(found) for (found,) in connection.execute(_HELD, (locks,)).fetchall()}
