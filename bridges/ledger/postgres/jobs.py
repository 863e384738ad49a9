"""What is to be done without being asked, and what is written along with a message."""

from __future__ import annotations

from nacre.bridges.ledger.contracts.records import Along, Beaten, JobChanged, JobMoved, StoredJob
from nacre.bridges.ledger.postgres import statements
from nacre.bridges.ledger.postgres.rows import LedgerRows, Run


class PostgresJobs:
    """The jobs of a ledger."""

    def __init__(self, rows: LedgerRows) -> None:
        self._rows = rows

    async def add(self, job: StoredJob, *, made_ms: int, most: int) -> bool:
        """Keeps a job unless its agent has too many."""

        def work(run: Run) -> bool:
            run(statements.LOCK_JOBS)
            [(count,)] = run(statements.COUNT_JOBS, answered_by=job.agent_id)
            if count >= most:
                return False
            run(
                statements.ADD_JOB,
                id=job.job_id,
                answered_by=job.agent_id,
                asker=job.asker,
                text=job.text,
                rule=job.rule,
                made_ms=made_ms,
                due_ms=job.due_ms,
                problem=job.problem,
            )
            return True

        return await self._rows.write(work)

    async def of_agent(self, agent_id: str) -> tuple[StoredJob, ...]:
        """The jobs of an agent."""
        return await self._found(statements.JOBS_OF, answered_by=agent_id)

    async def due(self, at_ms: int) -> tuple[StoredJob, ...]:
        """The jobs that are due."""
        return await self._found(statements.JOBS_DUE, at_ms=at_ms)

    async def recurring(self, after_ms: int) -> tuple[StoredJob, ...]:
        """The jobs that are due later, and again."""
        return await self._found(statements.JOBS_RECURRING, at_ms=after_ms)

    async def next_due_ms(self) -> int | None:
        """When the next job is due."""
        [(due_ms,)] = await self._rows.read(statements.NEXT_DUE)
        return None if due_ms is None else int(due_ms)

    async def remove(self, job_id: str) -> bool:
        """Removes a job."""
        return bool(await self._rows.run(statements.REMOVE_JOB, id=job_id))

    async def move(self, moved: JobMoved) -> None:
        """Sets when a job is due next."""
        await self._rows.write(lambda run: write_along(run, moved))

    async def last_beat_ms(self, agent_id: str, now_ms: int) -> int:
        """When an agent last had a heartbeat."""

        def work(run: Run) -> int:
            run(statements.FIRST_BEAT, answered_by=agent_id, at_ms=now_ms)
            [(at_ms,)] = run(statements.LAST_BEAT, answered_by=agent_id)
            return int(at_ms)

        return await self._rows.write(work)

    async def _found(self, statement: str, **values: object) -> tuple[StoredJob, ...]:
        return tuple(StoredJob(*row) for row in await self._rows.read(statement, **values))


def write_along(run: Run, along: Along) -> None:
    """Writes it within a transaction. Raises `JobChanged`."""
    if isinstance(along, Beaten):
        run(statements.BEATEN, answered_by=along.agent_id, at_ms=along.at_ms)
        return
    job = {"id": along.job_id, "before_ms": along.before_ms}
    if along.due_ms is None and not along.problem:
        changed = run(statements.END_JOB, **job)
    else:
        changed = run(statements.MOVE_JOB, **job, due_ms=along.due_ms, problem=along.problem)
    if not changed:
        raise JobChanged(f"The job {along.job_id} was changed meanwhile.")
