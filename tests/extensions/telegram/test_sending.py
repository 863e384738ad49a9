"""What a send can end in, what is shown, files that come in, and that the token stands in no log."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from nacre.bridges.contracts.bridge import Part, Place
from nacre.bridges.contracts.bridge_contract import RecordingInbox, started
from nacre.bridges.contracts.errors import BridgeError, DeliveryRefused, NotDelivered
from nacre.extensions.telegram.bridge import TelegramBridge
from tests.extensions.telegram.bot_api import GROUP, TOKEN, BotApi, Failure
from tests.extensions.telegram.test_stories import telegram

pytestmark = pytest.mark.channels

PLACE = Place(channel="telegram", account="default", chat_id="7")
TOPIC = Place(channel="telegram", account="default", chat_id="-100200", thread_id="3")


@asynccontextmanager
async def _running(server: BotApi) -> AsyncIterator[TelegramBridge]:
    async with started(telegram(server.url), RecordingInbox()) as bridge:
        assert isinstance(bridge, TelegramBridge)
        yield bridge


def _part(text: str, place: Place = PLACE, *, answers: str = "") -> Part:
    return Part(place=place, text=text, key="k", answers=answers)


async def test_markdown_is_shown_and_nothing_is_previewed() -> None:
    """Spans instead of signs; an address is not fetched by Telegram."""
    with BotApi() as server:
        async with _running(server) as bridge:
            await bridge.deliver(_part("**Hive**: https://hive.example"))
        [message] = server.shown
    assert message.text == "Hive: https://hive.example"
    assert json.loads(message.asked["entities"]) == [{"type": "bold", "offset": 0, "length": 4}]
    assert json.loads(message.asked["link_preview_options"]) == {"is_disabled": True}


async def test_an_answer_in_a_topic_goes_there() -> None:
    """And names the message that it answers; so do the edit's text and the sign of typing."""
    with BotApi() as server:
        async with _running(server) as bridge:
            await bridge.typing(TOPIC)
            sent_id = await bridge.deliver(_part("here", TOPIC, answers="5"))
            await bridge.edit(_part("there", TOPIC), sent_id)
            await bridge.deliver(_part("private", answers="5"))
        topic, private = server.shown
    assert (topic.text, topic.chat, topic.asked["message_id"]) == ("there", "-100200", sent_id)
    assert server.signs == [{"chat_id": "-100200", "action": "typing", "message_thread_id": "3"}]
    assert "reply_parameters" not in private.asked


async def test_the_first_message_of_a_topic_replies() -> None:
    """A message that is gone meanwhile does not spoil the answer."""
    with BotApi() as server:
        async with _running(server) as bridge:
            await bridge.deliver(_part("here", TOPIC, answers="5"))
        [message] = server.shown
    assert message.asked["message_thread_id"] == "3"
    replied = json.loads(message.asked["reply_parameters"])
    assert replied == {"message_id": 5, "allow_sending_without_reply": True}


async def test_a_long_message_is_measured_as_telegram_does() -> None:
    """4,096 units of UTF-16: half as many bees."""
    with BotApi() as server:
        async with _running(server) as bridge:
            assert bridge.capabilities.length("🐝é") == 3
            await bridge.deliver(_part("🐝" * 2048))
            with pytest.raises(DeliveryRefused, match="too long"):
                await bridge.deliver(_part("🐝" * 2049))


async def test_a_flood_is_waited_for() -> None:
    """As long as the server says, and it surely did not arrive."""
    with BotApi() as server:
        server.fail("sendMessage", Failure(429, {"parameters": {"retry_after": 17}}))
        async with _running(server) as bridge:
            with pytest.raises(NotDelivered) as refused:
                await bridge.deliver(_part("hi"))
    assert refused.value.retry_after_seconds == 17
    assert server.shown == []


@pytest.mark.parametrize("failure", [Failure(500), Failure(502), Failure(), Failure(is_done=True)])
async def test_whether_it_arrived_can_be_open(failure: Failure) -> None:
    """After an error of the server, or without an answer, nobody knows."""
    with BotApi() as server:
        server.fail("sendMessage", failure)
        async with _running(server) as bridge:
            with pytest.raises(BridgeError) as unsure:
                await bridge.deliver(_part("hi"))
    assert not isinstance(unsure.value, NotDelivered | DeliveryRefused)
    assert len(server.shown) == failure.is_done


async def test_who_blocked_the_bot_gets_nothing() -> None:
    """That is so for good."""
    with BotApi() as server:
        server.gone.add("7")
        async with _running(server) as bridge:
            with pytest.raises(DeliveryRefused, match="blocked"):
                await bridge.deliver(_part("hi"))


async def test_a_group_that_became_a_supergroup_is_found() -> None:
    """The answer goes to where the group is now."""
    with BotApi() as server:
        server.moved["-5"] = -100500
        async with _running(server) as bridge:
            old = Place(channel="telegram", account="default", chat_id="-5")
            for text in ("one", "two"):
                await bridge.deliver(_part(text, old))
    assert server.texts(-100500) == ["one", "two"]


