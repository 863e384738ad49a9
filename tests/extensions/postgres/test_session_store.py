"""The sessions of an agent in a database: the contract, what is brought there, late writers, a restart."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from nacre.extensions.postgres.session_store import PostgresSessionStore
from nacre.sessions.contracts.errors import SessionTakenOver
from nacre.sessions.contracts.keys import EndedSession
from nacre.sessions.stores.copying import CopyableStore, copy_sessions
from nacre.sessions.stores.store import SessionStore
from tests.cli.program import run_nacre
from tests.extensions.postgres.opened import StoreOpener, stores
from tests.sessions.stores.places import file_store
from tests.sessions.stores.store_contract import DM, FIRST, MAIN, SECOND, OpenStore, StoreContract
from tests.sessions.talk import answer, counted_ids, said, ticking_clock, user

pytestmark = pytest.mark.postgres


class TestPostgresSessionStore(StoreContract):
    @pytest.fixture
    async def open_store(self, database_url: str) -> AsyncIterator[OpenStore]:
        opener = StoreOpener(database_url)

        def opened() -> SessionStore:
            return opener.store()

        yield opened
        await opener.close()


ENDED = EndedSession(session_id="gone", key=MAIN, reason="new", transcript="gone.jsonl", ended_at_ms=5)


class Killed(Exception):
    """What takes the place of a kill: the copy is at no end and cleans nothing up."""


class DiesAt:
    """A store that is not there any more after so many writes."""

    def __init__(self, store: Any, writes: int) -> None:
        self._store = store
        self._left = writes
        self.index, self.ended_sessions = self, self

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def import_transcript(self, name: str, data: bytes, results: Mapping[str, bytes]) -> None:
        self._count()
        await self._store.import_transcript(name, data, results)

    async def has(self, ended: EndedSession) -> bool:
        return bool(await self._store.ended_sessions.has(ended))

    async def put(self, ended: EndedSession) -> None:
        self._count()
        await self._store.ended_sessions.put(ended)

    async def edit(self, change: Any) -> Any:
        self._count()
        return await self._store.index.edit(change)

    def _count(self) -> None:
        if self._left == 0:
            raise Killed
        self._left -= 1


def _files(folder: Path) -> CopyableStore:
    return file_store(folder, now=ticking_clock(), new_id=counted_ids("file"))


async def _talk(store: CopyableStore) -> None:
    """Two sessions, of which one has a result that is kept whole, and one that is over."""
    await store.index.edit(lambda _: {MAIN: FIRST, DM: SECOND})
    first = await store.transcript(FIRST)
    await first.append(user("caf\u00e9 \u0000 and a line\u2028 of its own"))
    await first.results.keep("whole", "all of it")
    await (await store.transcript(SECOND)).append(user("hello"))
    await store.ended_sessions.put(ENDED)


async def _said(store: CopyableStore) -> list[tuple[str, bytes, Mapping[str, bytes]]]:
    return [
        (facts.name, await store.exported(facts.name), await store.whole_results(facts.name))
        for facts in await store.transcripts()
    ]


async def test_there_and_back_is_the_same(database_url: str, tmp_path: Path) -> None:
    """Every byte, each line of the index, each ending; a second copy changes nothing."""
    async with stores(database_url) as opener:
        files, rows, back = _files(tmp_path / "files"), opener.store(), _files(tmp_path / "back")
        await _talk(files)
        for source, target in ((files, rows), (rows, back), (files, rows)):
            done = await copy_sessions(source, target)
            assert done.source == done.target
            assert done.problems == ()
            assert (done.source.transcripts, done.source.results, done.source.endings) == (2, 1, 1)
        assert await _said(files) == await _said(rows) == await _said(back)
        assert await back.index.all() == await files.index.all() == await rows.index.all()
        opened = await back.transcript(FIRST)
        await opened.append(user("and on"))
        assert len(opened.tree.branch()) == 2
        await files.close()
        await back.close()


@pytest.mark.parametrize("is_to_rows", [True, False])
async def test_a_copy_that_died_goes_on(database_url: str, tmp_path: Path, is_to_rows: bool) -> None:
    """Whichever write was the last: the next run copies the rest, what went on meanwhile too."""
    for writes in range(4):
        async with stores(database_url) as opener:
            files, rows = _files(tmp_path / f"files{writes}"), opener.store(agent=f"agent{writes}")
            source, target = (files, rows) if is_to_rows else (rows, files)
            await _talk(source)
            with pytest.raises(Killed):
                await copy_sessions(source, DiesAt(target, writes))
            await (await source.transcript(FIRST)).append(user("said meanwhile"))

            done = await copy_sessions(source, target)

            assert done.source == done.target
            assert await _said(source) == await _said(target)
            await files.close()


async def test_another_transcript_in_the_target_stays(database_url: str, tmp_path: Path) -> None:
    """It is named, the others are copied, and the counts tell that something is missing."""
    async with stores(database_url) as opener:
        files, rows = _files(tmp_path), opener.store()
        await _talk(files)
        await (await rows.transcript(FIRST)).append(user("something else"))
        before = await rows.exported(rows.transcript_name(FIRST))

        done = await copy_sessions(files, rows)

        assert await rows.exported(rows.transcript_name(FIRST)) == before
        assert [files.transcript_name(FIRST) in problem for problem in done.problems] == [True]
        assert done.source != done.target
        await files.close()


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
    [renewing] = [task for task in asyncio.all_tasks() if task.get_name() == "session-lane"]
    renewing.cancel()


async def test_a_late_writer_writes_nothing(database_url: str) -> None:
    """No line, no result, no change of its key's line: neither to a transcript it knew nor to a new one."""
    async with stores(database_url) as opener, AsyncExitStack() as turn:
        late, other = opener.store(silent_seconds=SHORT_SECONDS), opener.store()
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
        assert said((await other.transcript(FIRST)).tree.branch()) == ["one", "theirs"]
        assert await theirs.results.read("r-1") is None
        assert await other.index.get(MAIN) == FIRST


