"""`XmppBridge`: the assistant on an XMPP server.

The archives (XEP-0313) of the account and of each room show what was missed and whether a part arrived. The
cursor holds the last id of each archive.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import logging
import re
import ssl
from collections.abc import AsyncIterator, Awaitable, Mapping, Sequence
from dataclasses import field, replace
from datetime import datetime, timedelta
from typing import Any, TypeVar

from slixmpp import JID, ClientXMPP, Message
from slixmpp.exceptions import IqError, IqTimeout, PresenceError

from nacre.bridges.channels.connection import Address, check_password_is_safe, connect_problem, tls_context
from nacre.bridges.channels.messages import FIRST_LOOK_BACK, Ignored, strip_mention
from nacre.bridges.contracts.bridge import Bridge, Capabilities, Inbox, Part, Place, place_of
from nacre.bridges.contracts.errors import BridgeError, CannotConnect, DeliveryRefused, NotDelivered
from nacre.extensions.xmpp.settings import XmppSettings
from nacre.record import Record
from nacre.runtime.contracts.clock import Clock
from nacre.runtime.contracts.inbound import Inbound, Quoted

log = logging.getLogger(__name__)

CHANNEL = "xmpp"

_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_SID, _MUC_USER = "{urn:xmpp:sid:0}", "{http://jabber.org/protocol/muc#user}"
_MUC_HIDDEN = "{http://jabber.org/protocol/muc#user}x"
_CORRECTION = "{urn:xmpp:message-correct:0}replace"
_REPLY, _FALLBACK = "{urn:xmpp:reply:0}reply", "{urn:xmpp:fallback:0}fallback"
_FORWARDED = "{urn:xmpp:forward:0}forwarded"
# For clients that do not support replies, a reply begins with the message that it answers.
_QUOTED = re.compile(r"(?:>[^\n]*(?:\n|\Z))+")
_OMEMO = ("urn:xmpp:omemo:2", "eu.siacs.conversations.axolotl")
_ENCRYPTED = ("{urn:xmpp:eme:0}encryption", "{urn:xmpp:openpgp:0}openpgp", "{jabber:x:encrypted}x")
ENCRYPTED = (
    "I cannot read encrypted messages. Please switch off the encryption of this chat (OMEMO, OpenPGP or OTR) "
    "and send that again."
)
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
    """A message and its id in the archive of the room `archive`, or of the account if that is empty.

    The words of an encrypted one are not known.
    """

    inbound: Inbound
    archive: str
    archive_id: str
    is_encrypted: bool = False


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
    is_encrypted = _is_encrypted(stanza, text)
    text, quoted = ("", ()) if is_encrypted else _without_quotation(stanza, text)
    if not (is_encrypted or text.strip() or quoted):
        raise Ignored("it has no readable content")
    if kind == "groupchat":
        if not (room and sender.resource):
            raise Ignored("it comes from a room that the assistant is not in")
        if not archive_id and stanza.xml.find("{urn:xmpp:delay}delay") is not None:
            raise Ignored("it is the room's history, which the archive repeats")
        sender_id = me.people.get((room, sender.resource)) or sender.full
        text, is_named = strip_mention(text, me.nick)
        reply = stanza.xml.find(_REPLY)
        is_mentioned = is_named or (reply is not None and reply.get("to") == f"{room}/{me.nick}")
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
    return XmppMessage(inbound=inbound, archive=room, archive_id=archive_id, is_encrypted=is_encrypted)


def _is_encrypted(stanza: Message, text: str) -> bool:
    """Whether a message is encrypted, by its mark (XEP-0380) or by its form."""
    for name in _OMEMO:
        if (found := stanza.xml.find(f"{{{name}}}encrypted")) is not None:
            return found.find(f"{{{name}}}payload") is not None  # without one, it only exchanges keys
    return text.startswith("?OTR") or any(stanza.xml.find(name) is not None for name in _ENCRYPTED)


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


LOGIN_SECONDS = 60.0
CLOSE_SECONDS = 3.0
PING_SECONDS = 30.0
T = TypeVar("T")
_PLUGINS = ("xep_0045", "xep_0059", "xep_0085", "xep_0199", "xep_0308", "xep_0313", "xep_0334", "xep_0359")

ANSWER_SECONDS = 30.0
FORGOTTEN_LOOK_BACK = timedelta(days=1)
"""How far back an archive is read if it no longer knows the cursor."""
PAGE = 50


class XmppClient:
    """A connection. `ended` is done, with a reason, when the connection is over."""

    def __init__(self, settings: XmppSettings) -> None:
        self._settings = settings
        host = settings.host or settings.jid.rpartition("@")[2].partition("/")[0]
        self._address = Address(
            host=host,
            port=settings.port,
            tls=settings.tls,
            ca_file=settings.tls_ca_file,
            setting="channels.xmpp",
        )
        self.stream = ClientXMPP(settings.jid, settings.password.get_secret_value())
        self.ended: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._is_closed = False
        for name in _PLUGINS:
            self.stream.register_plugin(name)
        self.stream.auto_subscribe = False
        for event, handler in (
            ("session_start", self._on_start),
            ("connection_failed", self._on_failure),
            ("failed_all_auth", self._on_refusal),
            ("ssl_invalid_chain", self._on_failure),
            ("disconnected", self._on_end),
        ):
            self.stream.add_event_handler(event, handler)

    async def log_in(self) -> None:
        """Connects and logs in. Raises `CannotConnect`."""
        check_password_is_safe(self._address)
        stream, settings = self.stream, self._settings
        stream.ssl_context = tls_context(settings.tls_ca_file, "channels.xmpp")
        stream.enable_starttls = stream.enable_direct_tls = settings.tls
        stream.enable_plaintext = not settings.tls
        if not settings.tls:
            stream.plugin["feature_mechanisms"].config.update(unencrypted_plain=True, unencrypted_scram=True)
        stream.connect(*((settings.host, settings.port) if settings.host else ()))
        try:
            async with asyncio.timeout(LOGIN_SECONDS):
                await self._ready
        except TimeoutError:
            raise CannotConnect(
                f"{self._address.host} did not log in {settings.jid} within {LOGIN_SECONDS:.0f} seconds."
            ) from None

    async def while_connected(self, request: Awaitable[T]) -> T:
        """Waits for an answer while the connection lasts. Raises `ConnectionError` when it ends."""
        task = asyncio.ensure_future(request)
        waiting: set[asyncio.Future[Any]] = {task, self.ended}
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        task.cancel()
        raise ConnectionError(await self.ended)

    async def ping(self) -> None:
        """Waits until the server has processed what was sent before."""
        domain = JID(self.stream.boundjid.domain)
        await self.stream.plugin["xep_0199"].send_ping(domain, timeout=PING_SECONDS)

    async def close(self) -> None:
        """Closes the connection. Safe to repeat."""
        if self._is_closed:
            return
        self._is_closed = True
        self.stream.cancel_connection_attempt()
        if self.stream.is_connected():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(CLOSE_SECONDS):
                    await self.stream.disconnect(wait=1.0)
        self.stream.abort()
        self._on_end("")

    def _on_start(self, _event: Any) -> None:
        if not self._ready.done():
            self._ready.set_result(None)

    def _on_failure(self, error: Any) -> None:
        if isinstance(error, ssl.SSLError) and not isinstance(error, ssl.SSLCertVerificationError):
            return  # a port for STARTTLS, which is tried next, answers direct TLS like this
        if isinstance(error, OSError):
            self._fail(connect_problem(self._address, error))
        else:
            self._fail(f"{self._address.host} cannot be reached: {error}.")

    def _on_refusal(self, _event: Any) -> None:
        self._fail(
            f"{self._address.host} refuses the password of {self._settings.jid} (channels.xmpp.password)."
        )

    def _on_end(self, why: Any) -> None:
        if isinstance(why, OSError):
            self._on_failure(why)
        self._fail(f"{self._address.host} closed the connection during the login: {why}")
        if not self.ended.done():
            self.ended.set_result(f"{self._address.host} closed the connection{f': {why}' if why else ''}")

    def _fail(self, sentence: str) -> None:
        self.stream.cancel_connection_attempt()
        if not self._ready.done():
            self._ready.set_exception(CannotConnect(sentence))
            self._ready.exception()  # nobody may be waiting any more


async def archived_since(
    client: XmppClient, archive: str, *, after: str, now: datetime
) -> AsyncIterator[Any]:
    """The messages of an archive after an id, the oldest first."""
    start = None if after else now - FIRST_LOOK_BACK
    while True:
        try:
            page, last, is_last = await _page(
                client, archive, start=start, rsm={"after": after} if after else {}
            )
        except IqError as error:
            if not after or error.condition != "item-not-found":
                log.warning("the archive of %s does not answer: %s", archive or "the account", error)
                return
            after, start = "", now - FORGOTTEN_LOOK_BACK
            continue
        for result in page:
            yield result
        if is_last or not last:
            return
        after, start = last, None


async def newest_first(client: XmppClient, archive: str, *, with_jid: str) -> AsyncIterator[Any]:
    """The messages of a chat in an archive, the newest first."""
    results = client.stream.plugin["xep_0313"].iterate(
        jid=JID(archive) if archive else None,
        with_jid=JID(with_jid) if with_jid else None,
        reverse=True,
        rsm={"max": PAGE},
    )
    while (result := await client.while_connected(anext(results, None))) is not None:
        if result["from"].bare in _own(client, archive):
            yield result


async def has_archive(client: XmppClient, jid: str) -> bool:
    request = client.stream.plugin["xep_0030"].get_info(jid=JID(jid), timeout=ANSWER_SECONDS)
    try:
        info = await client.while_connected(request)
    except (IqError, IqTimeout):
        return False
    return "urn:xmpp:mam:2" in info["disco_info"]["features"]


async def _page(
    client: XmppClient,
    archive: str,
    *,
    rsm: dict[str, str],
    start: datetime | None = None,
) -> tuple[list[Any], str, bool]:
    """One page: its messages, the id to continue after, and whether it is the last one."""
    found: list[Any] = []
    request = client.stream.plugin["xep_0313"].retrieve(
        jid=JID(archive) if archive else None,
        start=start,
        rsm={"max": PAGE, **rsm},
        callback=lambda iq: found.extend(iq["mam"]["results"]),
        timeout=ANSWER_SECONDS,
    )
    answer = await client.while_connected(request)
    page = [result for result in found if result["from"].bare in _own(client, archive)]
    fin = answer["mam_fin"]
    return page, fin["rsm"]["last"] or "", fin.xml.get("complete") == "true" or not found


def _own(client: XmppClient, archive: str) -> set[str]:
    """The addresses that may answer for an archive. Anybody could guess a request's id and answer it."""
    return {archive} if archive else {"", client.stream.boundjid.bare}


