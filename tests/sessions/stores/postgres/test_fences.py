"""Who was paused for longer than their lease writes nothing any more; the database itself refuses it."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

import pytest

from nacre.sessions.contracts.errors import SessionTakenOver
from nacre.sessions.stores.postgres.store import PostgresSessionStore
from tests.sessions.stores.postgres.opened import stores
from tests.sessions.stores.store_contract import FIRST, MAIN, SECOND
from tests.sessions.talk import answer, said, user

pytestmark = pytest.mark.postgres
SHORT_SECONDS = 0.05


async def taken(store: PostgresSessionStore) -> None:
    """Waits until the lane is free, takes it and leaves it: somebody else's turn."""
    while True:
        async with store.turn_lock(MAIN) as is_ours:
            if is_ours:
                return
        await asyncio.sleep(0)


async def asleep(store: PostgresSessionStore) -> None:
    """From now on nothing is renewed, as in a process that is stopped."""
    [renewing] = [task for task in asyncio.all_tasks() if task.get_name() == "session-lease"]
    renewing.cancel()


async def test_a_late_writer_writes_nothing(database_url: str) -> None:
    """No line, no result, no change of its key's line: neither to a transcript it knew nor to a new one."""
    async with stores(database_url) as opener, AsyncExitStack() as turn:
        late, other = opener.store(lease_seconds=SHORT_SECONDS), opener.store()
        await late.index.update(MAIN, lambda _: FIRST)
        assert await turn.enter_async_context(late.turn_lock(MAIN))
        transcript = await late.transcript(FIRST)
        await transcript.append(user("one"))
        await asleep(late)
        await taken(other)
        theirs = await other.transcript(FIRST)
        await theirs.append(answer("theirs"))

        with pytest.raises(SessionTakenOver, match=MAIN):
            await transcript.append(answer("late"))
        await transcript.refresh()
        for late_one in (transcript, await late.transcript(FIRST)):
            with pytest.raises(SessionTakenOver):
                await late_one.append(answer("late"))
        with pytest.raises(SessionTakenOver):
            await transcript.rewind(None)
        with pytest.raises(SessionTakenOver):
            await transcript.results.keep("r-1", "late")
        with pytest.raises(SessionTakenOver):
            await late.index.update(MAIN, lambda _: SECOND)
        with pytest.raises(SessionTakenOver):
            await late.index.update(MAIN, lambda _: None)
        assert said((await other.transcript(FIRST)).branch()) == ["one", "theirs"]
        assert await theirs.results.read("r-1") is None
        assert await other.index.get(MAIN) == FIRST


async def test_a_turn_that_goes_on_keeps_its_lane(database_url: str) -> None:
    """The lease is renewed; when the turn is over the next one has it at once, and may write."""
    async with stores(database_url) as opener:
        one, other = opener.store(lease_seconds=1.0), opener.store()
        await one.index.update(MAIN, lambda _: FIRST)
        async with one.turn_lock(MAIN) as is_ours:
            assert is_ours
            first = await _held_until(other)
            while await _held_until(other) == first:  # noqa: ASYNC110 - the database says when
                await asyncio.sleep(0)
            async with other.turn_lock(MAIN) as is_theirs:
                assert not is_theirs
            await (await one.transcript(FIRST)).append(user("one"))
        for store in (other, one):
            async with store.turn_lock(MAIN) as is_ours:
                assert is_ours
                await (await store.transcript(FIRST)).append(user("more"))
        assert said((await one.transcript(FIRST)).branch()) == ["one", "more", "more"]


async def test_a_next_holder_waits_for_what_is_being_written(database_url: str) -> None:
    """A line whose commit is under way is there before the lane has another holder, or not at all."""
    import psycopg

    async with stores(database_url) as opener, AsyncExitStack() as turn:
        late, other = opener.store(lease_seconds=SHORT_SECONDS), opener.store()
        await late.index.update(MAIN, lambda _: FIRST)
        transcript = await late.transcript(FIRST)
        assert await turn.enter_async_context(late.turn_lock(MAIN))
        await asleep(late)
        with psycopg.connect(database_url) as writing:
            # The writer's statement got as far as its fence, and waits.
            writing.execute("SELECT FROM lanes WHERE agent = 'main' FOR SHARE")
            next_one = asyncio.create_task(taken(other))
            waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
            with psycopg.connect(database_url, autocommit=True) as looking:
                while looking.execute(waiting).fetchone() == (0,):  # noqa: ASYNC110 - the database says when
                    await asyncio.sleep(0)
            assert not next_one.done()
        await next_one
        with pytest.raises(SessionTakenOver):
            await transcript.append(user("late"))


async def _held_until(store: PostgresSessionStore) -> object:
    [(moment,)] = await store._rows.read(lambda rows: rows.run("SELECT held_until FROM lanes"))
    return moment


async def test_who_was_killed_in_a_turn_is_waited_for_less(database_url: str) -> None:
    """Others take the lane of a silent process whose connections ended, and not of one that sleeps."""
    import psycopg

    silent = "UPDATE lanes SET held_until = clock_timestamp() + interval '12 seconds'"
    killed = "SELECT pg_terminate_backend(pid, 10000) FROM pg_locks, lanes WHERE locktype = 'advisory' AND "
    killed += "(classid::bigint << 32 | objid::bigint) = lanes.life"
    async with stores(database_url) as opener:
        late, other = opener.store(), opener.store()
        async with late.turn_lock(MAIN):
            with psycopg.connect(database_url, autocommit=True) as connection:
                assert connection.execute(silent).rowcount == 1
                async with other.turn_lock(MAIN) as is_taken:
                    assert not is_taken
                assert connection.execute(killed.encode()).fetchall() == [(True,)]
                connection.execute("UPDATE lanes SET held_until = clock_timestamp() + interval '19 seconds'")
                async with other.turn_lock(MAIN) as is_taken:
                    assert not is_taken, "it said something a moment ago"
                connection.execute(silent)
                async with other.turn_lock(MAIN) as is_taken:
                    assert is_taken
