"""A login at a Matrix homeserver: requests, refusals as sentences, and the stored device."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import asdict
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
    RoomMessagesResponse,
    RoomSendResponse,
    SyncResponse,
    WhoamiResponse,
)

from nacre.bridges.channels.connection import (
    check_password_is_safe,
    connect_problem,
    tls_context,
)
from nacre.bridges.contracts.errors import CannotConnect, DeliveryRefused, NotDelivered
from nacre.extensions.matrix.settings import MatrixSettings
from nacre.record import Record
from nacre.runtime.contracts.ids import random_id

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
        self._client = client
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
            await client.close()
            raise
        return client

    @property
    def rooms(self) -> Mapping[str, MatrixRoom]:
        """The rooms that the account is in, as of the last sync."""
        rooms: Mapping[str, MatrixRoom] = self._client.rooms
        return rooms

    async def name(self) -> str:
        """The account's display name."""
        answer: Any = await self._answer(self._client.get_displayname(self._settings.user_id))
        return getattr(answer, "displayname", None) or self._settings.user_id[1:].partition(":")[0]

    async def sync(self, since: str, *, is_first: bool = False, wait_seconds: float = 0.0) -> SyncResponse:
        """Waits up to `wait_seconds` for events after a token. The first sync includes the state of all
        rooms.
        """
        request = self._client.sync(
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
        request = self._client.room_messages(room_id, start=start, end=since or None, limit=PAGE)
        page: Any = _accepted(await self._answer(request))
        if not isinstance(page, RoomMessagesResponse):
            raise ConnectionError(f"{self._settings.homeserver} sent a malformed page: {page}")
        return page.chunk, page.end or ""

    async def send(self, room_id: str, content: Mapping[str, Any], key: str) -> str:
        """Sends a message, once per key, and returns its id."""
        request = self._client.room_send(room_id, "m.room.message", dict(content), key)
        sent = _accepted(await self._answer(request))
        if not isinstance(sent, RoomSendResponse):
            raise ConnectionError(f"{self._settings.homeserver} returned no id: {sent}")
        return str(sent.event_id)

    async def type(self, room_id: str, seconds: float) -> None:
        """Shows the typing indicator."""
        _accepted(await self._answer(self._client.room_typing(room_id, True, int(seconds * 1000))))

    async def join(self, room: str) -> str:
        """Joins a room. Returns why it failed; empty if it succeeded."""
        answer = await self._answer(self._client.join(room))
        return str(answer) if isinstance(answer, ErrorResponse) else ""

    async def direct_rooms(self) -> dict[str, list[str]]:
        """The account's `m.direct`: the rooms of private chats by person."""
        answer = await self._answer(self._client.list_direct_rooms())
        if isinstance(answer, DirectRoomsResponse):
            return dict(answer.rooms)
        if isinstance(answer, ErrorResponse) and answer.status_code != "M_NOT_FOUND":
            _accepted(answer)
        return {}

    async def store_direct_rooms(self, direct: Mapping[str, Sequence[str]]) -> None:
        """Stores `m.direct`. Raises `ConnectionError`."""
        user = quote(self._settings.user_id, safe="")
        path = f"/_matrix/client/v3/user/{user}/account_data/m.direct"
        headers = {"Authorization": f"Bearer {self._client.access_token}", "Content-Type": "application/json"}
        answer = await self._answer(self._client.send("PUT", path, json.dumps(direct), headers))
        if answer.status != 200:
            raise ConnectionError(f"{self._settings.homeserver} did not store m.direct: {answer.status}")

    async def file(self, mxc: str, limit_bytes: int) -> bytes:
        """The bytes of a file, or the first bytes beyond the limit. Raises `ConnectionError`."""
        server, _, media = mxc.removeprefix("mxc://").partition("/")
        path = f"/_matrix/client/v1/media/download/{quote(server, safe='')}/{quote(media, safe='')}"
        headers = {"Authorization": f"Bearer {self._client.access_token}"}
        answer = await self._answer(self._client.send("GET", path, None, headers, timeout=ANSWER_SECONDS))
        async with answer:
            if answer.status != 200:
                raise ConnectionError(f"{self._settings.homeserver} did not send a file: {answer.status}")
            data = bytearray()
            async for piece in answer.content.iter_chunked(2**16):
                data += piece
                if len(data) > limit_bytes:
                    break
        return bytes(data)

    async def close(self) -> None:
        """Closes the connection. Safe to repeat."""
        await self._client.close()

    async def _log_in(self, folder: Path) -> None:
        settings, stored = self._settings, stored_login(folder, self._settings.user_id)
        configured = settings.access_token.get_secret_value()
        if stored is not None:
            self._client.device_id = stored.device_id
        token = configured or (stored.access_token if stored else "")
        if token and await self._is_valid(token):
            return
        if configured:
            raise CannotConnect(f"{settings.homeserver} refuses the token in channels.matrix.accessToken.")
        self._client.access_token = ""
        password = settings.password.get_secret_value()
        answer: Any = await self._answer(self._client.login(password, device_name="Nacre"))
        if isinstance(answer, LoginError):
            why = f"refuses the login of {settings.user_id} (channels.matrix.password)"
            raise CannotConnect(f"{settings.homeserver} {why}: {answer.message}.")
        self._check(answer.user_id)
        login = Login(user_id=settings.user_id, device_id=answer.device_id, access_token=answer.access_token)
        store_login(folder, login)

    async def _is_valid(self, token: str) -> bool:
        self._client.access_token, self._client.user_id = token, self._settings.user_id
        answer = await self._answer(self._client.whoami())
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
