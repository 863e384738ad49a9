"""The socket and the methods: what is acknowledged, sent again or missed, and what a failed send means."""

from __future__ import annotations

from typing import Any

import pytest

from nacre.bridges.contracts.bridge import Part, Place
from nacre.bridges.contracts.bridge_contract import RecordingInbox, started
from nacre.bridges.contracts.errors import BridgeError, CannotConnect, DeliveryRefused, NotDelivered
from tests.extensions.slack.loopback import GROUP, PRIVATE, LoopbackSlack
from tests.extensions.slack.test_stories import slack_bridge
from tests.servers.loopback_http import Failure

pytestmark = pytest.mark.channels

IN_PRIVATE = Place(channel="slack", account="default", chat_id=PRIVATE)


def _part(text: str, *, place: Place = IN_PRIVATE, key: str = "ledger-1", answers: str = "") -> Part:
    return Part(place=place, text=text, key=key, answers=answers)


async def test_nothing_is_acknowledged_before_it_is_on_disk() -> None:
    """The disk refuses; Slack sends the same event again, and it is one message."""
    with LoopbackSlack() as server:
        server.say("one")
        refusing = RecordingInbox(fails=1)
        with pytest.raises(OSError, match="No space"):
            await slack_bridge(server.url).start(refusing)
        assert server.acknowledged == []
        async with started(slack_bridge(server.url), inbox := RecordingInbox()):
            await inbox.holds(1)
            await server.until(lambda server: server.acknowledged)
    [one] = inbox.inbound
    assert (one.text, one.chat_id, one.message_id) == ("one", PRIVATE, inbox.cursor)


async def test_what_slack_gave_up_is_read_from_the_chats() -> None:
    """Private chats, channels and threads that began meanwhile; each message once."""
    with LoopbackSlack() as server:
        async with started(slack_bridge(server.url), inbox := RecordingInbox()):
            server.say("one")
            await inbox.holds(1)
        missed = [f"missed {number}" for number in range(250)]
        for text in missed:
            server.say(text)
        root = server.say("root", chat=GROUP)
        server.say("below", chat=GROUP, thread=root)
        server.give_up()
        server.fail("conversations.history", Failure(429, {"ok": False, "error": "ratelimited", "wait": 0}))
        async with started(slack_bridge(server.url), late := RecordingInbox(inbox.cursor)):
            await late.holds(253)  # with the one from before
    assert [inbound.text for inbound in late.inbound[1:]] == [*missed, "root", "below"]
    assert [(one.chat_kind, one.thread_id) for one in late.inbound[-2:]] == [("group", ""), ("group", root)]


async def test_slack_asks_for_a_new_socket() -> None:
    """It does so every few hours; nothing is missed, and the bridge stays."""
    with LoopbackSlack() as server:
        async with started(slack_bridge(server.url), inbox := RecordingInbox()):
            server.send_raw(b'{"type": "disconnect", "reason": "refresh_requested"}')
            await server.until(lambda server: server.opened == 2 and server.is_heard)
            server.say("one")
            await inbox.holds(1)


async def test_a_refusal_is_a_sentence_without_the_token() -> None:
    """Each token, and Socket Mode that is switched off."""
    with LoopbackSlack() as server:
        for wrong in ({"bot_token": "xoxb-wrong"}, {"app_token": "xapp-wrong"}):
            with pytest.raises(CannotConnect, match=r"channels\.slack\.appToken") as refused:
                await slack_bridge(server.url, **wrong).start(RecordingInbox())
            assert "wrong" not in str(refused.value)
        lacking = {"ok": False, "error": "missing_scope", "needed": "a:b"}
        server.fail("apps.connections.open", Failure(200, lacking))
        with pytest.raises(BridgeError, match="lacks the scope a:b"):
            await slack_bridge(server.url).start(RecordingInbox())


@pytest.mark.parametrize(
    ("failure", "error", "seconds"),
    [
        (Failure(429, {"ok": False, "error": "ratelimited"}), NotDelivered, 45.0),
        (Failure(200, {"ok": False, "error": "not_in_channel"}), DeliveryRefused, None),
        (Failure(200, {"ok": False, "error": "internal_error"}), BridgeError, None),
        (Failure(503, {}), BridgeError, None),
        (Failure(), BridgeError, None),
    ],
)
async def test_what_a_failed_send_means(
    failure: Failure, error: type[Exception], seconds: float | None
) -> None:
    """It surely did not arrive, never will, or nobody knows; the library sends nothing again by itself."""
    with LoopbackSlack() as server:
        server.fail("chat.postMessage", failure)
        async with started(slack_bridge(server.url), RecordingInbox()) as bridge:
            with pytest.raises(error) as raised:
                await bridge.deliver(_part("hi"))
    assert type(raised.value) is error
    assert getattr(raised.value, "retry_after_seconds", None) == seconds
    assert [method for method, _ in server.requests].count("chat.postMessage") == 1


async def test_a_part_is_found_by_its_key() -> None:
    """In a thread too, and whatever it reads now."""
    with LoopbackSlack() as server:
        asked = server.say("hi", chat=GROUP)
        place = Place(channel="slack", account="default", chat_id=GROUP, thread_id=asked)
        server.fail("chat.postMessage", Failure(is_done=True))
        async with started(slack_bridge(server.url), RecordingInbox()) as bridge:
            with pytest.raises(BridgeError):
                await bridge.deliver(_part("the same", place=place, answers=asked))
            await bridge.deliver(_part("the same", place=place, answers=asked, key="ledger-2"))
            found = await bridge.find(_part("the same and more", place=place, answers=asked))
            assert found == server.said[GROUP][1]["ts"]
            await bridge.edit(_part("@channel **now**", place=place), str(found))
            server.said[GROUP].pop()
            await bridge.edit(_part("anew", place=place, key="ledger-3"), "1.000000")
    assert server.shown(GROUP, asked) == ["@channel *now*", "anew"]


async def test_nothing_is_unfurled() -> None:
    """Slack would fetch the address, and an address may carry away what it was made of."""
    with LoopbackSlack() as server:
        async with started(slack_bridge(server.url), RecordingInbox()) as bridge:
            await bridge.deliver(_part("see https://x.example/?q=7313"))
    sent: list[Any] = [asked for method, asked in server.requests if method == "chat.postMessage"]
    assert [(asked["unfurl_links"], asked["unfurl_media"]) for asked in sent] == [(False, False)]


async def test_files_come_with_their_message() -> None:
    """Bytes, or why they are not there; the token goes to Slack alone."""
    with LoopbackSlack() as server:
        server.files |= {"a.txt": b"honey", "large": bytes(1_001)}
        addresses = [f"{server.url}/files/a.txt", f"{server.url}/files/gone", "http://elsewhere.invalid/a"]
        files = [{"url_private": url, "name": "a.txt", "mimetype": "text/plain"} for url in addresses]
        large = {"url_private": f"{server.url}/files/large", "name": "b", "mimetype": "x/y", "size": 10}
        async with started(slack_bridge(server.url), inbox := RecordingInbox()):
            server.say("", subtype="file_share", files=[*files, large])
            await inbox.holds(1)
    good, *lost, last = inbox.inbound[0].attachments
    assert (good.name, good.mime_type, good.data, good.problem) == ("a.txt", "text/plain", b"honey", "")
    assert [bool(file.problem) for file in lost] == [True, True]
    assert (last.data, "1000" in last.problem) == (b"", True)
