"""`MatrixBridge`: the assistant on a Matrix homeserver.

The sync token moves only after all messages of a sync are on disk. A part's key becomes its transaction id,
so a repeated send shows nothing new. This needs the same device across starts.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import os
from collections.abc import Awaitable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Self, TypeVar
from urllib.parse import quote

from aiohttp import ClientConnectorError, ClientError
from nio import (
    AsyncClient,
    AsyncClientConfig,
    DirectRoomsResponse,
    ErrorResponse,
    LoginError,
    MatrixRoom,
    RoomInfo,
    RoomMessagesResponse,
    RoomSendResponse,
    SyncResponse,
    WhoamiResponse,
)

from nacre.bridges.channels.connection import (
    check_password_is_safe,
    connect_problem,
    tls_context,
    until_stopped,
)
from nacre.bridges.channels.messages import Ignored, IncomingMessage, with_files
from nacre.bridges.contracts.bridge import Bridge, Capabilities, Inbox, Part, Place
from nacre.bridges.contracts.errors import BridgeError, CannotConnect, DeliveryRefused, NotDelivered
from nacre.extensions.matrix.messages import (
    CHANNEL,
    Identity,
    Json,
    RoomView,
    answered_id,
    arrival,
    edit_content,
    invitation,
    message_content,
    read_direct,
    read_message,
    relevant_events,
    room_view,
    with_answered,
    with_direct,
)
from nacre.extensions.matrix.settings import MatrixSettings
from nacre.record import Record
from nacre.runtime.contracts.clock import Clock, epoch_ms, random_id

log = logging.getLogger(__name__)

ANSWER_SECONDS = 60.0
FIRST_SYNC_SECONDS = 300.0
SYNC_SECONDS = 30.0
"""How long the server may hold a sync open."""
PAGE = 100
NEWEST = 50
"""How many messages of a room come with a sync. Older ones are requested."""
_NEVER = ("M_FORBIDDEN", "M_TOO_LARGE", "M_BAD_JSON", "M_NOT_FOUND", "M_INVALID_PARAM")
_NO_TOKEN = ("M_UNKNOWN_TOKEN", "M_MISSING_TOKEN")
T = TypeVar("T")

FILE = "login.json"


class MatrixClient:
    """Create it with `open`. Broken connections raise `ConnectionError`, refusals raise a `BridgeError`."""

    def __init__(self, client: AsyncClient, settings: MatrixSettings) -> None:
        self.nio = client
        self._settings = settings
        # For two minutes Synapse gives a cached answer to the same request. Each start therefore sends a
        # different one, because the members of rooms have to be up to date.
        nobody = f"@{random_id()}:invalid"
        self._filter = {
            "presence": {"types": []},
            "room": {"timeline": {"limit": NEWEST, "not_senders": [nobody]}, "ephemeral": {"types": []}},
        }

    @classmethod
    async def open(cls, settings: MatrixSettings, folder: Path) -> Self:
        """Logs in, with the stored token if there is one.

        Raises:
            CannotConnect: the server does not answer, or it refuses.
            ConnectionError: the connection broke.
        """
        address = settings.address
        check_password_is_safe(address)
        # Only callers know which requests may be repeated.
        config = AsyncClientConfig(
            max_limit_exceeded=0, max_timeouts=0, encryption_enabled=False, store_sync_tokens=False
        )
        context = tls_context(address.ca_file, address.setting) if address.tls else None
        nio = AsyncClient(settings.homeserver.rstrip("/"), settings.user_id, config=config, ssl=context)
        client = cls(nio, settings)
        try:
            await client._log_in(folder)
        except BaseException:
            await nio.close()
            raise
        return client

    @property
    def rooms(self) -> Mapping[str, MatrixRoom]:
        """The rooms that the account is in, as of the last sync."""
        rooms: Mapping[str, MatrixRoom] = self.nio.rooms
        return rooms

    async def name(self) -> str:
        """The account's display name."""
        answer: Any = await self._answer(self.nio.get_displayname(self._settings.user_id))
        return getattr(answer, "displayname", None) or self._settings.user_id[1:].partition(":")[0]

    async def sync(self, since: str, *, is_first: bool = False, wait_seconds: float = 0.0) -> SyncResponse:
        """Waits up to `wait_seconds` for events after a token. The first one has the state of all rooms."""
        request = self.nio.sync(
            timeout=int(wait_seconds * 1000),
            sync_filter=self._filter,
            since=since or None,
            full_state=is_first,
        )
        seconds = FIRST_SYNC_SECONDS if is_first else ANSWER_SECONDS + wait_seconds
        answer = _accepted(await self._answer(request, seconds=seconds))
        if not isinstance(answer, SyncResponse):
            raise ConnectionError(f"{self._settings.homeserver} sent a malformed sync: {answer}")
        return answer

    async def before(self, room_id: str, start: str, since: str) -> tuple[Sequence[Any], str]:
        """A page of events between `since` and `start`, the newest first, and the token of the next page."""
        request = self.nio.room_messages(room_id, start=start, end=since or None, limit=PAGE)
        page: Any = _accepted(await self._answer(request))
        if not isinstance(page, RoomMessagesResponse):
            raise ConnectionError(f"{self._settings.homeserver} sent a malformed page: {page}")
        return page.chunk, page.end or ""

    async def event(self, room_id: str, event_id: str) -> Json | None:
        """An event as the server has it; `None` if it does not show it. Raises `ConnectionError`."""
        answer: Any = await self._answer(self.nio.room_get_event(room_id, event_id))
        return getattr(getattr(answer, "event", None), "source", None)

    async def send(self, room_id: str, content: Mapping[str, Any], key: str) -> str:
        """Sends a message, once per key, and returns its id."""
        request = self.nio.room_send(room_id, "m.room.message", dict(content), key)
        sent = _accepted(await self._answer(request))
        if not isinstance(sent, RoomSendResponse):
            raise ConnectionError(f"{self._settings.homeserver} returned no id: {sent}")
        return str(sent.event_id)

    async def type(self, room_id: str, seconds: float) -> None:
        _accepted(await self._answer(self.nio.room_typing(room_id, True, int(seconds * 1000))))

    async def join(self, room: str) -> str:
        """Joins a room. Returns why it failed; empty if it succeeded."""
        answer = await self._answer(self.nio.join(room))
        return str(answer) if isinstance(answer, ErrorResponse) else ""

    async def direct_rooms(self) -> dict[str, list[str]]:
        """The account's `m.direct`: the rooms of private chats by person."""
        answer = await self._answer(self.nio.list_direct_rooms())
        if isinstance(answer, DirectRoomsResponse):
            return dict(answer.rooms)
        if isinstance(answer, ErrorResponse) and answer.status_code != "M_NOT_FOUND":
            _accepted(answer)
        return {}

    async def store_direct_rooms(self, direct: Mapping[str, Sequence[str]]) -> None:
        """Stores `m.direct`. Raises `ConnectionError`."""
        user = quote(self._settings.user_id, safe="")
        path = f"/_matrix/client/v3/user/{user}/account_data/m.direct"
        headers = {"Authorization": f"Bearer {self.nio.access_token}", "Content-Type": "application/json"}
        answer = await self._answer(self.nio.send("PUT", path, json.dumps(direct), headers))
        if answer.status != 200:
            raise ConnectionError(f"{self._settings.homeserver} did not store m.direct: {answer.status}")

    async def file(self, mxc: str, limit_bytes: int) -> bytes:
        """The bytes of a file, or the first bytes beyond the limit. Raises `ConnectionError`."""
        server, _, media = mxc.removeprefix("mxc://").partition("/")
        path = f"/_matrix/client/v1/media/download/{quote(server, safe='')}/{quote(media, safe='')}"
        headers = {"Authorization": f"Bearer {self.nio.access_token}"}
        answer = await self._answer(self.nio.send("GET", path, None, headers, timeout=ANSWER_SECONDS))
        async with answer:
            if answer.status != 200:
                raise ConnectionError(f"{self._settings.homeserver} did not send a file: {answer.status}")
            data = bytearray()
            async for piece in answer.content.iter_chunked(2**16):
                data += piece
                if len(data) > limit_bytes:
                    break
        return bytes(data)

    async def _log_in(self, folder: Path) -> None:
        settings, stored = self._settings, stored_login(folder, self._settings.user_id)
        configured = settings.access_token.get_secret_value()
        if stored is not None:
            self.nio.device_id = stored.device_id
        token = configured or (stored.access_token if stored else "")
        if token and await self._is_valid(token):
            return
        if configured:
            raise CannotConnect(f"{settings.homeserver} refuses the token in channels.matrix.accessToken.")
        self.nio.access_token = ""
        password = settings.password.get_secret_value()
        answer: Any = await self._answer(self.nio.login(password, device_name="Nacre"))
        if isinstance(answer, LoginError):
            why = f"refuses the login of {settings.user_id} (channels.matrix.password)"
            raise CannotConnect(f"{settings.homeserver} {why}: {answer.message}.")
        self._check(answer.user_id)
        login = Login(user_id=settings.user_id, device_id=answer.device_id, access_token=answer.access_token)
        store_login(folder, login)

    async def _is_valid(self, token: str) -> bool:
        self.nio.access_token, self.nio.user_id = token, self._settings.user_id
        answer = await self._answer(self.nio.whoami())
        if isinstance(answer, WhoamiResponse):
            self._check(answer.user_id)
            return True
        if isinstance(answer, ErrorResponse) and answer.status_code in _NO_TOKEN:
            return False
        raise CannotConnect(f"{self._settings.homeserver} does not say whose token it is: {answer}")

    def _check(self, user_id: str) -> None:
        if user_id != self._settings.user_id:
            raise CannotConnect(
                f"The login belongs to {user_id}, but channels.matrix.userId is {self._settings.user_id}."
            )

    async def _answer(self, request: Awaitable[T], *, seconds: float = ANSWER_SECONDS) -> T:
        try:
            async with asyncio.timeout(seconds):
                return await request
        except ClientConnectorError as error:
            why = connect_problem(self._settings.address, error.os_error)
            raise CannotConnect(why) from error
        except (ClientError, TimeoutError) as error:
            why = str(error) or type(error).__name__
            raise ConnectionError(f"{self._settings.homeserver} did not answer: {why}") from error


