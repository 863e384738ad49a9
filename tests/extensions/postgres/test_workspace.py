"""The workspace in a database: the contract, and what only rows have."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from nacre.extensions.postgres import document_rows as statements
from nacre.extensions.postgres.server.connections import ConnectionLimits
from nacre.extensions.postgres.server.database import Database
from nacre.extensions.postgres.workspace import PostgresWorkspace
from nacre.memory.files.sources.rejections import reject
from nacre.memory.files.sources.source import PRIVATE, Source
from nacre.memory.files.sources.sourced_workspace import SourcedWorkspace
from nacre.memory.files.sources.sources import SourceOf, Sources
from tests.extensions.postgres.opened import database_at
from tests.extensions.postgres.test_session_statements import scans
from tests.memory.workspace.contract.notes_contract import ALL, NotesContract
from tests.memory.workspace.contract.workspace_contract import OpenWorkspace, WorkspaceContract, text_of
from tests.servers.postgres_server import PostgresServer, running_server

pytestmark = pytest.mark.postgres


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    """The database of this test."""
    async with database_at(database_url) as database:
        yield database


@pytest.fixture
def open_workspace(database: Database) -> OpenWorkspace:
    """Opens the rows of this test."""
    return lambda: PostgresWorkspace(database, agent="main")


class TestPostgresWorkspace(WorkspaceContract):
    """The contract, over rows."""


class TestPostgresNotes(NotesContract):
    """What the index asks of it."""


async def test_a_name_is_a_file_or_a_folder(open_workspace: OpenWorkspace) -> None:
    """No file takes the name of a folder, and none lies in a file; nothing is written then."""
    workspace = open_workspace()
    await workspace.make({"memory/a.md": b"a"}, folders=("empty",))

    for folder in ("memory", "empty", "."):
        with pytest.raises(IsADirectoryError):
            await workspace.change(folder, lambda _: b"x")
    with pytest.raises(NotADirectoryError):
        await workspace.append("memory/a.md/b.md", "x")
    with pytest.raises(NotADirectoryError):
        await workspace.list_folder("memory/a.md")
    assert [entry.name for entry in await workspace.list_folder(".")] == ["empty", "memory"]


async def test_a_change_is_made_again_on_the_newer_text(open_workspace: OpenWorkspace) -> None:
    """Who writes while another thinks is not overwritten: the other is asked again, with the new bytes."""
    workspace, other, seen = open_workspace(), open_workspace(), list[bytes | None]()
    loop = asyncio.get_running_loop()

    def slowly(old: bytes | None) -> bytes:
        seen.append(old)
        if len(seen) == 1:
            asyncio.run_coroutine_threadsafe(other.append("a.md", "theirs"), loop).result(timeout=20)
        return (old or b"") + b"mine\n"

    await workspace.change("a.md", slowly)

    assert seen == [None, b"theirs\n"]
    assert await text_of(workspace, "a.md") == "theirs\nmine\n"


async def test_agents_of_one_database_know_nothing_of_each_other(database: Database) -> None:
    """The same name is another file for each, and one's writing is no change to the other."""
    mine, theirs = PostgresWorkspace(database, agent="mine"), PostgresWorkspace(database, agent="theirs")
    await mine.append("MEMORY.md", "mine")
    before = await mine.list_notes(ALL)

    await theirs.append("MEMORY.md", "theirs")

    assert await mine.list_notes(ALL) == before
    assert await text_of(mine, "MEMORY.md") == "mine\n"
    assert [note.name for note in (await theirs.list_notes(ALL)).notes] == ["MEMORY.md"]


