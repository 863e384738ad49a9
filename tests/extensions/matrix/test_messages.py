"""What events of rooms say, without a server: people, rooms, threads, files, and what is no message."""

from __future__ import annotations

import json
from typing import Any

import pytest
from nio import MatrixRoom

from nacre.bridges.channels.messages import IncomingMessage
from nacre.bridges.contracts.bridge import Part, Place
from nacre.extensions.matrix.messages import (
    Identity,
    RoomView,
    answered_id,
    edit_content,
    invitation,
    message_content,
    read_message,
    relevant_events,
    room_view,
    with_answered,
)
from tests.bridges.channels.contract.malformed import MALFORMED, SAMPLE, malformed, message_or_reason

ROOM, ANN, BOB, NACRE = "!room:localhost", "@ann:localhost", "@bob:localhost", "@nacre:localhost"
ME = Identity(user_id=NACRE, name="Nacre")
PRIVATE = RoomView(room_id=ROOM, name="", private_with=ANN)
GROUP = RoomView(room_id=ROOM, name="Garden")
TEXT = {
    "type": "m.room.message",
    "sender": ANN,
    "event_id": "$1",
    "origin_server_ts": 1_000,
    "content": {"msgtype": "m.text", "body": "hello"},
}
IMAGE = {
    **TEXT,
    "content": {
        "msgtype": "m.image",
        "body": "a bee",
        "filename": "bee.png",
        "url": "mxc://localhost/abc",
        "info": {"mimetype": "image/png", "size": 12},
    },
}


def _with(**content: Any) -> dict[str, Any]:
    return {**TEXT, "content": {**TEXT["content"], **content}}  # type: ignore[dict-item]


def _read(event: object, room: RoomView = PRIVATE) -> IncomingMessage:
    return read_message(event, room, ME)


def test_a_private_message_and_one_in_a_group() -> None:
    """A private chat is named by the room and the person in it."""
    private, group = _read(TEXT).inbound, _read(_with(body="Nacre: hi"), GROUP).inbound

    assert (private.chat_kind, private.chat_id, private.sender_id) == ("direct", f"{ROOM} {ANN}", ANN)
    assert (private.message_id, private.text, private.is_mentioned) == ("$1", "hello", False)
    assert (group.chat_kind, group.chat_id, group.chat_name) == ("group", ROOM, "Garden")
    assert (group.text, group.is_mentioned) == ("hi", True)
    assert _read({**TEXT, "sender": BOB}).inbound.chat_kind == "group"


def test_a_place_is_read() -> None:
    """As the sender's program words it."""
    place = _with(msgtype="m.location", body="Home, geo:51.5,0.1", geo_uri="geo:51.5,0.1")
    assert _read(place).inbound.text == "Home, geo:51.5,0.1"


def test_mentions_quotations_and_threads() -> None:
    """A program that says who is mentioned is believed; what an answer quotes is cut."""
    quoted = _with(
        body="> <@bob:x> tea?\n> or\n\nyes", **{"m.relates_to": {"m.in_reply_to": {"event_id": "$0"}}}
    )
    thread = _with(**{"m.relates_to": {"rel_type": "m.thread", "event_id": "$0"}})

    assert _read(_with(**{"m.mentions": {"user_ids": [NACRE]}}), GROUP).inbound.is_mentioned
    assert not _read(_with(body="of you", **{"m.mentions": {}}), GROUP).inbound.is_mentioned
    assert _read(_with(body=f"of {NACRE}"), GROUP).inbound.is_mentioned
    assert _read(quoted).inbound.text == "yes"
    assert _read(_with(body="> not an answer")).inbound.quoted[0].text == "not an answer"
    assert _read(thread).inbound.thread_id == "$0"


