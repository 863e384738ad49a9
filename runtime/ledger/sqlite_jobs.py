"""What is to be done without being asked, in the ledger's file."""

from __future__ import annotations

from typing import Any

from nacre.runtime.ledger.records import Along, Beaten, JobChanged, JobMoved, StoredJob
from nacre.runtime.ledger.sqlite_database import Connection, Database


class SqliteJobs:
    """The jobs of a ledger's file."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(self, job: StoredJob, *, made_ms: int, most: int) -> bool:
        """Keeps a job unless its agent has too many."""
        row = (job.job_id, job.agent_id, job.asker, job.text, job.rule, made_ms, job.due_ms, job.problem)

        def work(db: Connection) -> bool:
            if db.execute("SELECT count(*) FROM jobs WHERE agent = ?", (job.agent_id,)).get >= most:
                return False
            db.execute(
                "INSERT INTO jobs (id, agent, asker, text, rule, made_ms, due_ms, problem) "
                "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                row,
            )
            return True

        return await self._database.write(work)

    async def of_agent(self, agent_id: str) -> tuple[StoredJob, ...]:
        """The jobs of an agent."""
        return await self._found("WHERE agent = ? ORDER BY due_ms IS NULL, due_ms, made_ms", agent_id)

    async def due(self, at_ms: int) -> tuple[StoredJob, ...]:
        """The jobs that are due."""
        return await self._found("WHERE due_ms <= ? ORDER BY due_ms, made_ms", at_ms)

    async def recurring(self, after_ms: int) -> tuple[StoredJob, ...]:
        """The jobs that are due later, and again."""
        return await self._found("WHERE due_ms > ? AND rule <> ''", after_ms)

    async def next_due_ms(self) -> int | None:
        """When the next job is due."""
        due_ms: Any = await self._database.write(lambda db: db.execute("SELECT min(due_ms) FROM jobs").get)
        return None if due_ms is None else int(due_ms)

    async def remove(self, job_id: str) -> bool:
        """Removes a job."""
        delete = "DELETE FROM jobs WHERE id = ? RETURNING 1"
        return bool(await self._database.write(lambda db: db.execute(delete, (job_id,)).fetchall()))

    async def move(self, moved: JobMoved) -> None:
        """Sets when a job is due next."""
        await self._database.write(lambda db: write_along(db, moved))

    async def last_beat_ms(self, agent_id: str, now_ms: int) -> int:
        """When an agent last had a heartbeat."""

        def work(db: Connection) -> int:
            db.execute("INSERT OR IGNORE INTO heartbeats VALUES (?, ?)", (agent_id, now_ms))
            return int(db.execute("SELECT at_ms FROM heartbeats WHERE agent = ?", (agent_id,)).get)

        return await self._database.write(work)

    async def _found(self, behind: str, value: str | int) -> tuple[StoredJob, ...]:
        query = f"SELECT id, agent, asker, text, rule, due_ms, problem FROM jobs {behind}"
        rows: list[Any] = await self._database.write(lambda db: db.execute(query, (value,)).fetchall())
        return tuple(StoredJob(*row) for row in rows)


def write_along(db: Connection, along: Along) -> None:
    """Writes it within a transaction. Raises `JobChanged`."""
    if isinstance(along, Beaten):
        db.execute("INSERT OR REPLACE INTO heartbeats VALUES (?, ?)", (along.agent_id, along.at_ms))
        return
    if along.due_ms is None and not along.problem:
        db.execute("DELETE FROM jobs WHERE id = ? AND due_ms IS ?", (along.job_id, along.before_ms))
    else:
        row = (along.due_ms, along.problem, along.job_id, along.before_ms)
        db.execute("UPDATE jobs SET due_ms = ?, problem = ? WHERE id = ? AND due_ms IS ?", row)
    if not db.changes():
        raise JobChanged(f"The job {along.job_id} was changed meanwhile.")
