"""Matrix against a real Synapse: the stories of every channel, the contract, and what only Matrix has."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest

from nacre.bridges.contracts.bridge import Part, Place
from nacre.bridges.contracts.bridge_contract import BridgeContract, FarSide, RecordingInbox, started
from nacre.bridges.contracts.errors import CannotConnect, NotDelivered
from nacre.extensions.matrix.bridge import ENCRYPTED
from tests.bridges.channels.contract.relay import Relay, relayed
from tests.bridges.channels.contract.served import WorldFarSide, far_side_of
from tests.bridges.channels.contract.servers import ServerProcess
from tests.bridges.channels.contract.stories import ChannelStories
from tests.bridges.channels.contract.world import World, until
from tests.extensions.matrix.synapse import Person, SynapseWorld, bridge, synapse, synapse_world

pytestmark = pytest.mark.channels


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """One Synapse for all of them: it takes seconds to start."""
    running = synapse(tmp_path_factory.mktemp("synapse"))
    asyncio.run(running.start())
    yield running
    asyncio.run(running.stop())


class _OnServer:
    """A class of tests on the one server."""

    server: ServerProcess

    @pytest.fixture(autouse=True)
    def _use(self, server: ServerProcess) -> None:
        self.server = server


class TestStories(_OnServer, ChannelStories):
    """The stories of every channel."""

    def world(self, folder: Path) -> AbstractAsyncContextManager[World]:
        """Ann on Synapse."""
        return synapse_world(self.server, folder)


class MatrixFarSide(WorldFarSide[SynapseWorld]):
    """Ann's private chat, and a wire that can be cut."""

    def __init__(self, world: SynapseWorld, relay: Relay) -> None:
        super().__init__(world)
        self.relay = relay
        world.spec["homeserver"] = f"http://127.0.0.1:{relay.port}"

    @property
    def place(self) -> Place:
        """The room with Ann."""
        return private(self.world)

    async def shown(self, least: int) -> list[str]:
        """What Ann sees, when she has seen everything."""
        await super().shown(least)
        await self.world.person.catch_up()
        return list(self.world.shown())

    async def cut(self) -> None:
        """Ends the connections."""
        self.relay.cut(and_next=True)


class TestContract(_OnServer, BridgeContract):
    """What every bridge must hold."""

    def far_side(self) -> AbstractAsyncContextManager[FarSide]:
        """The private chat."""
        return self._far_side()

    @asynccontextmanager
    async def _far_side(self) -> AsyncIterator[FarSide]:
        async with (
            relayed(self.server.port) as relay,
            far_side_of(
                lambda folder: synapse_world(self.server, folder), lambda world: MatrixFarSide(world, relay)
            ) as far,
        ):
            async with started(far.bridge(), RecordingInbox()):
                await far.world.meet()  # type: ignore[attr-defined]
            yield far


def private(world: SynapseWorld) -> Place:
    """Ann's private chat."""
    return Place(channel="matrix", account="default", chat_id=f"{world.private} {world.ann}")


def part(world: SynapseWorld, text: str) -> Part:
    """Something to say to Ann."""
    return Part(place=private(world), text=text, key=text)


async def test_a_private_chat_ends_when_somebody_else_comes(server: ServerProcess, tmp_path: Path) -> None:
    """What is said from then on is said in a group, and no private answer goes there."""
    async with synapse_world(server, tmp_path) as world:
        inbox = RecordingInbox()
        async with started(world.bridge(), inbox) as running:
            await world.meet()
            await world.say("psst")
            await inbox.holds(1)
            await running.deliver(part(world, "for Ann"))
            bob = Person(server.port, f"bob{world.private[1:5].lower()}")
            await bob.register()
            await world.person.ask(
                "POST", f"/client/v3/rooms/{world.private}/invite", {"user_id": bob.user_id}
            )
            await world.say("who is there?")
            await inbox.holds(2)
            with pytest.raises(NotDelivered, match="no longer a private chat"):
                await running.deliver(part(world, "for Ann again"))
        kinds = [(said.chat_kind, said.chat_id, said.sender_id) for said in inbox.inbound]
        assert kinds == [
            ("direct", f"{world.private} {world.ann}", world.ann),
            ("group", world.private, world.ann),
        ]


async def test_two_people_in_a_room_are_no_private_chat_by_that(
    server: ServerProcess, tmp_path: Path
) -> None:
    """The room has two people and no name, and was not made as a private chat."""
    async with synapse_world(server, tmp_path) as world:
        inbox = RecordingInbox()
        async with started(world.bridge(), inbox):
            await world.meet()
            await world.say("hello", group=True)
            await inbox.holds(1)
        assert [said.chat_kind for said in inbox.inbound] == ["group"]


