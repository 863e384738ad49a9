"""Several programs share the ledger in PostgreSQL: each serves some of the accounts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from nacre.extensions.postgres import ledger_statements as statements
from nacre.extensions.postgres.ledger import Member, PostgresRows, SharedLedger, plan
from nacre.extensions.postgres.server.database import Database, Pace
from nacre.runtime.ledger.ledger import AccountId, Ledger
from nacre.runtime.ledger.records import BridgeStatus, LedgerUnusable
from nacre.runtime.models.scripted import Clock, CountingIds
from tests.extensions.postgres.test_ledger import PACE, opened, silence
from tests.runtime.ledger.ledger_contract import CHAT, PLACE, LedgerContract, OpenLedger, said, unsent_parts

pytestmark = pytest.mark.postgres
ONE, TWO, THREE = ("line", "default"), ("line", "other"), ("irc", "work")


@asynccontextmanager
async def shared(url: str, pace: Pace = PACE) -> AsyncIterator[SharedLedger]:
    """A ledger with connections of its own, as another process has them."""
    database = Database(url, pace=pace)
    try:
        ledger = await SharedLedger.open(database, agent="main", now=Clock(), new_id=CountingIds("main"))
        try:
            yield ledger
        finally:
            await ledger.close()
    finally:
        await database.close()


async def held(ledger: Ledger, *accounts: AccountId) -> list[AccountId]:
    """The accounts that it has after a look."""
    return list((await ledger.share(accounts)).held)


class TestASharedLedger(LedgerContract):
    """Rows of one agent, as the only program that serves the accounts of the messages."""

    @pytest.fixture
    def open_ledger(self, database_url: str) -> OpenLedger:
        """Opens it there."""

        @asynccontextmanager
        async def ledger() -> AsyncIterator[Ledger]:
            async with shared(database_url) as found:
                assert await held(found, ONE, TWO) == [ONE, TWO]
                yield found

        return ledger


def member(process: int, wanted: str, has: str = "", left: float | None = 5.0) -> Member:
    """A program; accounts are letters."""
    return Member(process, f"host {process}", [*wanted], [*has], "then", left, False, ())


@pytest.mark.parametrize(
    ("own", "others", "takes"),
    [
        ("", [], "abcd"),
        ("", [member(2, "abcd")], "a"),  # one more than the other would be too many
        ("a", [member(2, "abcd")], ""),
        ("a", [member(2, "xyz")], "bcd"),  # the other does not want them
        ("a", [member(2, "abcd", "b")], "c"),
        ("", [member(2, "abcd", "abcd")], ""),
        ("a", [member(2, "abcd", "bcd", left=-1)], "bcd"),
        ("a", [member(2, "abcd", "bcd", left=None)], "bcd"),
        ("a", [member(2, "abcd", "bc", left=-1), member(3, "abcd", "d")], "b"),
    ],
)
def test_who_has_fewer_takes_what_is_free(own: str, others: list[Member], takes: str) -> None:
    """Accounts of nobody and of silent programs go to those that want them, so that all have as many."""
    silent = frozenset(each.process for each in others if each.is_silent)
    found = plan(member(1, "abcd", own), others, [*"abcd"], silent=silent)
    assert "".join(found.take) == takes
    left = {name for name in "abcd" if name not in own + takes}
    assert {*found.elsewhere} == left & {name for each in others for name in each.held}


def test_what_nobody_takes_is_taken_at_the_next_look() -> None:
    """The other one may hang; and whoever is silent for a moment after an outage keeps its accounts."""
    others = [member(2, "ab")]
    assert {*plan(member(1, "ab", "a"), others, [*"ab"]).take} == set()
    assert {*plan(member(1, "ab", "a"), others, [*"ab"], missed=frozenset("b")).take} == {"b"}
    assert {*plan(member(1, "ab"), [member(2, "ab", "ab", left=-1)], [*"ab"]).take} == set()


@pytest.mark.parametrize(
    ("own", "others", "surplus"),
    [
        ("ab", [member(2, "ab")], "ab"),
        ("a", [member(2, "ab")], ""),
        ("ab", [member(2, "ab", "c")], ""),
        ("ab", [member(2, "b")], "b"),
        ("ab", [member(2, "ab", left=-1)], ""),
        ("abc", [member(2, "abcd", "d")], "abc"),
    ],
)
def test_two_more_than_another_are_too_many(own: str, others: list[Member], surplus: str) -> None:
    """Of such accounts one may go to a living program that wants it."""
    assert "".join(plan(member(1, "abcd", own), others, [*"abcd"]).surplus) == surplus


async def test_two_programs_have_one_account_each(database_url: str) -> None:
    """The second one gets one when the first gives it up, and the other when the first ends."""
    async with shared(database_url) as second:
        async with shared(database_url) as first:
            assert await held(first, ONE, TWO) == [ONE, TWO]
            found = await second.share((ONE, TWO))
            assert (found.held, {*found.elsewhere}) == ((), {ONE, TWO})
            assert all(", process " in holder for holder in found.elsewhere.values())
            assert (await first.share((ONE, TWO))).surplus == (ONE, TWO)
            await first.give_up(ONE)
            assert await held(first, ONE, TWO) == [TWO], "the other one has fewer"
            assert await held(second, ONE, TWO) == [ONE]
            assert (await first.share((ONE, TWO))).surplus == ()
        assert await held(second, ONE, TWO) == [ONE, TWO]


async def test_each_writes_for_its_own_account(database_url: str) -> None:
    """A program that lost an account writes nothing more of it, and goes on with the other one."""
    other = {"account": "other"}
    async with shared(database_url, pace=Pace(beat_seconds=600)) as late:
        assert await held(late, ONE, TWO) == [ONE, TWO]
        received = await late.receive(said(1), "k", cursor="1")
        assert received is not None
        await late.outbox.put(PLACE, ["on its way"])
        part = await late.outbox.next_part(*CHAT)
        assert part is not None
        await late.outbox.sending(part)
        silence(database_url)
        async with shared(database_url) as now:
            assert await held(now, ONE) == []
            await _silent_for_a_beat(now)
            assert await held(now, ONE) == [ONE]
            assert await unsent_parts(now) == {"unsure": 1}
            writes: tuple[Callable[[], Any], ...] = (
                lambda: late.receive(said(2), "k", cursor="2"),
                lambda: late.receive(said(2, message_id=""), "k", cursor="2"),
                lambda: late.pass_over(said(2), "2"),
                lambda: late.begin([received]),
                lambda: late.finish([received], PLACE, ["late"]),
                lambda: late.outbox.draft(received.number, PLACE, "late", answers="1"),
                lambda: late.outbox.sent(part, "7"),
            )
            for write in writes:
                with pytest.raises(LedgerUnusable, match="writes nothing more"):
                    await write()
            assert await now.open_messages() == (received,)
            assert (await now.cursor(*ONE), await unsent_parts(now)) == ("1", {"unsure": 1})
            assert await late.receive(said(3, **other), "k", cursor="3") is not None
            assert (await late.share((ONE, TWO))).held == (TWO,)


async def _silent_for_a_beat(ledger: SharedLedger) -> None:
    """Until a program that was silent at the last look may be replaced."""
    wait = (await ledger.share(())).look_seconds
    assert wait is not None
    await asyncio.sleep(0)
    until = asyncio.get_running_loop().time() + ledger._process.pace.beat_seconds
    while asyncio.get_running_loop().time() < until:
        await ledger.not_done()


async def test_a_killed_program_is_replaced_as_soon_as_it_is_silent(database_url: str) -> None:
    """The look comes right at the end of its silence if the one that looks was there before."""
    import psycopg

    async with shared(database_url, pace=Pace(beat_seconds=600)) as killed:
        assert await held(killed, ONE) == [ONE]
        with psycopg.connect(database_url, autocommit=True) as connection:
            async with shared(database_url, pace=Pace(beat_seconds=0.05, silent_seconds=0.2)) as other:
                while not other._process.is_steady:
                    await other.not_done()
                connection.execute(
                    "UPDATE processes SET alive_until = clock_timestamp() + interval '.3 seconds' "
                    "WHERE number = %s",
                    (killed._process.number,),
                )
                found = await other.share((ONE,))
                assert found.held == ()
                assert found.look_seconds is not None
                assert found.look_seconds < 0.4
                await asyncio.sleep(found.look_seconds)
                assert await held(other, ONE) == [ONE]


async def test_who_must_be_alone_waits_for_all(database_url: str) -> None:
    """A migration, and a program of an earlier version; one of those that share stands for the others."""
    async with shared(database_url) as second:
        async with shared(database_url) as first:
            assert await held(first, ONE) == [ONE]
            with pytest.raises(LedgerUnusable, match="Another program"):
                async with opened(database_url):
                    pass
        with pytest.raises(LedgerUnusable, match="Another program"):
            async with opened(database_url):
                pass
        assert await held(second, ONE) == [ONE]
        rows = PostgresRows(second._process._database(), "main")  # type: ignore[arg-type]
        assert await rows.read(statements.IS_SERVED)
    assert not await rows.read(statements.IS_SERVED)
    async with opened(database_url) as alone:
        await alone.outbox.put(PLACE, ["mine"])
        with pytest.raises(LedgerUnusable, match="Another program"):
            async with shared(database_url):
                pass


async def test_who_takes_all_stops_those_that_shared(database_url: str) -> None:
    """Programs that were silent, all of them: what they still write is refused."""
    async with shared(database_url, pace=Pace(beat_seconds=600)) as late:
        assert await held(late, ONE) == [ONE]
        silence(database_url)
        async with opened(database_url):
            with pytest.raises(LedgerUnusable, match="writes nothing more"):
                await late.receive(said(1), "k")
            with pytest.raises(LedgerUnusable, match="has taken all bridges"):
                await late.share((ONE,))


async def test_the_statuses_of_all_are_shown_with_their_holders(database_url: str) -> None:
    """Each program replaces those of its own accounts."""
    first_status = BridgeStatus("line", "default", "connected", "", 0, 5, 0)
    other_status = BridgeStatus("line", "other", "waiting", "refused", 3, 5, 9)
    async with shared(database_url) as first, shared(database_url) as second:
        assert await held(first, ONE) == [ONE]
        assert await held(second, TWO) == [TWO]
        await first.put_statuses([first_status, other_status])
        await second.put_statuses([other_status])
        await first.put_statuses([first_status])
        found = await second.statuses()
    assert [each._replace(holder="") for each in found] == [first_status, other_status]
    assert all(", process " in each.holder for each in found)


async def test_unsent_parts_are_told_to_who_holds_the_account(database_url: str) -> None:
    """Another program may have put them there, such as a question to the owner."""
    async with shared(database_url) as first, shared(database_url) as second:
        assert await held(first, ONE) == [ONE]
        await second.tell(said(1), ["May I?"])
        assert (await first.share((ONE,))).unsent == (ONE,)
        assert (await second.share((ONE,))).unsent == ()
