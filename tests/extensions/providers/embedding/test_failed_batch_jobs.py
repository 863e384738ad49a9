"""Batch jobs that fail, vanish, or cannot be asked after: every note gets its vector, none is paid twice."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from nacre.extensions.providers.embedding.batch_jobs import LAST_WAIT_SECONDS, JobRules
from tests.extensions.providers.embedding.batch_memory import (
    NOTES,
    PROVIDERS,
    opened,
    ordinary_texts,
    patient,
    written,
)
from tests.extensions.providers.embedding.batch_server import BatchServer


@pytest.fixture
def server() -> Iterator[BatchServer]:
    """A server whose jobs end at the second look."""
    with BatchServer(polls=1) as server:
        yield server


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("outcome", ["failed", "missing", "unavailable"])
async def test_a_failed_job_is_made_good_by_ordinary_requests(
    tmp_path: Path, server: BatchServer, provider: str, outcome: str
) -> None:
    """Every note has its vector at the end, and the status says what happened."""
    written(tmp_path)
    server.outcomes.append(outcome)
    async with opened(tmp_path, server, provider) as engine:
        report = await engine.sync(reason="test")
        status = await engine.status()

    assert (report.pending_vectors, report.problem) == (0, "")
    assert ordinary_texts(server) == NOTES
    assert "batch job" in status.last_sync_problem


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize(("outcome", "by_job"), [("partial", 40), ("expired", 30)])
async def test_what_a_job_left_out_is_asked_for(
    tmp_path: Path, server: BatchServer, provider: str, outcome: str, by_job: int
) -> None:
    """Lines with an error, and lines that an expired job did not come to."""
    written(tmp_path)
    server.outcomes.append(outcome)
    async with opened(tmp_path, server, provider) as engine:
        report = await engine.sync(reason="test")

    assert (report.embedded, report.pending_vectors, report.problem) == (NOTES, 0, "")
    assert ordinary_texts(server) == NOTES - by_job


@pytest.mark.parametrize("down", ["state", "results"])
@pytest.mark.parametrize("wait", [True, False])
async def test_an_outage_loses_no_job(tmp_path: Path, server: BatchServer, down: str, wait: bool) -> None:
    """What a job makes is paid for: while nobody can be asked for it, it is asked for nowhere else."""
    written(tmp_path)
    server.polls, server.down = 0, down
    rules = JobRules(wait=wait, poll_seconds=0)
    async with patient(tmp_path, server, rules, []) as engine:
        reports = [await engine.sync(reason="test")]
        problem = (await engine.status()).last_sync_problem
        server.down = ""
        reports.append(await engine.sync(reason="test"))
        reports.append(await engine.sync(reason="test"))
        mended = (await engine.status()).last_sync_problem

    assert reports[0].pending_vectors == NOTES
    assert "A later pass fetches what the job made" in problem
    assert (reports[-1].pending_vectors, mended) == (0, "")
    assert (server.seen.creations, ordinary_texts(server)) == (1, 0)


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("wait", [True, False])
@pytest.mark.parametrize(("outcome", "status"), [("gone", 404), ("foreign", 403)])
async def test_a_job_that_nobody_knows_is_not_waited_for(
    tmp_path: Path, server: BatchServer, provider: str, wait: bool, outcome: str, status: int
) -> None:
    """Its texts get their vectors by ordinary requests."""
    written(tmp_path)
    server.outcomes.append(outcome)
    async with opened(tmp_path, server, provider, wait=wait) as engine:
        report = await engine.sync(reason="test")
        problem = (await engine.status()).last_sync_problem

    assert (report.pending_vectors, ordinary_texts(server)) == (0, NOTES)
    assert f"job-1 is gone (HTTP {status})" in problem


@pytest.mark.slow
async def test_an_upload_that_hangs_holds_nobody_for_long(tmp_path: Path, server: BatchServer) -> None:
    """Whoever stops the pass waits for a few seconds, not for the upload's time limit."""
    written(tmp_path)
    server.down = "upload"
    async with opened(tmp_path, server) as engine:
        sync = asyncio.create_task(engine.sync(reason="test"))
        assert await asyncio.to_thread(server.polled.wait, 60)
        sync.cancel()
        started = time.monotonic()
    assert time.monotonic() - started < LAST_WAIT_SECONDS + 30
    assert [task.get_name() for task in asyncio.all_tasks() if "memory" in task.get_name()] == []


async def test_two_failures_switch_jobs_off(tmp_path: Path, server: BatchServer) -> None:
    """For the rest of the process; a success before that starts the count again."""
    server.outcomes.extend(["failed", "done", "failed", "failed"])
    problems = []
    async with opened(tmp_path, server) as engine:
        for at in range(5):
            written(tmp_path, first=at * NOTES)
            await engine.sync(reason="test")
            problems.append((await engine.status()).last_sync_problem)

    assert server.seen.creations == 4
    assert ["is failed: the file is not to our taste." in problem for problem in problems] == [
        *(True, False, True, True, True)
    ]
    assert ["Ordinary requests are used instead" in problem for problem in problems] == [
        *(False, False, False, True, True)
    ]


async def test_a_job_that_takes_too_long_is_cancelled(tmp_path: Path, server: BatchServer) -> None:
    """It is not waited for again, and does not run on at the provider."""
    written(tmp_path)
    server.outcomes.append("stuck")
    waits: list[float] = []
    async with patient(tmp_path, server, JobRules(poll_seconds=20, timeout_seconds=60), waits) as engine:
        report = await engine.sync(reason="test")
        status = await engine.status()

    assert waits == [20, 20, 20]
    assert server.seen.cancelled == ["job-1"]
    assert (report.pending_vectors, ordinary_texts(server)) == (0, NOTES)
    assert "job-1 was not done after 1 minutes" in status.last_sync_problem
