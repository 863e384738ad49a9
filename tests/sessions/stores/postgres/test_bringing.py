"""Conversations from files to rows and back: the same bytes, and a copy that died goes on."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from nacre.sessions.contracts.keys import EndedSession
from nacre.sessions.stores.copying import CopyableStore, copy_sessions
from tests.sessions.stores.places import file_store
from tests.sessions.stores.postgres.opened import stores
from tests.sessions.stores.store_contract import DM, FIRST, MAIN, SECOND
from tests.sessions.talk import counted_ids, ticking_clock, user

pytestmark = pytest.mark.postgres
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
        assert len(opened.branch()) == 2
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
