"""IRC against a real ngircd: the stories of every channel, the contract, and what only IRC has."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest

from nacre.bridges.contracts.bridge import Bridge, Part, Place
from nacre.bridges.contracts.bridge_contract import BridgeContract, FarSide, RecordingInbox, started
from nacre.bridges.contracts.errors import CannotConnect, NotDelivered
from nacre.extensions.irc.bridge import message_lines
from tests.bridges.channels.contract.served import WorldFarSide, far_side_of
from tests.bridges.channels.contract.servers import free_port, self_signed
from tests.bridges.channels.contract.stories import ChannelStories
from tests.bridges.channels.contract.world import World, until
from tests.extensions.irc.ngircd import ROOM, NgircdWorld, Person, bridge, ngircd, ngircd_world

pytestmark = pytest.mark.channels


class TestStories(ChannelStories):
    """The stories of every channel."""

    def world(self, folder: Path) -> AbstractAsyncContextManager[World]:
        """ngircd with Ann."""
        return ngircd_world(folder)


class IrcFarSide(WorldFarSide[NgircdWorld]):
    """The room as the contract's tests see it: a part is one message or one line for each of its lines."""

    place = Place(channel="irc", account="default", chat_id=ROOM)

    def __init__(self, world: NgircdWorld) -> None:
        super().__init__(world)
        self.lines: list[int] = []

    def bridge(self) -> Bridge:
        """A bridge of which it is known how many lines each part has."""
        made = self.world.bridge()
        deliver = made.deliver

        async def counted(part: Part) -> str:
            sent_id = await deliver(part)
            self.lines.append(len(message_lines(part.text)))
            return sent_id

        made.deliver = counted  # type: ignore[method-assign]
        return made

    async def say(self, text: str) -> None:
        """Ann says it when the assistant is there; her client joins lines with blanks."""
        await self.world.meet()
        await self.world.say(text.replace("\n", " "), group=True)

    async def shown(self, least: int) -> Sequence[str]:
        """The lines that Ann sees, put together as parts."""
        await until(lambda: len(self.lines) >= least)
        await until(lambda: len(self.world.shown(group=True)) >= sum(self.lines))
        rest = list(self.world.shown(group=True))
        shown = []
        for count in self.lines:
            shown.append("\n".join(rest[:count]))
            rest = rest[count:]
        return [*shown, *rest]


class TestContract(BridgeContract):
    """What every bridge must hold."""

    def far_side(self) -> AbstractAsyncContextManager[FarSide]:
        """The room."""
        return far_side_of(ngircd_world, IrcFarSide)

    def test_what_was_not_written_down_comes_again(self) -> None:
        """The bridge itself offers again what the inbox refused; the server keeps nothing for later."""

        async def story(far: FarSide) -> None:
            inbox = RecordingInbox(fails=1)
            async with started(far.bridge(), inbox):
                await far.say("one")
                await inbox.holds(1)
                assert [inbound.text for inbound in inbox.inbound] == ["one"]

        self._run(story)


def private(chat_id: str, text: str) -> Part:
    """Something to say to one person."""
    return Part(place=Place(channel="irc", account="default", chat_id=chat_id), text=text, key="k")


async def test_a_nick_that_somebody_else_took_is_told_nothing(tmp_path: Path) -> None:
    """Ann leaves, another Ann comes: the answer for the first one waits."""
    async with ngircd_world(tmp_path) as world:
        inbox = RecordingInbox()
        async with started(world.bridge(), inbox) as running:
            await world.meet()
            await world.say("psst")
            await inbox.holds(1)
            assert inbox.inbound[0].chat_kind == "direct"
            assert inbox.inbound[0].sender_id == inbox.inbound[0].chat_id == world.ann
            await running.deliver(private(world.ann, "for Ann"))
            await until(lambda: world.shown() == ["for Ann"])
            await world.person.leave()
            thief = Person(world.server.port, "ann")
            await thief.arrive(user="thief")
            with pytest.raises(NotDelivered, match=r"is no longer ann!~ann@127\.0\.0\.1"):
                await running.deliver(private(world.ann, "for Ann again"))
            await thief.leave()
            assert thief.seen == []
        assert world.shown() == ["for Ann"]


async def test_a_channel_that_is_refused_is_told(tmp_path: Path) -> None:
    """Its status has the channel and the reason, and the other channels are served."""
    async with ngircd_world(tmp_path) as world:
        world.person.send("JOIN #closed", "MODE #closed +i")
        world.spec["join"] = ["#closed", ROOM]
        async with started(world.bridge(), RecordingInbox()) as running:
            await world.meet()
            await until(lambda: "#closed" in running.refused)
            assert list(running.refused) == ["#closed"]
            assert "invite" in running.refused["#closed"].lower()


