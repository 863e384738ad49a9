"""Conversion of Matrix events to `Inbound`, and of parts to the content of events.

A room is private if the account's `m.direct` lists it, exactly one other person is in it, nobody is invited,
and nobody else can join or read it without an invitation. Every other room is a group. nio's `is_group` means
something else: that a room has no name. An event has at most 64 kB, and an edit contains its text up to four
times, two of them as HTML.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

from markdown_it import MarkdownIt
from nio import MatrixRoom

from nacre.bridges.channels.messages import (
    FIRST_LOOK_BACK,
    Ignored,
    IncomingMessage,
    RemoteFile,
    mapping,
    strip_mention,
)
from nacre.bridges.contracts.bridge import Part
from nacre.record import Record
from nacre.runtime.contracts.inbound import Inbound, Quoted

Json = Mapping[str, Any]
_CLOSED = ("invite", "knock", "private")


class RoomView(Record):
    """A room. `private_with` is the other person in a private chat, empty in a group.

    `name_of` gives a member's display name by user id.
    """

    room_id: str
    name: str
    private_with: str = ""
    name_of: Callable[[str], str | None] = lambda _user: None

    @property
    def chat_id(self) -> str:
        """The chat. A private chat is the room with this person, so it ends when others join."""
        return f"{self.room_id} {self.private_with}" if self.private_with else self.room_id


def room_view(room: MatrixRoom, direct: Mapping[str, Sequence[str]]) -> RoomView:
    """Describes a room. `direct` is the account's `m.direct`: the rooms of private chats by person."""
    others = [user for user in room.users if user != room.own_user_id]
    is_private = (
        len(others) == 1
        and not room.invited_users
        and room.room_id in direct.get(others[0], ())
        and room.join_rule in _CLOSED
        and room.history_visibility != "world_readable"
    )
    name = room.named_room_name() or ""
    return RoomView(
        room_id=room.room_id,
        name=name,
        private_with=others[0] if is_private else "",
        name_of=room.user_name,
    )


def read_direct(content: object) -> dict[str, list[str]]:
    """The content of `m.direct` without malformed entries."""
    return {
        user: [room for room in rooms if isinstance(room, str)]
        for user, rooms in mapping(content).items()
        if isinstance(user, str) and isinstance(rooms, list)
    }


def with_direct(direct: Mapping[str, Sequence[str]], user: str, room_id: str) -> dict[str, list[str]]:
    """A copy with one more private chat."""
    rooms = [known for known in direct.get(user, ()) if known != room_id]
    return {**{name: list(known) for name, known in direct.items()}, user: [*rooms, room_id]}


def invitation(events: Sequence[Json], me: str) -> tuple[str, bool] | None:
    """Who invited the assistant and whether to a private chat; `None` if nobody did."""
    for event in events:
        content = mapping(event.get("content"))
        is_me = event.get("type") == "m.room.member" and event.get("state_key") == me
        if is_me and content.get("membership") == "invite":
            return str(event.get("sender", "")), content.get("is_direct") is True
    return None


def arrival(events: Sequence[Json], me: str) -> int | None:
    """The index of the assistant's last invitation or arrival. Earlier events are not meant for it."""
    found = (number for number in reversed(range(len(events))) if _arrives(events[number], me))
    return next(found, None)


def relevant_events(events: Sequence[Json], me: str, *, first_ms: int | None) -> Iterator[Json]:
    """The events of a timeline that count, the oldest first.

    `first_ms` is the time of the very first start, `None` once there is a sync token. At the first start,
    events before the assistant's last own message and events older than `FIRST_LOOK_BACK` are left out.
    """
    begin = arrival(events, me) or 0
    if first_ms is not None:
        own = [
            n for n, event in enumerate(events) if event.get("sender") == me and _sent_ms(event) < first_ms
        ]
        begin = max([begin, *own])
    for event in events[begin:]:
        if first_ms is None or _sent_ms(event) >= first_ms - FIRST_LOOK_BACK // timedelta(milliseconds=1):
            yield event


