"""One login at a homeserver: requests, and what it refuses as sentences. Edge to nio."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Mapping, Sequence
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

from nacre.bridges.channels.secure_connection import (
    check_password_is_safe,
    connect_problem,
    tls_context,
)
from nacre.bridges.contracts.errors import CannotConnect, DeliveryRefused, NotDelivered
from nacre.extensions.matrix.login_file import Login, keep_login, kept_login
from nacre.extensions.matrix.settings import MatrixSettings
from nacre.runtime.contracts.ids import random_id

ANSWER_SECONDS = 60.0
FIRST_SYNC_SECONDS = 300.0
NEWS_SECONDS = 30.0
"""How long the server keeps a question for news open."""
PAGE = 100
NEWEST = 50
"""So many messages of a room come with the news; what is before them is asked for."""
_NEVER = ("M_FORBIDDEN", "M_TOO_LARGE", "M_BAD_JSON", "M_NOT_FOUND", "M_INVALID_PARAM")
_NO_TOKEN = ("M_UNKNOWN_TOKEN", "M_MISSING_TOKEN")
T = TypeVar("T")


class MatrixClient:
    """Made by `open`. What breaks on the way raises `ConnectionError`; a refusal is a `BridgeError`."""

    def __init__(self, client: AsyncClient, settings: MatrixSettings) -> None:
        self._client = client
        self._settings = settings
        # Synapse answers one question for two minutes as it did the first time. At each start it must be
        # another one: who is in a room has to be true.
        nobody = f"@{random_id()}:invalid"
        self._filter = {
            "presence": {"types": []},
            "room": {"timeline": {"limit": NEWEST, "not_senders": [nobody]}, "ephemeral": {"types": []}},
        }

    @classmethod
    async def open(cls, settings: MatrixSettings, folder: Path) -> Self:
        """Logs in, with the token from the last start if there is one.

        Raises:
            CannotConnect: nobody answers, or the server refuses.
            ConnectionError: the connection broke.
        """
        address = settings.address
        check_password_is_safe(address)
        # Repeating is left to who knows what may be repeated.
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
        """The rooms that the account is in, as of the last news."""
        rooms: Mapping[str, MatrixRoom] = self._client.rooms
        return rooms

    async def name(self) -> str:
        """What people see as the account's name."""
        answer: Any = await self._asked(self._client.get_displayname(self._settings.user_id))
        return getattr(answer, "displayname", None) or self._settings.user_id[1:].partition(":")[0]

    async def news(self, since: str, *, is_first: bool = False, wait_seconds: float = 0.0) -> SyncResponse:
        """What is new behind a token, waited for so long; if it is the first, with the state of all rooms."""
        asking = self._client.sync(
            timeout=int(wait_seconds * 1000),
            sync_filter=self._filter,
            since=since or None,
            full_state=is_first,
        )
        seconds = FIRST_SYNC_SECONDS if is_first else ANSWER_SECONDS + wait_seconds
        answer = _held(await self._asked(asking, seconds=seconds))
        if not isinstance(answer, SyncResponse):
            raise ConnectionError(f"{self._settings.homeserver} sent news that cannot be read: {answer}")
        return answer

    async def before(self, room_id: str, start: str, since: str) -> tuple[Sequence[Any], str]:
        """A page of events before a token, the newest first, and where to go on; none before `since`."""
        asking = self._client.room_messages(room_id, start=start, end=since or None, limit=PAGE)
        page: Any = _held(await self._asked(asking))
        if not isinstance(page, RoomMessagesResponse):
            raise ConnectionError(f"{self._settings.homeserver} sent a page that cannot be read: {page}")
        return page.chunk, page.end or ""

    async def send(self, room_id: str, content: Mapping[str, Any], key: str) -> str:
        """Sends a message, once for each key; its id."""
        sent = _held(await self._asked(self._client.room_send(room_id, "m.room.message", dict(content), key)))
        if not isinstance(sent, RoomSendResponse):
            raise ConnectionError(f"{self._settings.homeserver} gave no id: {sent}")
        return str(sent.event_id)

    async def type(self, room_id: str, seconds: float) -> None:
        """Shows that an answer is being written."""
        _held(await self._asked(self._client.room_typing(room_id, True, int(seconds * 1000))))

    async def join(self, room: str) -> str:
        """Joins a room; why not, empty if it did."""
        answer = await self._asked(self._client.join(room))
        return str(answer) if isinstance(answer, ErrorResponse) else ""

    async def direct_rooms(self) -> dict[str, list[str]]:
        """`m.direct` of the account."""
        answer = await self._asked(self._client.list_direct_rooms())
        if isinstance(answer, DirectRoomsResponse):
            return dict(answer.rooms)
        if isinstance(answer, ErrorResponse) and answer.status_code != "M_NOT_FOUND":
            _held(answer)
        return {}

    async def keep_direct(self, direct: Mapping[str, Sequence[str]]) -> None:
        """Writes `m.direct`. Raises `ConnectionError`."""
        user = quote(self._settings.user_id, safe="")
        path = f"/_matrix/client/v3/user/{user}/account_data/m.direct"
        headers = {"Authorization": f"Bearer {self._client.access_token}", "Content-Type": "application/json"}
        answer = await self._asked(self._client.send("PUT", path, json.dumps(direct), headers))
        if answer.status != 200:
            raise ConnectionError(f"{self._settings.homeserver} did not keep m.direct: {answer.status}")

    async def fetch(self, mxc: str, most_bytes: int) -> bytes | None:
        """A file's bytes; `None` when there are more than that. Raises `ConnectionError`."""
        server, _, media = mxc.removeprefix("mxc://").partition("/")
        path = f"/_matrix/client/v1/media/download/{quote(server, safe='')}/{quote(media, safe='')}"
        headers = {"Authorization": f"Bearer {self._client.access_token}"}
        answer = await self._asked(self._client.send("GET", path, None, headers, timeout=ANSWER_SECONDS))
        async with answer:
            if answer.status != 200:
                raise ConnectionError(f"{self._settings.homeserver} did not give a file: {answer.status}")
            data = bytearray()
            async for piece in answer.content.iter_chunked(2**16):
                data += piece
                if len(data) > most_bytes:
                    return None
        return bytes(data)

    async def close(self) -> None:
        """Hangs up. Safe to repeat."""
        await self._client.close()

    async def _log_in(self, folder: Path) -> None:
        settings, kept = self._settings, kept_login(folder, self._settings.user_id)
        given = settings.access_token.get_secret_value()
        if kept is not None:
            self._client.device_id = kept.device_id
        token = given or (kept.access_token if kept else "")
        if token and await self._knows(token):
            return
        if given:
            raise CannotConnect(f"{settings.homeserver} refuses the token in channels.matrix.accessToken.")
        self._client.access_token = ""
        password = settings.password.get_secret_value()
        answer: Any = await self._asked(self._client.login(password, device_name="Nacre"))
        if isinstance(answer, LoginError):
            why = f"refuses the login of {settings.user_id} (channels.matrix.password)"
            raise CannotConnect(f"{settings.homeserver} {why}: {answer.message}.")
        self._check(answer.user_id)
        login = Login(user_id=settings.user_id, device_id=answer.device_id, access_token=answer.access_token)
        keep_login(folder, login)

    async def _knows(self, token: str) -> bool:
        """Whether the server takes a token."""
        self._client.access_token, self._client.user_id = token, self._settings.user_id
        answer = await self._asked(self._client.whoami())
        if isinstance(answer, WhoamiResponse):
            self._check(answer.user_id)
            return True
        if isinstance(answer, ErrorResponse) and answer.status_code in _NO_TOKEN:
            return False
        raise CannotConnect(f"{self._settings.homeserver} does not say who logs in: {answer}")

    def _check(self, user_id: str) -> None:
        if user_id != self._settings.user_id:
            raise CannotConnect(
                f"The login is that of {user_id}, and channels.matrix.userId is {self._settings.user_id}."
            )

    async def _asked(self, asking: Awaitable[T], *, seconds: float = ANSWER_SECONDS) -> T:
        try:
            async with asyncio.timeout(seconds):
                return await asking
        except ClientConnectorError as error:
            why = connect_problem(self._settings.address, error.os_error)
            raise CannotConnect(why) from error
        except (ClientError, TimeoutError) as error:
            why = str(error) or type(error).__name__
            raise ConnectionError(f"{self._settings.homeserver} did not answer: {why}") from error


def _held(answer: T) -> T:
    """The answer, if it is no refusal."""
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
