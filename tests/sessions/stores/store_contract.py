"""What every store of sessions must do. A member's test file inherits `StoreContract`."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

import pytest

from nacre.sessions.contracts.errors import SessionCorrupt, SessionNotFound
from nacre.sessions.contracts.keys import EndedSession
from nacre.sessions.contracts.messages import MAX_KEPT_CHARS, message_text
from nacre.sessions.entries.entries import SessionOwner
from nacre.sessions.index.record import SessionRecord
from nacre.sessions.stores.store import SessionStore
from nacre.sessions.upkeep.maintenance import MaintenanceLimits
from tests.sessions.talk import answer, said, user

OpenStore: TypeAlias = Callable[[], SessionStore]
MAIN = "agent:main:main"
DM = "agent:main:chat:direct:joe"
FIRST = SessionRecord(session_id="s-1", updated_at_ms=5, label="Mine", extra={"mood": {"good": True}})
SECOND = SessionRecord(session_id="s-2", updated_at_ms=7)
THIRD = SessionRecord(session_id="s-3", updated_at_ms=6)


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

    async def test_what_is_mirrored_is_there_for_everybody_at_once(self, open_store: OpenStore) -> None:
        """Between changes that others make; a key without a line stays without."""
        stores = [open_store() for _ in range(3)]
        assert await stores[0].index.mirror(MAIN, lambda record: replace(record, model="m")) is None
        assert await stores[1].index.update(MAIN, lambda _: FIRST) == FIRST

        def counted(present: SessionRecord) -> SessionRecord:
            return replace(present, input_tokens=(present.input_tokens or 0) + 1)

        for number in range(12):
            await stores[number % 3].index.mirror(MAIN, counted)
            found = await stores[(number + 1) % 3].index.get(MAIN)
            assert found == replace(FIRST, input_tokens=number + 1)
        await asyncio.gather(*(stores[number % 3].index.mirror(MAIN, counted) for number in range(24)))
        found = await open_store().index.get(MAIN)
        assert found == replace(FIRST, input_tokens=36)

    async def test_an_entry_and_what_the_index_tells_of_it(self, open_store: OpenStore) -> None:
        """Both are there for everybody, whatever others change; a key without a line stays without."""
        store, other = open_store(), open_store()

        def counted(present: SessionRecord) -> SessionRecord:
            return replace(present, input_tokens=number)

        number = 0
        async with store.turn_lock(MAIN):
            mine = await store.transcript(FIRST)
            await mine.append(answer("0"), mirror=counted)
            assert await store.index.mirror(MAIN, counted) is None
            await store.index.update(MAIN, lambda _: FIRST)
            for number in range(1, 5):
                await mine.append(answer(str(number)), mirror=counted)
                found = await store.index.mirror(MAIN, counted)
                label = "Mine" if number < 3 else "Theirs"
                assert found == replace(FIRST, input_tokens=number, label=label)
                assert await open_store().index.get(MAIN) == found
                if number == 2:
                    await other.index.mirror(MAIN, lambda record: replace(record, label="Theirs"))
                    await (await other.transcript(FIRST)).append(user("so"))
            await other.index.update(MAIN, lambda _: None)
            await mine.append(answer("5"), mirror=counted)
            assert await store.index.mirror(MAIN, counted) is None
        branch = (await open_store().transcript(FIRST)).tree.branch()
        assert said(branch) == ["0", "1", "2", "so", "3", "4", "5"]
        assert await store.index.get(MAIN) is None

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
        assert said(mine.tree.branch()) == said(theirs.tree.branch()) == ["one", "two"]
        assert [message_text(item.message) for item in mine.transcript()] == ["one", "two"]
        assert mine.header.id == "s-1"

    async def test_a_transcript_may_begin_with_an_entry(self, open_store: OpenStore) -> None:
        """Whoever says something in it first gives its first entry; one that is there keeps its own."""
        owner = SessionOwner(key=MAIN, chat_kind="direct", is_private=True).to_record()
        mine = await open_store().transcript(FIRST, first=owner)
        assert [entry.body for entry in mine.tree.branch()] == [owner]
        await mine.append(user("one"))
        theirs = await open_store().transcript(FIRST, first=user("no"))
        assert theirs.tree.branch()[0].body == owner
        await theirs.append(user("two"))
        assert await mine.refresh()
        assert said(mine.tree.branch()) == ["one", "two"]

    async def test_going_back_keeps_what_was_left(self, open_store: OpenStore) -> None:
        """The branch ends where it was gone back to; all entries are still there."""
        transcript = await open_store().transcript(FIRST)
        first = await transcript.append(user("one"))
        await transcript.append(user("two"))
        await transcript.rewind(first.id)
        again = await open_store().transcript(FIRST)
        assert said(again.tree.branch()) == ["one"]
        assert said(again.tree.entries) == ["one", "two"]
        with pytest.raises(ValueError, match="no entry"):
            again.tree.branch("none")

    async def test_endings_are_due_until_they_are_struck_off(self, open_store: OpenStore) -> None:
        """The oldest first, for every process; striking one off twice is no error."""
        store = open_store()
        late, early = ended("s-2", 9), ended("s-1", 5)
        for each in (late, early, replace(early, attempts=1)):
            await store.ended_sessions.put(each)
        assert await open_store().ended_sessions.all() == (replace(early, attempts=1), late)
        for _ in range(2):
            await store.ended_sessions.remove(early)
        assert not await open_store().ended_sessions.has(early)
        assert await open_store().ended_sessions.has(late)

    async def test_a_fork_is_a_transcript_of_its_own(self, open_store: OpenStore) -> None:
        """It has the branch and the whole results; what is said in one is not said in the other."""
        store = open_store()
        source = await store.transcript(FIRST)
        first = await source.append(user("one"))
        await source.append(user("two"))
        await source.results.keep("r1", "all of it")
        name = store.transcript_name(SECOND)
        await source.fork(name, session_id="s-2", leaf_id=first.id)
        copy = await open_store().transcript(SECOND)
        await copy.append(user("three"))
        assert (copy.name, copy.header.id) == (name, "s-2")
        assert said(copy.tree.branch()) == ["one", "three"]
        assert await copy.results.read("r1") == "all of it"
        assert not await source.refresh()
        assert said(source.tree.branch()) == ["one", "two"]
        with pytest.raises(SessionCorrupt):
            await source.fork(name, session_id="s-2", leaf_id=first.id)
        with pytest.raises(ValueError, match="no entry"):
            await source.fork(store.transcript_name(THIRD), session_id="s-3", leaf_id="none")
        assert not await store.has_transcript(THIRD)

    async def test_whole_results_belong_to_their_session(self, open_store: OpenStore) -> None:
        """They are there for whoever opens it, as long as they may be, and under safe names alone."""
        mine = await open_store().transcript(FIRST)
        await mine.results.keep("r-1", "ä" * (MAX_KEPT_CHARS + 1))
        again = await open_store().transcript(FIRST)
        assert await again.results.read("r-1") == "ä" * MAX_KEPT_CHARS
        assert await again.results.read("r-2") is None
        assert await (await open_store().transcript(SECOND)).results.read("r-1") is None
        for name in ("../r", "", "a/b"):
            with pytest.raises(ValueError, match="result"):
                await mine.results.keep(name, "x")
            assert await mine.results.read(name) is None

    async def test_sessions_are_listed_with_those_that_keys_named_before(self, open_store: OpenStore) -> None:
        """The latest active first, with what a person said last; silence is not quoted."""
        store = open_store()
        # First the lines, then the words: a store may take words without any line for a loss of lines.
        await store.index.update(MAIN, lambda _: replace(SECOND, previous_session_ids=("s-1",)))
        await store.index.update("agent:main:k", lambda _: THIRD)
        for record, words in ((FIRST, "early"), (SECOND, "late")):
            transcript = await store.transcript(record)
            await transcript.append(SessionOwner(key=MAIN, chat_kind="direct", is_private=True).to_record())
            await transcript.append(user(words))
            await transcript.append(answer("yes"))
        await (await store.transcript(THIRD)).append(answer("alone"))
        other = open_store()
        now = await other.sessions(with_earlier=False)
        assert {(item.key, item.session_id) for item in now} == {(MAIN, "s-2"), ("agent:main:k", "s-3")}
        found = {item.session_id: item for item in await other.sessions(with_earlier=True)}
        assert {name: item.is_current for name, item in found.items()} == {
            "s-1": False,
            "s-2": True,
            "s-3": True,
        }
        assert found["s-1"].key == MAIN
        assert found["s-1"].transcript == other.transcript_name(FIRST)
        assert found["s-1"].size_bytes
        wanted = [found["s-3"], found["s-2"], found["s-1"]]
        assert [words for _, words in await other.last_messages(wanted, most=9)] == ["late", "early"]
        assert [words for _, words in await other.last_messages(wanted, most=1)] == ["late"]

    async def test_a_transcript_is_handed_out_as_json_lines(self, open_store: OpenStore) -> None:
        """A header and an entry a line; the listing counts them, also those that came since."""
        store = open_store()
        await store.index.update(MAIN, lambda _: FIRST)
        transcript = await store.transcript(FIRST)
        first = await transcript.append(user("one"))
        [before] = await store.transcripts()
        await transcript.append(answer("two"))
        [after] = await store.transcripts()
        data = await open_store().exported(transcript.name)
        lines = [json.loads(line) for line in data.splitlines()]
        assert [line["type"] for line in lines] == ["session", "message", "message"]
        assert (lines[0]["id"], lines[1]["id"]) == ("s-1", first.id)
        assert (before.name, before.lines) == (transcript.name, 2)
        assert (after.lines, after.size_bytes) == (3, len(data))
        [session] = await store.sessions(with_earlier=False)
        assert said((await store.stored(session)).branch) == ["one", "two"]
        for name in ("gone.jsonl", "../sessions.json", "sessions.json", ""):
            with pytest.raises(SessionNotFound):
                await store.exported(name)

    async def test_a_deleted_session_is_gone_from_all_lists(self, open_store: OpenStore) -> None:
        """No key names it, none named it before, and a new one of the same line begins empty."""
        store = open_store()
        await store.index.update(MAIN, lambda _: replace(SECOND, previous_session_ids=("s-1",)))
        await store.index.update("agent:main:k", lambda _: FIRST)
        await (await store.transcript(FIRST)).append(user("one"))
        [session] = [item for item in await store.sessions(with_earlier=True) if item.session_id == "s-1"]
        assert await store.delete(session)
        assert not await store.delete(session)
        other = open_store()
        assert await other.index.all() == {MAIN: SECOND}
        assert await other.transcripts() == []
        assert (await other.transcript(FIRST)).tree.branch() == ()

    async def test_upkeep_lets_lines_go_and_keeps_what_was_said(self, open_store: OpenStore) -> None:
        """A dry run says it and does nothing; a key with a turn stays."""
        store = open_store()
        limits = MaintenanceLimits(
            prune_after_ms=1,
            most_entries=500,
            archive_retention_ms=None,
            most_bytes=None,
            high_water_bytes=None,
        )
        await store.index.edit(lambda _: {DM: FIRST, f"{DM}2": SECOND})
        await (await store.transcript(FIRST)).append(user("one"))
        for dry_run in (True, False):
            report = await store.maintain(limits, main_key="main", active_keys=[f"{DM}2"], dry_run=dry_run)
            assert report.pruned_keys == (DM,)
            assert (DM in await open_store().index.all()) is dry_run
        assert set(await open_store().index.all()) == {f"{DM}2"}
        assert said((await open_store().transcript(FIRST)).tree.branch()) == ["one"]

    async def test_a_line_that_leads_elsewhere_has_no_transcript(self, open_store: OpenStore) -> None:
        """Other programs write lines, too; none of them opens what is not the store's."""
        store = open_store()
        line = replace(FIRST, session_file="/etc/passwd")
        assert not await store.has_transcript(line)
        with pytest.raises(SessionCorrupt):
            store.transcript_name(line)
        with pytest.raises(SessionCorrupt):
            await store.transcript(line)

    async def test_a_lane_has_one_holder(self, open_store: OpenStore) -> None:
        """Another key is free meanwhile, and the lane is when its holder is done, also by an error."""
        one, other = open_store(), open_store()

        async def broken() -> None:
            async with (
                one.turn_lock(MAIN) as mine,
                other.turn_lock(MAIN) as theirs,
                other.turn_lock("k") as free,
            ):
                assert (mine, theirs, free) == (True, False, True)
                raise RuntimeError

        with pytest.raises(RuntimeError):
            await broken()
        async with other.turn_lock(MAIN) as mine:
            assert mine
