"""`MatrixBridge`: the assistant on a Matrix homeserver.

The token of the news moves when all messages that came with it are on disk. A message is sent under its key
as its transaction's id, so that a second time shows nothing new; for that the device stays the same.
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

from nacre.bridges.contracts.bridge import Bridge, Capabilities, Door, Part, Place
from nacre.bridges.contracts.errors import BridgeError, NotDelivered
from nacre.extensions.matrix.client import NEWS_SECONDS, MatrixClient
from nacre.extensions.matrix.content import correction, message
from nacre.extensions.matrix.messages import CHANNEL, Heard, Me, RemoteFile, heard, is_encrypted
from nacre.extensions.matrix.rooms import (
    Json,
    RoomView,
    arrival,
    invitation,
    read_direct,
    to_hear,
    view,
    with_direct,
)
from nacre.extensions.matrix.settings import MatrixSettings
from nacre.runtime.contracts.clock import Clock, epoch_ms
from nacre.runtime.contracts.inbound import Attachment

log = logging.getLogger(__name__)

AWAY_SECONDS = 60.0
MOST_PAGES = 50
"""A gap of more pages than this is told, and its beginning left out."""
ENCRYPTED = (
    "This room is encrypted from end to end, and I cannot read that. Please write to me in a room without "
    "encryption: it can be chosen when a room is made, and not changed later."
)


class MatrixBridge(Bridge):
    """One account. `folder` is where its login is kept."""

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
        settings.address  # noqa: B018 - an address that is none is told before the start
        self.account = account
        self._settings = settings
        self._folder = folder
        self._now = now
        self._me = Me(user_id=settings.user_id, name="", account=account)
        self._client: MatrixClient | None = None
        self._stopping = asyncio.Event()
        self._direct: dict[str, list[str]] = {}
        self._since = ""
        self._first_ms: int | None = None
        self._told_encrypted: set[str] = set()

    async def start(self, door: Door) -> None:
        """As `Bridge`."""
        if self._stopping.is_set():
            return
        client = await MatrixClient.open(self._settings, self._folder)
        try:
            self._read_cursor(door.cursor)
            self._me = replace(self._me, name=await client.name())
            self._direct = await client.direct_rooms()
            first = await client.news(self._since, is_first=True)
            for room in self._settings.rooms:
                if room not in client.rooms:
                    await self._join(client, room)
            self._client = client
            door.connected()
            await self._take(client, door, first)
            while (news := await self._next(client)) is not None:
                await self._take(client, door, news)
        finally:
            self._client = None
            await client.close()

    async def stop(self) -> None:
        """As `Bridge`."""
        self._stopping.set()

    async def deliver(self, part: Part) -> str:
        """As `Bridge`."""
        client, room = self._room(part.place)
        content = message(part, is_private=bool(room.private_with))
        return await client.send(room.room_id, content, _id(part.key))

    async def edit(self, part: Part, message_id: str) -> None:
        """As `Bridge`."""
        client, room = self._room(part.place)
        await client.send(room.room_id, correction(part, message_id), _id(f"{part.key} {part.text}"))

    async def typing(self, place: Place) -> None:
        """As `Bridge`."""
        client, room = self._room(place)
        await client.type(room.room_id, self.capabilities.typing_seconds + 5)

    def _room(self, place: Place) -> tuple[MatrixClient, RoomView]:
        """Where a chat is. What was said in private does not go to where others are by now."""
        if self._client is None:
            raise NotDelivered(f"there is no connection to {self._settings.homeserver}")
        room_id, _, person = place.chat_id.partition(" ")
        if room_id not in self._client.rooms:
            raise NotDelivered(f"the assistant is not in {room_id}", retry_after_seconds=AWAY_SECONDS)
        room = view(self._client.rooms[room_id], self._direct)
        if person and room.private_with != person:
            raise NotDelivered(f"{room_id} is no private chat any more", retry_after_seconds=AWAY_SECONDS)
        return self._client, room

    def _read_cursor(self, cursor: str) -> None:
        kept: dict[str, Any] = json.loads(cursor) if cursor else {"first_ms": epoch_ms(self._now())}
        self._since, self._first_ms = kept.get("since", ""), kept.get("first_ms")

    def _cursor(self) -> str:
        first = {"first_ms": self._first_ms} if not self._since else {}
        return json.dumps({"since": self._since, **first})

    async def _next(self, client: MatrixClient) -> SyncResponse | None:
        """The next news, `None` when it is stopped."""
        asking = asyncio.create_task(client.news(self._since, wait_seconds=NEWS_SECONDS))
        stopping = asyncio.create_task(self._stopping.wait())
        try:
            await asyncio.wait({asking, stopping}, return_when=asyncio.FIRST_COMPLETED)
            return None if self._stopping.is_set() else asking.result()
        finally:
            asking.cancel()
            stopping.cancel()
            await asyncio.gather(asking, stopping, return_exceptions=True)

    async def _join(self, client: MatrixClient, room: str) -> None:
        if why := await client.join(room):
            log.warning("the room %s cannot be joined: %s", room, why)

    async def _take(self, client: MatrixClient, door: Door, news: SyncResponse) -> None:
        """Hands in what is new; the last message moves the token, for then all of them are on disk."""
        for event in news.account_data_events:
            if getattr(event, "type", "") == "m.direct":
                self._direct = read_direct(getattr(event, "content", None))
        for room_id, invited in news.rooms.invite.items():
            await self._answer_invitation(client, room_id, _sources(invited.invite_state))
        timelines = {
            room_id: await self._timeline(client, room_id, info) for room_id, info in news.rooms.join.items()
        }
        messages = await self._messages(client, timelines)
        for number, said in enumerate(messages):
            if number == len(messages) - 1:
                self._since, self._first_ms = news.next_batch, None
            files = tuple([await self._fetched(client, file) for file in said.files])
            await door.receive(replace(said.inbound, attachments=files), cursor=self._cursor())
        self._since, self._first_ms = news.next_batch, None

    async def _messages(self, client: MatrixClient, timelines: Mapping[str, Sequence[Json]]) -> list[Heard]:
        found = [
            (view(client.rooms[room_id], self._direct), event)
            for room_id, events in timelines.items()
            for event in to_hear(events, self._me.user_id, first_ms=self._first_ms)
        ]
        messages: list[Heard] = []
        for where, event in found:
            message_or_why = heard(event, where, self._me)
            if is_encrypted(event) and event.get("sender") != self._me.user_id:
                await self._say_encrypted(client, where)
            if isinstance(message_or_why, str):
                log.info("an event on Matrix is not answered: %s", message_or_why)
            else:
                messages.append(message_or_why)
        return messages

    async def _timeline(self, client: MatrixClient, room_id: str, info: RoomInfo) -> Sequence[Json]:
        """What is new in a room, also what did not fit into the news."""
        events = _sources(info.timeline.events)
        start, me = info.timeline.prev_batch or "", self._settings.user_id
        pages = 0
        while self._since and info.timeline.limited and start and arrival(events, me) is None:
            page, start = await client.before(room_id, start, self._since)
            events = [*reversed(_sources(page)), *events]
            pages += 1
            if not page:
                break
            if pages == MOST_PAGES:
                log.warning("the beginning of what was missed in %s is left out", room_id)
                break
        return events

    async def _answer_invitation(self, client: MatrixClient, room_id: str, events: Sequence[Json]) -> None:
        """Joins where the settings let it. That it is a private chat is kept first: later nobody says it."""
        invited = invitation(events, self._settings.user_id)
        wanted = self._settings.auto_join
        if invited is None or wanted == "off" or not (invited[1] or wanted == "always"):
            log.info("an invitation to %s is not accepted: %s", room_id, wanted)
            return
        person, is_direct = invited
        if is_direct:
            self._direct = with_direct(self._direct, person, room_id)
            await client.keep_direct(self._direct)
        await self._join(client, room_id)

    async def _say_encrypted(self, client: MatrixClient, room: RoomView) -> None:
        """Says in private, once, that nothing can be read there; in a group the log says it alone."""
        if room.room_id in self._told_encrypted:
            return
        self._told_encrypted.add(room.room_id)
        log.warning(
            "%s is encrypted from end to end, which is not supported: nothing in it is heard", room.room_id
        )
        if room.private_with:
            place = Place(channel=self.channel, account=self.account, chat_id=room.chat_id)
            key = f"encrypted {room.room_id}"
            content = message(Part(place=place, text=ENCRYPTED, key=key), is_private=True)
            with suppress(BridgeError):
                await client.send(room.room_id, content, _id(key))

    async def _fetched(self, client: MatrixClient, file: RemoteFile) -> Attachment:
        """A file with its bytes, or with the reason why they are not there."""
        data, problem, most = b"", file.problem, int(self._settings.media_max_mb * 1_000_000)
        if not problem and file.size_bytes > most:
            problem = f"it has {file.size_bytes} bytes, and {most} are fetched at most"
        if not problem:
            try:
                fetched = await client.fetch(file.mxc, most)
                data = fetched or b""
                problem = "" if fetched is not None else f"it has more than {most} bytes"
            except (ConnectionError, BridgeError) as error:
                log.warning("a file could not be fetched from Matrix: %s", error)
                problem = "the server did not send it"
        return Attachment(name=file.name, mime_type=file.mime_type, data=data, problem=problem)


def _sources(events: Sequence[Any]) -> list[Json]:
    """Events as the server sent them; nio takes the content out of those about members."""
    found: list[Json] = []
    for event in events:
        source = getattr(event, "source", None)
        if isinstance(source, Mapping):
            content = {} if "content" in source else {"content": getattr(event, "content", None)}
            found.append({**source, **content})
    return found


def _id(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()[:32]