async def test_a_database_that_is_gone_is_an_error_and_no_lost_note() -> None:
    """Nothing seems deleted, and each reader is told why there is nothing."""
    limits = ConnectionLimits(retry_seconds=0.2)
    database = Database("postgresql://nobody@127.0.0.1:1/none", limits=limits)
    workspace = PostgresWorkspace(database, agent="main")

    listing = await workspace.list_notes(ALL)
    read = await workspace.read_many(("MEMORY.md",))
    seen = await workspace.fingerprints(("MEMORY.md",))

    assert not listing.may_be_deleted("MEMORY.md")
    assert isinstance(error := read["MEMORY.md"], OSError)
    assert not isinstance(error, FileNotFoundError)
    assert "could not be reached" in str(error) or "refused" in str(error)
    assert seen["MEMORY.md"] is not None
    assert await workspace.now_ns() == 0
    with pytest.raises(OSError, match="PostgreSQL database"):
        await workspace.append("MEMORY.md", "x")
    await database.close()


@pytest.fixture
def own_server(postgres_server: PostgresServer) -> Iterator[PostgresServer]:
    """A server that a test may restart."""
    with running_server() as server:
        yield server


async def test_a_watch_and_a_write_survive_a_restart(own_server: PostgresServer) -> None:
    """What is written while the server restarts is written once, and told to who watched before."""
    async with database_at(own_server.database()) as database:
        workspace, told = PostgresWorkspace(database, agent="main"), asyncio.Event()
        watch = workspace.watch(ALL, told.set)
        async with asyncio.timeout(60):
            await told.wait()
            told.clear()
            restart = asyncio.to_thread(own_server.restart)
            await asyncio.gather(restart, *(workspace.append("memory/a.md", f"- {at}") for at in range(8)))
            await told.wait()
        await watch.close()
        assert sorted((await text_of(workspace, "memory/a.md")).splitlines()) == [
            f"- {at}" for at in range(8)
        ]


STATEMENTS = {
    name: text
    for name, text in vars(statements).items()
    if name.isupper() and name[0] != "_" and isinstance(text, str)
}
VALUES: dict[str, Any] = {
    **dict.fromkeys(("agent", "name", "low", "high"), "x"),
    **{key: ["x"] for key in ("names", "above", "lows", "highs")},
    **dict.fromkeys(("most", "revision"), 1),
    "body": b"x",
}


@pytest.mark.postgres
def test_a_plan_stays_with_one_agent(database_url: str) -> None:
    """The server finds rows by a key that begins with the agent, whatever the statement does."""
    import psycopg

    looked_at = set()
    with psycopg.connect(database_url) as connection:
        connection.execute("SET enable_seqscan = off")
        for name, text in STATEMENTS.items():
            row = connection.execute(f"EXPLAIN (FORMAT JSON) {text}".encode(), VALUES).fetchone()
            for scan in scans(row[0][0]["Plan"] if row else {}):
                looked_at.add(scan["Relation Name"])
                assert "agent = " in (scan.get("Index Cond") or scan.get("Recheck Cond", "")), (
                    f"{name}: {scan}"
                )
    assert looked_at == {"workspaces", "documents"}


def test_each_statement_names_its_agent() -> None:
    """Also those that look at no table."""
    assert [name for name, text in STATEMENTS.items() if "%(agent)s" not in text] == []


async def test_what_was_rejected_is_left_out_until_a_note_has_it(open_workspace: OpenWorkspace) -> None:
    """The rejections are a file of the workspace, wherever that is."""
    workspace = open_workspace()
    source = Source(written_by="flush", audience=PRIVATE, said_by=("owner",), at="2026-03-14T10:00")

    async def begin() -> SourceOf:
        return lambda _line: source

    flush = SourcedWorkspace(workspace, Sources(workspace), begin)
    await reject(workspace, "memory/a.md", "- City: Porto", ["- City: Porto"])
    first = await flush.append("memory/a.md", "- My city is Porto.\n- Oars: 2")
    await workspace.append("MEMORY.md", "- City: Porto")
    second = await flush.append("memory/b.md", "- My city is Porto.")

    assert (first.written, first.rejected_lines) == ("- Oars: 2", 1)
    assert (second.written, second.rejected_lines) == ("- My city is Porto.", 0)
