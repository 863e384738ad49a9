"""A role that is named for one agent neither reads nor writes the rows of another."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from nacre.extensions.postgres.server.database import Database, migrate, packaged_migrations
from nacre.extensions.postgres.session_store import PostgresSessionStore
from nacre.extensions.postgres.workers.turn_rows import TurnRows
from nacre.runtime.contracts.inbound import Inbound
from nacre.sessions.contracts.errors import SessionStoreRefused
from tests.bridges.line_channel import LineServer
from tests.extensions.postgres.workers.served import gateway, settings
from tests.extensions.postgres.workers.worker_process import started
from tests.runtime.agents import write_settings
from tests.servers import provider_wire as wire
from tests.servers.postgres_server import PostgresServer
from tests.servers.provider_server import ProviderServer
from tests.sessions.stores.store_contract import FIRST, MAIN
from tests.sessions.talk import counted_ids, said, ticking_clock, user

pytestmark = pytest.mark.postgres

ROLE = "nacre_only_ann"
GRANTED = f"""
CREATE ROLE {ROLE};
GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO {ROLE};
REVOKE INSERT, UPDATE, DELETE ON agent_roles, nacre_migrations FROM {ROLE};
INSERT INTO agent_roles (agent, role) VALUES ('ann', '{ROLE}')
"""
"""What docs/postgres.md tells the owner to do."""


@pytest.fixture
def role_url(postgres_server: PostgresServer, database_url: str) -> Iterator[str]:
    """The database, as the role that is named for ann."""
    import psycopg

    with psycopg.connect(database_url, autocommit=True) as owner:
        owner.execute(GRANTED.encode())
        yield f"{database_url}&options=-crole%3D{ROLE}"
        owner.execute(f"DROP OWNED BY {ROLE}".encode())
    postgres_server.run(f"DROP ROLE {ROLE}")


def store(url: str, agent: str) -> PostgresSessionStore:
    return PostgresSessionStore(
        Database(url), agent=agent, cwd="/work", now=ticking_clock(), new_id=counted_ids(agent)
    )


async def test_a_role_has_its_agents_rows_alone(database_url: str, role_url: str) -> None:
    """It reads and writes ann's session, and finds nothing of ben, whom it cannot write to either."""
    stores = {agent: store(database_url, agent) for agent in ("ann", "ben")}
    for each in stores.values():
        await each.index.update(MAIN, lambda _: FIRST)
        await (await each.transcript(FIRST)).append(user("hello"))
    ann, ben = store(role_url, "ann"), store(role_url, "ben")
    async with ann.turn_lock(MAIN) as is_ours:
        assert is_ours
        transcript = await ann.transcript(FIRST)
        await transcript.append(user("more"))
        assert said(transcript.tree.branch()) == ["hello", "more"]
    assert await ben.index.get(MAIN) is None
    assert await ben.transcripts() == []
    with pytest.raises(SessionStoreRefused, match="row-level security"):
        await ben.index.update(MAIN, lambda _: FIRST)
    assert said((await stores["ben"].transcript(FIRST)).tree.branch()) == ["hello"]
    for each in (*stores.values(), ann, ben):
        await each.close()


async def test_a_role_has_workers_of_its_own(tmp_path: Path, database_url: str, role_url: str) -> None:
    """Gateway and worker of a role run the turns of its agents, and neither see nor take ben's."""
    owner = Database(database_url)
    rows = TurnRows(owner)
    await owner.write(lambda db: db.execute(f"INSERT INTO agent_roles VALUES ('main', '{ROLE}')".encode()))
    await rows.ask("ben", "agent:ben:main", Inbound(text="hello", chat_kind="direct", message_id="1"))
    with LineServer() as server, ProviderServer(responder=lambda _: wire.reply("hi")) as provider:
        write_settings(tmp_path, settings(provider, 1))
        worker = started(tmp_path, role_url)
        try:
            async with gateway(tmp_path, role_url, server.port):
                for number in (1, 2):
                    server.say("hello", chat="n", sender="ann")
                    await server.until(lambda server, number=number: len(server.sent) == number)
        finally:
            worker.kill()
            worker.join()
    assert server.shown("n") == ["hi", "hi"]
    assert (await rows.figures("ben"))["waiting"] == 1
    [turn] = await rows.claim(8, 60)
    assert turn.agent_id == "ben"
    await owner.close()


async def test_jobs_of_an_older_version_are_the_owners_alone(postgres_server: PostgresServer) -> None:
    """The tables of procrastinate, which held jobs of all agents, show nothing to a role of one."""
    import psycopg

    url = postgres_server.empty_database()
    known = packaged_migrations()
    before = [each for each in known if each.number < 132]
    with psycopg.connect(url, autocommit=True) as owner:
        migrate(owner, before)
        owner.execute("CREATE TABLE procrastinate_jobs (args) AS SELECT 'of ben'")
        migrate(owner, known)
        owner.execute(GRANTED.encode())
        assert owner.execute("SELECT * FROM procrastinate_jobs").fetchall() == [("of ben",)]
        owner.execute(f"SET ROLE {ROLE}".encode())
        assert owner.execute("SELECT * FROM procrastinate_jobs").fetchall() == []
        assert owner.execute("DELETE FROM procrastinate_jobs").rowcount == 0
        owner.execute(f"RESET ROLE; DROP OWNED BY {ROLE}".encode())
    postgres_server.run(f"DROP ROLE {ROLE}")


async def test_every_table_of_agents_is_secured(database_url: str) -> None:
    """A table with an agent has row-level security and a rule; one that is new has to bring its own."""
    query = """
    SELECT relname, relrowsecurity, (SELECT count(*) FROM pg_policy WHERE polrelid = pg_class.oid)
    FROM pg_class JOIN pg_attribute ON attrelid = pg_class.oid
    WHERE relnamespace = 'public'::regnamespace AND relkind = 'r' AND attname = 'agent'
    """
    database = Database(database_url)
    tables = await database.read(lambda connection: connection.execute(query).fetchall())
    await database.close()
    assert len(tables) > 5
    assert [name for name, is_secured, rules in tables if not (is_secured and rules == 1)] == []
