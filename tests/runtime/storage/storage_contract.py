"""What every `StorageBackend` does with its five stores. A backend's test file inherits `StorageContract`."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import TypeAlias

import pytest

from nacre.memory.contracts.settings import MemorySearchSettings
from nacre.runtime.ledger.records import LedgerUnusable
from nacre.runtime.models.scripted import Clock, CountingIds
from nacre.runtime.storage.backend import StorageBackend
from tests.memory.stores.sample_index import chunk, found, indexed, put
from tests.runtime.ledger.ledger_contract import said as received
from tests.runtime.tools.approvals.store_contract import asked
from tests.sessions.stores.store_contract import FIRST, MAIN
from tests.sessions.talk import counted_ids, said, ticking_clock, user

OpenStorage: TypeAlias = Callable[[str], StorageBackend]


def _now() -> datetime:
    return datetime(2026, 3, 14, tzinfo=UTC)


class StorageContract:
    """Subclass it with a fixture `open_storage` that opens what is kept of an agent, at first nothing."""

    async def test_sessions_are_there_for_the_next_program(self, open_storage: OpenStorage) -> None:
        """A transcript that one opened store wrote, another one reads."""
        store = open_storage("main").sessions(now=ticking_clock(), new_id=counted_ids())
        await store.index.update(MAIN, lambda _: FIRST)
        await (await store.transcript(FIRST)).append(user("Hello"))
        await store.close()

        again = open_storage("main").sessions(now=ticking_clock(), new_id=counted_ids("b"))
        assert await again.index.get(MAIN) == FIRST
        assert said((await again.transcript(FIRST)).tree.branch()) == ["Hello"]
        await again.close()

    async def test_notes_are_there_for_the_next_program(self, open_storage: OpenStorage) -> None:
        """What one opened workspace wrote, another one reads."""
        await open_storage("main").workspace().change("memory/a.md", lambda _: b"a zebra")

        assert (await open_storage("main").workspace().read("memory/a.md")).data == b"a zebra"

    async def test_the_index_is_there_for_the_next_program(self, open_storage: OpenStorage) -> None:
        """What one opened index holds, another one finds."""
        place = open_storage("main").index(MemorySearchSettings(), now=_now)
        store = await place.open()
        await put(store, indexed(chunk("red apples")))
        await store.close()
        await place.close()

        place = open_storage("main").index(MemorySearchSettings(), now=_now)
        store = await place.open()
        assert await found(store, "apples") == ["red apples"]
        await store.close()
        await place.close()

    async def test_approvals_are_there_for_whoever_answers(self, open_storage: OpenStorage) -> None:
        """What one opened store keeps, another one finds."""
        assert await open_storage("main").approvals(now=_now, fence_of=lambda _: None).put(asked("a"))

        assert await open_storage("main").approvals(now=_now, fence_of=lambda _: None).get("a") == asked("a")

    async def test_the_ledger_serves_one_program_at_a_time(self, open_storage: OpenStorage) -> None:
        """A second one is refused, a terminal may look at it, and the next one has what is open."""
        place = open_storage("main").ledger()
        assert (await place.is_there(), await place.is_served()) == (False, False)
        ledger = await place.open(now=Clock(), new_id=CountingIds())
        assert await ledger.receive(received(1), "k") is not None
        with pytest.raises(LedgerUnusable):
            await open_storage("main").ledger().open(now=Clock(), new_id=CountingIds("b"))
        tables = await open_storage("main").ledger().open_tables()
        assert await tables.not_done() == {"waiting": 1}
        await tables.close()
        assert (await place.is_there(), await place.is_served()) == (True, True)
        await ledger.close()

        async with open_storage("main").ledger().movable() as movable:
            assert (await movable.contents()).counts["inbound"] == 1

    async def test_agents_have_nothing_in_common(self, open_storage: OpenStorage) -> None:
        """Sessions, notes, index and approvals of one agent are not another's."""
        mine, other = open_storage("main"), open_storage("other")
        await mine.workspace().change("a.md", lambda _: b"a zebra")
        await mine.approvals(now=_now, fence_of=lambda _: None).put(asked("a"))
        store = mine.sessions(now=ticking_clock(), new_id=counted_ids())
        await store.index.update(MAIN, lambda _: FIRST)
        await store.close()

        with pytest.raises(FileNotFoundError):
            await other.workspace().read("a.md")
        assert await other.approvals(now=_now, fence_of=lambda _: None).all() == ()
        theirs = other.sessions(now=ticking_clock(), new_id=counted_ids("b"))
        assert await theirs.index.all() == {}
        await theirs.close()