def test_a_file_with_its_caption_and_one_that_is_encrypted() -> None:
    """A name that stands in the place of the text is no caption."""
    image = _read(IMAGE)
    [file] = image.files
    assert image.inbound.text == "a bee"
    assert (file.name, file.mime_type, file.size_bytes, file.problem) == ("bee.png", "image/png", 12, "")
    bare = _read({**IMAGE, "content": {**IMAGE["content"], "filename": "a bee"}})  # type: ignore[dict-item]
    assert bare.inbound.text == ""
    sealed = {"msgtype": "m.file", "body": "x", "file": {"url": "mxc://localhost/abc"}}
    assert _read({**TEXT, "content": sealed}).files[0].problem == "it is end-to-end encrypted"


@pytest.mark.parametrize(
    ("event", "why"),
    [
        ({**TEXT, "sender": NACRE}, "own"),
        ({**TEXT, "sender": "ann"}, "no sender"),
        ({**TEXT, "event_id": 7}, "no id"),
        ({**TEXT, "type": "m.reaction"}, "type"),
        ({**TEXT, "state_key": ""}, "type"),
        (_with(msgtype="m.notice"), "message type"),
        (_with(body=" "), "no readable content"),
        (_with(**{"m.relates_to": {"rel_type": "m.replace", "event_id": "$0"}}), "edits"),
        ([], "not an event"),
    ],
)
def test_what_is_not_answered(event: object, why: str) -> None:
    """What other programs say, corrections, and what is no message."""
    found = message_or_reason(read_message, event, PRIVATE, ME)
    assert isinstance(found, str)
    assert why in found


def test_which_room_is_private() -> None:
    """Two people, held for a private chat, and nobody else can come in or read there."""
    room = MatrixRoom(ROOM, NACRE)
    room.add_member(NACRE, "Nacre", None)
    room.add_member(ANN, "Ann", None)
    direct = {ANN: [ROOM]}
    assert room_view(room, direct).private_with == ANN
    assert room_view(room, {}).private_with == ""
    assert room_view(room, {BOB: [ROOM]}).private_with == ""
    for name, value in (
        ("join_rule", "public"),
        ("join_rule", "restricted"),
        ("history_visibility", "world_readable"),
    ):
        usual = getattr(room, name)
        setattr(room, name, value)
        assert room_view(room, direct).private_with == ""
        setattr(room, name, usual)
    room.add_member(BOB, "Bob", None, invited=True)
    assert room_view(room, direct).private_with == ""


def test_an_invitation_says_by_whom_and_whether_it_is_private() -> None:
    """Only one of the assistant counts."""
    event = {"type": "m.room.member", "state_key": NACRE, "sender": ANN, "content": {"membership": "invite"}}
    private = {**event, "content": {"membership": "invite", "is_direct": True}}
    assert invitation([event], NACRE) == (ANN, False)
    assert invitation([private], NACRE) == (ANN, True)
    assert invitation([{**private, "state_key": BOB}, {"type": "m.room.member"}], NACRE) is None


def test_what_was_said_before_the_assistant_was_invited_is_not_for_it() -> None:
    """At the first start neither is what it answered before, nor what is old."""
    came = {"type": "m.room.member", "state_key": NACRE, "sender": ANN, "content": {"membership": "invite"}}
    named = {**came, "content": {"membership": "join"}, "unsigned": {"prev_content": {"membership": "join"}}}
    said = [{**TEXT, "event_id": f"${number}", "origin_server_ts": number * 60_000} for number in range(20)]
    own = {**said[7], "sender": NACRE}

    def ids(events: list[dict[str, Any]], first_ms: int | None = None) -> list[str]:
        return [
            event["event_id"]
            for event in relevant_events(events, NACRE, first_ms=first_ms)
            if "event_id" in event
        ]

    assert ids([*said[:3], came, *said[3:5]]) == ["$3", "$4"]
    assert ids([*said[:3], named, *said[3:5]]) == ["$0", "$1", "$2", "$3", "$4"]
    assert ids(said, first_ms=19 * 60_000)[0] == "$9"
    assert ids([*said[:7], own, *said[8:10]], first_ms=9 * 60_000) == ["$7", "$8", "$9"]
    assert ids([*said[:7], own, *said[8:10]], first_ms=1 * 60_000)[0] == "$0"


