"""The gateway's sessions: what is resumed, read from the chats or refused, and what a failed send means."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from nacre.bridges.contracts.bridge import Part, Place
from nacre.bridges.contracts.bridge_contract import RecordingInbox, started
from nacre.bridges.contracts.errors import BridgeError, CannotConnect, DeliveryRefused, NotDelivered
from nacre.extensions.discord.bridge import KnownChats
from tests.extensions.discord.loopback import discord_server
from tests.extensions.discord.people import CONTENT_INTENT, GROUP, PRIVATE, STARTED, THREAD
from tests.extensions.discord.test_stories import discord_bridge
from tests.servers.loopback_http import Failure

pytestmark = pytest.mark.channels

IN_PRIVATE = Place(channel="discord", account="default", chat_id=PRIVATE)


def _part(text: str, *, place: Place = IN_PRIVATE, key: str = "ledger-1", answers: str = "") -> Part:
    return Part(place=place, text=text, key=key, answers=answers)


async def test_a_connection_that_broke_is_resumed(tmp_path: Path) -> None:
    """What was said meanwhile is told by the gateway; so it is when Discord asks to connect anew."""
    with discord_server() as server:
        async with started(discord_bridge(tmp_path), inbox := RecordingInbox()):
            server.cut()
            server.say("one")
            await inbox.holds(1)
            server.ask_to_reconnect()
            server.say("two")
            await inbox.holds(2)
            await server.until(lambda server: server.heartbeats > 3)
    assert [inbound.text for inbound in inbox.inbound] == ["one", "two"]
    assert server.resumed == 2
    assert len(server.identified) == 1


async def test_what_was_missed_is_read_from_the_chats(tmp_path: Path) -> None:
    """Private chats, and the channels and threads that it was spoken to in; no others, and each in order."""
    with discord_server() as server:
        mention = {"mentions": [{"id": "1000000000000000001", "username": "nacre"}]}
        async with started(discord_bridge(tmp_path), inbox := RecordingInbox()):
            server.say("one")
            server.say("two", chat=THREAD, **mention)
            await inbox.holds(2)
        for number in range(250):
            server.say(f"missed {number}")
        server.say("in the thread", chat=THREAD)
        server.say("elsewhere", chat=GROUP)
        async with started(discord_bridge(tmp_path), late := RecordingInbox(inbox.cursor)):
            await late.holds(252)  # with the last one from before
            server.say("now")
            await late.holds(253)
    assert sorted(inbox.cursor for inbox in (inbox, late)) == [inbox.cursor, late.cursor]
    texts = [inbound.text for inbound in late.inbound if inbound.chat_id == PRIVATE]
    assert texts == [*(f"missed {number}" for number in range(250)), "now"]
    assert "elsewhere" not in [inbound.text for inbound in late.inbound]
    [thread] = [inbound for inbound in late.inbound if inbound.text == "in the thread"]
    assert (thread.chat_id, thread.thread_id, thread.chat_kind) == (GROUP, THREAD, "group")


async def test_a_missing_intent_is_told_with_its_two_ways_out(tmp_path: Path) -> None:
    """Without the intent it is not asked for."""
    with discord_server() as server:
        server.refuses_content = True
        with pytest.raises(CannotConnect, match=r"Message Content Intent .*messageContent to false"):
            await discord_bridge(tmp_path).start(RecordingInbox())
        async with started(discord_bridge(tmp_path, reads_content=False), RecordingInbox()):
            pass
    assert [bool(asked["intents"] & CONTENT_INTENT) for asked in server.identified] == [True, False]


async def test_a_refused_token_is_a_sentence_without_it(tmp_path: Path) -> None:
    """It says what to do."""
    wrong = pytest.raises(CannotConnect, match=r"channels\.discord\.botToken")
    with discord_server(), wrong as refused:
        await discord_bridge(tmp_path, token="not-this-one").start(RecordingInbox())
    assert "not-this-one" not in str(refused.value)


async def test_a_server_that_is_not_there_is_told(tmp_path: Path) -> None:
    """The supervisor tries again."""
    with discord_server() as server:
        server.stop()
        with pytest.raises(CannotConnect, match="cannot be reached"):
            await discord_bridge(tmp_path).start(RecordingInbox())
        server.start()


async def test_one_nonce_shows_one_message(tmp_path: Path) -> None:
    """A send of which the answer was lost is done again by the same key, and shows nothing new."""
    with discord_server() as server:
        server.fail("POST messages", Failure(is_done=True))
        async with started(discord_bridge(tmp_path), RecordingInbox()) as bridge:
            with pytest.raises(BridgeError, match="failed to answer"):
                await bridge.deliver(_part("once"))
            assert await bridge.deliver(_part("once")) == server.said[PRIVATE][0]["id"]
            assert await bridge.find(_part("once")) == server.said[PRIVATE][0]["id"]
    assert server.shown() == ["once"]


@pytest.mark.parametrize(
    ("failure", "error", "seconds"),
    [
        (Failure(429, {"message": "slow", "retry_after": 45.5, "global": False}), NotDelivered, 45.5),
        (Failure(403, {"message": "Missing Access", "code": 50_001}), DeliveryRefused, None),
        (Failure(), BridgeError, None),
    ],
)
async def test_what_a_failed_send_means(
    tmp_path: Path, failure: Failure, error: type[Exception], seconds: float | None
) -> None:
    """It surely did not arrive, never will, or nobody knows."""
    with discord_server() as server:
        server.fail("POST messages", failure)
        async with started(discord_bridge(tmp_path), RecordingInbox()) as bridge:
            with pytest.raises(error) as raised:
                await bridge.deliver(_part("hi"))
    assert type(raised.value) is error
    assert getattr(raised.value, "retry_after_seconds", None) == seconds


async def test_a_short_limit_is_waited_for(tmp_path: Path) -> None:
    """The library waits as long as it is told, and sends again."""
    with discord_server() as server:
        server.fail("POST messages", Failure(429, {"message": "slow", "retry_after": 0.01, "global": False}))
        async with started(discord_bridge(tmp_path), RecordingInbox()) as bridge:
            await bridge.deliver(_part("hi"))
    assert server.shown() == ["hi"]


async def test_nobody_is_rung_up_and_nothing_previewed(tmp_path: Path) -> None:
    """Whatever a model writes: no mention of everybody, no preview of addresses, in threads and edits too."""
    with discord_server() as server:
        place = Place(channel="discord", account="default", chat_id=GROUP, thread_id=THREAD)
        async with started(discord_bridge(tmp_path), RecordingInbox()) as bridge:
            asked = server.say("hi", chat=THREAD)
            sent = await bridge.deliver(_part("@everyone https://x.example", place=place, answers=asked))
            await bridge.edit(_part("@here", place=place), sent)
            server.said[THREAD].pop()
            await bridge.edit(_part("anew", place=place, key="ledger-2"), sent)
    bodies: list[Any] = [body for _, path, body in server.requests if "/messages" in path and body]
    assert [body["allowed_mentions"]["parse"] for body in bodies] == [[], [], [], []]
    assert {body["flags"] for body in bodies} == {4}
    assert bodies[0]["message_reference"]["message_id"] == asked
    assert server.shown(THREAD) == ["anew"]


async def test_files_come_with_their_message(tmp_path: Path) -> None:
    """Bytes, or why they are not there; nothing is fetched from elsewhere."""
    with discord_server() as server:
        server.files["a.txt"] = b"honey"
        here = {"size": 5, "content_type": "text/plain; charset=utf-8"}
        files = [
            {**here, "url": f"{server.url}/files/a.txt", "filename": "a.txt"},
            {**here, "url": f"{server.url}/files/gone", "filename": "gone.txt"},
            {**here, "url": "http://elsewhere.invalid/a.txt", "filename": "b.txt"},
            {**here, "url": f"{server.url}/files/a.txt", "filename": "c.txt", "size": 1_001},
        ]
        async with started(discord_bridge(tmp_path), inbox := RecordingInbox()):
            server.say("", attachments=files)
            await inbox.holds(1)
    good, *lost, large = inbox.inbound[0].attachments
    assert (good.name, good.mime_type, good.data, good.problem) == ("a.txt", "text/plain", b"honey", "")
    assert [bool(file.problem) for file in lost] == [True, True]
    assert "1001" in large.problem


async def test_a_send_under_way_is_not_left_in_doubt(tmp_path: Path) -> None:
    """The session ends while a message is sent: its answer is waited for."""
    with discord_server() as server:
        bridge, inbox = discord_bridge(tmp_path), RecordingInbox()
        running = asyncio.create_task(bridge.start(inbox))
        await inbox.is_connected.wait()
        sending = asyncio.create_task(bridge.deliver(_part("hi")))
        await server.until(lambda server: server.shown())
        await bridge.stop()
        await running
        assert await sending == server.said[PRIVATE][0]["id"]


def test_a_torn_line_costs_one_chat(tmp_path: Path) -> None:
    """A kill in the middle of a line: the others are known, and new ones are kept."""
    known = KnownChats.load(tmp_path, lambda: STARTED)
    for chat in ("11", "12"):
        assert known.add(chat)
        known.save(chat)
    file = tmp_path / "known-chats"
    file.write_bytes(file.read_bytes()[:-1] + b"x")
    again = KnownChats.load(tmp_path, lambda: STARTED)
    assert again.newest == ("11",)
    assert (again.add("11"), again.since) == (False, known.since)
    again.save("13")
    assert KnownChats.load(tmp_path, lambda: STARTED).newest == ("13", "11")
