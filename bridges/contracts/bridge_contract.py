"""`BridgeContract`: what every bridge must hold, as tests that its author inherits.

    class TestMyBridge(BridgeContract):
        def far_side(self) -> AbstractAsyncContextManager[FarSide]:
            return my_server_and_bridge()

`FarSide` is the other end of the channel: a server, real or on loopback, with a person in a chat. The tests
are plain functions, so any runner can call them. What a channel cannot do, by its `Capabilities`, is not
asked.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Protocol

from nacre.bridges.contracts.bridge import Bridge, Part, Place
from nacre.bridges.contracts.errors import NotDelivered
from nacre.runtime.contracts.inbound import CHAT_KINDS, Inbound

PATIENCE_SECONDS = 20.0
"""How long anything may take before its test fails."""
ODD_TEXTS = ("<b>&amp;</b> *_`", "ß\u200b\U0001f41d e\u0301", "-- ' ; \\ %s {}", "two\nlines")
"""What models do say. A channel may change white space, and no letter."""


class FarSide(Protocol):
    """The other end: where a test speaks as a person, and sees what a person sees."""

    def bridge(self) -> Bridge:
        """A new bridge to this end, not started; each is the same account."""
        ...

    async def say(self, text: str) -> None:
        """A person says something in the chat, whether a bridge is connected or not."""
        ...

    async def shown(self, least: int) -> Sequence[str]:
        """What the chat shows of the bridge's messages, as they read now, the oldest first.

        Waits until there are at least so many.
        """
        ...

    async def cut(self) -> None:
        """Ends the bridge's connections; new ones are taken."""
        ...

    @property
    def place(self) -> Place:
        """The chat."""
        ...


class HeldDoor:
    """A door that keeps what comes. `fails`: so many messages are refused first, as by a full disk."""

    def __init__(self, cursor: str = "", *, fails: int = 0) -> None:
        self.cursor = cursor
        self.inbound: list[Inbound] = []
        self.is_connected = asyncio.Event()
        self._fails = fails
        self._news = asyncio.Event()

    def connected(self) -> None:
        """Notes that the bridge is connected."""
        self.is_connected.set()

    async def receive(self, inbound: Inbound, *, cursor: str = "") -> None:
        """Keeps a message, each once by its id."""
        if self._fails:
            self._fails -= 1
            raise OSError("No space left on device")
        if inbound.message_id not in [known.message_id for known in self.inbound]:
            self.inbound.append(inbound)
        self.cursor = cursor or self.cursor
        self._news.set()

    async def holds(self, count: int) -> None:
        """Waits until so many messages came."""
        while len(self.inbound) < count:
            self._news.clear()
            await self._news.wait()