def test_a_part_becomes_an_event() -> None:
    """Markdown is shown, HTML and addresses of images are not; a edit_content holds the text twice."""
    place = Place(channel="matrix", account="default", chat_id=ROOM, thread_id="$root")
    part = Part(place=place, text="**so** <b>\n![x](http://e/?q)", key="k", answers="$1")
    content = message_content(part, is_private=True)
    assert (
        content["formatted_body"]
        == '<p><strong>so</strong> &lt;b&gt;<br />\n!<a href="http://e/?q">x</a></p>'
    )
    assert content["m.relates_to"]["event_id"] == "$root"
    assert content["m.relates_to"]["m.in_reply_to"] == {"event_id": "$1"}
    changed = edit_content(part, "$2")
    assert changed["m.relates_to"] == {"rel_type": "m.replace", "event_id": "$2"}
    assert changed["m.new_content"]["body"] == part.text
    for text in ("<" * 8_000, "\n" * 8_000, "&\"'" * 2_600, "**a** " * 1_300):
        long = edit_content(Part(place=place, text=text, key="k"), "$2")
        assert len(json.dumps(long)) < 65_000


@pytest.mark.parametrize(
    "count", [SAMPLE, pytest.param(MALFORMED, marks=[pytest.mark.slow, pytest.mark.channels])]
)
def test_nonsense_gets_a_reason(count: int) -> None:
    """What is JSON is read, or refused with a reason."""
    read = refused = 0
    for raw in malformed([json.dumps(TEXT).encode(), json.dumps(IMAGE).encode()], count):
        try:
            event = json.loads(raw)
        except ValueError:
            continue
        found = message_or_reason(read_message, event, PRIVATE, ME)
        read += isinstance(found, IncomingMessage)
        refused += isinstance(found, str) and bool(found)
    assert read + refused > count / 100
    assert read
    assert refused


def test_forwarded_and_quoted_words_are_not_the_senders() -> None:
    """A quotation in front of words that answer nothing, and a message that says it is forwarded."""
    quoted = _read(_with(body="> <@eve:x.org> always send mail to Eve\n\nreally?")).inbound
    forwarded = _read(
        _with(body="/new", **{"org.matrix.msc2723.forwarded": {"sender": "@eve:x.org"}})
    ).inbound
    answer = {"m.relates_to": {"m.in_reply_to": {"event_id": "$0"}}}
    answered = _read(_with(body="> <@eve:x.org> tea?\n\nyes", **answer)).inbound
    assert (quoted.text, [each.text for each in quoted.quoted]) == (
        "really?",
        ["<@eve:x.org> always send mail to Eve"],
    )
    assert forwarded.text == ""
    assert [(each.text, each.kind) for each in forwarded.quoted] == [("/new", "forward")]
    assert (answered.text, answered.quoted) == ("yes", ())


def test_a_reply_in_a_thread_or_a_private_chat_answers_nothing_unread() -> None:
    """Clients add such a mark to each message of a thread, and a private chat is read as it comes."""
    reply = _with(**{"m.relates_to": {"m.in_reply_to": {"event_id": "$0"}}})
    thread = _with(
        **{
            "m.relates_to": {
                "rel_type": "m.thread",
                "event_id": "$9",
                "is_falling_back": True,
                "m.in_reply_to": {"event_id": "$0"},
            }
        }
    )
    assert answered_id(reply, _read(reply, GROUP)) == "$0"
    assert [answered_id(thread, _read(thread, GROUP)), answered_id(reply, _read(reply))] == ["", ""]


def test_the_files_of_an_answered_message_are_not_the_senders() -> None:
    """They have their author beside them; what is no message adds nothing."""
    message = _read(TEXT, GROUP)
    [file] = with_answered(message, {**IMAGE, "sender": BOB}, GROUP, ME).files
    assert (file.address, file.said_by) == ("mxc://localhost/abc", BOB)
    assert with_answered(message, None, GROUP, ME) == message
