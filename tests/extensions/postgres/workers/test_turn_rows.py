"""Turns as rows: asked for once, taken by one, and nothing of who had it before."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from nacre.extensions.postgres.hosting import hosted_agents, limit, pause
from nacre.extensions.postgres.server.database import Database, Pace
from nacre.extensions.postgres.workers import turn_rows as statements
from nacre.extensions.postgres.workers.stored_events import STOPPED, events_of
from nacre.extensions.postgres.workers.streams import parse_payload
from nacre.extensions.postgres.workers.turn_rows import Outcome, TakenTurn, TurnKey, TurnRows
from nacre.runtime.contracts.errors import TurnCancelled
from nacre.runtime.contracts.events import TurnFailed
from nacre.runtime.contracts.inbound import Inbound
from nacre.sessions.contracts.messages import Usage
from tests.extensions.postgres.opened import stores

pytestmark = pytest.mark.postgres

KEY = "agent:main:line:direct:ann"
HELLO = Inbound(
    text="hello", chat_kind="direct", channel="line", chat_id="c", sender_id="ann", message_id="1"
)


@asynccontextmanager
async def opened(url: str, *, silent_seconds: float = 10.0) -> AsyncIterator[TurnRows]:
    """The rows as a process of its own has them."""
    pace = Pace(beat_seconds=silent_seconds / 4, silent_seconds=silent_seconds)
    database = Database(url, pace=pace)
    await database.process.beat()
    try:
        yield TurnRows(database)
    finally:
        await database.close()


async def claimed(rows: TurnRows, *, mine: Collection[TurnKey] = ()) -> TakenTurn:
    [turn] = await rows.claim(8, 60, mine=mine)
    return turn


async def test_a_message_is_one_turn(database_url: str) -> None:
    """However often it is handed in; and two with the same number and other words are two, in their order."""
    async with opened(database_url) as rows:
        first, is_first_new = await rows.ask("main", KEY, HELLO)
        assert await rows.ask("main", KEY, HELLO) == (first, False)
        other, is_other_new = await rows.ask(
            "main", KEY, Inbound(**{**vars(HELLO), "text": "something else"})
        )
        assert (is_first_new, is_other_new) == (True, True)
        turn = await claimed(rows)
        assert turn.id == first
        assert await rows.claim(8, 60, mine=[turn.key]) == [], "its session runs a turn"
        assert await rows.finish(turn, "done") is True
        assert (await claimed(rows)).id == other


async def test_the_end_of_a_turn_is_told_to_who_asked_last(database_url: str) -> None:
    """The gateway that asked first was killed, and the next one asks for the turn that runs."""
    told = asyncio.Queue[str]()
    async with opened(database_url) as rows:
        process = rows._database.process
        process.stream = f"{statements.OWN_CHANNEL}first"
        first, _ = await rows.ask("main", KEY, HELLO)
        turn = await claimed(rows)
        process.stream = f"{statements.OWN_CHANNEL}second"
        notifications = rows._database.notifications(told.put_nowait, process.stream)
        try:
            assert await told.get() == "", "it listens"
            assert await rows.ask("main", KEY, HELLO) == (first, False)
            assert await told.get() == "asked"
            await rows.finish(turn, "done")
            assert parse_payload(await told.get()) == (turn.key, turn.fence, -1, "")
        finally:
            await notifications.close()


async def test_many_workers_claim_each_turn_once(database_url: str) -> None:
    """All at the same moment, as many turns as there are sessions."""
    async with opened(database_url) as one, opened(database_url) as two:
        asked = [await one.ask("main", f"{KEY}{number}", _said(number)) for number in range(12)]
        several = await asyncio.gather(*(rows.claim(4, 60) for rows in (one, two)))
        several += await asyncio.gather(
            one.claim(12, 60, mine=[turn.key for turn in several[0]]),
            two.claim(12, 60, mine=[turn.key for turn in several[1]]),
        )
        assert sorted(turn.id for turns in several for turn in turns) == sorted(
            turn_id for turn_id, _ in asked
        )


def _said(number: int) -> Inbound:
    return replace(HELLO, message_id=str(number), sender_id=str(number))


async def test_what_an_earlier_worker_says_is_refused(database_url: str) -> None:
    """Who claims a turn later has it; the outcome of the one before is not kept."""
    async with opened(database_url, silent_seconds=0.1) as gone, opened(database_url) as rows:
        turn_id, _ = await rows.ask("main", KEY, HELLO)
        late = await claimed(gone)
        assert not late.inbound.redelivered
        assert await rows.claim(8, 60) == [], "this process does not know yet who is silent"
        rows._database.process._steady_since = -1e9
        now = await _when_silent(rows)
        assert now.inbound.redelivered
        assert await gone.look({late.key: late}) == {}
        assert await gone.finish(late, "late") is None
        assert await rows.finish(now, "now") is False
        wanted = [("main", turn_id), ("other", turn_id)]
        assert await rows.news(wanted) == {("main", turn_id): ("now", ())}
        assert await rows.claim(8, 60) == []
        assert await rows.finish(now, "again") is None


async def test_a_clock_that_was_set_back_keeps_no_turn(database_url: str) -> None:
    """A killed process holds its turns for its silence, and not until the server's old time has come again; a
    turn that was given back with a pause begins."""
    async with (
        opened(database_url, silent_seconds=1) as killed,
        opened(database_url, silent_seconds=1) as rows,
    ):
        for number in range(2):
            await rows.ask("main", f"{KEY}{number}", _said(number))
        running, given_back = await killed.claim(8, 60)
        await killed.give_back(given_back, is_counted=False, pause_seconds=1)
        await rows._run("UPDATE processes SET alive_until = alive_until + interval '1 day'")
        await rows._run("UPDATE turns SET due_at = due_at + interval '1 day'")
        assert (await claimed(rows)).id == given_back.id
        process = rows._database.process
        found: list[TakenTurn] = []
        while not found:
            await process.beat()
            process._steady_since = -1e9
            found = await rows.claim(8, 60, mine=[given_back.key])
        assert [turn.id for turn in found] == [running.id]


async def _when_silent(rows: TurnRows) -> TakenTurn:
    while not (found := await rows.claim(8, 60)):  # noqa: ASYNC110 - the database says when
        await asyncio.sleep(0)
    return found[0]


async def test_a_turn_without_progress_is_claimed_by_others(database_url: str) -> None:
    """Although its process is alive: the row says until when; progress moves that on."""
    async with opened(database_url) as hung, opened(database_url) as rows:
        await rows.ask("main", KEY, HELLO)
        [late] = await hung.claim(8, 0.0)
        await hung.progressed(late, 60)
        assert await rows.claim(8, 60) == []
        await hung.progressed(late, 0.0)
        assert (await claimed(rows)).fence == 2
        assert await hung.finish(late, "late") is None


async def test_a_claim_whose_answer_was_lost_is_claimed_again(database_url: str) -> None:
    """By the same process, which names the turns that it knows of."""
    async with opened(database_url) as rows:
        await rows.ask("main", KEY, HELLO)
        first = await claimed(rows)
        assert await rows.claim(8, 60, mine=[first.key]) == []
        assert (await claimed(rows)).fence == 2


async def test_what_is_given_back_does_not_count(database_url: str) -> None:
    """A worker that could not go on is no worker that the message ended, unless it hung."""
    async with opened(database_url) as rows:
        await rows.ask("main", KEY, HELLO)
        for is_counted, tries in ((False, 1), (False, 1), (True, 1), (True, 2)):
            turn = await claimed(rows)
            assert turn.tries == tries
            await rows.give_back(turn, is_counted=is_counted, pause_seconds=0.0)
        assert await rows.finish(turn, "late") is None
        turn = await claimed(rows)
        await rows.give_back(turn, is_counted=False, pause_seconds=60)
        assert await rows.claim(8, 60) == [], "the next worker waits for a moment"


async def test_a_turn_that_was_stopped_is_over(database_url: str) -> None:
    """Its worker's outcome is refused, and the gateway is told that it was stopped."""
    async with opened(database_url) as rows:
        turn_id, _ = await rows.ask("main", KEY, HELLO)
        turn = await claimed(rows)
        await rows.stop("main", KEY, STOPPED, [turn.id])
        assert await rows.finish(turn, "late") is None
        outcome = (await rows.news([("main", turn_id)]))["main", turn_id]
        assert isinstance(outcome, Outcome)
        [ending] = events_of(outcome.text)
        assert isinstance(ending, TurnFailed)
        assert isinstance(ending.error, TurnCancelled)


