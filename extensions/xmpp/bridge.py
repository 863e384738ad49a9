"""`XmppBridge`: the assistant on an XMPP server.

The archives (XEP-0313) of the account and of each room tell what was missed and whether a part arrived. The
cursor holds the last id of each archive.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

from slixmpp import JID, Message
from slixmpp.exceptions import PresenceError

from nacre.bridges.channels.messages import Ignored
from nacre.bridges.contracts.bridge import Bridge, Capabilities, Inbox, Part, Place
from nacre.bridges.contracts.errors import DeliveryRefused, NotDelivered
from nacre.extensions.xmpp.client import XmppClient, archived_since, has_archive, newest_first
from nacre.extensions.xmpp.messages import (
    CHANNEL,
    Identity,
    read_message,
    sendable,
    stanza_id,
    unanswered,
    verified_address,
)
from nacre.extensions.xmpp.settings import XmppSettings
from nacre.runtime.contracts.clock import Clock

log = logging.getLogger(__name__)

ANSWER_SECONDS = 30.0
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
        self._stopping = asyncio.Event()
        self._me = Identity(jid=str(JID(settings.jid).bare), nick=settings.nick, account=account)
        self._waiting: dict[str, asyncio.Future[None]] = {}
        self._cursor: dict[str, str] = {}
        self._is_catching_up = True
        # The senders of messages that arrive while the archives are read, by archive id. The archives repeat
        # these messages without the people's addresses.
        self._live: dict[str, Identity] = {}

    async def start(self, inbox: Inbox) -> None:
        if self._stopping.is_set():
            return
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
        client.ended.add_done_callback(lambda _: received.put_nowait(None))
        self._cursor = dict(json.loads(inbox.cursor or "{}"))
        self._is_catching_up = True
        try:
            await client.log_in()
            client.stream.send_presence()
            await self._join(client)
            self._client = client
            inbox.connected()
            await self._catch_up(client, inbox)
            self._is_catching_up = False
            self._live.clear()
            while not self._stopping.is_set() and (item := await received.get()) is not None:
                await self._take(*item, inbox)
        except ConnectionError:
            if not self._stopping.is_set():
                raise
        finally:
            self._client = None
            for waiting in self._waiting.values():
                if not waiting.done():
                    waiting.set_exception(ConnectionError("the connection broke before the answer came"))
            await client.close()
        if not self._stopping.is_set():
            raise ConnectionError(await client.ended)

    async def stop(self) -> None:
        self._stopping.set()
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
                log.warning("the room %s cannot be joined: %s", room, error)
        self._me = replace(self._me, rooms=frozenset(joined))
        for archive in ("", *joined):
            if not await has_archive(client, archive or self._me.jid):
                log.warning("%s keeps no archive: missed messages are lost", archive or self._me.jid)
                self.capabilities = replace(self.capabilities, can_read_back=False)
                self._cursor.pop(archive, None)

    async def _catch_up(self, client: XmppClient, inbox: Inbox) -> None:
        """Receives what the archives hold after the cursor. They do not tell people's addresses in rooms."""
        for archive in ("", *sorted(self._me.rooms)):
            async for archive_id, stanza in self._missed(client, archive):
                me = self._live.get(archive_id, self._me)
                await self._take(stanza, me, inbox, archive_id=archive_id)

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
        cursor = {**self._cursor, message.archive: message.archive_id} if message.archive_id else self._cursor
        await inbox.receive(message.inbound, cursor=json.dumps(cursor) if cursor else "")
        self._cursor = cursor

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
