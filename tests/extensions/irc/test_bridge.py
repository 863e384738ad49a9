"""The bridge to IRC with a server on loopback: logging in, accounts, typing, nonsense."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from datetime import UTC
from typing import Any

import pytest

from nacre.bridges.channels.connection import check_password_is_safe
from nacre.bridges.contracts.bridge import Part, Place
from nacre.bridges.contracts.bridge_contract import RecordingInbox, started
from nacre.bridges.contracts.errors import CannotConnect
from nacre.extensions.irc.bridge import IrcBridge
from nacre.extensions.irc.settings import IrcSettings
from nacre.runtime.contracts.clock import system_clock
from nacre.runtime.contracts.inbound import Inbound
from tests.bridges.channels.contract.malformed import MALFORMED, SAMPLE, malformed
from tests.extensions.irc.loopback import loopback
from tests.extensions.irc.test_messages import GOOD

BY_ACCOUNT = b"@account=Ann;msgid=m1 :ann2!~a@host PRIVMSG Nacre :by account\r\n"


def _bridge(port: int, **more: Any) -> IrcBridge:
    known = {"host": "127.0.0.1", "port": port, "tls": False, "nick": "Nacre", "linesPerSecond": 1000}
    return IrcBridge(IrcSettings.model_validate({**known, **more}), now=system_clock(UTC))


async def test_it_logs_in_and_knows_people_by_their_accounts() -> None:
    """SASL PLAIN; the answer goes to the nick that the account has, typing too."""
    async with loopback(password="s3cret", behind=[BY_ACCOUNT]) as server:
        inbox = RecordingInbox()
        async with started(_bridge(server.port, saslAccount="bot", saslPassword="s3cret"), inbox) as running:
            await inbox.holds(1)
            [inbound] = inbox.inbound
            assert (inbound.sender_id, inbound.chat_id, inbound.message_id) == ("ann", "ann", "m1")
            place = Place(channel="irc", account="default", chat_id="ann")
            await running.typing(place)
            await running.deliver(Part(place=place, text="hi", key="k"))
        said = [line for line in server.heard if "ann2" in line]
        assert said == ["@+typing=active TAGMSG ann2", "WHOIS ann2", "PRIVMSG ann2 hi"]


async def test_a_login_that_is_refused_or_not_offered_is_a_sentence() -> None:
    """The assistant does not go on without it."""
    async with loopback(password="s3cret") as server:
        with pytest.raises(CannotConnect, match="refuses the password of 'bot'"):
            await _bridge(server.port, saslAccount="bot", saslPassword="wrong").start(RecordingInbox())
    async with loopback() as server:
        with pytest.raises(CannotConnect, match="offers no login"):
            await _bridge(server.port, saslPassword="s3cret").start(RecordingInbox())


def test_no_password_goes_over_an_open_line() -> None:
    """Only to this machine itself."""
    far = IrcSettings(host="irc.example.org", nick="Nacre", tls=False).address

    with pytest.raises(CannotConnect, match="is not sent without TLS"):
        check_password_is_safe(far)
    check_password_is_safe(replace(far, tls=True))
    check_password_is_safe(replace(far, host="127.0.0.1"))


class _Counting:
    """A inbox that counts, until the last message came."""

    cursor = ""

    def __init__(self) -> None:
        self.taken = 0
        self.last = asyncio.Event()

    def connected(self) -> None:
        """Nothing to do."""

    async def receive(self, inbound: Inbound, *, cursor: str = "") -> None:
        """One more."""
        self.taken += 1
        if inbound.text == "by account":
            self.last.set()


@pytest.mark.parametrize(
    "count", [SAMPLE, pytest.param(MALFORMED, marks=[pytest.mark.slow, pytest.mark.channels])]
)
async def test_nonsense_is_logged_and_left_out(count: int, caplog: pytest.LogCaptureFixture) -> None:
    """Whatever a server sends, the bridge goes on: the good message behind it all is taken."""
    caplog.set_level(logging.INFO)
    nonsense = [raw + b"\r\n" for raw in malformed(GOOD, count)]
    async with loopback(behind=[*nonsense, BY_ACCOUNT]) as server:
        inbox, bridge = _Counting(), _bridge(server.port)
        running = asyncio.create_task(bridge.start(inbox))
        async with asyncio.timeout(120):
            await inbox.last.wait()
        await bridge.stop()
        await running
    refused = [record for record in caplog.records if "ignored" in record.message]
    assert len(refused) > count / 50
    assert inbox.taken > count / 50