async def test_a_message_is_said_into_a_turn_once(database_url: str) -> None:
    """Who takes the turn over looks in the transcript for it, and hands no message in that came before."""
    async with opened(database_url) as rows:
        turn_id, _ = await rows.ask("main", KEY, HELLO)
        first = await claimed(rows)
        more = [replace(HELLO, message_id=each, text=each) for each in ("2", "3", "4")]
        for _ in range(2):  # as after a lost answer
            await rows.say_into("main", turn_id, more[0])
        [(number, inbound)] = (await rows.look({first.key: first}))[first.key]
        assert inbound == more[0]
        assert await rows.look({first.key: replace(first, words=number)}) == {first.key: []}
        await rows.heard(first, more[0].inbound_id)
        await rows.say_into("main", turn_id, more[1])
        second = await claimed(rows)
        assert second.inbound.joined_by == (more[0].inbound_id, more[1].inbound_id)
        assert await rows.look({second.key: second}) == {second.key: []}
        assert await rows.finish(second, "done") is False
        await rows.say_into("main", turn_id, more[2])
        assert await rows.look({second.key: second}) == {}, "it is over, and hears nothing more"
        found = await rows.news([second.key])
        assert found[second.key] == ("done", (more[0].inbound_id,))


async def test_what_is_not_over_is_counted(database_url: str) -> None:
    """By agent, with how long the oldest waits, and who is there to do it with how many places."""
    async with opened(database_url) as rows, opened(database_url) as worker:
        await rows.ask("main", KEY, HELLO)
        await claimed(rows)
        await rows.ask("main", KEY, Inbound(**{**vars(HELLO), "message_id": "2"}))
        found = await rows.figures("main")
        assert (found["waiting"], found["running"]) == (1, 1)
        assert found["oldest_seconds"] > found["waiting_seconds"] > 0
        assert (found["workers"], found["places"]) == (0, 0)
        worker._database.process.places = 16
        await worker._database.process.leave()
        await worker._database.process.beat()
        other = await rows.figures("other")
        assert (other["oldest_seconds"], other["workers"], other["places"]) == (0, 1, 16)