async def test_a_draft_that_somebody_deleted_is_sent_anew() -> None:
    """The answer is not lost with it."""
    with BotApi() as server:
        async with _running(server) as bridge:
            sent_id = await bridge.deliver(_part("beginning"))
            server.shown.clear()
            await bridge.edit(_part("beginning and end"), sent_id)
    assert server.texts() == ["beginning and end"]


async def test_a_send_under_way_is_finished_before_the_end() -> None:
    """A bridge whose listening failed does not cut off what it is sending."""
    with BotApi() as server:
        bridge, inbox = telegram(server.url), RecordingInbox()
        running = asyncio.create_task(bridge.start(inbox))
        await inbox.is_connected.wait()
        sending = asyncio.create_task(bridge.deliver(_part("hi")))
        server.fail("getUpdates", Failure(500))
        server.answer_polls()
        with pytest.raises(BridgeError):
            await running
        assert await sending == "1"
    assert server.texts() == ["hi"]


@pytest.mark.parametrize("is_listening", [False, True])
async def test_a_refused_token_is_a_sentence_without_it(
    caplog: pytest.LogCaptureFixture, is_listening: bool
) -> None:
    """Neither the error nor any log has it, at whichever level."""
    caplog.set_level(logging.DEBUG)
    caplog.set_level(logging.DEBUG, "httpx")
    wrong = "9999:not-this-one-please"
    with BotApi() as server:
        if is_listening:
            server.fail("getUpdates", Failure(401))
        with pytest.raises(BridgeError, match="refused the bot's token") as refused:
            await telegram(server.url, token=TOKEN if is_listening else wrong).start(RecordingInbox())
    assert "HTTP Request" in caplog.text
    assert wrong not in caplog.text
    assert TOKEN not in caplog.text
    assert refused.value.__cause__ is None
    assert refused.value.__suppress_context__


async def test_a_second_listener_is_told() -> None:
    """Two programs with one token would take each other's messages."""
    with BotApi() as server:
        server.fail("getUpdates", Failure(409))
        with pytest.raises(BridgeError, match="Stop the other program"):
            await telegram(server.url).start(RecordingInbox())


async def test_nothing_is_confirmed_before_it_is_on_disk() -> None:
    """Two come; the second is refused by the disk, and comes again."""
    with BotApi() as server:
        server.say("one")
        server.say("two")

        class Full(RecordingInbox):
            async def receive(self, inbound: Any, *, cursor: str = "") -> None:
                if inbound.text == "two":
                    raise OSError("No space left on device")
                await super().receive(inbound, cursor=cursor)

        inbox = Full()
        with pytest.raises(OSError, match="No space"):
            await telegram(server.url).start(inbox)
        assert len(server.unconfirmed) == 2
        async with started(telegram(server.url), again := RecordingInbox(inbox.cursor)):
            await again.holds(1)
            await server.until(lambda server: not server.unconfirmed)
    assert [inbound.text for inbound in again.inbound] == ["two"]


async def test_numbers_that_begin_anew_are_heard() -> None:
    """A bot that heard nothing for a week gets numbers from anywhere."""
    with BotApi() as server:
        server.say("hello again")
        async with started(telegram(server.url), inbox := RecordingInbox("900000000")):
            await inbox.holds(1)
    assert [inbound.text for inbound in inbox.inbound] == ["hello again"]


async def test_files_come_with_their_message() -> None:
    """Bytes, or why they are not there: too large, or not to be had."""
    with BotApi() as server:
        server.files |= {"a": ("p/a.pdf", b"%PDF-1"), "b": ("p/b.bin", bytes(1001)), "c": ("p/c.txt", b"x")}
        server.fail("file", Failure(500))
        paper = {"file_unique_id": "u", "mime_type": "application/pdf"}
        for name in ("c", "a", "b"):
            document = {**paper, "file_id": name, "file_name": f"{name}.pdf"}
            server.say("", caption=f"see {name}", document=document, chat=GROUP)
        server.say("", document={**paper, "file_id": "d", "file_name": "d.pdf", "file_size": 99_999})
        async with started(telegram(server.url), inbox := RecordingInbox()):
            await inbox.holds(4)
    [[lost], [good], [large], [larger]] = [inbound.attachments for inbound in inbox.inbound]
    assert (good.name, good.mime_type, good.data, good.problem) == ("a.pdf", "application/pdf", b"%PDF-1", "")
    assert (lost.data, bool(lost.problem)) == (b"", True)
    assert "1001" in large.problem
    assert larger.problem.startswith("it has 99999 bytes")
    assert [inbound.text for inbound in inbox.inbound] == ["see c", "see a", "see b", ""]


async def test_a_server_that_is_not_there_is_told_without_the_names_of_a_library() -> None:
    """The words are the connection's own."""
    with BotApi() as server:
        bridge = telegram(server.url)
    with pytest.raises(NotDelivered, match="cannot be reached") as refused:
        await bridge.start(RecordingInbox())
    assert "httpx" not in str(refused.value)
