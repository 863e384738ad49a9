"""An answer that a server refuses for now, and what waits behind it."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path

import pytest

from nacre.bridges.contracts.bridge import Bridge, Capabilities, Inbox, Part, Place
from nacre.bridges.contracts.errors import NotDelivered
from nacre.bridges.delivery.outgoing import Outgoing
from nacre.runtime.contracts.inbound import Inbound
from nacre.runtime.ledger.file_ledger import SqliteLedger
from nacre.runtime.ledger.records import OutboundPart
from nacre.runtime.models.scripted import Clock, CountingIds

PLACE = Place(channel="line", account="default", chat_id="ann")


class _Post(Bridge):
    """A channel whose server refuses some texts for now, each for itself or all behind it as well."""

    channel = "line"
    account = "default"
    capabilities = Capabilities()

    def __init__(self, *refused: str, holds_chat: bool) -> None:
        self.refused = set(refused)
        self.tried: list[str] = []
        self.was_last = asyncio.Event()
        self._holds_chat = holds_chat

    async def start(self, inbox: Inbox) -> None:
        """Nobody writes."""

    async def stop(self) -> None:
        """Nothing ends."""

    async def deliver(self, part: Part) -> str:
        """Takes a text that is not refused."""
        self.tried.append(part.text)
        if part.text in self.refused:
            raise NotDelivered("451 later", retry_after_seconds=300, holds_chat=self._holds_chat)
        if part.text == "one, again":
            self.was_last.set()
        return part.text


class _Waits:
    """Waits that end when the test says so; `asked` are their lengths."""

    def __init__(self) -> None:
        self.asked: list[float] = []
        self.begun = asyncio.Event()
        self.over = asyncio.Event()

    async def __call__(self, seconds: float) -> None:
        self.asked.append(seconds)
        self.begun.set()
        await self.over.wait()


@asynccontextmanager
async def _sending(folder: Path, post: _Post, waits: _Waits) -> AsyncIterator[Outgoing]:
    """The way out over a ledger with three answers to Ann, the first one in two parts."""
    ledger = await SqliteLedger.open(folder / "ledger.sqlite", now=Clock(), new_id=CountingIds())
    up = asyncio.Event()
    up.set()

    async def may_send(_asker: Inbound) -> bool:
        return True

    outgoing = Outgoing(post, ledger.outbox, up, may_send=may_send, sleep=waits)
    for answers, texts in (("1", ["one", "one, again"]), ("2", ["two"]), ("", ["a notice"])):
        await ledger.outbox.put(PLACE, texts, answers=answers)
    try:
        outgoing.notify(PLACE.chat_id)
        yield outgoing
    finally:
        await outgoing.close()
        await ledger.close()


async def test_an_answer_is_recorded_with_its_sending_and_keeps_its_order(tmp_path: Path) -> None:
    """One step of the ledger begins it, its rights are not asked for again, and nothing overtakes it."""
    post, waits, asked = _Post(holds_chat=False), _Waits(), list[Inbound]()
    ledger = await SqliteLedger.open(tmp_path / "ledger.sqlite", now=Clock(), new_id=CountingIds())
    up = asyncio.Event()

    async def may_send(asker: Inbound) -> bool:
        asked.append(asker)
        return True

    outgoing = Outgoing(post, ledger.outbox, up, may_send=may_send, sleep=waits)
    recorded: list[OutboundPart | None] = []

    async def answer(number: str, *texts: str) -> None:
        message = Inbound(
            text="?", chat_kind="direct", channel="line", chat_id="ann", sender_id="ann", message_id=number
        )
        received = await ledger.receive(message, "k")
        assert received is not None

        async def finish(*, sends: bool) -> OutboundPart | None:
            part = await ledger.finish([received], PLACE, texts, sends=sends)
            # A notice comes while the answer is being recorded.
            await ledger.outbox.put(PLACE, [f"notice {number}"])
            outgoing.notify(PLACE.chat_id)
            recorded.append(part)
            return part

        await outgoing.answer(PLACE.chat_id, finish)

    try:
        await answer("1", "one", "two")
        up.set()
        await answer("2", "three")
        await outgoing.flush()
        await answer("3", "four", "five")
        await outgoing.flush()
        assert post.tried == ["one", "two", "notice 1", "three", "notice 2", "four", "five", "notice 3"]
        assert [part and part.part.text for part in recorded] == [None, None, "four"]
        assert len(asked) == 4, "of the first part of the last answer, it is known"
        assert await ledger.not_done() == {}
    finally:
        await outgoing.close()
        await ledger.close()


async def test_an_answer_that_is_refused_alone_holds_no_other(tmp_path: Path) -> None:
    """Those behind it in the chat go out; its own parts stay in their order, and are tried again later."""
    post, waits = _Post("one", holds_chat=False), _Waits()
    async with _sending(tmp_path, post, waits) as outgoing:
        await outgoing.flush()
        assert post.tried == ["one", "two", "a notice"]
        assert waits.asked == [300]
        assert outgoing.is_busy
        assert not outgoing.is_sending(PLACE.chat_id)
        outgoing.notify(PLACE.chat_id)
        await outgoing.flush()
        assert post.tried == ["one", "two", "a notice"]
        post.refused.clear()
        waits.over.set()
        await post.was_last.wait()
        await outgoing.flush()
        assert post.tried[3:] == ["one", "one, again"]


async def test_a_channel_that_refuses_everything_keeps_the_order(tmp_path: Path) -> None:
    """Where the next answer could not be sent either, nothing overtakes."""
    post, waits = _Post("one", holds_chat=True), _Waits()
    async with _sending(tmp_path, post, waits) as outgoing:
        await waits.begun.wait()
        assert post.tried == ["one"]
        post.refused.clear()
        waits.over.set()
        await outgoing.flush()
        assert post.tried == ["one", "one", "one, again", "two", "a notice"]


@pytest.mark.parametrize(("writing", "before"), [("sending", []), ("sent", ["one"])])
async def test_a_ledger_that_refuses_for_a_while_costs_no_answer(
    tmp_path: Path, writing: str, before: list[str]
) -> None:
    """Nothing is sent that is not written down, nothing twice, and sending goes on by itself."""
    post, waits = _Post(holds_chat=True), _Waits()
    async with _sending(tmp_path, post, waits) as outgoing:
        with closing(sqlite3.connect(tmp_path / "ledger.sqlite", isolation_level=None)) as file:
            file.execute(
                f"CREATE TRIGGER full BEFORE UPDATE ON outbound WHEN NEW.state = '{writing}' "
                "BEGIN SELECT RAISE(ABORT, 'database or disk is full'); END"
            )
            await waits.begun.wait()
            assert post.tried == before
            file.execute("DROP TRIGGER full")
        waits.over.set()
        await outgoing.flush()
        assert post.tried == ["one", "one, again", "two", "a notice"]
        assert waits.asked == [1]