@pytest.mark.parametrize("name", ["#" + "x" * 60, "#keyed"])
async def test_whatever_refuses_a_channel_is_told(tmp_path: Path, name: str) -> None:
    """A name that is too long, and one that needs a key: each server has codes of its own."""
    async with ngircd_world(tmp_path) as world:
        world.person.send("JOIN #keyed", "MODE #keyed +k sesame")
        world.spec["join"] = [name]
        async with started(world.bridge(), RecordingInbox()) as running:
            await until(lambda: name in running.refused)


async def test_a_channel_that_removes_the_assistant_is_told(tmp_path: Path) -> None:
    """It stays out, and the status says who did it."""
    async with ngircd_world(tmp_path) as world, started(world.bridge(), RecordingInbox()) as running:
        await world.meet()
        world.person.send(f"KICK {ROOM} Nacre :go")
        await until(lambda: ROOM in running.refused)
        assert "ann" in running.refused[ROOM]


async def test_a_long_answer_arrives_whole_and_in_order(tmp_path: Path) -> None:
    """Forty lines of letters that have several bytes each, through the flood control of the server."""
    lines = [f"{number} " + "žluťoučký kůň " * 9 for number in range(40)]
    async with ngircd_world(tmp_path) as world, started(world.bridge(), RecordingInbox()) as running:
        for line in lines:
            await running.deliver(Part(place=IrcFarSide.place, text=line, key=line))
        await until(lambda: len(world.shown(group=True)) >= len(lines))
        assert [text.split() for text in world.shown(group=True)] == [line.split() for line in lines]


async def test_a_mention_is_seen_and_a_taken_nick_gets_a_tail(tmp_path: Path) -> None:
    """Somebody is called Nacre already: the assistant is `Nacre_`, and hears it, until the name is free."""
    async with ngircd(tmp_path) as server:
        world, other = NgircdWorld(server), Person(server.port, "Nacre")
        await other.join()
        await world.person.join()
        inbox = RecordingInbox()
        async with started(world.bridge(), inbox):
            world.person.send(f"PRIVMSG {ROOM} :Nacre: not you", f"PRIVMSG {ROOM} :nacre_, you", "PING x")
            await inbox.holds(2)
            said = [(inbound.text, inbound.is_mentioned) for inbound in inbox.inbound]
            assert said == [("Nacre: not you", False), ("you", True)]
            await other.leave()
            await until(lambda: "Nacre_" not in world.person.here, lambda: world.person.here)
            assert "Nacre" in world.person.here
        await world.person.leave()


async def test_a_wrong_server_password_is_told_in_a_sentence(tmp_path: Path) -> None:
    """The right one lets in."""
    async with ngircd(tmp_path, more="Password = sesame") as server:
        spec = NgircdWorld(server).spec
        with pytest.raises(CannotConnect, match=r"127\.0\.0\.1 refuses .*[Pp]assword"):
            await bridge({**spec, "serverPassword": "wrong"}).start(RecordingInbox())
        async with started(bridge({**spec, "serverPassword": "sesame"}), RecordingInbox()):
            pass


async def test_a_certificate_is_checked(tmp_path: Path) -> None:
    """One of an unknown authority is refused with a sentence, and accepted when its file is named."""
    tls_port = free_port()
    key, certificate = await self_signed(tmp_path)
    more = f"[SSL]\nCertFile = {certificate}\nKeyFile = {key}\nPorts = {tls_port}\n"
    async with ngircd(tmp_path, more=more) as server:
        spec = {**NgircdWorld(server).spec, "port": tls_port, "tls": True, "host": "localhost"}
        with pytest.raises(CannotConnect, match=r"certificate of localhost:\d+ is not accepted: self-signed"):
            await bridge(spec).start(RecordingInbox())
        with pytest.raises(CannotConnect, match="not accepted: IP address mismatch"):
            await bridge({**spec, "host": "127.0.0.1", "tlsCaFile": str(certificate)}).start(RecordingInbox())
        async with started(bridge({**spec, "tlsCaFile": str(certificate)}), RecordingInbox()):
            pass
        with pytest.raises(CannotConnect, match="TLS"):
            await bridge({**spec, "port": server.port}).start(RecordingInbox())
