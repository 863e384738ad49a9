"""What a terminal may look at beside the program that serves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from nacre.bridges.ledger.contracts.records import StoredStatus
from nacre.bridges.ledger.contracts.stored_inbound import inbound_from_json
from nacre.bridges.ledger.postgres import statements
from nacre.bridges.ledger.postgres.jobs import PostgresJobs
from nacre.bridges.ledger.postgres.people import PostgresPeople
from nacre.bridges.ledger.postgres.rows import LedgerRows, Run
from nacre.runtime.contracts.inbound import Inbound


class PostgresTables:
    """Those of one agent."""

    def __init__(self, rows: LedgerRows) -> None:
        self._rows = rows
        self.people = PostgresPeople(rows)
        self.jobs = PostgresJobs(rows)

    async def close(self) -> None:
        """Takes nothing more; the database stays open for others of the process."""
        self._rows.close()

    async def owner_chats(self, agent_id: str) -> tuple[Inbound, ...]:
        """Where the owner wrote to an agent in private."""
        rows = await self._rows.read(statements.OWNER_CHATS, answered_by=agent_id)
        return tuple(inbound_from_json(text) for (text,) in rows)

    async def put_statuses(self, statuses: Sequence[StoredStatus]) -> None:
        """Keeps how all bridges are."""

        def work(run: Run) -> None:
            run(statements.FORGET_BRIDGES)
            for status in statuses:
                run(statements.PUT_BRIDGE, **status._asdict())

        await self._rows.write(work)

    async def statuses(self) -> tuple[StoredStatus, ...]:
        """What was last kept of the bridges."""
        return tuple(StoredStatus(*row) for row in await self._rows.read(statements.BRIDGES))

    async def choices(self) -> Mapping[tuple[str, str], str]:
        """What was chosen."""
        return {(key, name): value for key, name, value in await self._rows.read(statements.CHOICES)}

    async def put_choice(self, session_key: str, name: str, value: str) -> None:
        """Keeps a choice, or forgets it."""
        if value:
            await self._rows.run(statements.PUT_CHOICE, session_key=session_key, name=name, value=value)
        else:
            await self._rows.run(statements.FORGET_CHOICE, session_key=session_key, name=name)

    async def not_done(self) -> dict[str, int]:
        """How much is not done, by state."""
        return dict(await self._rows.read(statements.NOT_DONE))
