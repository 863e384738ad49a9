"""Workers and a gateway that a test may kill, pause and start anew; each is a fork of a warm process."""

from __future__ import annotations

import asyncio
import logging
import multiprocessing
import signal
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, TypeAlias

from nacre.extensions.postgres.server.connections import ConnectionLimits
from nacre.extensions.postgres.server.database import Pace, shared_database
from nacre.extensions.postgres.workers.worker import _exit_when_stuck, opened_worker
from nacre.runtime.settings.config import load_config
from tests.extensions.postgres.workers.served import gateway

PACE = Pace(beat_seconds=0.5, silent_seconds=3.0)
AT_ONCE = 8

Main: TypeAlias = Callable[[Path, str], Coroutine[Any, Any, None]]


def started(
    state_dir: Path, database_url: str, pace: Pace = PACE, limits: ConnectionLimits | None = None
) -> BaseProcess:
    """A worker that runs; SIGTERM stops it."""
    return _started(partial(_work, pace, limits), state_dir, database_url)


def stuck_started(state_dir: Path, database_url: str) -> BaseProcess:
    """A worker whose event loop stands still from its first turn on, and that may be stuck for a second."""
    return _started(_be_stuck, state_dir, database_url)


def gateway_started(state_dir: Path, database_url: str, port: int, *, runs_here: bool = False) -> BaseProcess:
    """A gateway that runs as `nacre serve` does, with the line server at a port as its channel."""
    return _started(partial(_serve, port, runs_here), state_dir, database_url)


def _started(main: Main, state_dir: Path, database_url: str) -> BaseProcess:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.extensions.postgres.workers.worker_process"])
    process = context.Process(target=_run, args=(main, state_dir, database_url), daemon=True)
    process.start()
    return process


def _run(main: Main, state_dir: Path, database_url: str) -> None:
    logging.basicConfig(
        filename=state_dir / "workers.log", format="%(process)d %(asctime)s %(name)s %(message)s"
    )
    with suppress(KeyboardInterrupt, asyncio.CancelledError):
        asyncio.run(main(state_dir, database_url))


async def _serve(port: int, runs_here: bool, state_dir: Path, database_url: str) -> None:
    database = shared_database(database_url, pace=PACE)  # the gateway's, too
    shares = {"default": port}
    async with gateway(state_dir, database_url, port, shares=shares, runs_here=runs_here):
        await asyncio.Event().wait()
    await database.close()


async def _be_stuck(state_dir: Path, database_url: str) -> None:
    environment = {"HOME": str(state_dir), "NACRE_DATABASE_URL": database_url}
    config = load_config(environment, state_dir=state_dir)
    async with opened_worker(config, environment, most_at_once=AT_ONCE, pace=PACE) as worker:
        watching = threading.Thread(target=_exit_when_stuck, args=(worker, asyncio.Event(), 1.0), daemon=True)
        watching.start()
        working = asyncio.create_task(worker.run(last_seconds=5))
        while not worker._running:  # noqa: ASYNC110 - its turn begins on this event loop
            await asyncio.sleep(0)
        threading.Event().wait()
        await working


async def _work(pace: Pace, limits: ConnectionLimits | None, state_dir: Path, database_url: str) -> None:
    working = asyncio.current_task()
    assert working is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, working.cancel)
    database = shared_database(database_url, limits=limits, pace=pace)  # the worker's, too
    environment = {"HOME": str(state_dir), "NACRE_DATABASE_URL": database_url}
    config = load_config(environment, state_dir=state_dir)
    async with opened_worker(config, environment, most_at_once=AT_ONCE, pace=pace) as worker:
        await worker.run(last_seconds=5)
    await database.close()