async def test_in_a_group_a_reply_comes_with_what_it_answers(server: ServerProcess, tmp_path: Path) -> None:
    """Nobody has shown it to the assistant, unless it is its own or no longer there."""
    async with synapse_world(server, tmp_path) as world:
        inbox = RecordingInbox()
        async with started(world.bridge(), inbox) as bridge:
            await world.meet()
            place = Place(channel="matrix", account="default", chat_id=world.group)
            said = await world.person.send(world.group, {"msgtype": "m.text", "body": "Swarm at noon"})
            own = await bridge.deliver(Part(place=place, text="Bees", key="k"))
            for answered in (said, own, "$gone"):
                relation = {"m.in_reply_to": {"event_id": answered}}
                await world.person.send(
                    world.group, {"msgtype": "m.text", "body": "why?", "m.relates_to": relation}
                )
            await inbox.holds(4)
    ann = world.person.user_id
    quoted = [[(each.text, each.kind) for each in said.quoted] for said in inbox.inbound]
    assert [each.sender_id for each in inbox.inbound] == [ann] * 4
    assert quoted == [[], [("Swarm at noon", "quote")], [], []]


async def test_an_encrypted_room_is_told_that_it_cannot_be_read(
    server: ServerProcess, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Once, in a sentence; the log says it too."""
    caplog.set_level(logging.INFO)
    async with synapse_world(server, tmp_path) as world:
        async with started(world.bridge(), RecordingInbox()):
            await world.meet()
            secret = {"algorithm": "m.megolm.v1.aes-sha2", "ciphertext": "x", "device_id": "d"}
            for _ in range(2):
                await world.person.send(
                    world.private, {**secret, "sender_key": "k", "session_id": "s"}, "m.room.encrypted"
                )
            await until(lambda: ENCRYPTED in world.shown(), world.shown)
        assert list(world.shown()) == [ENCRYPTED]
        assert "end-to-end encrypted, which is not supported" in caplog.text


async def test_a_long_absence_costs_no_message(server: ServerProcess, tmp_path: Path) -> None:
    """More than the news hold at once: the gap is read from the room, in its order."""
    async with synapse_world(server, tmp_path) as world:
        inbox = RecordingInbox()
        async with started(world.bridge(), inbox):
            await world.meet()
            await world.say("first")
            await inbox.holds(1)
        for number in range(70):
            await world.say(f"{number}")
        later = RecordingInbox(inbox.cursor)
        async with started(world.bridge(), later):
            await later.holds(70)
        assert [said.text for said in later.inbound] == [str(number) for number in range(70)]


async def test_a_file_comes_with_its_bytes_or_with_the_reason(server: ServerProcess, tmp_path: Path) -> None:
    """One that is too large is named."""
    async with synapse_world(server, tmp_path) as world:
        world.spec["mediaMaxMb"] = 0.001
        inbox = RecordingInbox()
        async with started(world.bridge(), inbox):
            await world.meet()
            for size in (900, 1_100):
                stored = await world.person.ask("POST", "/media/v3/upload", "x" * (size - 2))
                content = {"msgtype": "m.file", "body": "a.txt", "url": stored["content_uri"]}
                await world.person.send(world.private, content)
            await inbox.holds(2)
        small, large = (said.attachments[0] for said in inbox.inbound)
        assert (len(small.data), small.name, small.problem) == (900, "a.txt", "")
        assert (large.data, large.problem) == (b"", "it has more than 1000 bytes")


async def test_a_login_that_is_refused_is_a_sentence(server: ServerProcess, tmp_path: Path) -> None:
    """So is a token that is not known, and a server that is not there."""
    async with synapse_world(server, tmp_path) as world:
        with pytest.raises(CannotConnect, match=r"refuses the login of @nacre\d+:localhost"):
            await bridge({**world.spec, "password": "wrong"}).start(RecordingInbox())
        with pytest.raises(CannotConnect, match="refuses the token"):
            await bridge({**world.spec, "accessToken": "wrong"}).start(RecordingInbox())
        with pytest.raises(CannotConnect, match="cannot be reached"):
            await bridge({**world.spec, "homeserver": "http://127.0.0.1:1"}).start(RecordingInbox())


async def test_a_room_that_is_refused_is_told(server: ServerProcess, tmp_path: Path) -> None:
    """Its status has the room and the reason, and the other rooms are served."""
    async with synapse_world(server, tmp_path) as world:
        closed = await world.person.make_room(preset="private_chat")
        world.spec["rooms"] = [closed, world.group]
        async with started(world.bridge(), RecordingInbox()) as running:
            await world.meet()
            assert list(running.refused) == [closed]
            assert "You are not invited" in running.refused[closed]


async def test_a_token_that_was_taken_back_is_replaced(server: ServerProcess, tmp_path: Path) -> None:
    """The password gives another one, for the same device."""
    async with synapse_world(server, tmp_path) as world:
        inbox = RecordingInbox()
        async with started(world.bridge(), inbox) as running:
            await world.meet()
            await world.say("good day")
            await inbox.holds(1)
            await running.deliver(part(world, "hello"))
        kept = tmp_path / "matrix" / "login.json"
        before = kept.read_text()
        token = before.partition('"access_token": "')[2].partition('"')[0]
        kept.write_text(before.replace(token, "an-old-one"))
        async with started(world.bridge(), RecordingInbox()) as running:
            await running.deliver(part(world, "hello"))
        after = kept.read_text()
        assert "an-old-one" not in after
        assert after.partition('"access_token"')[0] == before.partition('"access_token"')[0]
        assert kept.stat().st_mode & 0o077 == 0
        assert list(world.shown()) == ["hello"]
