"""`BridgeContract`: the tests that every bridge must pass. Authors of bridges inherit them.

    class TestMyBridge(BridgeContract):
        def far_side(self) -> AbstractAsyncContextManager[FarSide]:
            return my_server_and_bridge()

`FarSide` is the other end of the channel: a server, real or on loopback, with a person in a chat. The tests
are plain functions, so any runner can call them. They skip what the bridge's `Capabilities` exclude.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from typing import Protocol

from nacre.bridges.contracts.bridge import Bridge, Part, Place
from nacre.bridges.contracts.errors import NotDelivered
from nacre.runtime.contracts.inbound import CHAT_KINDS, Inbound

TIMEOUT_SECONDS = 20.0
"""The time limit of each test."""
ODD_TEXTS = ("<b>&amp;</b> *_`", "ß\u200b\U0001f41d e\u0301", "-- ' ; \\ %s {}", "two\nlines")
"""Texts that models write. A channel may change white space, but no other character."""


class FarSide(Protocol):
    """The other end of the channel, where a test writes as a person and sees what a person sees."""

    def bridge(self) -> Bridge:
        """A new bridge to this end, not started. All bridges use the same account."""

    async def say(self, text: str) -> None:
        """A person writes in the chat, whether or not a bridge is connected."""

    async def shown(self, least: int) -> Sequence[str]:
        """The bridge's messages as the chat shows them now, the oldest first.

        Waits until there are at least `least`.
        """

    async def cut(self) -> None:
        """Ends the bridge's connections. New ones are accepted."""

    @property
    def place(self) -> Place:
        """The chat."""


class RecordingInbox:
    """An inbox that records messages. It refuses the first `fails` messages, as a full disk would."""

    def __init__(self, cursor: str = "", *, fails: int = 0) -> None:
        self.cursor = cursor
        self.inbound: list[Inbound] = []
        self.is_connected = asyncio.Event()
        self.connected = self.is_connected.set
        self._fails = fails
        self._news = asyncio.Event()

    async def receive(self, inbound: Inbound, *, cursor: str = "") -> None:
        """Records a message, once per id."""
        if self._fails:
            self._fails -= 1
            raise OSError("No space left on device")
        if inbound.message_id not in [known.message_id for known in self.inbound]:
            self.inbound.append(inbound)
        self.cursor = cursor or self.cursor
        self._news.set()

    async def holds(self, count: int) -> None:
        """Waits until there are `count` messages."""
        while len(self.inbound) < count:
            self._news.clear()
            await self._news.wait()