def _arrives(event: Json, me: str) -> bool:
    if event.get("type") != "m.room.member" or event.get("state_key") != me:
        return False
    was = mapping(mapping(event.get("unsigned")).get("prev_content")).get("membership")
    is_now = mapping(event.get("content")).get("membership")
    return (is_now == "invite" and was != "invite") or (is_now == "join" and was not in ("join", "invite"))


def _sent_ms(event: Json) -> int:
    at = event.get("origin_server_ts")
    return at if type(at) is int else 0


CHANNEL = "matrix"
_FILES = {
    "m.image": "image/*",
    "m.file": "application/octet-stream",
    "m.audio": "audio/*",
    "m.video": "video/*",
}
_USER_ID = re.compile(r"@[^\s:]+:[^\s]+")
# Older clients put the message that is answered in front of the answer.
_QUOTED = re.compile(r"(?:> .*\n|>\n)+\n?")

_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f]")
# A client would fetch the address of an image, and an address may contain private data.
_MARKDOWN = MarkdownIt("commonmark", {"html": False, "breaks": True}).enable("table").disable("image")


class Identity(Record):
    """The assistant: its user id, its display name, and the account in the settings."""

    user_id: str
    name: str
    account: str = "default"


def read_message(event: object, room: RoomView, me: Identity) -> IncomingMessage:
    """The message of an event. Raises `Ignored` if the event is not a message to answer."""
    if not isinstance(event, Mapping) or not isinstance(content := event.get("content"), Mapping):
        raise Ignored("it is not an event")
    sender, event_id = event.get("sender"), event.get("event_id")
    if not (isinstance(sender, str) and _USER_ID.fullmatch(sender)):
        raise Ignored("it has no sender")
    if not (isinstance(event_id, str) and event_id.startswith("$")):
        raise Ignored("it has no id")
    if sender == me.user_id:
        raise Ignored("it is the assistant's own")
    if event.get("type") != "m.room.message" or "state_key" in event:
        raise Ignored(f"its type is {event.get('type')!r:.80}")
    relation = mapping(content.get("m.relates_to"))
    if relation.get("rel_type") == "m.replace":
        raise Ignored("it edits an earlier message")
    kind = content.get("msgtype")
    if kind not in ("m.text", "m.emote", "m.location", *_FILES):
        raise Ignored(f"its message type is {kind!r:.80}")
    files = (_file(content, str(kind)),) if kind in _FILES else ()
    text = _text(content, is_answer="m.in_reply_to" in relation)
    text, quoted = _own_words(text, content)
    bare, is_named = strip_mention(text, me.name)
    root = relation.get("event_id")
    if not (bare.strip() or quoted or files):
        raise Ignored("it has no readable content")
    inbound = Inbound(
        text=f"*{bare}*" if kind == "m.emote" and bare.strip() else bare,
        quoted=quoted,
        chat_kind="direct" if room.private_with == sender else "group",
        channel=CHANNEL,
        account=me.account,
        chat_id=room.chat_id,
        thread_id=root if relation.get("rel_type") == "m.thread" and isinstance(root, str) else "",
        sender_id=sender,
        sender_name=room.name_of(sender) or "",
        message_id=event_id,
        chat_name=room.name,
        is_mentioned=is_named or _mentions(content, me.user_id),
    )
    return IncomingMessage(inbound=inbound, files=files)


def answered_id(event: Json, message: IncomingMessage) -> str:
    """The id of the message that this one answers; empty in a private chat, where all messages are known."""
    relation = mapping(event["content"].get("m.relates_to"))
    found = mapping(relation.get("m.in_reply_to")).get("event_id")
    is_answer = message.inbound.chat_kind != "direct" and relation.get("is_falling_back") is not True
    return found if is_answer and isinstance(found, str) and found.startswith("$") else ""


