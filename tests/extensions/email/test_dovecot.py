"""E-mail against a real Dovecot: the stories of every channel, the contract, and what only mail has."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, Envelope, Session

from nacre.bridges.contracts.bridge import Part, Place
from nacre.bridges.contracts.bridge_contract import BridgeContract, FarSide, RecordingInbox, started
from nacre.bridges.contracts.errors import CannotConnect, DeliveryRefused, NotDelivered
from tests.bridges.channels.contract.relay import Relay, relayed
from tests.bridges.channels.contract.served import WorldFarSide
from tests.bridges.channels.contract.servers import free_port
from tests.bridges.channels.contract.stories import ChannelStories
from tests.bridges.channels.contract.world import World
from tests.extensions.email.dovecot import DovecotWorld, bridge, dovecot_world

pytestmark = pytest.mark.channels


class TestStories(ChannelStories):
    """The stories of every channel."""

    def world(self, _folder: Path) -> AbstractAsyncContextManager[World]:
        """Dovecot with Ann."""
        return dovecot_world()


class EmailFarSide(WorldFarSide[DovecotWorld]):
    """Ann's mailbox, and a wire to the assistant's that can be cut."""

    def __init__(self, world: DovecotWorld, relay: Relay) -> None:
        super().__init__(world)
        self.relay = relay
        world.spec["imapPort"] = relay.port

    @property
    def place(self) -> Place:
        """Her private chat."""
        return Place(channel="email", account="default", chat_id="ann@localhost")

    async def cut(self) -> None:
        """Ends the connections."""
        self.relay.cut()


class TestContract(BridgeContract):
    """What every bridge must hold."""

    def far_side(self) -> AbstractAsyncContextManager[FarSide]:
        """Ann's mailbox."""
        return self._far_side()

    @asynccontextmanager
    async def _far_side(self) -> AsyncIterator[FarSide]:
        async with dovecot_world() as world, relayed(world.server.port) as relay:
            yield EmailFarSide(world, relay)


async def test_answers_are_threads_of_their_own_and_stop_programs() -> None:
    """An answer names what it answers, has its subject, and says that a program sent it."""
    async with dovecot_world() as world:
        inbox = RecordingInbox()
        async with started(world.bridge(), inbox) as running:
            first = await world.person.send("Tea?", subject="Breakfast")
            await inbox.holds(1)
            [said] = inbox.inbound
            place = Place(channel="email", account="default", chat_id=said.chat_id, thread_id=said.thread_id)
            sent = await running.deliver(Part(place=place, text="Yes.", key="k", answers=said.message_id))
            # A program that forgets what it answers but the last id.
            await world.person.send("Milk?", subject="RE: breakfast", In_Reply_To=sent)
            await world.person.send("And now?", subject="Lunch", In_Reply_To=sent)
            await inbox.holds(3)
            odd = Place(channel="email", account="default", chat_id="nobody@")
            with pytest.raises(DeliveryRefused, match="is not a list of addresses"):
                await running.deliver(Part(place=odd, text="lost", key="l"))
        [answer] = world.post.messages("ann")
        assert (answer["Subject"], answer["In-Reply-To"], answer["References"]) == (
            "Re: Breakfast",
            first,
            first,
        )
        assert (answer["Auto-Submitted"], answer["Message-ID"]) == ("auto-replied", sent)
        threads = [said.thread_id for said in inbox.inbound]
        assert threads[0] == threads[1] != threads[2]


async def test_a_message_that_is_too_large_is_named_and_not_fetched() -> None:
    """Its sender is heard all the same."""
    async with dovecot_world() as world:
        world.spec["mediaMaxMb"] = 0.01
        inbox = RecordingInbox()
        async with started(world.bridge(), inbox):
            await world.person.send("x" * 900 + "\n" * 20_000 + "y")
            await inbox.holds(1)
        [said] = inbox.inbound
        assert said.sender_id == "ann@localhost"
        assert "over the limit" in said.attachments[0].problem


async def test_what_the_servers_refuse_is_a_sentence() -> None:
    """A wrong password, a folder that is not there, a server that is not there."""
    async with dovecot_world() as world:
        with pytest.raises(CannotConnect, match="refuses the login of nacre@localhost"):
            await bridge({**world.spec, "password": "wrong"}).start(RecordingInbox())
        with pytest.raises(CannotConnect, match=r"the folder Nowhere .*: Mailbox doesn't exist"):
            await bridge({**world.spec, "folder": "Nowhere"}).start(RecordingInbox())
        with pytest.raises(CannotConnect, match="cannot be reached"):
            await bridge({**world.spec, "imapPort": 1}).start(RecordingInbox())
        async with started(bridge({**world.spec, "smtpPort": 1}), RecordingInbox()) as running:
            place = Place(channel="email", account="default", chat_id="ann@localhost")
            with pytest.raises(NotDelivered, match="cannot be reached"):
                await running.deliver(Part(place=place, text="hello", key="k"))


class _Busy:
    """An SMTP server that refuses each recipient, or each text, for now."""

    def __init__(self, stage: str) -> None:
        self._stage = stage

    async def handle_RCPT(  # noqa: N802 - aiosmtpd's name
        self, _server: SMTP, _session: Session, envelope: Envelope, to: str, _: object
    ) -> str:
        """Refuses at `RCPT`."""
        if self._stage == "rcpt":
            return "451 greylisted"
        envelope.rcpt_tos.append(to)
        return "250 taken"

    async def handle_DATA(self, _server: SMTP, _session: Session, _envelope: Envelope) -> str:  # noqa: N802 - aiosmtpd's name
        """Refuses at `DATA`."""
        return "451 later"


@pytest.mark.parametrize("stage", ["rcpt", "data"])
async def test_a_message_that_is_refused_for_now_holds_no_other(stage: str) -> None:
    """A greylisted answer is tried again later, and those behind it are not kept waiting."""
    controller = Controller(_Busy(stage), hostname="127.0.0.1", port=free_port())
    controller.start()
    try:
        async with dovecot_world() as world:
            spec = {**world.spec, "smtpPort": controller.port}
            async with started(bridge(spec), RecordingInbox()) as running:
                place = Place(channel="email", account="default", chat_id="ann@localhost")
                with pytest.raises(NotDelivered, match="451") as refused:
                    await running.deliver(Part(place=place, text="hello", key="k"))
    finally:
        controller.stop()
    assert not refused.value.holds_chat
    assert refused.value.retry_after_seconds
