"""`MatrixBridge`: the assistant on a Matrix homeserver.

The sync token moves only after all messages of a sync are on disk. A part's key becomes its transaction id,
so a repeated send shows nothing new. This needs the same device across starts.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from nio import RoomInfo, SyncResponse

from nacre.bridges.channels.connection import until_stopped
from nacre.bridges.channels.messages import Ignored, IncomingMessage, with_files
from nacre.bridges.contracts.bridge import Bridge, Capabilities, Inbox, Part, Place
from nacre.bridges.contracts.errors import BridgeError, NotDelivered
from nacre.extensions.matrix.client import SYNC_SECONDS, MatrixClient
from nacre.extensions.matrix.messages import (
    CHANNEL,
    Identity,
    edit_content,
    is_encrypted,
    message_content,
    read_message,
)
from nacre.extensions.matrix.rooms import (
    Json,
    RoomView,
    arrival,
    invitation,
    read_direct,
    relevant_events,
    room_view,
    with_direct,
)
from nacre.extensions.matrix.settings import MatrixSettings
from nacre.runtime.contracts.clock import Clock, epoch_ms

log = logging.getLogger(__name__)

ABSENT_SECONDS = 60.0
"""The delay before the next delivery to a room that the assistant has left."""
MAX_PAGES = 50
"""The beginning of a gap with more pages than this is skipped, with a warning."""
ENCRYPTED = (
    "This room is end-to-end encrypted, and I cannot read encrypted messages. Please write to me in a room "
    "without encryption. Encryption is chosen when a room is created and cannot be switched off later."
)


class MatrixBridge(Bridge):
    """One account. Its login is stored in `folder`."""

    channel = CHANNEL
    capabilities = Capabilities(
        greatest_length=8_000,
        length_unit="bytes",
        can_edit=True,
        edit_seconds=2.0,
        has_typing=True,
        typing_seconds=20.0,
        has_threads=True,
        takes_attachments=True,
        has_idempotent_sends=True,
    )

    def __init__(
        self, settings: MatrixSettings, *, folder: Path, now: Clock, account: str = "default"
    ) -> None:
        settings.address  # noqa: B018 - an invalid address is reported before the start
        self.account = account
        self._settings = settings
        self._folder = folder
        self._now = now
        self._me = Identity(user_id=settings.user_id, name="", account=account)
        self._client: MatrixClient | None = None
        self._stopping = asyncio.Event()
        self._direct: dict[str, list[str]] = {}
        self._since = ""
        self._first_ms: int | None = None
        self._encrypted_rooms: set[str] = set()

    async def start(self, inbox: Inbox) -> None:
        if self._stopping.is_set():
            return
        client = await MatrixClient.open(self._settings, self._folder)
        try:
            self._read_cursor(inbox.cursor)
            self._me = replace(self._me, name=await client.name())
            self._direct = await client.direct_rooms()
            first = await client.sync(self._since, is_first=True)
            for room in self._settings.rooms:
                if room not in client.rooms:
                    await self._join(client, room)
            self._client = client
            inbox.connected()
            await self._take(client, inbox, first)
            while (sync := await self._next_sync(client)) is not None:
                await self._take(client, inbox, sync)
        finally:
            self._client = None
            await client.close()

    async def stop(self) -> None:
        self._stopping.set()

    async def deliver(self, part: Part) -> str:
        client, room = self._room(part.place)
        content = message_content(part, is_private=bool(room.private_with))
        return await client.send(room.room_id, content, _transaction_id(part.key))

    async def edit(self, part: Part, message_id: str) -> None:
        client, room = self._room(part.place)
        transaction_id = _transaction_id(f"{part.key} {part.text}")
        await client.send(room.room_id, edit_content(part, message_id), transaction_id)

    async def typing(self, place: Place) -> None:
        client, room = self._room(place)
        await client.type(room.room_id, self.capabilities.typing_seconds + 5)

    def _room(self, place: Place) -> tuple[MatrixClient, RoomView]:
        """The room of a chat. An answer from a private chat is refused once other people are in the room."""
        if self._client is None:
            raise NotDelivered(f"there is no connection to {self._settings.homeserver}")
        room_id, _, person = place.chat_id.partition(" ")
        if room_id not in self._client.rooms:
            raise NotDelivered(f"the assistant is not in {room_id}", retry_after_seconds=ABSENT_SECONDS)
        room = room_view(self._client.rooms[room_id], self._direct)
        if person and room.private_with != person:
            raise NotDelivered(f"{room_id} is no longer a private chat", retry_after_seconds=ABSENT_SECONDS)
        return self._client, room

    def _read_cursor(self, cursor: str) -> None:
        kept: dict[str, Any] = json.loads(cursor) if cursor else {"first_ms": epoch_ms(self._now())}
        self._since, self._first_ms = kept.get("since", ""), kept.get("first_ms")

    def _cursor(self) -> str:
        first = {"first_ms": self._first_ms} if not self._since else {}
        return json.dumps({"since": self._since, **first})

    async def _next_sync(self, client: MatrixClient) -> SyncResponse | None:
        return await until_stopped(self._stopping, client.sync(self._since, wait_seconds=SYNC_SECONDS))

    async def _join(self, client: MatrixClient, room: str) -> None:
        if why := await client.join(room):
            log.warning("the room %s cannot be joined: %s", room, why)

    async def _take(self, client: MatrixClient, inbox: Inbox, sync: SyncResponse) -> None:
        """Receives the messages of a sync. The last one moves the token, because then all are on disk."""
        for event in sync.account_data_events:
            if getattr(event, "type", "") == "m.direct":
                self._direct = read_direct(getattr(event, "content", None))
        for room_id, invited in sync.rooms.invite.items():
            await self._answer_invitation(client, room_id, _sources(invited.invite_state))
        timelines = {
            room_id: await self._timeline(client, room_id, info) for room_id, info in sync.rooms.join.items()
        }
        messages = await self._messages(client, timelines)
        limit_bytes = int(self._settings.media_max_mb * 1_000_000)
        for number, message in enumerate(messages, 1):
            if number == len(messages):
                self._since, self._first_ms = sync.next_batch, None
            inbound = await with_files(message, client.file, service="Matrix", limit_bytes=limit_bytes)
            await inbox.receive(inbound, cursor=self._cursor())
        self._since, self._first_ms = sync.next_batch, None

    async def _messages(
        self, client: MatrixClient, timelines: Mapping[str, Sequence[Json]]
    ) -> list[IncomingMessage]:
        found = [
            (room_view(client.rooms[room_id], self._direct), event)
            for room_id, events in timelines.items()
            for event in relevant_events(events, self._me.user_id, first_ms=self._first_ms)
        ]
        messages: list[IncomingMessage] = []
        for room, event in found:
            if is_encrypted(event) and event.get("sender") != self._me.user_id:
                await self._report_encryption(client, room)
            try:
                messages.append(read_message(event, room, self._me))
            except Ignored as why:
                log.info("a Matrix event was ignored: %s", why)
        return messages

    async def _timeline(self, client: MatrixClient, room_id: str, info: RoomInfo) -> Sequence[Json]:
        """The new events of a room, including those that did not fit into the sync."""
        events = _sources(info.timeline.events)
        start, me = info.timeline.prev_batch or "", self._settings.user_id
        pages = 0
        while self._since and info.timeline.limited and start and arrival(events, me) is None:
            page, start = await client.before(room_id, start, self._since)
            events = [*reversed(_sources(page)), *events]
            pages += 1
            if not page:
                break
            if pages == MAX_PAGES:
                log.warning("the beginning of what was missed in %s is skipped", room_id)
                break
        return events

    async def _answer_invitation(self, client: MatrixClient, room_id: str, events: Sequence[Json]) -> None:
        """Accepts an invitation if the settings allow it.

        Only the invitation says that a room is a private chat, so that is stored before joining.
        """
        invited = invitation(events, self._settings.user_id)
        wanted = self._settings.auto_join
        if invited is None or wanted == "off" or not (invited[1] or wanted == "always"):
            log.info("an invitation to %s is not accepted: %s", room_id, wanted)
            return
        person, is_direct = invited
        if is_direct:
            self._direct = with_direct(self._direct, person, room_id)
            await client.store_direct_rooms(self._direct)
        await self._join(client, room_id)

    async def _report_encryption(self, client: MatrixClient, room: RoomView) -> None:
        """Reports once per room that encrypted messages cannot be read: in the log and, if private, there."""
        if room.room_id in self._encrypted_rooms:
            return
        self._encrypted_rooms.add(room.room_id)
        log.warning(
            "%s is end-to-end encrypted, which is not supported: its messages are ignored", room.room_id
        )
        if room.private_with:
            place = Place(channel=self.channel, account=self.account, chat_id=room.chat_id)
            key = f"encrypted {room.room_id}"
            content = message_content(Part(place=place, text=ENCRYPTED, key=key), is_private=True)
            with suppress(BridgeError):
                await client.send(room.room_id, content, _transaction_id(key))


def _sources(events: Sequence[Any]) -> list[Json]:
    """Events as the server sent them. nio removes the content from events about members."""
    found: list[Json] = []
    for event in events:
        source = getattr(event, "source", None)
        if isinstance(source, Mapping):
            content = {} if "content" in source else {"content": getattr(event, "content", None)}
            found.append({**source, **content})
    return found


def _transaction_id(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()[:32]