def with_answered(
    message: IncomingMessage, answered: object, room: RoomView, me: Identity
) -> IncomingMessage:
    """A message with the words and files of the event that it answers, unless that is the assistant's own."""
    try:
        other = read_message(answered, room, me)
    except Ignored:
        return message
    said_by = other.inbound.sender_name or other.inbound.sender_id
    own = Quoted(text=other.inbound.text, kind="quote", said_by=said_by)
    quoted = [quote for quote in (own, *other.inbound.quoted) if quote.text.strip()]
    return replace(
        message,
        inbound=replace(message.inbound, quoted=(*message.inbound.quoted, *quoted)),
        files=(*message.files, *(replace(file, said_by=said_by) for file in other.files)),
    )


def _text(content: Mapping[str, Any], *, is_answer: bool) -> str:
    body = content.get("body")
    text = body if isinstance(body, str) else ""
    if content.get("msgtype") in _FILES:
        # The body is a caption only if the file has a name of its own.
        name = content.get("filename")
        return text if isinstance(name, str) and name != text else ""
    found = _QUOTED.match(text) if is_answer else None
    return text[found.end() :] if found else text


def _own_words(text: str, content: Mapping[str, Any]) -> tuple[str, tuple[Quoted, ...]]:
    """The sender's own words, and the words of others: a forwarded message or a leading quotation.

    The quotation that clients add to an answer has been removed already.
    """
    if any(content.get(name) for name in ("m.forwarded", "m.forward", "org.matrix.msc2723.forwarded")):
        return "", (Quoted(text=text, kind="forward"),) if text.strip() else ()
    found = _QUOTED.match(f"{text}\n")
    if found is None:
        return text, ()
    words = re.sub(r"(?m)^> ?", "", found[0]).strip()
    return text[found.end() :], (Quoted(text=words, kind="quote"),) if words else ()


def _mentions(content: Mapping[str, Any], user_id: str) -> bool:
    mentions = content.get("m.mentions")
    if isinstance(mentions, Mapping):
        users = mentions.get("user_ids")
        return isinstance(users, list) and user_id in users
    texts = (content.get("body"), content.get("formatted_body"))
    return any(isinstance(text, str) and user_id in text for text in texts)


def _file(content: Mapping[str, Any], kind: str) -> RemoteFile:
    info = mapping(content.get("info"))
    url, name = content.get("url"), content.get("filename")
    problem = "" if isinstance(url, str) and url.startswith("mxc://") else "it has no address on the server"
    if isinstance(content.get("file"), Mapping):
        problem = "it is end-to-end encrypted"
    return RemoteFile.read(
        url if isinstance(url, str) else "",
        name=name if isinstance(name, str) and name else content.get("body"),
        mime_type=info.get("mimetype"),
        size_bytes=info.get("size"),
        default_type=_FILES[kind],
        problem=problem,
    )


def message_content(part: Part, *, is_private: bool) -> dict[str, Any]:
    """The content of a new message. In a group it refers to the message that it answers."""
    content = _text_content(part.text)
    answered = {"m.in_reply_to": {"event_id": part.answers}} if part.answers.startswith("$") else {}
    if thread := part.place.thread_id:
        content["m.relates_to"] = {
            "rel_type": "m.thread",
            "event_id": thread,
            "is_falling_back": True,
            **(answered or {"m.in_reply_to": {"event_id": thread}}),
        }
    elif answered and not is_private:
        content["m.relates_to"] = answered
    return content


def edit_content(part: Part, event_id: str) -> dict[str, Any]:
    """The content of an edit. Clients that do not support edits show the new text with a star."""
    content = _text_content(part.text)
    return {
        **content,
        "body": f"* {content['body']}",
        "m.new_content": content,
        "m.relates_to": {"rel_type": "m.replace", "event_id": event_id},
    }


def _text_content(text: str) -> dict[str, Any]:
    text = _CONTROLS.sub("", text)
    content: dict[str, Any] = {"msgtype": "m.text", "body": text, "m.mentions": {}}
    html = _MARKDOWN.render(text).strip()
    if html != f"<p>{text}</p>" and len(html) <= 2 * len(text) + 200:
        content |= {"format": "org.matrix.custom.html", "formatted_body": html}
    return content
