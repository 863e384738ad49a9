"""procrastinate's way to a database, which waits for a server that is away. Edge."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeVar

from nacre.postgres.pool import ConnectionLimits, connection_arguments, is_lost, reason

if TYPE_CHECKING:
    from procrastinate import PsycopgConnector
    from psycopg import AsyncConnection
    from psycopg_pool import AsyncConnectionPool

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