ABSENT_SECONDS = 60.0
"""The delay before the next delivery after a refusal that may end."""
MAX_SEARCHED = 400
"""How many archived messages `find` looks at."""
_FINAL_ERRORS = ("forbidden", "gone", "item-not-found", "jid-malformed", "not-allowed")


class XmppBridge(Bridge):
    """One account."""

    channel = CHANNEL
    capabilities = Capabilities(
        greatest_length=8_000,
        can_edit=True,
        edit_seconds=3.0,
        has_typing=True,
        typing_seconds=20.0,
        can_read_back=True,
    )

    def __init__(self, settings: XmppSettings, *, now: Clock, account: str = "default") -> None:
        self.account = account
        self._settings = settings
        self._now = now
        self._client: XmppClient | None = None
        self._me = Identity(jid=str(JID(settings.jid).bare), nick=settings.nick, account=account)
        self._waiting: dict[str, asyncio.Future[None]] = {}
        self._cursor: dict[str, str] = {}
        self._is_catching_up = True
        # The senders of messages that arrive while the archives are read, by archive id. The archives repeat
        # these messages without the people's addresses.
        self._live: dict[str, Identity] = {}
        self._reported: set[str] = set()

    async def start(self, inbox: Inbox) -> None:
        client = XmppClient(self._settings)
        received: asyncio.Queue[tuple[Message, Identity] | None] = asyncio.Queue()

        def on_message(stanza: Message) -> None:
            # Looked up now: a moment later somebody else may have the sender's nick in the room.
            me = self._with_sender(stanza, client)
            received.put_nowait((stanza, me))
            if self._is_catching_up:
                self._live[stanza_id(stanza, stanza["from"].bare)] = me

        client.stream.add_event_handler("message", on_message)
        client.stream.add_event_handler("groupchat_message", self._on_reflection)
        client.stream.add_event_handler("message_error", self._on_error)
        # slixmpp only knows a refused room by an element that prosody leaves out.
        client.stream.add_event_handler(
            "presence_error",
            lambda stanza: client.stream.event(f"muc::{stanza['from'].bare}::presence-error", stanza),
        )
        client.ended.add_done_callback(lambda _: received.put_nowait(None))
        self._cursor = dict(json.loads(inbox.cursor or "{}"))
        self._is_catching_up = True
        try:
            await client.log_in()
            client.stream.send_presence()
            await self._join(client)
            self._client = client
            inbox.connected()
            # The archives of rooms lack people's addresses.
            for archive in ("", *sorted(self._me.rooms)):
                async for archive_id, stanza in self._missed(client, archive):
                    me = self._live.get(archive_id, self._me)
                    await self._take(stanza, me, inbox, archive_id=archive_id)
            self._is_catching_up = False
            self._live.clear()
            while not self.stopping.is_set() and (item := await received.get()) is not None:
                await self._take(*item, inbox)
        except ConnectionError:
            if not self.stopping.is_set():
                raise
        finally:
            self._client = None
            for waiting in self._waiting.values():
                if not waiting.done():
                    waiting.set_exception(ConnectionError("the connection broke before the answer came"))
            await client.close()
        if not self.stopping.is_set():
            raise ConnectionError(await client.ended)

    async def stop(self) -> None:
        self.stopping.set()
        if self._client is not None:
            await self._client.close()

    async def deliver(self, part: Part) -> str:
        """Sends a part under an id made from its key, by which `find` recognizes it."""
        message_id = _id(part.key)
        await self._send(part, message_id)
        return message_id

    async def edit(self, part: Part, message_id: str) -> None:
        """Sends a correction (XEP-0308)."""
        await self._send(part, _id(f"{part.key} {part.text}"), corrects=message_id)

    async def typing(self, place: Place) -> None:
        message = self._message(place)
        message["chat_state"] = "composing"
        message.enable("no-store")
        message.send()

    async def find(self, part: Part) -> str | None:
        """Looks for the part's id in the archive."""
        client, wanted = self._connected(), _id(part.key)
        chat_id = part.place.chat_id
        room = chat_id if chat_id in self._me.rooms else ""
        searched = 0
        async for message in newest_first(client, room, with_jid="" if room else chat_id):
            searched += 1
            if message["mam_result"]["forwarded"]["stanza"]["id"] == wanted:
                return wanted
            if searched >= MAX_SEARCHED:
                break
        return None

    def _connected(self) -> XmppClient:
        if self._client is None or self._client.ended.done():
            raise NotDelivered(f"there is no connection to the server of {self._me.jid}")
        return self._client

    def _message(self, place: Place) -> Any:
        kind = "groupchat" if place.chat_id in self._me.rooms else "chat"
        return self._connected().stream.make_message(mto=JID(place.chat_id), mtype=kind)

    async def _send(self, part: Part, message_id: str, *, corrects: str = "") -> None:
        """Sends a message and waits until the room shows it or the server has processed it."""
        client, message = self._connected(), self._message(part.place)
        message["body"], message["id"] = sendable(part.text), message_id
        message["chat_state"] = "active"
        if corrects:
            message["replace"]["id"] = corrects
        waiting = self._waiting[message_id] = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                message.send()
                if message["type"] != "groupchat":
                    await client.while_connected(client.ping())
                    if not waiting.done():
                        return
                await waiting
        finally:
            del self._waiting[message_id]

    def _on_reflection(self, stanza: Message) -> None:
        waiting = self._waiting.get(stanza["id"])
        if waiting is not None and not waiting.done() and stanza["from"].resource == self._me.nick:
            waiting.set_result(None)

    def _on_error(self, stanza: Message) -> None:
        waiting = self._waiting.get(stanza["id"])
        if waiting is None or waiting.done():
            return
        condition, text = stanza["error"]["condition"], stanza["error"]["text"]
        why = f"{stanza['from']}: {text or condition}"
        if condition in _FINAL_ERRORS:
            waiting.set_exception(DeliveryRefused(why))
        else:
            waiting.set_exception(NotDelivered(why, retry_after_seconds=ABSENT_SECONDS))

    async def _join(self, client: XmppClient) -> None:
        self.capabilities = type(self).capabilities
        rooms = client.stream.plugin["xep_0045"]
        joined = set()
        for room in self._settings.rooms:
            try:
                joining = rooms.join_muc_wait(
                    JID(room), self._settings.nick, maxstanzas=0, timeout=ANSWER_SECONDS
                )
                await client.while_connected(joining)
                joined.add(str(JID(room).bare))
            except (PresenceError, TimeoutError) as error:
                why = (error.text, error.condition) if isinstance(error, PresenceError) else ()
                self.refused[room] = next(filter(None, why), "its server does not answer")
                log.warning("the room %s cannot be joined: %s", room, self.refused[room])
        self._me = replace(self._me, rooms=frozenset(joined))
        for archive in ("", *joined):
            if not await has_archive(client, archive or self._me.jid):
                log.warning("%s keeps no archive: missed messages are lost", archive or self._me.jid)
                self.capabilities = replace(self.capabilities, can_read_back=False)
                self._cursor.pop(archive, None)

    async def _missed(self, client: XmppClient, archive: str) -> AsyncIterator[tuple[str, Message]]:
        after = self._cursor.get(archive, "")
        found = (
            (result["mam_result"]["id"], result["mam_result"]["forwarded"]["stanza"])
            async for result in archived_since(client, archive, after=after, now=self._now())
        )
        if after:
            async for missed in found:
                yield missed
        else:  # at the first start, messages that an earlier assistant has answered are left out
            for missed in unanswered([each async for each in found], self._me):
                yield missed

    async def _take(self, stanza: Message, me: Identity, inbox: Inbox, *, archive_id: str = "") -> None:
        try:
            message = read_message(stanza, me, archive_id=archive_id)
        except (Ignored, ValueError) as why:
            log.info("an XMPP message was ignored: %s", why)
            return
        if message.is_encrypted:
            await self._report_encryption(message.inbound)
            return
        cursor = {**self._cursor, message.archive: message.archive_id} if message.archive_id else self._cursor
        await inbox.receive(message.inbound, cursor=json.dumps(cursor) if cursor else "")
        self._cursor = cursor

    async def _report_encryption(self, inbound: Inbound) -> None:
        """Reports once a day that a chat's messages cannot be read: in the log and, if private, there."""
        place = place_of(inbound)
        part = Part(place=place, text=ENCRYPTED, key=f"encrypted {inbound.chat_id} {self._now():%Y-%m-%d}")
        if part.key in self._reported:
            return
        self._reported.add(part.key)
        log.warning("messages in %s are encrypted, which is not supported: they are ignored", inbound.chat_id)
        if inbound.chat_kind == "direct":
            with contextlib.suppress(BridgeError, IqError, IqTimeout, OSError):
                if not (self.capabilities.can_read_back and await self.find(part)):  # before a restart
                    await self.deliver(part)

    def _with_sender(self, stanza: Message, client: XmppClient) -> Identity:
        """The assistant's identity with the address of a room message's sender, if the room shows it."""
        sender = stanza["from"]
        if sender.bare not in self._me.rooms:
            return self._me
        shown = client.stream.plugin["xep_0045"].get_jid_property(sender.bare, sender.resource, "jid")
        domain = self._me.jid.rpartition("@")[2]
        address = verified_address(str(shown or ""), sender.bare, domain)
        return replace(self._me, people={(sender.bare, sender.resource): address})


def _id(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()[:32]