class BridgeContract:
    """Inherit it and override `far_side`. A failing test raises `AssertionError` with a sentence."""

    def far_side(self) -> AbstractAsyncContextManager[FarSide]:
        """A fresh other end for each test."""
        raise NotImplementedError("Override far_side(self).")

    def test_it_stops_before_and_after_a_start(self) -> None:
        """`stop` is safe at any time and ends `start`."""

        async def story(far: FarSide) -> None:
            bridge = far.bridge()
            await bridge.stop()
            async with started(far.bridge(), RecordingInbox()) as running:
                await running.stop()
                await running.stop()

        self._run(story)

    def test_what_a_person_says_becomes_an_inbound(self) -> None:
        """Messages keep their text, chat, sender and ids, and two messages stay two."""

        async def story(far: FarSide) -> None:
            inbox = RecordingInbox()
            async with started(far.bridge(), inbox) as bridge:
                for text in ODD_TEXTS:
                    await far.say(text)
                await inbox.holds(len(ODD_TEXTS))
                for text, inbound in zip(ODD_TEXTS, inbox.inbound, strict=True):
                    _check(inbound.text.split() == text.split(), f"{text!r} came as {inbound.text!r}.")
                    at = Place(channel=inbound.channel, account=inbound.account, chat_id=inbound.chat_id)
                    said_in = replace(far.place, thread_id="")
                    _check(at == said_in, f"It came from {at}, and was said in {said_in}.")
                    _check(inbound.channel == bridge.channel, f"The channel is {inbound.channel!r}.")
                    _check(inbound.chat_kind in CHAT_KINDS, f"There is no chat kind {inbound.chat_kind!r}.")
                    _check(bool(inbound.sender_id and inbound.message_id), f"Ids are missing in {inbound}.")
                    _check(not inbound.is_owner, "A bridge does not know who the owner is.")

        self._run(story)

    def test_what_is_delivered_is_shown(self) -> None:
        """Odd texts, and the longest text that the bridge accepts, arrive complete and in one message."""

        async def story(far: FarSide) -> None:
            async with started(far.bridge(), RecordingInbox()) as bridge:
                texts = [*ODD_TEXTS, "w" * bridge.capabilities.greatest_length]
                for number, text in enumerate(texts):
                    await bridge.deliver(_part(far, text, number))
                await shows(far, [text.split() for text in texts])

        self._run(story)

    def test_a_second_send_with_one_key_shows_nothing_new(self) -> None:
        """With idempotent sends, also across connections. `find` finds what arrived, and nothing else."""

        async def story(far: FarSide) -> None:
            ids: list[str] = []
            for _ in range(2):
                async with started(far.bridge(), RecordingInbox()) as bridge:
                    known = bridge.capabilities
                    if known.has_idempotent_sends or not ids:
                        ids.append(await bridge.deliver(_part(far, "once")))
                    await shows(far, [["once"]])
                    if known.can_read_back:
                        found = await bridge.find(_part(far, "once"))
                        _check(found == ids[0], f"The message {ids[0]!r} was found as {found!r}.")
                        missing = await bridge.find(_part(far, "never said", 7))
                        _check(missing is None, f"A message that was never sent was found as {missing!r}.")
            _check(len(set(ids)) == 1, f"One part got the ids {ids}.")

        self._run(story)

    def test_an_edit_changes_the_message(self) -> None:
        """The chat shows the new text, and repeating the edit is no failure."""

        async def story(far: FarSide) -> None:
            async with started(far.bridge(), RecordingInbox()) as bridge:
                if not bridge.capabilities.can_edit:
                    return
                message_id = await bridge.deliver(_part(far, "first"))
                for _ in range(2):
                    await bridge.edit(_part(far, "second"), message_id)
                await shows(far, [["second"]])

        self._run(story)

    def test_typing_can_be_shown(self) -> None:
        """The typing indicator shows no message."""

        async def story(far: FarSide) -> None:
            async with started(far.bridge(), RecordingInbox()) as bridge:
                if bridge.capabilities.has_typing:
                    await bridge.typing(far.place)
                await bridge.deliver(_part(far, "said"))
                await shows(far, [["said"]])

        self._run(story)

    def test_what_was_not_written_down_comes_again(self) -> None:
        """A message that the inbox refused, or that arrived while no bridge was connected, is received
        later.
        """

        async def story(far: FarSide) -> None:
            refusing, inbox = RecordingInbox(fails=1), RecordingInbox()
            bridge = far.bridge()
            running = asyncio.create_task(bridge.start(refusing))
            await refusing.is_connected.wait()
            await far.say("one")
            offered_again = asyncio.create_task(refusing.holds(1))
            await asyncio.wait({running, offered_again}, return_when=asyncio.FIRST_COMPLETED)
            await bridge.stop()
            await asyncio.wait({running})
            offered_again.cancel()
            await far.say("two")
            inbox.cursor = refusing.cursor
            async with started(far.bridge(), inbox):
                wanted = ["two"] if refusing.inbound else ["one", "two"]
                await inbox.holds(len(wanted))
                came = [inbound.text for inbound in inbox.inbound]
                _check(came == wanted, f"{wanted} should have come, and {came} did.")

        self._run(story)

    def test_a_lost_connection_ends_the_start(self) -> None:
        """The supervisor notices a lost connection, and a delivery without one raises `NotDelivered`."""

        async def story(far: FarSide) -> None:
            inbox, bridge = RecordingInbox(), far.bridge()
            running = asyncio.create_task(bridge.start(inbox))
            await inbox.is_connected.wait()
            await far.cut()
            await asyncio.wait({running})
            try:
                await bridge.deliver(_part(far, "too late"))
            except NotDelivered:
                pass
            else:
                _check(False, "A delivery without a connection did not raise NotDelivered.")
            await asyncio.gather(running, return_exceptions=True)
            async with started(far.bridge(), RecordingInbox()) as again:
                await again.deliver(_part(far, "here again", 2))
                await shows(far, [["here", "again"]])

        self._run(story)

    def _run(self, story: Callable[[FarSide], Awaitable[None]]) -> None:
        async def run() -> None:
            async with asyncio.timeout(TIMEOUT_SECONDS), self.far_side() as far:
                await story(far)

        asyncio.run(run())


@asynccontextmanager
async def started(bridge: Bridge, inbox: RecordingInbox) -> AsyncIterator[Bridge]:
    """A connected bridge, stopped afterwards. Raises what the bridge raises meanwhile."""
    running = asyncio.create_task(bridge.start(inbox))
    connected = asyncio.create_task(inbox.is_connected.wait())
    await asyncio.wait({running, connected}, return_when=asyncio.FIRST_COMPLETED)
    connected.cancel()
    _check(not running.done(), "The bridge ended before it was connected.")
    try:
        yield bridge
    finally:
        await bridge.stop()
        await running


async def shows(far: FarSide, words: Sequence[Sequence[str]]) -> None:
    """Checks that the chat shows these messages, word for word, and no others."""
    shown = [text.split() for text in await far.shown(len(words))]
    _check(shown == list(map(list, words)), f"The chat shows {shown} instead of {words}.")


def _part(far: FarSide, text: str, number: int = 0) -> Part:
    return Part(place=far.place, text=text, key=f"contract-{number}")


def _check(is_true: bool, sentence: str) -> None:
    if not is_true:
        raise AssertionError(sentence)