async def test_lanes_are_counted_by_whether_their_process_is_alive(database_url: str) -> None:
    """One that is held, one whose process went silent; one that was left counts as neither."""
    async with opened(database_url) as rows, stores(database_url) as opener:
        async with opener.store().turn_lock("left"):
            pass
        async with opener.store().turn_lock("held"), opener.store(silent_seconds=0.0).turn_lock("silent"):
            found = await rows.figures("main")
        assert (found["leases"], found["leases_run_out"]) == (1, 1)


async def test_a_paused_agent_has_no_turns(database_url: str) -> None:
    """They wait, those of others are claimed, and resumed they are claimed too."""
    async with opened(database_url) as rows:
        database = rows._database
        asked = {agent: (await rows.ask(agent, KEY, HELLO))[0] for agent in ("main", "other")}
        await pause(database, "main", is_paused=True)
        [other] = await rows.claim(8, 60)
        assert other.key == ("other", asked["other"])
        assert [(each.id, each.is_paused, each.turns) for each in await hosted_agents(database)] == [
            ("main", True, 1),
            ("other", False, 1),
        ]
        await pause(database, "main", is_paused=False)
        assert (await claimed(rows, mine=[other.key])).id == asked["main"]


async def test_what_is_over_for_a_day_is_removed(database_url: str) -> None:
    """Of whatever session, also one that never says anything again."""
    async with opened(database_url) as rows:
        for number in (1, 2):
            await rows.ask("main", f"{KEY}{number}", _said(number))
        old, new = await rows.claim(8, 60)
        for turn in (old, new):
            await rows.finish(turn, "done")
        await rows._run(
            "UPDATE turns SET done_at = done_at - interval '25 hours' WHERE id = %(id)s", id=old.id
        )
        await rows.forget_over()
        assert list(await rows.news([old.key, new.key])) == [new.key]


