"""What every store of sessions must do. A member's test file inherits `StoreContract`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

import pytest

from nacre.sessions.contracts.messages import message_text
from nacre.sessions.disk.endings import EndedSession
from nacre.sessions.index.record import SessionRecord
from nacre.sessions.stores.store import SessionStore
from tests.sessions.talk import answer, said, user

OpenStore: TypeAlias = Callable[[], SessionStore]
MAIN = "agent:main:main"
FIRST = SessionRecord(session_id="s-1", updated_at_ms=5, label="Mine", extra={"mood": {"good": True}})


def ended(session_id: str, at_ms: int) -> EndedSession:
    return EndedSession(
        key=MAIN, session_id=session_id, transcript=f"{session_id}.jsonl", reason="new", ended_at_ms=at_ms
    )


class StoreContract:
    """Subclass it with a fixture `open_store` that opens the same, at first empty, store each time."""

    async def test_a_line_is_there_for_everybody_at_once(self, open_store: OpenStore) -> None:
        """As it was given, before and after whoever wrote it is done; taken away, it is gone."""
        writer, reader = open_store(), open_store()
        assert await reader.index.get(MAIN) is None
        assert await writer.index.update(MAIN, lambda _: FIRST) == FIRST
        assert await reader.index.get(MAIN) == FIRST
        await writer.close()
        assert await open_store().index.all() == {MAIN: FIRST}
        assert await reader.index.update(MAIN, lambda _: None) is None
        assert await writer.index.all() == {}

    async def test_changes_begin_from_what_others_changed(self, open_store: OpenStore) -> None:
        """None of several writers loses what another one wrote."""
        stores = [open_store() for _ in range(3)]

        def counted(present: SessionRecord | None) -> SessionRecord:
            present = present or FIRST
            return replace(present, compaction_count=(present.compaction_count or 0) + 1)

        await asyncio.gather(*(stores[number % 3].index.update(MAIN, counted) for number in range(24)))
        found = await open_store().index.get(MAIN)
        assert found is not None
        assert found.compaction_count == 24

    async def test_an_edit_is_made_whole_or_not_at_all(self, open_store: OpenStore) -> None:
        """Several lines change together; a change that fails changes none."""
        store = open_store()
        await store.index.edit(lambda _: {"a": FIRST, "b": FIRST})
        await store.index.edit(lambda lines: {"a": None, "c": lines["b"]})

        def failing(_present: SessionRecord | None) -> SessionRecord:
            raise KeyError("no")

        with pytest.raises(KeyError):
            await store.index.update("b", failing)
        assert set(await open_store().index.all()) == {"b", "c"}

    async def test_a_transcript_has_what_was_said_in_order(self, open_store: OpenStore) -> None:
        """Whoever opens it sees it, and what others append while it is open."""
        store = open_store()
        assert not await store.has_transcript(FIRST)
        mine = await store.transcript(FIRST)
        await mine.append(user("one"))
        assert await store.has_transcript(FIRST)
        theirs = await open_store().transcript(FIRST)
        await theirs.append(answer("two"))
        assert await mine.refresh()
        assert not await mine.refresh()
        assert said(mine.branch()) == said(theirs.branch()) == ["one", "two"]
        assert [message_text(item.message) for item in mine.transcript()] == ["one", "two"]
        assert mine.header.id == "s-1"

    async def test_going_back_keeps_what_was_left(self, open_store: OpenStore) -> None:
        """The branch ends where it was gone back to; all entries are still there."""
        transcript = await open_store().transcript(FIRST)
        first = await transcript.append(user("one"))
        await transcript.append(user("two"))
        await transcript.rewind(first.id)
        again = await open_store().transcript(FIRST)
        assert said(again.branch()) == ["one"]
        assert said(again.tree.entries) == ["one", "two"]
        with pytest.raises(ValueError, match="no entry"):
            again.branch("none")

    async def test_endings_are_due_until_they_are_struck_off(self, open_store: OpenStore) -> None:
        """The oldest first, for every process; striking one off twice is no error."""
        store = open_store()
        late, early = ended("s-2", 9), ended("s-1", 5)
        for each in (late, early, replace(early, attempts=1)):
            await store.endings.put(each)
        assert await open_store().endings.all() == (replace(early, attempts=1), late)
        for _ in range(2):
            await store.endings.remove(early)
        assert not await open_store().endings.has(early)
        assert await open_store().endings.has(late)

    async def test_a_lane_has_one_holder(self, open_store: OpenStore) -> None:
        """Another key is free meanwhile, and the lane is when its holder is done, also by an error."""
        one, other = open_store(), open_store()

        async def broken() -> None:
            async with one.lane(MAIN) as mine, other.lane(MAIN) as theirs, other.lane("k") as free:
                assert (mine, theirs, free) == (True, False, True)
                raise RuntimeError

        with pytest.raises(RuntimeError):
            await broken()
        async with other.lane(MAIN) as mine:
            assert mine