def _accepted(answer: T) -> T:
    """The answer, unless it is an error, which is raised."""
    if not isinstance(answer, ErrorResponse):
        return answer
    code, why = answer.status_code or "", f"the homeserver says {answer.message} ({answer.status_code})"
    if code in _NO_TOKEN:
        raise CannotConnect(why)
    if code == "M_LIMIT_EXCEEDED":
        raise NotDelivered(why, retry_after_seconds=(answer.retry_after_ms or 5_000) / 1000)
    if code in _NEVER:
        raise DeliveryRefused(why)
    raise ConnectionError(why)


class Login(Record):
    """A device of an account and its token, stored across starts.

    A server recognizes a repeated send by the device and the transaction id, so a restarted program has to be
    the same device.
    """

    user_id: str
    device_id: str
    access_token: str


def stored_login(folder: Path, user_id: str) -> Login | None:
    """The stored login of a user, `None` if there is none or it cannot be read."""
    try:
        login = Login(**json.loads((folder / FILE).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None
    fits = (
        login.user_id == user_id and isinstance(login.device_id, str) and isinstance(login.access_token, str)
    )
    return login if fits else None


def store_login(folder: Path, login: Login) -> None:
    """Stores a login atomically. The file holds the access token, so only the owner can read it."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    draft = folder / f"{FILE}.new"
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        json.dump(asdict(login), file)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(folder / FILE)


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
        self._direct: dict[str, list[str]] = {}
        self._since = ""
        self._first_ms: int | None = None
        self._encrypted_rooms: set[str] = set()

    async def start(self, inbox: Inbox) -> None:
        client = await MatrixClient.open(self._settings, self._folder)
        try:
            kept: Json = json.loads(inbox.cursor) if inbox.cursor else {"first_ms": epoch_ms(self._now())}
            self._since, self._first_ms = kept.get("since", ""), kept.get("first_ms")
            self._me = replace(self._me, name=await client.name())
            self._direct = await client.direct_rooms()
            first = await client.sync(self._since, is_first=True)
            for room in self._settings.rooms:
                if room not in client.rooms and (why := await self._join(client, room)):
                    self.refused[room] = why
            self._client = client
            inbox.connected()
            await self._take(client, inbox, first)
            while sync := await until_stopped(
                self.stopping, client.sync(self._since, wait_seconds=SYNC_SECONDS)
            ):
                await self._take(client, inbox, sync)
        finally:
            self._client = None
            await client.nio.close()

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

    async def _join(self, client: MatrixClient, room: str) -> str:
        """Joins a room. Returns why it failed, which it logs; empty if it succeeded."""
        if why := await client.join(room):
            log.warning("the room %s cannot be joined: %s", room, why)
        return why

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
            first = {"first_ms": self._first_ms} if not self._since else {}
            await inbox.receive(inbound, cursor=json.dumps({"since": self._since, **first}))
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
            if event.get("type") == "m.room.encrypted" and event.get("sender") != self._me.user_id:
                await self._report_encryption(client, room)
            try:
                message = read_message(event, room, self._me)
            except Ignored as why:
                log.info("a Matrix event was ignored: %s", why)
                continue
            if answered := answered_id(event, message):
                message = with_answered(message, await client.event(room.room_id, answered), room, self._me)
            messages.append(message)
        return messages

    async def _timeline(self, client: MatrixClient, room_id: str, info: RoomInfo) -> Sequence[Json]:
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