OF_ALL_AGENTS = ("CLAIM", "LOOK", "NEWS", "WORKERS", "ASK", "FORGET_OVER", "USED_UP", "NOTIFY")
"""A worker and a gateway ask for those of all agents in one statement, by keys that begin with the agent."""


async def test_no_statement_looks_at_another_agents_rows(database_url: str) -> None:
    """The server's plan of each asks for the agent, by an index that begins with it."""
    values = {
        **{
            name: ["i"]
            for name in ("agents", "ids", "mine", "lane_agents", "lane_keys", "channels", "payloads")
        },
        **{name: [1] for name in ("fences", "words", "lane_fences")},
        **dict.fromkeys(("fence", "process", "most", "uncounted", "tokens", "usd"), 1),
        **dict.fromkeys(("id", "inbound", "outcome", "name", "approval", "body", "stream", "besides"), "x"),
        **dict.fromkeys(("is_redelivered", "is_steady"), False),
        "agent": "main",
        "key": KEY,
        "seconds": 1.0,
    }
    texts = {
        name: text
        for name, text in vars(statements).items()
        if name.isupper() and name[0] != "_" and isinstance(text, str) and "\n" in text
    }
    async with opened(database_url) as rows:
        for name, text in texts.items():
            plan = await rows._database.write(lambda connection, text=text: _plan(connection, text, values))
            assert name in OF_ALL_AGENTS or "agent = 'main'" in plan, plan
            assert name == "WORKERS" or "Seq Scan on turn" not in plan, plan


def _plan(connection: object, text: str, values: dict[str, object]) -> str:
    connection.execute("SET LOCAL enable_seqscan = off")  # type: ignore[attr-defined]
    rows = connection.execute(f"EXPLAIN {text}", values).fetchall()  # type: ignore[attr-defined]
    return "\n".join(line for (line,) in rows)


async def test_what_turns_use_is_limited_for_all_workers(database_url: str) -> None:
    """Each turn counts once, the next one of any worker is told, and the next day begins anew."""
    async with opened(database_url) as rows, opened(database_url) as other:
        await limit(rows._database, "main", tokens=100, usd=0.5, max_bytes=None)
        usage = Usage(input_tokens=50, output_tokens=10, cost_usd=0.1)

        async def next_turn(number: int, by: TurnRows) -> TakenTurn:
            await rows.ask("main", KEY, replace(HELLO, message_id=str(number)))
            return await claimed(by)

        async def used() -> tuple[int, float]:
            query = "SELECT tokens, usd FROM agent_quotas WHERE agent = 'main'"
            return await rows._database.read(lambda connection: connection.execute(query).fetchone())

        first = await next_turn(1, rows)
        for _ in range(2):  # the answer to the first was lost
            assert await rows.finish(first, "done", usage=usage) is False
        assert await used() == (60, 0.1)
        second = await next_turn(2, other)
        assert not second.quota_reached
        assert await rows.finish(second, "late", usage=usage) is not None
        third = await next_turn(3, rows)
        assert third.quota_reached == "day"
        await rows.finish(third, "refused")
        assert (await rows.figures("main"))["agents_over_quota"] == 1
        await rows._database.write(
            lambda connection: connection.execute("UPDATE agent_quotas SET day = day - 1")
        )
        fourth = await next_turn(4, other)
        assert not fourth.quota_reached
        await other.finish(fourth, "done", usage=replace(usage, cost_usd=0.6))
        assert await used() == (60, 0.6)
        assert (await next_turn(5, rows)).quota_reached == "day", "by its cost"