async def test_a_turn_that_goes_on_keeps_its_lane(database_url: str) -> None:
    """Its process says that it is alive; when the turn is over the next one has it at once, and may write."""
    async with stores(database_url) as opener:
        one, other = opener.store(silent_seconds=1.0), opener.store()
        await one.index.update(MAIN, lambda _: FIRST)
        async with one.turn_lock(MAIN) as is_ours:
            assert is_ours
            first = await _alive_until(other)
            while await _alive_until(other) == first:  # noqa: ASYNC110 - the database says when
                await asyncio.sleep(0)
            async with other.turn_lock(MAIN) as is_theirs:
                assert not is_theirs
            await (await one.transcript(FIRST)).append(user("one"))
        for store in (other, one):
            async with store.turn_lock(MAIN) as is_ours:
                assert is_ours
                await (await store.transcript(FIRST)).append(user("more"))
        assert said((await one.transcript(FIRST)).tree.branch()) == ["one", "more", "more"]


async def test_a_next_holder_waits_for_what_is_being_written(database_url: str) -> None:
    """A line whose commit is under way is there before the lane has another holder, or not at all."""
    import psycopg

    async with stores(database_url) as opener, AsyncExitStack() as turn:
        late, other = opener.store(silent_seconds=SHORT_SECONDS), opener.store()
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


async def _alive_until(store: PostgresSessionStore) -> object:
    query = "SELECT alive_until FROM processes JOIN lanes ON number = life"
    [(moment,)] = await store._rows.read(lambda rows: rows.run(query))
    return moment


async def test_who_left_is_not_waited_for(database_url: str) -> None:
    """A process that says that it goes has nothing any more; one that runs keeps what it has."""
    async with stores(database_url) as opener:
        late, other = opener.store(), opener.store()
        async with late.turn_lock(MAIN):
            async with other.turn_lock(MAIN) as is_taken:
                assert not is_taken
            await late._rows.database.process.leave()
            async with other.turn_lock(MAIN) as is_taken:
                assert is_taken


def test_a_conversation_outlives_its_process(database_url: str, tmp_path: Path) -> None:
    """The terminal talks, starts again and goes on in the same session, from its own history."""
    for words in ("My cat is called Mopsi.", "/label cat", "What did I say?"):
        sent = run_nacre(tmp_path, "send", words, NACRE_DATABASE_URL=database_url)
        assert sent.returncode == 0, sent.stderr
    shown = run_nacre(tmp_path, "sessions", "show", "main", NACRE_DATABASE_URL=database_url)
    assert "User: My cat is called Mopsi." in shown.stdout
    assert "User: What did I say?" in shown.stdout
    assert list((tmp_path / ".nacre" / "agents").rglob("*.json*")) == []


def test_without_a_server_the_owner_reads_why(tmp_path: Path) -> None:
    """A sentence, with the place and without the password."""
    url = "postgresql://me:hushhush@127.0.0.1:1/mine"
    sent = run_nacre(tmp_path, "sessions", "list", NACRE_DATABASE_URL=url)
    assert sent.returncode == 1
    assert "'mine' on 127.0.0.1 cannot be used" in sent.stderr
    assert "hush" not in sent.stdout + sent.stderr
