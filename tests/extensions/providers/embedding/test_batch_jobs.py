"""Batch jobs from the notes to the vectors, also when they fail, vanish, or cannot be asked after: every note
gets its vector, none is paid twice. Real settings, a real index, a real server on loopback."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from nacre.cli.memory.text import index_problems
from nacre.extensions.providers.embedding.batch_jobs import LAST_WAIT_SECONDS, MIN_TEXTS, JobRules
from nacre.memory.contracts.records import SyncProgress
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
@pytest.mark.covers("BATCH-3", "BATCH-7", "BATCH-11", "SEED-11")
async def test_many_notes_are_one_job(tmp_path: Path, server: BatchServer, provider: str) -> None:
    """All files together go into one job, nothing is asked for twice, and search by meaning works."""
    written(tmp_path)
    told: list[SyncProgress] = []
    async with opened(tmp_path, server, provider) as engine:
        report = await engine.sync(reason="test", progress=told.append)
        found = await engine.search("jars of honey of hive 12", explain=True)

    assert (server.seen.uploads, server.seen.creations, server.seen.downloads) == (1, 1, 1)
    assert (report.embedded, report.pending_vectors, report.problem) == (NOTES, 0, "")
    assert ordinary_texts(server) == 0
    assert found.mode == "hybrid"
    assert found.hits[0].path == "memory/hive-012.md"
    assert next((each.completed, each.total) for each in told if each.stage == "embed") == (0, NOTES)
    [job] = server.jobs.values()
    assert job.made_of.get("completion_window") == {"openai": "24h", "voyage": "12h"}.get(provider)


async def test_a_few_notes_are_asked_for_at_once(tmp_path: Path, server: BatchServer) -> None:
    """Nobody waits minutes for what one request does."""
    written(tmp_path, MIN_TEXTS - 1)
    async with opened(tmp_path, server) as engine:
        report = await engine.sync(reason="test")

    assert (server.seen.creations, report.embedded) == (0, MIN_TEXTS - 1)


async def test_a_killed_process_pays_for_nothing_twice(tmp_path: Path, server: BatchServer) -> None:
    """The job is known before it is waited for; the next process fetches what it made."""
    written(tmp_path)
    server.polls = 1_000_000
    async with opened(tmp_path, server) as engine:
        sync = asyncio.create_task(engine.sync(reason="test"))
        assert await asyncio.to_thread(server.polled.wait, 60)
        sync.cancel()
    [job] = server.jobs.values()
    job.polls = 0
    async with opened(tmp_path, server) as engine:
        report = await engine.sync(reason="test")

    assert (server.seen.creations, report.embedded, report.pending_vectors) == (1, NOTES, 0)
    assert ordinary_texts(server) == 0


async def test_without_waiting_a_later_pass_fetches(tmp_path: Path, server: BatchServer) -> None:
    """`wait: false` leaves the job where it is; new notes are asked for meanwhile, the job's are not."""
    written(tmp_path)
    async with opened(tmp_path, server, wait=False) as engine:
        first = await engine.sync(reason="test")
        written(tmp_path, 1, first=NOTES)
        [job] = server.jobs.values()
        job.polls = 100
        second = await engine.sync(reason="test", force=True)
        job.polls = 0
        third = await engine.sync(reason="test", force=True)

    assert (first.embedded, first.pending_vectors, first.problem) == (0, NOTES, "")
    assert index_problems(first)[0] == f"A batch job has {NOTES} texts; a later pass fetches the vectors."
    assert (second.embedded, second.pending_vectors) == (1, NOTES)
    assert (third.embedded, third.pending_vectors) == (NOTES, 0)
    assert server.seen.creations == 1
    assert ordinary_texts(server) == 1


@pytest.mark.covers("BATCH-8")
async def test_a_busy_provider_is_asked_again_for_a_job(tmp_path: Path, server: BatchServer) -> None:
    """One 503 is no failure."""
    written(tmp_path)
    server.outcomes.append("busy")
    waits: list[float] = []
    async with patient(tmp_path, server, JobRules(poll_seconds=20), waits) as engine:
        report = await engine.sync(reason="test")

    assert server.seen.creations == 2
    assert [2 <= waits[0] < 3, waits[1:]] == [True, [20]]
    assert (report.pending_vectors, ordinary_texts(server)) == (0, 0)


async def test_jobs_of_another_model_are_cancelled(tmp_path: Path, server: BatchServer) -> None:
    """Their vectors would be of no use."""
    written(tmp_path)
    async with opened(tmp_path, server, wait=False) as engine:
        await engine.sync(reason="test")
    async with opened(tmp_path, server, "voyage", wait=False) as engine:
        await engine.sync(reason="test")

    assert server.seen.cancelled == ["job-1"]
    assert server.seen.creations == 2


async def test_a_day_s_tokens_hold_for_jobs_too(tmp_path: Path, server: BatchServer) -> None:
    """A job that would go beyond them is not handed in."""
    written(tmp_path)
    async with opened(tmp_path, server, daily_tokens=100) as engine:
        report = await engine.sync(reason="test")

    assert server.seen.uploads == 0
    assert "budget of 100 tokens a day" in report.problem


@pytest.mark.covers("BATCH-1", "BATCH-2", "BATCH-6")
async def test_chunks_of_many_files_share_requests(tmp_path: Path, server: BatchServer) -> None:
    """Without jobs, 45 short notes in as many files are three requests of twenty at most."""
    written(tmp_path, 45)
    async with opened(tmp_path, server) as engine:
        report = await engine.sync(reason="test")
        asked = [body for each in server.asked if " gave " in str(body := each.body["input"])]
        server.asked.clear()
        again = await engine.sync(reason="test", force=True)

    assert sorted(map(len, asked)) == [5, 20, 20]
    assert report.embedded == 45
    assert (again.embedded, ordinary_texts(server)) == (0, 0), "a rebuild asks for nothing that is known"


@pytest.mark.parametrize("concurrency", [1, 2])
@pytest.mark.covers("SEED-11", "PART-13")
async def test_so_many_jobs_run_at_a_time_as_the_settings_say(
    tmp_path: Path, server: BatchServer, concurrency: int
) -> None:
    """The next one is created when one of them has given its vectors."""
    written(tmp_path, 6 * MIN_TEXTS)
    rules = JobRules(concurrency=concurrency, poll_seconds=0.0)
    async with patient(tmp_path, server, rules, [], job_texts=MIN_TEXTS) as engine:
        report = await engine.sync(reason="test")

    assert (report.embedded, report.pending_vectors) == (6 * MIN_TEXTS, 0)
    assert server.seen.creations == 6
    assert server.seen.most_at_once == concurrency


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("outcome", ["failed", "missing", "unavailable"])
@pytest.mark.covers("BATCH-9", "BATCH-11")
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
@pytest.mark.covers("BATCH-11")
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


@pytest.mark.covers("BATCH-9", "BATCH-10", "BATCH-12")
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
