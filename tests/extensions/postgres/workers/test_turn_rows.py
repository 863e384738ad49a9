"""Turns as rows: asked for once, taken by one, and nothing of who had it before."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from nacre.extensions.postgres.server.database import Database
from nacre.extensions.postgres.server.job_queue import JobQueue
from nacre.extensions.postgres.workers import turn_rows as statements
from nacre.extensions.postgres.workers.stored_events import event_of, stopped
from nacre.extensions.postgres.workers.turn_rows import TurnRows
from nacre.extensions.postgres.workers.worker import QUEUE
from nacre.runtime.contracts.errors import TurnCancelled
from nacre.runtime.contracts.events import TurnFailed
from nacre.runtime.contracts.inbound import Inbound
from tests.extensions.postgres.opened import stores

pytestmark = pytest.mark.postgres

KEY = "agent:main:line:direct:ann"
HELLO = Inbound(
    text="hello", chat_kind="direct", channel="line", chat_id="c", sender_id="ann", message_id="1"
)


@asynccontextmanager
async def opened(url: str) -> AsyncIterator[tuple[TurnRows, Database]]:
    database = Database(url)
    jobs = JobQueue(database, url, QUEUE)
    await jobs.prepare()
    try:
        yield TurnRows(database, jobs), database
    finally:
        await database.close()


async def jobs_in(database: Database) -> list[tuple[object, ...]]:
    return await database.read(
        lambda connection: connection.execute(
            "SELECT lock, args->>'turn' FROM procrastinate_jobs ORDER BY id"
        ).fetchall()
    )


async def test_a_message_is_one_turn_and_one_job(database_url: str) -> None:
    """However often it is handed in; and two with the same number and other words are two."""
    async with opened(database_url) as (rows, database):
        first = await rows.ask("main", KEY, HELLO)
        assert await rows.ask("main", KEY, HELLO) == first
        other = await rows.ask("main", KEY, Inbound(**{**vars(HELLO), "text": "something else"}))
        assert await jobs_in(database) == [(f"main {KEY}", first), (f"main {KEY}", other)]


async def test_the_tables_of_jobs_are_made_once(database_url: str) -> None:
    """Also when several start at the same moment, and again later."""
    await asyncio.gather(*(_prepared(database_url) for _ in range(3)))
    await _prepared(database_url)


async def _prepared(url: str) -> None:
    async with opened(url):
        pass


async def test_what_an_earlier_worker_says_is_refused(database_url: str) -> None:
    """Who takes a turn later has it; the outcome of the one before is not kept."""
    async with opened(database_url) as (rows, _):
        turn_id = await rows.ask("main", KEY, HELLO)
        late, now = await rows.take("main", turn_id), await rows.take("main", turn_id)
        assert late is not None
        assert now is not None
        assert not late.inbound.redelivered
        assert now.inbound.redelivered
        assert not await rows.holds(late)
        assert not await rows.finish(late, "late")
        assert await rows.finish(now, "now")
        assert await rows.outcomes({"main": [turn_id], "other": [turn_id]}) == {
            ("main", turn_id): ("now", ())
        }
        assert await rows.take("main", turn_id) is None
        assert not await rows.finish(now, "again")


async def test_what_is_given_back_does_not_count(database_url: str) -> None:
    """A worker that could not go on is no worker that the message ended."""
    async with opened(database_url) as (rows, _):
        turn_id = await rows.ask("main", KEY, HELLO)
        for _ in range(3):
            turn = await rows.take("main", turn_id)
            assert turn is not None
            assert turn.tries == 1
            assert await rows.give_back(turn)
        assert not await rows.finish(turn, "late")
        ended = [await rows.take("main", turn_id) for _ in range(2)]
        assert [each.tries for each in ended if each is not None] == [1, 2]


async def test_a_turn_that_was_stopped_is_over(database_url: str) -> None:
    """Its worker's outcome is refused, and the gateway is told that it was stopped."""
    async with opened(database_url) as (rows, _):
        turn_id = await rows.ask("main", KEY, HELLO)
        turn = await rows.take("main", turn_id)
        assert turn is not None
        await rows.stop("main", KEY, stopped())
        assert not await rows.finish(turn, "late")
        ending = event_of((await rows.outcomes({"main": [turn_id]}))["main", turn_id].text)
        assert isinstance(ending, TurnFailed)
        assert isinstance(ending.error, TurnCancelled)