class BridgeContract:
    """Inherit it and give `far_side`. A test that fails raises `AssertionError` with a sentence."""

    def far_side(self) -> AbstractAsyncContextManager[FarSide]:
        """The other end, fresh for each test."""
        raise NotImplementedError("Override far_side(self).")

    def test_it_stops_before_and_after_a_start(self) -> None:
        """`stop` is safe at any time, and ends `start`."""

        async def story(far: FarSide) -> None:
            bridge = far.bridge()
            await bridge.stop()
            async with started(far.bridge(), HeldDoor()) as running:
                await running.stop()
                await running.stop()

        self._tell(story)

    def test_what_a_person_says_becomes_an_inbound(self) -> None:
        """Text, chat, sender and ids are there, and two messages are two."""

        async def story(far: FarSide) -> None:
            door = HeldDoor()
            async with started(far.bridge(), door) as bridge:
                for text in ODD_TEXTS:
                    await far.say(text)
                await door.holds(len(ODD_TEXTS))
                for text, inbound in zip(ODD_TEXTS, door.inbound, strict=True):
                    _hold(inbound.text.split() == text.split(), f"{text!r} came as {inbound.text!r}.")
                    at = Place(channel=inbound.channel, account=inbound.account, chat_id=inbound.chat_id)
                    _hold(at == _chat(far.place), f"It came from {at}, and was said in {far.place}.")
                    _hold(inbound.channel == bridge.channel, f"The channel is {inbound.channel!r}.")
                    _hold(inbound.chat_kind in CHAT_KINDS, f"There is no chat kind {inbound.chat_kind!r}.")
                    _hold(bool(inbound.sender_id and inbound.message_id), f"Ids are missing in {inbound}.")
                    _hold(not inbound.is_owner, "A bridge does not know who the owner is.")

        self._tell(story)

    def test_what_is_delivered_is_shown(self) -> None:
        """Odd texts, and the longest one that the bridge claims to take, arrive whole and in one message."""

        async def story(far: FarSide) -> None:
            async with started(far.bridge(), HeldDoor()) as bridge:
                texts = [*ODD_TEXTS, "w" * bridge.capabilities.greatest_length]
                for number, text in enumerate(texts):
                    await bridge.deliver(_part(far, text, number))
                await shows(far, [text.split() for text in texts])

        self._tell(story)

    def test_a_second_send_with_one_key_shows_nothing_new(self) -> None:
        """Where sends are idempotent, across connections too; `find` knows what arrived, where it can."""

        async def story(far: FarSide) -> None:
            ids: list[str] = []
            for _ in range(2):
                async with started(far.bridge(), HeldDoor()) as bridge:
                    known = bridge.capabilities
                    if known.has_idempotent_sends or not ids:
                        ids.append(await bridge.deliver(_part(far, "once")))
                    await shows(far, [["once"]])
                    if known.can_read_back:
                        found = await bridge.find(_part(far, "once"))
                        _hold(found == ids[0], f"The message {ids[0]!r} was found as {found!r}.")
                        missing = await bridge.find(_part(far, "never said", 7))
                        _hold(missing is None, f"A message that was never sent was found as {missing!r}.")
            _hold(len(set(ids)) == 1, f"One part got the ids {ids}.")

        self._tell(story)

    def test_an_edit_changes_the_message(self) -> None:
        """Where messages can be edited the chat shows the new text, and the same edit twice is no failure."""

        async def story(far: FarSide) -> None:
            async with started(far.bridge(), HeldDoor()) as bridge:
                if not bridge.capabilities.can_edit:
                    return
                message_id = await bridge.deliver(_part(far, "first"))
                for _ in range(2):
                    await bridge.edit(_part(far, "second"), message_id)
                await shows(far, [["second"]])

        self._tell(story)

    def test_typing_can_be_shown(self) -> None:
        """Where there is such a sign, it shows no message."""

        async def story(far: FarSide) -> None:
            async with started(far.bridge(), HeldDoor()) as bridge:
                if bridge.capabilities.has_typing:
                    await bridge.typing(far.place)
                await bridge.deliver(_part(far, "said"))
                await shows(far, [["said"]])

        self._tell(story)

    def test_what_was_not_written_down_comes_again(self) -> None:
        """What the door refused, and what was said while nobody was there, is received later."""

        async def story(far: FarSide) -> None:
            refusing, door = HeldDoor(fails=1), HeldDoor()
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
            door.cursor = refusing.cursor
            async with started(far.bridge(), door):
                wanted = ["two"] if refusing.inbound else ["one", "two"]
                await door.holds(len(wanted))
                came = [inbound.text for inbound in door.inbound]
                _hold(came == wanted, f"{wanted} should have come, and {came} did.")

        self._tell(story)

    def test_a_lost_connection_ends_the_start(self) -> None:
        """Its supervisor notices, and a delivery without a connection surely did not arrive."""

        async def story(far: FarSide) -> None:
            door, bridge = HeldDoor(), far.bridge()
            running = asyncio.create_task(bridge.start(door))
            await door.is_connected.wait()
            await far.cut()
            await asyncio.wait({running})
            try:
                await bridge.deliver(_part(far, "too late"))
            except NotDelivered:
                pass
            else:
                _hold(False, "A delivery without a connection did not raise NotDelivered.")
            await asyncio.gather(running, return_exceptions=True)
            async with started(far.bridge(), HeldDoor()) as again:
                await again.deliver(_part(far, "here again", 2))
                await shows(far, [["here", "again"]])

        self._tell(story)

    def _tell(self, story: Callable[[FarSide], Awaitable[None]]) -> None:
        async def told() -> None:
            async with asyncio.timeout(PATIENCE_SECONDS), self.far_side() as far:
                await story(far)

        asyncio.run(told())


@asynccontextmanager
async def started(bridge: Bridge, door: HeldDoor) -> AsyncIterator[Bridge]:
    """A bridge that is connected, and stopped afterwards; what it raises meanwhile is raised here."""
    running = asyncio.create_task(bridge.start(door))
    connected = asyncio.create_task(door.is_connected.wait())
    await asyncio.wait({running, connected}, return_when=asyncio.FIRST_COMPLETED)
    connected.cancel()
    _hold(not running.done(), "The bridge ended before it was connected.")
    try:
        yield bridge
    finally:
        await bridge.stop()
        await running


async def shows(far: FarSide, words: Sequence[Sequence[str]]) -> None:
    """Holds that the chat shows these messages, word for word, and no other."""
    shown = [text.split() for text in await far.shown(len(words))]
    _hold(shown == list(map(list, words)), f"The chat shows {shown} instead of {words}.")


def _part(far: FarSide, text: str, number: int = 0) -> Part:
    return Part(place=far.place, text=text, key=f"contract-{number}")


def _chat(place: Place) -> Place:
    return Place(channel=place.channel, account=place.account, chat_id=place.chat_id)


def _hold(holds: bool, sentence: str) -> None:
    if not holds:
        raise AssertionError(sentence)
