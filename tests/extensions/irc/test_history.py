"""IRC where the server keeps what is said: what was missed is taken once, in order, and nothing else."""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager
from datetime import UTC, timedelta
from pathlib import Path

import pytest

from nacre.bridges.contracts.bridge_contract import RecordingInbox, started
from nacre.extensions.irc.bridge import IrcBridge
from nacre.extensions.irc.settings import IrcSettings
from nacre.runtime.contracts.clock import system_clock
from tests.bridges.channels.contract.stories import ChannelStories
from tests.bridges.channels.contract.world import World, until
from tests.extensions.irc.keeping_server import CHATHISTORY, PLAYBACK, KeepingServer, keeping, keeping_world
from tests.extensions.irc.ngircd import ROOM

ANN = "ann!~ann@127.0.0.1"
ME = "Nacre!~Nacre@127.0.0.1"
WITHOUT_IDS = ("batch", "server-time", "draft/chathistory")


class TestKeepingStories(ChannelStories):
    """The stories of every channel; a kill loses nothing here."""

    def world(self, folder: Path) -> AbstractAsyncContextManager[World]:
        """The server with Ann."""
        return keeping_world(folder)


def _bridge(server: KeepingServer) -> IrcBridge:
    known = {"host": "127.0.0.1", "port": server.port, "tls": False, "nick": "Nacre", "join": [ROOM]}
    return IrcBridge(IrcSettings.model_validate(known), now=system_clock(UTC))


def _texts(inbox: RecordingInbox) -> list[str]:
    return [inbound.text for inbound in inbox.inbound]


@pytest.mark.parametrize("caps", [CHATHISTORY, WITHOUT_IDS, PLAYBACK])
async def test_what_was_missed_is_taken_once_and_in_order(caps: tuple[str, ...]) -> None:
    """Private and in a channel, over several pages; own words and NOTICEs are left out."""
    async with keeping(caps) as server:
        inbox = RecordingInbox()
        async with started(_bridge(server), inbox):
            await until(lambda: server.asked)
            server.keep(ANN, "Nacre", "live")
            await inbox.holds(1)
            await until(lambda: inbox.cursor)
        server.keep(ANN, ROOM, "missed 1")
        server.keep(ANN, "Nacre", "missed 2")
        server.keep(ME, "ann", "own")
        server.keep("Nacre_!~Nacre@127.0.0.1", ROOM, "own, with a tail")
        server.keep(ANN, "Nacre", "a notice", command="NOTICE")
        for number in range(3, 7):
            server.keep(ANN, ROOM, f"missed {number}")
        async with started(_bridge(server), inbox):
            await inbox.holds(7)
            server.keep(ANN, ROOM, "live again")
            await inbox.holds(8)
        assert _texts(inbox) == ["live", *(f"missed {number}" for number in range(1, 7)), "live again"]
        assert [each.chat_kind for each in inbox.inbound[:3]] == ["direct", "group", "direct"]
        assert {each.sender_id for each in inbox.inbound} == {ANN}


async def test_the_first_start_leaves_out_what_was_answered_and_what_is_old() -> None:
    """Without a cursor ten minutes count, behind the last own words in a chat."""
    async with keeping() as server:
        server.keep(ANN, ROOM, "old")
        server.kept[0].at -= timedelta(hours=1)
        server.keep(ANN, "Nacre", "answered")
        server.keep(ME, "ann", "own")
        server.keep(ANN, "Nacre", "open")
        server.keep(ANN, ROOM, "open too")
        inbox = RecordingInbox()
        async with started(_bridge(server), inbox):
            await inbox.holds(2)
        assert _texts(inbox) == ["open", "open too"]


async def test_the_cursor_stands_until_all_was_read() -> None:
    """A history that does not work today is asked again; one that a refused chat has is not waited for."""
    async with keeping() as server:
        for code, moves in (("MESSAGE_ERROR", False), ("INVALID_TARGET", True)):
            server.fails, inbox = code, RecordingInbox()
            async with started(_bridge(server), inbox):
                server.keep(ANN, "Nacre", code)
                await inbox.holds(1)
            assert (_texts(inbox), bool(inbox.cursor)) == ([code], moves)


async def test_no_history_is_asked_for_where_the_server_keeps_none(caplog: pytest.LogCaptureFixture) -> None:
    """That is said in the log, and there is no cursor."""
    async with keeping(("message-tags", "server-time")) as server:
        inbox = RecordingInbox()
        async with started(_bridge(server), inbox):
            server.keep(ANN, "Nacre", "live")
            await inbox.holds(1)
        assert (server.asked, inbox.cursor) == ([], "")
    assert [record.levelname for record in caplog.records if "keeps no history" in record.message]


async def test_a_history_that_never_ends_is_bounded(caplog: pytest.LogCaptureFixture) -> None:
    """More than 500 missed messages of a chat: the first are taken, and the log says so."""
    async with keeping(limit=250) as server:
        for number in range(520):
            server.keep(ANN, ROOM, str(number))
        inbox = RecordingInbox()
        async with asyncio.timeout(20), started(_bridge(server), inbox):
            await inbox.holds(500)
            server.keep(ANN, ROOM, "live")
            await until(lambda: _texts(inbox)[-1] == "live")
        assert len(inbox.inbound) == 501
    assert "more was missed" in caplog.text
