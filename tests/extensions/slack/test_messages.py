"""What becomes of an event: who speaks, where, to whom; how words look; and 10,000 events that are broken."""

from __future__ import annotations

import logging
import random
from typing import Any

import pytest

from nacre.bridges.channels.messages import Ignored, IncomingMessage
from nacre.extensions.slack.bridge import key_of, message_event, mrkdwn, plain, read_message
from tests.bridges.channels.contract.malformed import MALFORMED, SAMPLE, broken, fed, malformed
from tests.extensions.slack.loopback import ANN, GROUP, ME, LoopbackSlack
from tests.extensions.slack.test_stories import slack_bridge

pytestmark = pytest.mark.channels

TS = "1790000000.000100"


def _read(text: Any = "hi", **more: Any) -> IncomingMessage:
    event = {"type": "message", "ts": TS, "channel": GROUP, "channel_type": "channel", "user": ANN}
    return read_message({**event, "text": text, **more}, ME, "default")


@pytest.mark.parametrize("kind", ["channel", "group", "mpim", "app_home", "newsroom", None, True])
def test_only_what_slack_calls_im_is_private(kind: Any) -> None:
    """An id that begins as that of a private chat proves nothing."""
    assert _read(channel_type="im").inbound.chat_kind == "direct"
    assert _read(channel_type=kind, channel="D0ANN").inbound.chat_kind == "group"


@pytest.mark.parametrize(
    ("said", "text", "is_mentioned"),
    [
        ("hi", "hi", False),
        (f"<@{ME}> /new", "/new", True),
        (f"hi <@{ME}>", f"hi <@{ME}>", True),
        (f"<@{ME}|nacre> /new", "/new", True),
        ("<https://x.example/a|the hive> &amp; <#C1|bees>", "the hive (https://x.example/a) & #bees", False),
        ("<https://x.example|x.example> &lt;b&gt;", "https://x.example <b>", False),
        ("<!channel> look", "<!channel> look", False),
    ],
)  # fmt: skip
def test_words_are_read_as_people_see_them(said: str, text: str, is_mentioned: bool) -> None:
    """Addresses with labels, names, escapes; the bot's name in front is taken away."""
    found = _read(said).inbound
    assert (found.text, found.is_mentioned) == (text, is_mentioned)


def test_a_shared_message_is_read_as_somebody_elses_words() -> None:
    """With and without a word of the sender. What a link of theirs shows is no message that they pass on."""
    shared = {"is_share": True, "author_name": "Bob", "text": "Swarm at &lt;noon&gt;"}
    for said in ("", "when?"):
        found = _read(said, attachments=[shared, {"text": "a preview"}, 5]).inbound
        assert (found.text, [(each.text, each.kind, each.said_by) for each in found.quoted]) == (
            said,
            [("Swarm at <noon>", "forward", "Bob")],
        )


def test_a_thread_is_one_but_for_its_first_message() -> None:
    """Slack gives the first one the thread's time, too."""
    assert _read(thread_ts=TS).inbound.thread_id == ""
    assert _read(thread_ts="1780000000.000001").inbound.thread_id == "1780000000.000001"


def test_a_reply_to_the_bots_message_speaks_to_it() -> None:
    """In the thread below that message nobody has to mention it."""
    thread = {"thread_ts": "1780000000.000001"}
    assert _read(**thread, parent_user_id=ME).inbound.is_mentioned
    assert not _read(**thread, parent_user_id="U0BOB").inbound.is_mentioned


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"bot_id": "B1"}, "a bot wrote it"),
        ({"user": ME}, "a bot wrote it"),
        ({"subtype": "message_changed"}, "'message_changed'"),
        ({"text": ""}, "no readable content"),
        ({"user": None}, "no sender"),
        ({"ts": "soon"}, "no time"),
    ],
)
def test_what_is_passed_over_is_told(more: dict[str, Any], why: str) -> None:
    """What no person said, and what is not whole."""
    with pytest.raises(Ignored, match=why):
        _read(**more)


