"""Conversion of XMPP stanzas to `Inbound`."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import field

from slixmpp import Message

from nacre.bridges.channels.messages import Ignored, strip_mention
from nacre.record import Record
from nacre.runtime.contracts.inbound import Inbound, Quoted

CHANNEL = "xmpp"

_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_SID, _MUC_USER = "{urn:xmpp:sid:0}", "{http://jabber.org/protocol/muc#user}"
_MUC_HIDDEN = "{http://jabber.org/protocol/muc#user}x"
_CORRECTION = "{urn:xmpp:message-correct:0}replace"
_REPLY, _FALLBACK = "{urn:xmpp:reply:0}reply", "{urn:xmpp:fallback:0}fallback"
_FORWARDED = "{urn:xmpp:forward:0}forwarded"
# For clients that do not support replies, a reply begins with the message that it answers.
_QUOTED = re.compile(r"(?:>[^\n]*(?:\n|\Z))+")
_WRAPPED = ("{urn:xmpp:mam:2}result", "{urn:xmpp:carbons:2}received", "{urn:xmpp:carbons:2}sent")


class Identity(Record):
    """The assistant: its bare address, its nick in rooms, the account in the settings, and the rooms that it
    is in.

    `people` maps a room and a nick to the person's address, if the room shows it.
    """

    jid: str
    nick: str
    account: str = "default"
    rooms: frozenset[str] = frozenset()
    people: Mapping[tuple[str, str], str] = field(default_factory=dict)


class XmppMessage(Record):
    """A message and its id in the archive of the room `archive`, or of the account if that is empty."""

    inbound: Inbound
    archive: str
    archive_id: str


def read_message(stanza: Message, me: Identity, *, archive_id: str = "") -> XmppMessage:
    """The message in a stanza. `archive_id` is its id if it comes from an archive.

    Raises:
        Ignored: it is not a message to answer.
        ValueError: it contains an invalid address.
    """
    sender, kind = stanza["from"], stanza["type"]
    room = sender.bare if sender.bare in me.rooms else ""
    text = _NOT_XML.sub("", stanza["body"] or "")
    if any(stanza.xml.find(name) is not None for name in _WRAPPED):
        raise Ignored("it contains somebody else's message")
    if kind not in ("chat", "normal", "groupchat"):
        raise Ignored(f"its type is {kind!r}")
    if sender.bare in ("", me.jid) or (room and sender.resource == me.nick):
        raise Ignored("it is the assistant's own")
    if stanza.xml.find(_CORRECTION) is not None:
        raise Ignored("it corrects an earlier message")
    text, quoted = _without_quotation(stanza, text)
    if not (text.strip() or quoted):
        raise Ignored("it has no readable content")
    if kind == "groupchat":
        if not (room and sender.resource):
            raise Ignored("it comes from a room that the assistant is not in")
        if not archive_id and stanza.xml.find("{urn:xmpp:delay}delay") is not None:
            raise Ignored("it is the room's history, which the archive repeats")
        sender_id = me.people.get((room, sender.resource)) or sender.full
        text, is_mentioned = strip_mention(text, me.nick)
    elif room or stanza.xml.find(_MUC_HIDDEN) is not None:
        raise Ignored("it is a private message in a room, where the sender cannot be verified")
    else:
        sender_id, is_mentioned = sender.bare, False
    archive_id = archive_id or stanza_id(stanza, room or me.jid)
    inbound = Inbound(
        text=text,
        quoted=quoted,
        chat_kind="group" if room else "direct",
        channel=CHANNEL,
        account=me.account,
        chat_id=room or sender.bare,
        sender_id=sender_id,
        sender_name=sender.resource if room else sender.user,
        message_id=_sent_id(stanza, room) or archive_id or f"{sender.full} ",
        chat_name=room,
        ids_fold_case=False,
        is_mentioned=is_mentioned,
    )
    return XmppMessage(inbound=inbound, archive=room, archive_id=archive_id)


def _without_quotation(stanza: Message, text: str) -> tuple[str, tuple[Quoted, ...]]:
    """The sender's own words, and the words of others.

    The latter are what a reply quotes (XEP-0461, or lines that begin with `>` as in XEP-0393), or the whole
    body if the stanza contains a forwarded one (XEP-0297).
    """
    reply = stanza.xml.find(_REPLY)
    author = (reply.get("to") or "") if reply is not None else ""
    if stanza.xml.find(_FORWARDED) is not None:
        return "", (Quoted(text=text, kind="forward", said_by=author),) if text.strip() else ()
    end = 0
    for fallback in stanza.xml.findall(_FALLBACK) if reply is not None else ():
        body = fallback.find("{urn:xmpp:fallback:0}body")
        body_end = body.get("end") if body is not None and body.get("start") in (None, "0") else None
        if fallback.get("for") == "urn:xmpp:reply:0" and body_end is not None and body_end.isdecimal():
            end = max(end, int(body_end[:9]))
    found = _QUOTED.match(text)
    end = max(end, found.end() if found is not None else 0)
    words = re.sub(r"(?m)^> ?", "", text[:end]).strip()
    return text[end:].lstrip("\n"), (Quoted(text=words, kind="quote", said_by=author),) if words else ()


def unanswered(archived: Sequence[tuple[str, Message]], me: Identity) -> list[tuple[str, Message]]:
    """The archived messages, with their archive ids, that follow the assistant's last one in each chat."""
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
    """An id that all copies of a message share when its sender repeats it; empty if it has none.

    The archive gives each copy its own id. The text is part of the id, because some clients restart their
    counter.
    """
    origin = stanza.xml.find(f"{_SID}origin-id")
    sent_id = (origin.get("id") if origin is not None else "") or stanza["id"]
    if not sent_id:
        return ""
    digest = hashlib.sha256((stanza["body"] or "").encode("utf-8", "replace")).hexdigest()[:16]
    return f"{stanza['from'].full if room else stanza['from'].bare} {sent_id} {digest}"


def stanza_id(stanza: Message, by: str) -> str:
    """The id that the archive `by` gave to a message; empty if there is none."""
    found = (item for item in stanza.xml.findall(f"{_SID}stanza-id") if item.get("by") == by)
    return next((item.get("id") or "" for item in found), "")


def verified_address(jid: str, room: str, own_domain: str) -> str:
    """The address that a room shows for a person, but only if the room is on the assistant's own server.

    A stranger's room could show any address, even the owner's.
    """
    service = room.rpartition("@")[2]
    is_trusted = service == own_domain or service.endswith(f".{own_domain}")
    return jid.partition("/")[0] if is_trusted else ""


def sendable(text: str) -> str:
    """A text without the characters that XML forbids. One of them would end the connection."""
    return _NOT_XML.sub("", text.encode("utf-8", "replace").decode())