async def test_a_message_is_said_into_a_turn_once(database_url: str) -> None:
    """Who takes the turn over looks in the transcript for it, and hands no message in that came before."""
    async with opened(database_url) as (rows, _):
        turn_id = await rows.ask("main", KEY, HELLO)
        first = await rows.take("main", turn_id)
        assert first is not None
        more = [replace(HELLO, message_id=each, text=each) for each in ("2", "3", "4")]
        await rows.say_into("main", turn_id, more[0])
        [(number, inbound)] = await rows.said_into(first, first.words)
        assert (inbound, await rows.said_into(first, number)) == (more[0], [])
        await rows.heard(first, more[0].inbound_id)
        await rows.say_into("main", turn_id, more[1])
        second = await rows.take("main", turn_id)
        assert second is not None
        assert second.inbound.joined_by == (more[0].inbound_id, more[1].inbound_id)
        assert await rows.said_into(second, second.words) == []
        assert await rows.finish(second, "done")
        await rows.say_into("main", turn_id, more[2])
        assert await rows.said_into(second, second.words) == [], "it is over, and hears nothing more"
        found = await rows.outcomes({"main": [turn_id]})
        assert found["main", turn_id] == ("done", (more[0].inbound_id,))


async def test_what_is_not_over_is_counted(database_url: str) -> None:
    """By agent, with how long the oldest waits; and who lives to do it."""
    async with opened(database_url) as (rows, database):
        await rows.take("main", await rows.ask("main", KEY, HELLO))
        await rows.ask("main", KEY, Inbound(**{**vars(HELLO), "message_id": "2"}))
        found = await rows.open_turns("main")
        assert (found.waiting, found.running) == (1, 1)
        assert found.oldest_seconds > found.waiting_seconds > 0
        assert (await rows.open_turns("other")).oldest_seconds == 0
        assert await JobQueue(database, database_url, QUEUE).workers() == 0


async def test_leases_are_counted_by_whether_their_holder_is_heard_of(database_url: str) -> None:
    """One that is held, one whose holder went silent; one that was left counts as neither."""
    async with opened(database_url) as (rows, _), stores(database_url) as opener:
        async with opener.store().turn_lock("left"):
            pass
        async with opener.store().turn_lock("held"), opener.store(lease_seconds=0.0).turn_lock("silent"):
            found = await rows.open_turns("main")
        assert (found.leases, found.leases_run_out) == (1, 1)


async def test_no_statement_looks_at_another_agents_rows(database_url: str) -> None:
    """The server's plan of each asks for the agent, by an index that begins with it."""
    values = {
        "agent": "main",
        "id": "i",
        "ids": ["i"],
        "key": KEY,
        "seconds": 1.0,
        "fence": 1,
        "inbound": "",
        "is_redelivered": False,
        "outcome": "",
        "name": "n",
        "after": 0,
        "approval": "a",
        "body": "",
    }
    texts = {
        name: text for name, text in vars(statements).items() if name.isupper() and isinstance(text, str)
    }
    async with opened(database_url) as (_, database):
        for name, text in texts.items():
            plan = await database.write(lambda connection, text=text: _plan(connection, text, values))
            assert name == "ASK" or "agent = 'main'" in plan, plan
            assert "Seq Scan" not in plan, plan


def _plan(connection: object, text: str, values: dict[str, object]) -> str:
    connection.execute("SET LOCAL enable_seqscan = off")  # type: ignore[attr-defined]
    rows = connection.execute(f"EXPLAIN {text}", values).fetchall()  # type: ignore[attr-defined]
    return "\n".join(line for (line,) in rows)
