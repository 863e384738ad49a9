"""The channels' ledger moves to a database and back, and none that is left behind is passed over."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from nacre.extensions.postgres.storage import PostgresLedgerPlace
from nacre.runtime.ledger.file_ledger import ledger_file
from nacre.runtime.ledger.ledger import Ledger, LedgerPlace
from nacre.runtime.ledger.moving import Contents, CopiedLedger, copy_ledger
from nacre.runtime.ledger.records import LedgerUnusable, Received
from nacre.runtime.models.scripted import Clock, CountingIds
from tests.runtime.ledger.ledger_contract import ANN, CHAT, ONCE, PLACE, LedgerContract, OpenLedger, said

pytestmark = pytest.mark.postgres


@asynccontextmanager
async def serving(place: LedgerPlace) -> AsyncIterator[Ledger]:
    ledger = await place.open(now=Clock(), new_id=CountingIds("own-"))
    try:
        yield ledger
    finally:
        await ledger.close()


async def copied(source: LedgerPlace, target: LedgerPlace) -> CopiedLedger:
    async with source.movable() as first, target.movable() as second:
        return await copy_ledger(first, second)


async def contents(place: LedgerPlace) -> Contents:
    async with place.movable() as found:
        return await found.contents()


async def filled(ledger: Ledger) -> tuple[Received, ...]:
    """Somebody let in and somebody who asks, a job, messages in each state, parts in each."""
    assert await ledger.people.ask(ANN, "CODE", now_ms=5, since_ms=0, most=3)
    assert await ledger.people.approve("CODE", "owner", now_ms=6, since_ms=0) == ANN
    assert await ledger.people.ask(("line", "default", "bob"), "BOB", now_ms=7, since_ms=0, most=3)
    assert await ledger.jobs.add(ONCE, made_ms=1, most=9)
    await ledger.jobs.last_beat_ms("main", 3)
    await ledger.put_choice("k", "send", "off")
    first, second, third = [
        await ledger.receive(said(each, is_owner=True), "k", agent_id="main", cursor=str(each))
        for each in (1, 2, 3)
    ]
    assert first
    assert second
    assert third
    await ledger.begin([first])
    await ledger.finish([first], PLACE, ["one\0", "two"])
    await ledger.begin([second])
    part = await ledger.outbox.next_part(*CHAT)
    assert part is not None
    await ledger.outbox.sent(part, "s1")
    return second, third


class TestTheSetting(LedgerContract):
    """What the setting of a database opens does what every ledger does."""

    @pytest.fixture
    def open_ledger(self, database_url: str, tmp_path: Path) -> OpenLedger:
        """Opens it where a state folder has none."""
        place = PostgresLedgerPlace(agent="main", file=ledger_file(tmp_path), url=database_url)

        @asynccontextmanager
        async def ledger() -> AsyncIterator[Ledger]:
            async with serving(place) as found:
                yield found

        return ledger


async def test_a_ledger_goes_there_and_comes_back(database_url: str, tmp_path: Path) -> None:
    """Numbers, keys and states stay; what is open goes on, and a message that came before is known."""
    file = ledger_file(tmp_path)
    rows = PostgresLedgerPlace(agent="main", file=ledger_file(tmp_path), url=database_url)
    async with serving(file) as ledger:
        second, third = await filled(ledger)
        before = await ledger.outbox.next_part(*CHAT)
        open_before = await ledger.open_messages()
    for _ in range(2):
        done = await copied(file, rows)
        assert (done.problems, done.source.checksum) == ((), done.target.checksum)
    assert done.target.counts["people"] == done.target.counts["jobs"] == done.target.counts["pairings"] == 1

    async with serving(rows) as ledger:
        assert await ledger.people.role(ANN) == "owner"
        assert await ledger.outbox.next_part(*CHAT) == before
        assert await ledger.open_messages() == open_before
        assert await ledger.receive(said(1), "k") is None
        assert (await ledger.cursor("line", "default"), len(await ledger.owner_chats("main"))) == ("3", 1)
        await ledger.finish([second], PLACE, ["three"])
        fourth = await ledger.receive(said(4), "k")
        assert fourth is not None
        assert fourth.number > third.number, "no number is given twice"

    back = await copied(rows, file)
    assert (back.problems, back.source.checksum) == ((), back.target.checksum)
    async with serving(file) as ledger:
        assert [each.inbound.text for each in await ledger.open_messages()] == ["say 3", "say 4"]
        assert await ledger.people.role(ANN) == "owner"
    assert (await copied(file, rows)).problems == ()


async def test_people_of_agents_of_a_host_stay_in_the_database(database_url: str, tmp_path: Path) -> None:
    """Files have no such agents, so the default one would take them for its owner."""
    file = ledger_file(tmp_path)
    rows = PostgresLedgerPlace(agent="main", file=ledger_file(tmp_path / "none"), url=database_url)
    async with serving(rows) as ledger:
        for name, own_agent in (("ann", ""), ("ben", "user-ben")):
            assert await ledger.people.ask(("line", "default", name), name, now_ms=1, since_ms=0, most=3)
            await ledger.people.approve(name, "owner", now_ms=2, since_ms=0, own_agent=own_agent)
    done = await copied(rows, file)
    assert (done.problems, done.source.checksum) == ((), done.target.checksum)
    async with serving(file) as ledger:
        assert [each.sender_id for each in await ledger.people.known()] == ["ann"]
    assert (await copied(file, rows)).problems == ()
    async with serving(rows) as ledger:
        assert await ledger.people.arrival(("line", "default", "ben")) == ("owner", "user-ben")


async def test_a_ledger_that_was_not_brought_is_told_of(database_url: str, tmp_path: Path) -> None:
    """Neither the program that serves nor a terminal begins an empty one beside it."""
    rows = PostgresLedgerPlace(agent="main", file=ledger_file(tmp_path), url=database_url)
    assert not await rows.is_there()
    async with serving(ledger_file(tmp_path)) as ledger:
        await filled(ledger)
    with pytest.raises(LedgerUnusable, match=r"1 people.*nacre admin storage migrate --to postgres"):
        await rows.open(now=Clock(), new_id=CountingIds())
    with pytest.raises(LedgerUnusable, match="is still in"):
        await rows.open_tables()
    await copied(ledger_file(tmp_path), rows)
    async with serving(rows) as ledger:
        assert await rows.is_served()
        tables = await rows.open_tables()
        assert len(await tables.people.known()) == 1
        await tables.close()
    assert (await rows.is_there(), await rows.is_served()) == (True, False)


async def test_what_both_wrote_is_not_mixed(database_url: str, tmp_path: Path) -> None:
    """The target stays as it was, and the problem is told; a copy that nobody touched is made anew."""
    file = ledger_file(tmp_path)
    rows = PostgresLedgerPlace(agent="main", file=ledger_file(tmp_path), url=database_url)
    async with serving(file) as ledger:
        await filled(ledger)
    await copied(file, rows)
    async with serving(file) as ledger:
        await ledger.put_choice("k", "queue", "steer")
    assert (await copied(file, rows)).problems == (), "nobody wrote to the copy"
    async with serving(rows) as ledger:
        await ledger.put_choice("k", "send", "")
    async with serving(file) as ledger:
        await ledger.people.revoke("line", "ann")
    there = await contents(rows)
    done = await copied(file, rows)
    assert "Both ledgers of the channels have changed" in done.problems[0]
    assert (await contents(rows)).checksum == there.checksum
    with pytest.raises(LedgerUnusable, match="still"):
        await rows.open(now=Clock(), new_id=CountingIds())


async def test_nobody_serves_while_it_moves(database_url: str, tmp_path: Path) -> None:
    """Whoever serves it is to be ended first; a database that has it is moved to a folder without one."""
    file = ledger_file(tmp_path)
    rows = PostgresLedgerPlace(agent="main", file=ledger_file(tmp_path), url=database_url)
    async with serving(file) as ledger:
        await filled(ledger)
        with pytest.raises(LedgerUnusable, match="Another program"):
            await copied(file, rows)
    await copied(file, rows)
    shutil.rmtree(tmp_path / "bridges")
    async with serving(rows):
        with pytest.raises(LedgerUnusable, match="Another program"):
            await copied(rows, file)
    assert (await copied(rows, file)).target.counts["people"] == 1