@pytest.mark.parametrize(
    ("markdown", "sent"),
    [
        ("**bold** and ~~gone~~", "*bold* and ~gone~"),
        ("# Hives\n\nsee [bees](https://x.example/a_b)", "*Hives*\n\nsee <https://x.example/a_b|bees>"),
        ("<!channel> <@U1> a & b", "&lt;!channel> &lt;@U1> a &amp; b"),
        ("`**a** <b>` **c**", "`**a** &lt;b>` *c*"),
        ("```python\nx = a ** b ** c\n```", "```\nx = a ** b ** c\n```"),
        ("[run](javascript:x)", "[run](javascript:x)"),
        (
            "[a](https://x.example/a_(b)?c) ![d](https://x.example/d)",
            "<https://x.example/a_(b)?c|a> <https://x.example/d|d>",
        ),
        ("2 * 3 ** 4", "2 * 3 ** 4"),
    ],
)
def test_markdown_becomes_mrkdwn(markdown: str, sent: str) -> None:
    """Code stays, nothing rings anybody up, and no address hides behind a word but those of the web."""
    assert mrkdwn(markdown) == sent


def test_what_is_sent_reads_as_it_was_written() -> None:
    """The escapes are Slack's own."""
    assert plain(mrkdwn("a < b & c > d")) == "a < b & c > d"


@pytest.mark.parametrize("count", [SAMPLE, pytest.param(MALFORMED, marks=pytest.mark.slow)])
async def test_broken_events(caplog: pytest.LogCaptureFixture, count: int) -> None:
    """Each is taken as far as it is a message, or ignored with a reason, and acknowledged."""
    caplog.set_level(logging.INFO, logger="nacre.extensions.slack")
    chance = random.Random(13)
    file = {"url_private": "ftp://nowhere", "name": "a.txt", "mimetype": "x/y", "size": 1}
    event = {"type": "message", "ts": TS, "channel": GROUP, "user": ANN, "text": f"hi <@{ME}>"}
    whole = {"event": {**event, "channel_type": "channel", "thread_ts": TS, "files": [file]}}
    with LoopbackSlack() as server:

        async def feed() -> None:
            for _ in range(count):
                server.happen(broken(whole, chance))
            server.say("the last one")

        taken = await fed(slack_bridge(server.url), feed, "the last one", seconds=170)
        await server.until(lambda server: len(server.acknowledged) == count + 1)
    reasons = [record.getMessage() for record in caplog.records if "ignored" in record.getMessage()]
    assert len(taken) - 1 + len(reasons) == count
    assert len(reasons) > count / 4
    assert all(reason.rpartition(": ")[2] for reason in reasons)


@pytest.mark.parametrize("count", [SAMPLE, pytest.param(MALFORMED, marks=pytest.mark.slow)])
async def test_broken_envelopes(caplog: pytest.LogCaptureFixture, count: int) -> None:
    """What is not even JSON, or has no id, is logged and ignored; the socket stays."""
    caplog.set_level(logging.INFO, logger="nacre.extensions.slack")
    good = b'{"type": "events_api", "envelope_id": "e", "payload": {"event": {"type": "message"}}}'
    with LoopbackSlack() as server:

        async def feed() -> None:
            for data in malformed([good], count):
                server.send_raw(data)
            server.say("the last one")

        await fed(slack_bridge(server.url), feed, "the last one", seconds=170)
    reasons = [record.getMessage() for record in caplog.records if "ignored" in record.getMessage()]
    assert len(reasons) == count
    assert server.opened == 1


def test_an_event_of_another_kind_is_no_message() -> None:
    """Whatever an app subscribed to."""
    with pytest.raises(Ignored, match="not a message"):
        message_event({"event": {"type": "reaction_added"}})
    assert key_of({"metadata": {"event_type": "task_created", "event_payload": {"key": "k"}}}) == ""
