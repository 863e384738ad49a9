"""The PostgreSQL storage backend, and the workers that run turns."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import field
from typing import TYPE_CHECKING, LiteralString

from nacre.extensions.postgres import ledger_statements as statements
from nacre.extensions.postgres.server.database import Database, shared_database
from nacre.record import Record
from nacre.runtime.contracts.clock import Clock, NewId
from nacre.runtime.storage.backend import Says, StorageHome

if TYPE_CHECKING:
    from nacre.extensions.postgres.ledger import PostgresRows
    from nacre.extensions.postgres.server.connections import Connection
    from nacre.memory.contracts.settings import MemorySearchSettings
    from nacre.memory.contracts.store import IndexPlace
    from nacre.memory.contracts.workspace import Workspace
    from nacre.runtime.extensions.host import ExtensionHost
    from nacre.runtime.extensions.service import HttpMount
    from nacre.runtime.ledger.file_ledger import FileLedgerPlace
    from nacre.runtime.ledger.ledger import Ledger, LedgerPlace
    from nacre.runtime.ledger.moving import MovableLedger
    from nacre.runtime.ledger.tables import LedgerTables
    from nacre.runtime.settings.config import Config
    from nacre.runtime.tools.approvals.store import ApprovalStore
    from nacre.sessions.stores.copying import AgentSessions


def open_storage(home: StorageHome) -> PostgresStorage:
    """The storage of an agent in the database of the settings. Connects when it is first used."""
    return PostgresStorage(home)


def register(host: ExtensionHost) -> None:
    """Adds the workers, for a program that leaves turns to them, and the admin API beside them."""
    from nacre.extensions.postgres.workers.gateway import figures, handed_over
    from nacre.runtime.extensions.service import TurnWorkers

    host.turn_workers(TurnWorkers(hand_over=handed_over, figures=figures))
    host.http_mount(admin_mount)


def admin_mount(configs: Mapping[str, Config], _now: Clock) -> HttpMount:
    """The admin API over the database of these agents."""
    from nacre.extensions.postgres.admin_api import admin_mount as mount

    return mount(next(iter(configs.values())))


class PostgresStorage:
    """Implements `StorageBackend`. All backends with one URL in a process share a connection pool."""

    def __init__(self, home: StorageHome) -> None:
        self._home = home
        self._agent = home.folders.agent_id
        self._database = shared_database(home.folders.storage.url)
        self.other_rows = DatabaseRows(self._database, self._agent)

    @property
    def how_to_bring(self) -> str:
        """The commands that copy files into the database."""
        return (
            "`nacre admin storage migrate --to postgres` copies them, or "
            f"`nacre admin workspace push {self._home.folders.workspace}`"
        )

    def sessions(self, *, now: Clock, new_id: NewId) -> AgentSessions:
        from nacre.extensions.postgres.session_store import PostgresSessionStore

        cwd = str(self._home.folders.workspace)
        return PostgresSessionStore(self._database, agent=self._agent, cwd=cwd, now=now, new_id=new_id)

    def index(self, settings: MemorySearchSettings, *, now: Clock) -> IndexPlace:  # noqa: ARG002 - the server has a clock
        from nacre.extensions.postgres.memory_store import PostgresIndexPlace

        return PostgresIndexPlace(self._database, self._agent)

    def workspace(self) -> Workspace:
        """The Markdown as rows."""
        from nacre.extensions.postgres.workspace import PostgresWorkspace

        return PostgresWorkspace(self._database, agent=self._agent)

    def approvals(self, *, now: Clock, fence_of: Callable[[str], int | None]) -> ApprovalStore:  # noqa: ARG002 - the caller sets the times
        from nacre.extensions.postgres.approvals import ApprovalTable

        return ApprovalTable(self._database, agent=self._agent, fence_of=fence_of)

    def ledger(self) -> LedgerPlace:
        from nacre.runtime.ledger.file_ledger import ledger_file

        return PostgresLedgerPlace(
            agent=self._agent, url=self._home.folders.storage.url, file=ledger_file(self._home.state_dir)
        )


class PostgresLedgerPlace(Record):
    """Implements `SharedLedgerPlace` for an agent. `file` is the ledger that the state folder may have."""

    agent: str
    file: FileLedgerPlace
    url: str = field(repr=False)

    @property
    def _rows(self) -> PostgresRows:
        from nacre.extensions.postgres.ledger import PostgresRows

        return PostgresRows(shared_database(self.url), self.agent)

    async def open(self, *, now: Clock, new_id: NewId) -> Ledger:
        from nacre.extensions.postgres.ledger import PostgresLedger

        await self._refuse_left_behind()
        return await PostgresLedger.open(shared_database(self.url), agent=self.agent, now=now, new_id=new_id)

    async def open_shared(self, *, now: Clock, new_id: NewId) -> Ledger:
        """Joins the programs that serve the ledger."""
        from nacre.extensions.postgres.ledger import SharedLedger

        await self._refuse_left_behind()
        return await SharedLedger.open(shared_database(self.url), agent=self.agent, now=now, new_id=new_id)

    async def open_tables(self) -> LedgerTables:
        from nacre.runtime.ledger.tables import LedgerTables

        await self._refuse_left_behind()
        return LedgerTables(self._rows, statements)

    async def is_there(self) -> bool:
        """Whether a ledger was ever created here or in the state folder."""
        return await self.file.is_there() or bool(await self._rows.read(statements.HOLDER))

    async def is_served(self) -> bool:
        return bool(await self._rows.read(statements.IS_SERVED))

    @asynccontextmanager
    async def movable(self) -> AsyncIterator[MovableLedger]:
        from nacre.extensions.postgres.ledger import Holding, MovableRows

        holding = await Holding.take(shared_database(self.url), self.agent)
        try:
            yield MovableRows(self._rows)
        finally:
            await holding.release()

    async def _refuse_left_behind(self) -> None:
        from nacre.runtime.ledger.file_ledger import refuse_left_behind

        if await self.file.is_there():
            marks = await self._rows.read(statements.MARKS)
            copied = str(marks[0][1]) if marks else ""
            how = "Run `nacre admin storage migrate --to postgres` first"
            await refuse_left_behind(self.file, copied=copied, how=how)


class DatabaseRows:
    """Implements `OtherRows`: all rows of one agent, in any table."""

    out_of_reach = (
        "In the database also: pages that the server has not reused, its write-ahead log, and its replicas."
    )

    def __init__(self, database: Database, agent: str) -> None:
        self._database = database
        self._agent = agent

    async def having(self, says: Says, *, but_sessions: bool) -> Mapping[str, int]:
        def work(connection: Connection) -> dict[str, int]:
            found = Counter[str]()
            for table, columns in connection.execute(_COLUMNS).fetchall():
                if but_sessions and table in _OF_SESSIONS:
                    continue
                # The names come quoted from the server's catalog.
                query = f'SELECT {", ".join(columns)} FROM "{table}"'
                if not table.startswith("procrastinate_"):
                    query += " WHERE agent = %(agent)s"
                with connection.cursor(name="looked") as rows:
                    rows.execute(query.encode(), {"agent": self._agent})
                    found[table] += sum(any(says(_text(each)) for each in row) for row in rows)
            return {table: count for table, count in found.items() if count}

        return await self._database.read(work)

    async def forget_ended_turns(self, says: Says) -> None:
        from nacre.extensions.postgres.workers.turn_rows import forget_turns

        await forget_turns(self._database, self._agent, says)

    async def forget_waiting_turns(self, says: Says, *, dry_run: bool) -> int:
        from nacre.extensions.postgres.workers.turn_rows import forget_waiting_turns

        return await forget_waiting_turns(self._database, self._agent, says, dry_run=dry_run)


_OF_SESSIONS = ("transcript_lines", "whole_results")
"""The tables of conversations, which are searched value by value."""
_COLUMNS: LiteralString = """
SELECT relname, array_agg(quote_ident(attname) || CASE WHEN atttypid = 'bytea'::regtype
    THEN '' ELSE '::text' END ORDER BY attnum)
FROM pg_class JOIN pg_attribute ON attrelid = pg_class.oid
WHERE relnamespace = current_schema()::regnamespace AND relkind IN ('r', 'p') AND NOT relispartition
    AND atttypid IN ('text'::regtype, 'bytea'::regtype, 'json'::regtype, 'jsonb'::regtype,
        'text[]'::regtype)
    AND NOT attisdropped AND (starts_with(relname::text, 'procrastinate_') OR EXISTS (
        SELECT FROM pg_attribute AS key WHERE key.attrelid = pg_class.oid AND key.attname = 'agent'))
GROUP BY relname ORDER BY relname
"""
"""All tables whose rows belong to agents, with their text columns."""


def _text(value: object) -> str:
    if isinstance(value, bytes | memoryview):
        return bytes(value).decode("utf-8", "replace")
    return str(value or "")
