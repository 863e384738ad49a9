"""The ledger in PostgreSQL does what every ledger does, for one program at a time."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from nacre.extensions.postgres import ledger_statements as statements
from nacre.extensions.postgres.ledger import PostgresLedger, PostgresRows, all_of, none_of
from nacre.extensions.postgres.server.database import Database, Pace
from nacre.runtime.ledger.ledger import Ledger
from nacre.runtime.ledger.moving import COLUMNS
from nacre.runtime.ledger.records import LedgerUnusable
from nacre.runtime.ledger.tables import LedgerTables
from nacre.runtime.models.scripted import Clock, CountingIds
from tests.extensions.postgres.test_session_statements import scans
from tests.runtime.ledger.ledger_contract import CHAT, PLACE, LedgerContract, OpenLedger, said, unsent_parts

pytestmark = pytest.mark.postgres
NAMED = {name: text for name, text in vars(statements).items() if name.isupper() and name[0] != "_"}
FUNCTIONS = ("RECEIVE_ALL", "RECEIVE_AND_ASK", "FINISH_ALL", "FINISH_AND_SEND")
"""What the server does in these is not in their plan; their text names the agent in each statement."""
STATEMENTS: dict[str, str] = {
    **{
        name: text
        for name, text in NAMED.items()
        if isinstance(text, str) and name not in ("HOLD", "IS_SERVED", *FUNCTIONS)
    },
    **{f"{make.__name__} {name}": make(name) for name in COLUMNS for make in (all_of, none_of)},
}
NUMBERS = ("after", "number", "turn", "most", "fence", "restarts", "process", "before")
NUMBERS += ("ledger_process", "ledger_fence")
LISTS: dict[str, list[object]] = {"numbers": [1], "wanted": ["line/default"]}
LOCKS = ("IS_HELD", "ACCOUNT_IS_HELD", "LEAVE_OTHERS", "LOCK_PEOPLE", "LOCK_JOBS")


PACE = Pace(beat_seconds=0.1)


@asynccontextmanager
async def opened(url: str, agent: str = "main", pace: Pace = PACE) -> AsyncIterator[PostgresLedger]:
    """A ledger with connections of its own, as another process has them."""
    database = Database(url, pace=pace)
    try:
        ledger = await PostgresLedger.open(database, agent=agent, now=Clock(), new_id=CountingIds(agent))
        try:
            yield ledger
        finally:
            await ledger.close()
    finally:
        await database.close()


def silence(url: str) -> None:
    """Has everybody silent for a second, as after an outage."""
    import psycopg

    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("UPDATE processes SET alive_until = clock_timestamp() - interval '1 second'")


class TestADatabase(LedgerContract):
    """Rows of one agent."""

    @pytest.fixture
    def open_ledger(self, database_url: str) -> OpenLedger:
        """Opens it there."""

        @asynccontextmanager
        async def ledger() -> AsyncIterator[Ledger]:
            async with opened(database_url) as found:
                yield found

        return ledger


async def test_one_program_has_it(database_url: str) -> None:
    """A second one is told who has it, changes nothing of it, and may have it afterwards."""
    async with opened(database_url) as first, opened(database_url, "other"):
        await first.outbox.put(PLACE, ["one"])
        part = await first.outbox.next_part(*CHAT)
        assert part is not None
        await first.outbox.sending(part)
        with pytest.raises(LedgerUnusable, match=r"Another program \(.*, process \d+\)"):
            async with opened(database_url):
                pass
        assert await unsent_parts(first) == {"sending": 1}, "who was refused touched nothing"
    async with opened(database_url) as second:
        assert await unsent_parts(second) == {"unsure": 1}


async def test_who_was_silent_writes_nothing_once_another_serves(database_url: str) -> None:
    """A program that slept for too long comes too late, whatever it wants to write."""
    async with opened(database_url, pace=Pace(beat_seconds=600)) as late:
        received = await late.receive(said(1), "k", cursor="1")
        assert received is not None
        silence(database_url)
        async with opened(database_url) as now:
            writes: tuple[Callable[[], Any], ...] = (
                lambda: late.receive(said(2), "k", cursor="2"),
                lambda: late.finish([received], PLACE, ["late"]),
                lambda: late.outbox.put(PLACE, ["late"]),
            )
            for write in writes:
                with pytest.raises(LedgerUnusable, match="writes nothing more"):
                    await write()
            assert await now.open_messages() == (received,)
            assert (await now.cursor("line", "default"), await unsent_parts(now)) == ("1", {})


async def test_an_outage_takes_the_ledger_from_nobody(database_url: str) -> None:
    """Everybody seems silent then; who wants it looks again, and the one that serves is alive by then."""
    database = Database(database_url)
    rows = PostgresRows(database, "main")
    async with opened(database_url, pace=Pace(beat_seconds=0.3)) as ledger:
        silence(database_url)
        with pytest.raises(LedgerUnusable, match="Another program"):
            async with opened(database_url, pace=Pace(beat_seconds=0.9)):
                pass
        assert await rows.read(statements.IS_SERVED)
        await ledger.outbox.put(PLACE, ["still"])
    assert not await rows.read(statements.IS_SERVED), "who closes lets go of it"
    await database.close()


async def test_a_killed_program_is_replaced_as_soon_as_it_is_silent(database_url: str) -> None:
    """Not a beat later: within ten seconds of its last word, at the usual pace."""
    import psycopg

    pace = Pace()
    assert pace.silent_seconds <= 9
    last = "UPDATE processes SET alive_until = clock_timestamp() + make_interval(secs => %s)"
    async with opened(database_url, pace=Pace(beat_seconds=600)) as killed:
        with psycopg.connect(database_url, autocommit=True) as connection:
            number = killed._process.number
            connection.execute(last, (pace.beat_seconds + 0.5,))
            async with opened(database_url, pace=pace):
                found = connection.execute(
                    "SELECT extract(epoch FROM clock_timestamp() - alive_until)::float8 "
                    "FROM processes WHERE number = %s",
                    (number,),
                ).fetchone()
    assert found is not None
    assert 0 <= found[0] < 0.6 * pace.beat_seconds


async def test_the_lock_of_a_former_version_counts(database_url: str) -> None:
    """A gateway that was not replaced so far has the ledger by an advisory lock."""
    import psycopg

    async with opened(database_url):
        pass
    with psycopg.connect(database_url, autocommit=True) as former:
        former.execute(
            "SELECT pg_advisory_lock(hashtextextended('main', hashtextextended(current_schema()::text, 7)))"
        )
        with pytest.raises(LedgerUnusable, match="Another program"):
            async with opened(database_url):
                pass
    async with opened(database_url) as ledger:
        await ledger.outbox.put(PLACE, ["mine"])


async def test_a_statement_whose_answer_was_lost_does_nothing_twice(database_url: str) -> None:
    """A message that its own call stored before is no duplicate, and an answer is there once."""
    calls: list[tuple[str, dict[str, Any]]] = []

    class Twice(PostgresRows):
        async def run(self, statement: str, /, **values: object) -> list[Any]:
            if statement in (statements.RECEIVE_ALL, statements.FINISH_ALL, statements.FINISH_AND_SEND):
                calls.append((statement, values))
                await super().run(statement, **values)
            return await super().run(statement, **values)

    async with opened(database_url) as ledger:
        ledger.rows = Twice(ledger.rows._database, "main", fence=ledger.rows._fence)  # type: ignore[attr-defined]
        received = await ledger.receive(said(1), "k", cursor="1")
        assert received is not None
        assert await ledger.open_messages() == (received,)
        assert await ledger.receive(said(1), "k", cursor="1") is None, "another call is another message"
        await ledger.finish([received], PLACE, ["one", "two"])
        assert await unsent_parts(ledger) == {"pending": 2}
        more = await ledger.receive(said(2), "k", cursor="2")
        assert more is not None
        first = await ledger.finish([more], PLACE, ["three", "four"], sends=True)
        assert first is not None
        assert first.part.text == "three"
        assert await unsent_parts(ledger) == {"pending": 3, "sending": 1}
    assert len(calls) == 5


async def test_a_role_is_taken_back_within_a_second(database_url: str) -> None:
    """By another program; by the program itself, at once."""
    who = ("line", "default", "ann")
    named = dict(zip(("channel", "account", "sender_id"), who, strict=True))
    async with opened(database_url) as ledger:
        rows = ledger.rows
        await rows.write(lambda run: run(statements.LET_IN, **named, role="guest", at_ms=1, own_agent=""))
        assert await ledger.people.role(who) == "guest"
        await rows.run(statements.REVOKE, channel="line", sender_id="ann")
        async with asyncio.timeout(30):
            while await ledger.people.role(who):
                pass
        await rows.write(lambda run: run(statements.LET_IN, **named, role="owner", at_ms=1, own_agent=""))
        async with asyncio.timeout(30):
            while await ledger.people.role(who) != "owner":
                pass
        assert await ledger.people.revoke("line", "ann")
        assert await ledger.people.role(who) == ""


async def test_who_arrives_is_looked_up(database_url: str) -> None:
    """With the agent of their own, at once; one that is let in anew without has none any more."""
    who = ("line", "default", "ann")
    database = Database(database_url)
    terminal = LedgerTables(PostgresRows(database, "main"), statements)
    async with opened(database_url) as ledger:
        assert await ledger.people.arrival(who) == ("", "")
        assert await terminal.people.ask(who, "A", now_ms=1, since_ms=0, most=3)
        assert await terminal.people.approve("A", "owner", now_ms=2, since_ms=0, own_agent="user-ann") == who
        assert await ledger.people.arrival(who) == ("owner", "user-ann")
        assert [each.own_agent for each in await terminal.people.known()] == ["user-ann"]
        assert await terminal.people.ask(who, "B", now_ms=3, since_ms=2, most=3)
        assert await terminal.people.approve("B", "guest", now_ms=4, since_ms=0) == who
        assert await ledger.people.arrival(who) == ("guest", "")
    await database.close()


async def test_an_agents_rows_are_its_own(database_url: str) -> None:
    """The same message of two assistants is one of each."""
    async with opened(database_url) as main, opened(database_url, "other") as other:
        assert await main.receive(said(1), "k") is not None
        assert await other.receive(said(1), "k") is not None
        assert len(await main.open_messages()) == len(await other.open_messages()) == 1


def test_counting_reads_no_sent_part(database_url: str) -> None:
    """Among thousands that are over, what is not done is found by indexes that have nothing else."""
    import psycopg

    over = """
    INSERT INTO ledger_outbound (agent, turn, channel, account, chat_id, thread_id, answers, text, state,
        was_draft, asker)
    SELECT 'main', each, 'line', 'default', 'n', '', '', 'hi', 'sent', FALSE, ''
    FROM generate_series(1, 5000) AS each
    """
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute(over)
        connection.execute("ANALYZE ledger_outbound, ledger_inbound")
        explain = f"EXPLAIN {statements.NOT_DONE}".encode()
        plan = "\n".join(line for (line,) in connection.execute(explain, {"agent": "main"}))
    assert "ledger_outbound_open" in plan, plan
    assert "ledger_outbound_failed" in plan, plan
    assert "Seq Scan on ledger_outbound" not in plan


def test_a_plan_stays_with_one_agent(database_url: str) -> None:
    """The server finds rows by an index that begins with the agent, whatever the statement does."""
    import re

    import psycopg

    with psycopg.connect(database_url) as connection:
        connection.execute("SET enable_seqscan = off")
        for name, text in STATEMENTS.items():
            wanted = re.findall(r"%\((\w+)\)s", text)
            values: dict[str, Any] = {
                each: 1 if each in NUMBERS or each.endswith("_ms") else LISTS.get(each, "x")
                for each in wanted
            }
            row = connection.execute(f"EXPLAIN (FORMAT JSON) {text}".encode(), values).fetchone()
            found = list(scans(row[0][0]["Plan"] if row else {}))
            for scan in found:
                if scan["Relation Name"] == "processes":
                    continue
                found_by = scan.get("Index Cond") or scan.get("Recheck Cond", "")
                assert "agent = " in found_by, f"{name}: {json.dumps(scan, indent=2)}"
            assert found or text.lstrip().startswith("INSERT") or name in LOCKS, name
