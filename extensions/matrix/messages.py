"""What an event of a room says, and by whom as the homeserver vouches for them. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from nacre.bridges.channels.mentions import addressed
from nacre.extensions.matrix.rooms import RoomView
from nacre.record import Record
from nacre.runtime.contracts.inbound import Inbound, Quoted

CHANNEL = "matrix"
_FILES = {
    "m.image": "image/*",
    "m.file": "application/octet-stream",
    "m.audio": "audio/*",
    "m.video": "video/*",
}
_USER_ID = re.compile(r"@[^\s:]+:[^\s]+")
_QUOTED = re.compile(r"(?:> .*\n|>\n)+\n?")
"""What older programs put in front of an answer: the words that it answers."""


class Me(Record):
    """The assistant: its id, the name that people see, and the account in the settings."""

    user_id: str
    name: str
    account: str = "default"


class RemoteFile(Record):
    """A file on the server; `size_bytes` is 0 where nobody says. `problem`: why it cannot be fetched."""

    mxc: str
    name: str
    mime_type: str
    size_bytes: int
    problem: str = ""


class Heard(Record):
    """A message, without its files yet."""

    inbound: Inbound
    files: tuple[RemoteFile, ...] = ()


def is_encrypted(event: object) -> bool:
    """Whether an event is a message that only its devices can read."""
    return isinstance(event, Mapping) and event.get("type") == "m.room.encrypted"


def heard(event: object, room: RoomView, me: Me) -> Heard | str:
    """What an event says, or why it is not answered."""
    if not isinstance(event, Mapping) or not isinstance(content := event.get("content"), Mapping):
        return "it is no event"
    sender, event_id = event.get("sender"), event.get("event_id")
    if not (isinstance(sender, str) and _USER_ID.fullmatch(sender)):
        return "it has no sender"
    if not (isinstance(event_id, str) and event_id.startswith("$")):
        return "it has no id"
    if sender == me.user_id:
        return "it is the assistant's own"
    if event.get("type") != "m.room.message" or "state_key" in event:
        return f"it is of the type {_shown(event.get('type'))}"
    relation = content.get("m.relates_to")
    relation = relation if isinstance(relation, Mapping) else {}
    if relation.get("rel_type") == "m.replace":
        return "it corrects a message that was heard already"
    kind = content.get("msgtype")
    if kind not in ("m.text", "m.emote", *_FILES):
        return f"it is of the kind {_shown(kind)}"
    files = (_file(content, str(kind)),) if kind in _FILES else ()
    text = _words(content, is_answer="m.in_reply_to" in relation)
    text, quoted = _own_words(text, content)
    bare, is_named = addressed(text, me.name)
    if not (bare.strip() or quoted or files):
        return "it says nothing"
    inbound = Inbound(
        text=f"*{bare}*" if kind == "m.emote" and bare.strip() else bare,
        quoted=quoted,
        chat_kind="direct" if room.private_with == sender else "group",
        channel=CHANNEL,
        account=me.account,
        chat_id=room.chat_id,
        thread_id=_thread(relation),
        sender_id=sender,
        message_id=event_id,
        chat_name=room.name,
        is_mentioned=is_named or _mentions(content, me.user_id),
    )
    return Heard(inbound=inbound, files=files)


def _words(content: Mapping[str, Any], *, is_answer: bool) -> str:
    body = content.get("body")
    text = body if isinstance(body, str) else ""
    if content.get("msgtype") in _FILES:
        # A caption is there only beside a name of its own.
        name = content.get("filename")
        return text if isinstance(name, str) and name != text else ""
    found = _QUOTED.match(text) if is_answer else None
    return text[found.end() :] if found else text


def _own_words(text: str, content: Mapping[str, Any]) -> tuple[str, tuple[Quoted, ...]]:
    """The sender's own words, and those of others: a whole forwarded message, or the quotation in front.

    An answer that says what it answers has no quotation here any more.
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


def _thread(relation: Mapping[str, Any]) -> str:
    root = relation.get("event_id") if relation.get("rel_type") == "m.thread" else ""
    return root if isinstance(root, str) else ""


def _file(content: Mapping[str, Any], kind: str) -> RemoteFile:
    info = content.get("info")
    info = info if isinstance(info, Mapping) else {}
    size, mime_type, url = info.get("size"), info.get("mimetype"), content.get("url")
    name = next(
        (n for n in (content.get("filename"), content.get("body")) if isinstance(n, str) and n), "file"
    )
    problem = "" if isinstance(url, str) and url.startswith("mxc://") else "it has no address on the server"
    if isinstance(content.get("file"), Mapping):
        problem = "it is encrypted from end to end"
    return RemoteFile(
        mxc=url if isinstance(url, str) else "",
        name=name,
        mime_type=mime_type if isinstance(mime_type, str) and mime_type else _FILES[kind],
        size_bytes=size if type(size) is int and size > 0 else 0,
        problem=problem,
    )


def _shown(value: object) -> str:
    return repr(value)[:80]
