"""XMPP against a real prosody: the stories of every channel, the contract, and what only XMPP has."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest
from slixmpp import JID

from nacre.bridges.contracts.bridge import Part
from nacre.bridges.contracts.bridge_contract import BridgeContract, FarSide, RecordingInbox, started
from nacre.bridges.contracts.errors import CannotConnect
from nacre.extensions.xmpp.bridge import ENCRYPTED
from tests.bridges.channels.contract.served import WorldFarSide, far_side_of
from tests.bridges.channels.contract.servers import self_signed
from tests.bridges.channels.contract.stories import ChannelStories
from tests.bridges.channels.contract.world import World, until
from tests.extensions.xmpp.prosody import ROOM, ProsodyWorld, bridge, prosody, prosody_world

pytestmark = pytest.mark.channels


class TestStories(ChannelStories):
    """The stories of every channel."""

    def world(self, folder: Path) -> AbstractAsyncContextManager[World]:
        """prosody with Ann."""
        return prosody_world(folder)


class XmppFarSide(WorldFarSide[ProsodyWorld]):
    """Ann's private chat."""

    async def shown(self, least: int) -> Sequence[str]:
        """What Ann sees, corrected: the server has told her everything."""
        await super().shown(least)
        await self.world.part()
        return self.world.shown()


class TestContract(BridgeContract):
    """What every bridge must hold."""

    def far_side(self) -> AbstractAsyncContextManager[FarSide]:
        """The private chat."""
        return far_side_of(prosody_world, XmppFarSide)


async def test_what_arrived_is_found_in_a_long_archive(tmp_path: Path) -> None:
    """A chat with more messages than one page of its archive holds: what was sent is found, nothing else."""
    async with prosody_world(tmp_path) as world:
        place = XmppFarSide(world).place
        async with started(world.bridge(), RecordingInbox()) as running:
            for number in range(60):
                await running.deliver(Part(place=place, text=f"{number}", key=f"k{number}"))
        async with started(world.bridge(), RecordingInbox()) as running:
            for number in (2, 59):
                assert await running.find(Part(place=place, text="", key=f"k{number}"))
            assert await running.find(Part(place=place, text="", key="k60")) is None


async def test_what_was_answered_before_the_first_start_is_not_heard_again(tmp_path: Path) -> None:
    """An assistant with an empty state folder takes only what follows the last answer in a chat."""
    async with prosody_world(tmp_path) as world:
        inbox = RecordingInbox()
        async with started(world.bridge(), inbox) as running:
            await world.say("one")
            await inbox.holds(1)
            await running.deliver(Part(place=XmppFarSide(world).place, text="re: one", key="k"))
        await world.say("two")
        later = RecordingInbox()
        async with started(world.bridge(), later):
            await later.holds(1)
        assert [said.text for said in later.inbound] == ["two"]


async def test_a_room_is_a_group_and_a_whisper_in_it_is_not_answered(tmp_path: Path) -> None:
    """People in a room of the own server are known by their addresses, and nobody is private there."""
    async with prosody_world(tmp_path) as world:
        inbox = RecordingInbox()
        async with started(world.bridge(), inbox):
            world.person.say(f"{ROOM}/Nacre", "chat", "psst")
            world.person.say(ROOM, "groupchat", "nacre: hello")
            world.person.say(ROOM, "groupchat", "hello all")
            await inbox.holds(2)
        said = [(inbound.text, inbound.is_mentioned) for inbound in inbox.inbound]
        assert said == [("hello", True), ("hello all", False)]
        assert {inbound.chat_kind for inbound in inbox.inbound} == {"group"}
        assert {inbound.sender_id for inbound in inbox.inbound} == {"ann@localhost"}
        assert {inbound.chat_id for inbound in inbox.inbound} == {ROOM}


async def test_what_was_said_in_a_room_meanwhile_is_taken_once(tmp_path: Path) -> None:
    """From the room's archive, behind the cursor; who was called Ann then, nobody knows now."""
    async with prosody_world(tmp_path) as world:
        inbox = RecordingInbox()
        async with started(world.bridge(), inbox):
            await world.say("one", group=True)
            await inbox.holds(1)
        await world.say("two", group=True)
        later = RecordingInbox(inbox.cursor)
        async with started(world.bridge(), later):
            await later.holds(1)
            await world.say("three", group=True)
            await later.holds(2)
        said = [(inbound.text, inbound.sender_id) for inbound in later.inbound]
        assert said == [("two", f"{ROOM}/ann"), ("three", "ann@localhost")]


async def test_an_encrypted_message_is_answered_once(tmp_path: Path) -> None:
    """With a sentence about what to do, also if it came while nobody was here; a plain one is read."""
    async with prosody_world(tmp_path) as world:
        for _ in range(2):
            inbox = RecordingInbox()
            world.person.say("nacre@localhost", "chat", "Not readable here.", encryption="urn:xmpp:omemo:2")
            async with started(world.bridge(), inbox):
                await until(lambda: ENCRYPTED in world.shown(), world.shown)
                world.person.say("nacre@localhost", "chat", "Nor here.", encryption="urn:xmpp:omemo:2")
                await world.say("hello")
                await inbox.holds(1)
            assert [said.text for said in inbox.inbound][-1:] == ["hello"]
        assert list(world.shown()) == [ENCRYPTED]


async def test_a_room_that_is_refused_is_told(tmp_path: Path) -> None:
    """Its status has the room and the reason, and the other rooms are served."""
    async with prosody_world(tmp_path) as world:
        closed, rooms = "closed@conference.localhost", world.person.stream.plugin["xep_0045"]
        await rooms.join_muc_wait(JID(closed), "ann", maxstanzas=0)
        await rooms.set_affiliation(JID(closed), "outcast", jid=JID("nacre@localhost"))
        world.spec["rooms"] = [closed, ROOM]
        inbox = RecordingInbox()
        async with started(world.bridge(), inbox) as running:
            await world.say("hello", group=True)
            await inbox.holds(1)
            assert running.refused == {closed: "forbidden"}


async def test_a_wrong_password_is_told_in_a_sentence(tmp_path: Path) -> None:
    """Which setting holds it too."""
    async with prosody(tmp_path) as server:
        spec = {**ProsodyWorld(server).spec, "password": "wrong"}
        with pytest.raises(CannotConnect, match=r"refuses the password of nacre@localhost \(channels"):
            await bridge(spec).start(RecordingInbox())


async def test_a_certificate_is_checked(tmp_path: Path) -> None:
    """One of an unknown authority is refused with a sentence, and accepted when its file is named."""
    key, certificate = await self_signed(tmp_path)
    more = f'ssl = {{ key = "{key}"; certificate = "{certificate}" }}'
    async with prosody(tmp_path, more=more, tls=True) as server:
        spec = {**ProsodyWorld(server).spec, "tls": True, "rooms": []}
        with pytest.raises(CannotConnect, match="is not accepted: self-signed"):
            await bridge(spec).start(RecordingInbox())
        async with started(bridge({**spec, "tlsCaFile": str(certificate)}), RecordingInbox()):
            pass
