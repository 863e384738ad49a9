"""Worker processes that a test may kill, pause and start anew; each is a fork of a warm one."""

from __future__ import annotations

import asyncio
import logging
import multiprocessing
from contextlib import suppress
from multiprocessing.process import BaseProcess
from pathlib import Path

from nacre.bridges.workers.opening import opened_worker
from nacre.postgres.jobs import Pace
from nacre.runtime.settings.config import load_config

PACE = Pace(heartbeat_seconds=0.5, stalled_seconds=3.0)
AT_ONCE = 8


def started(state_dir: Path, database_url: str) -> BaseProcess:
    """A worker that runs."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.bridges.workers.worker_process"])
    process = context.Process(target=_run, args=(state_dir, database_url), daemon=True)
    process.start()
    return process


def _run(state_dir: Path, database_url: str) -> None:
    logging.basicConfig(
        filename=state_dir / "workers.log", format="%(process)d %(asctime)s %(name)s %(message)s"
    )
    with suppress(KeyboardInterrupt):
        asyncio.run(_work(state_dir, {"HOME": str(state_dir), "NACRE_DATABASE_URL": database_url}))


async def _work(state_dir: Path, environment: dict[str, str]) -> None:
    config = load_config(environment, state_dir=state_dir)
    async with opened_worker(config, environment, most_at_once=AT_ONCE, pace=PACE) as worker:
        await worker.run(last_seconds=5)
