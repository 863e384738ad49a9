"""What a message stanza says, and by whom as the servers vouch for it. Pure."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import field

from slixmpp import Message

from nacre.bridges.channels.mentions import addressed
from nacre.bridges.channels.spoken import Spoken
from nacre.record import Record
from nacre.runtime.contracts.inbound import Quoted

_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_SID, _MUC_USER = "{urn:xmpp:sid:0}", "{http://jabber.org/protocol/muc#user}"
_MUC_HIDDEN = "{http://jabber.org/protocol/muc#user}x"
_CORRECTION = "{urn:xmpp:message-correct:0}replace"
_REPLY, _FALLBACK = "{urn:xmpp:reply:0}reply", "{urn:xmpp:fallback:0}fallback"
_FORWARDED = "{urn:xmpp:forward:0}forwarded"
_QUOTED = re.compile(r"(?:>[^\n]*(?:\n|\Z))+")
"""What stands in front of an answer, for programs that do not know answers: the words that it answers."""
_WRAPPED = ("{urn:xmpp:mam:2}result", "{urn:xmpp:carbons:2}received", "{urn:xmpp:carbons:2}sent")


class Me(Record):
    """The assistant: its bare address, its name in rooms, and the rooms that it is in.

    `people` are the addresses of a room's people by their names there, where the room shows them.
    """

    jid: str
    nick: str
    rooms: frozenset[str] = frozenset()
    people: Mapping[tuple[str, str], str] = field(default_factory=dict)


class Heard(Spoken):
    """A message. `archive` holds it, empty for the account's own, under `archive_id`."""

    archive: str
    archive_id: str


def heard(stanza: Message, me: Me, *, archive_id: str = "") -> Heard | str:
    """What a message says, or why it is not answered. `archive_id`: it comes from the archive, under this id.

    Raises:
        ValueError: an address in it is none.
    """
    sender, kind = stanza["from"], stanza["type"]
    room = sender.bare if sender.bare in me.rooms else ""
    text = _NOT_XML.sub("", stanza["body"] or "")
    if any(stanza.xml.find(name) is not None for name in _WRAPPED):
        return "it holds a message of somebody else"
    if kind not in ("chat", "normal", "groupchat"):
        return f"it is of the type {kind!r}"
    if sender.bare in ("", me.jid) or (room and sender.resource == me.nick):
        return "it is the assistant's own"
    if stanza.xml.find(_CORRECTION) is not None:
        return "it corrects a message that was heard already"
    text, quoted = _without_quotation(stanza, text)
    if not (text.strip() or quoted):
        return "it says nothing"
    if kind == "groupchat":
        if not (room and sender.resource):
            return "it comes from a room that the assistant is not in"
        if not archive_id and stanza.xml.find("{urn:xmpp:delay}delay") is not None:
            return "it is the room's history, which the archive tells"
        sender_id = me.people.get((room, sender.resource)) or sender.full
        text, is_mentioned = addressed(text, me.nick)
    elif room or stanza.xml.find(_MUC_HIDDEN) is not None:
        return "it is whispered in a room, where nobody knows for sure who speaks"
    else:
        sender_id, is_mentioned = sender.bare, False
    archive_id = archive_id or stanza_id(stanza, room or me.jid)
    return Heard(
        kind="group" if room else "direct",
        chat_id=room or sender.bare,
        sender_id=sender_id,
        text=text,
        quoted=quoted,
        is_mentioned=is_mentioned,
        message_id=_sent_id(stanza, room) or archive_id or f"{sender.full} ",
        archive=room,
        archive_id=archive_id,
    )


def _without_quotation(stanza: Message, text: str) -> tuple[str, tuple[Quoted, ...]]:
    """The sender's own words, and those of others: what an answer quotes (XEP-0461, and lines that begin with
    `>` as XEP-0393 marks them), and the whole of a body beside a forwarded stanza (XEP-0297)."""
    reply = stanza.xml.find(_REPLY)
    author = (reply.get("to") or "") if reply is not None else ""
    if stanza.xml.find(_FORWARDED) is not None:
        return "", (Quoted(text=text, kind="forward", said_by=author),) if text.strip() else ()
    end = 0
    for fallback in stanza.xml.findall(_FALLBACK) if reply is not None else ():
        body = fallback.find("{urn:xmpp:fallback:0}body")
        given = body.get("end") if body is not None and body.get("start") in (None, "0") else None
        if fallback.get("for") == "urn:xmpp:reply:0" and given is not None and given.isdecimal():
            end = max(end, int(given[:9]))
    found = _QUOTED.match(text)
    end = max(end, found.end() if found is not None else 0)
    words = re.sub(r"(?m)^> ?", "", text[:end]).strip()
    return text[end:].lstrip("\n"), (Quoted(text=words, kind="quote", said_by=author),) if words else ()


def unanswered(archived: Sequence[tuple[str, Message]], me: Me) -> list[tuple[str, Message]]:
    """Of messages in an archive, by their ids there, those behind the assistant's last one in each chat."""
    waiting: dict[str, list[tuple[str, Message]]] = {}
    for archive_id, stanza in archived:
        sender = stanza["from"]
        is_own = sender.bare == me.jid or (sender.bare in me.rooms and sender.resource == me.nick)
        if is_own:
            waiting.pop(sender.bare if sender.bare in me.rooms else stanza["to"].bare, None)
        else:
            waiting.setdefault(sender.bare, []).append((archive_id, stanza))
    left = {archive_id for chat in waiting.values() for archive_id, _ in chat}
    return [(archive_id, stanza) for archive_id, stanza in archived if archive_id in left]


def _sent_id(stanza: Message, room: str) -> str:
    """The same for each copy of a message that its sender sends again; empty for one without an id.

    The archive gives every copy an id of its own. The text is part of it, because some clients count anew
    after each start.
    """
    origin = stanza.xml.find(f"{_SID}origin-id")
    sent_id = (origin.get("id") if origin is not None else "") or stanza["id"]
    if not sent_id:
        return ""
    digest = hashlib.sha256((stanza["body"] or "").encode("utf-8", "replace")).hexdigest()[:16]
    return f"{stanza['from'].full if room else stanza['from'].bare} {sent_id} {digest}"


def stanza_id(stanza: Message, by: str) -> str:
    """The id that an archive gave to a message; empty if it did not."""
    found = (item for item in stanza.xml.findall(f"{_SID}stanza-id") if item.get("by") == by)
    return next((item.get("id") or "" for item in found), "")


def vouched_address(jid: str, room: str, own_domain: str) -> str:
    """Whose address a room shows: nobody's, unless the room is on the assistant's own server.

    A room of a stranger could show any address, the owner's too.
    """
    service = room.rpartition("@")[2]
    is_trusted = service == own_domain or service.endswith(f".{own_domain}")
    return jid.partition("/")[0] if is_trusted else ""


def sendable(text: str) -> str:
    """A text without the characters that XML cannot hold; one of them would end the connection."""
    return _NOT_XML.sub("", text.encode("utf-8", "replace").decode())
