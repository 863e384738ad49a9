"""The way to Discord through discord.py: its gateway, its requests, and what they can end in.

Edge. Of the library the gateway's protocol (heartbeats, resuming) and the requests (rate limits, tries) are
used. Its events, caches and models are not: they act in tasks of their own, and one odd payload ends them.
"""

from __future__ import annotations

import asyncio
import logging
import zlib
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from typing import Any

import aiohttp
import discord
from discord.gateway import DiscordWebSocket, ReconnectWebSocket
from discord.http import HTTPClient, Route
from yarl import URL

from nacre.bridges.contracts.errors import BridgeError, CannotConnect, DeliveryRefused, NotDelivered

log = logging.getLogger(__name__)

ASK_SECONDS = 120.0
"""How long a request may take, with the library's own waits and tries."""
CONNECT_SECONDS = 60.0
LONGEST_WAIT_SECONDS = 30.0
"""Where Discord asks to wait for longer, the outbox waits and not the library."""
MOST_PAGES = 10
_PAGE = 100
_EVENTS = ("READY", "GUILD_CREATE", "CHANNEL_CREATE", "THREAD_CREATE", "MESSAGE_CREATE")
_QUIET, _NO_MENTIONS = 1 << 2, {"parse": [], "replied_user": False}
_BAD_TOKEN, _BAD_INTENTS = 4004, 4014
_FILE_HOSTS = ("cdn.discordapp.com", "media.discordapp.net")
_NOT_SENT = (aiohttp.ClientConnectorError, aiohttp.ServerTimeoutError)
UNKNOWN_MESSAGE = 10_008
_TOO_MANY = 429


class Api:
    """An account while it is open. `events` holds what the gateway told, as pairs of name and payload."""

    def __init__(self, client: discord.Client, events: asyncio.Queue[tuple[str, Any]]) -> None:
        self.events = events
        self._client = client

    async def listen(self) -> None:
        """Hears the gateway until the session is over. A connection that broke is resumed; Discord then
        tells what was missed.

        Raises:
            BridgeError: it is over; what was missed has to be read from the chats.
        """
        session: dict[str, Any] = {"initial": True}
        while True:
            socket = await self._connected(session)
            try:
                with told():
                    while True:
                        await _poll(socket)
            except ReconnectWebSocket as asked:
                if not asked.resume or socket.session_id is None:
                    raise CannotConnect("Discord ended the session.") from None
                session = {
                    "resume": True,
                    "session": socket.session_id,
                    "sequence": socket.sequence,
                    "gateway": socket.gateway,
                }
            finally:
                await socket.close(code=1000)

    async def _connected(self, session: Mapping[str, Any]) -> DiscordWebSocket:
        try:
            with told(connecting=True):
                async with asyncio.timeout(CONNECT_SECONDS):
                    return await DiscordWebSocket.from_client(self._client, **session)
        except ReconnectWebSocket:
            raise CannotConnect("Discord's gateway broke off.") from None

    async def send(self, channel_id: str, text: str, *, nonce: str, answers: str) -> str:
        """Sends a message; its id. With one nonce a second one within minutes gives the first one's."""
        body: dict[str, Any] = {
            "content": text,
            "nonce": nonce,
            "enforce_nonce": True,
            "flags": _QUIET,
            "allowed_mentions": _NO_MENTIONS,
        }
        if answers:
            body["message_reference"] = {"message_id": answers, "fail_if_not_exists": False}
        return str((await self._ask("POST", "/messages", channel_id, json=body))["id"])

    async def edit(self, channel_id: str, message_id: str, text: str) -> bool:
        """Changes a message; `False` when it is gone."""
        body = {"content": text, "flags": _QUIET, "allowed_mentions": _NO_MENTIONS}
        try:
            await self._ask("PATCH", "/messages/{message_id}", channel_id, message_id=message_id, json=body)
        except DeliveryRefused as refused:
            if isinstance(refused.__cause__, discord.NotFound) and refused.__cause__.code == UNKNOWN_MESSAGE:
                return False
            raise
        return True

    async def type(self, channel_id: str) -> None:
        """Shows that an answer is being written."""
        await self._ask("POST", "/typing", channel_id)

    async def channel(self, channel_id: str) -> Any:
        """What a channel is, as Discord words it."""
        return await self._ask("GET", "", channel_id)

    async def history(self, channel_id: str, after: str, *, most_pages: int = MOST_PAGES) -> list[Any]:
        """The messages of a chat behind one, or the newest ones where `after` is empty; the oldest first."""
        found: list[Any] = []
        for _ in range(most_pages):
            asked = {"limit": _PAGE, **({"after": after} if after else {})}
            page = await self._ask("GET", "/messages", channel_id, params=asked)
            if not isinstance(page, list):
                raise BridgeError(f"Discord answered a request for messages with {type(page).__name__}.")
            found += reversed(page)
            last = page[0].get("id") if page and isinstance(page[0], dict) else None
            if len(page) < _PAGE or not after or not isinstance(last, str):
                return found
            after = last
        log.warning("in a chat of Discord's more was said meanwhile than %d messages", len(found))
        return found

    async def file(self, url: str) -> bytes:
        """The bytes of a file. Only Discord's own addresses are asked."""
        if URL(url).host not in (*_FILE_HOSTS, URL(Route.BASE).host):
            raise DeliveryRefused("it does not lie on Discord")
        with told():
            return bytes(await self._http.get_from_cdn(url))

    @property
    def _http(self) -> HTTPClient:
        return self._client.http

    async def _ask(
        self, method: str, path: str, channel_id: str, *, message_id: str = "", **more: Any
    ) -> Any:
        route = Route(method, f"/channels/{{channel_id}}{path}", channel_id=channel_id, message_id=message_id)
        with told():
            async with asyncio.timeout(ASK_SECONDS):
                return await self._http.request(route, **more)


async def _poll(socket: DiscordWebSocket) -> None:
    """Hears one payload. One that the library cannot read is told and passed over."""
    try:
        await socket.poll_event()
    except (ReconnectWebSocket, discord.DiscordException, OSError, zlib.error):
        raise
    except Exception as error:
        if not socket.open:
            raise
        log.info("a payload of Discord's was passed over: it cannot be read: %s", type(error).__name__)


@asynccontextmanager
async def opened(token: str, *, reads_content: bool) -> AsyncIterator[Api]:
    """An account; the server has said that the token is good. Raises `BridgeError` with a sentence."""
    intents = discord.Intents(
        guilds=True, guild_messages=True, dm_messages=True, message_content=reads_content
    )
    client = discord.Client(intents=intents, max_messages=None, max_ratelimit_timeout=LONGEST_WAIT_SECONDS)
    events: asyncio.Queue[tuple[str, Any]] = asyncio.Queue()
    put: Callable[[tuple[str, Any]], None] = events.put_nowait
    # The library has no other place where events can be had as they came.
    client._connection.parsers = {name: partial(_put, put, name) for name in _EVENTS}
    try:
        with told(connecting=True):
            await client.login(token)
        yield Api(client, events)
    finally:
        await client.http.close()


def _put(put: Callable[[tuple[str, Any]], None], name: str, payload: Any) -> None:
    put((name, payload))


@contextmanager
def told(*, connecting: bool = False) -> Iterator[None]:
    """Turns the library's errors into those of a bridge."""
    try:
        yield
    except discord.LoginFailure:
        raise CannotConnect(
            "Discord refused the bot's token. Check channels.discord.botToken; "
            "https://discord.com/developers gives a new one, under Bot."
        ) from None
    except discord.ConnectionClosed as error:
        raise CannotConnect(_closed(error.code)) from None
    except discord.RateLimited as error:
        raise NotDelivered("Discord asks to wait", retry_after_seconds=error.retry_after) from None
    except discord.DiscordServerError as error:
        raise BridgeError(f"Discord did not answer well: {error.status}.") from None
    except discord.HTTPException as error:
        if error.status == _TOO_MANY:
            raise NotDelivered("Discord asks to wait", retry_after_seconds=60.0) from None
        raise DeliveryRefused(f"Discord refused: {error.status} {error.text[:200]}") from error
    except _NOT_SENT as error:
        kind = CannotConnect if connecting else NotDelivered
        raise kind(f"Discord cannot be reached: {type(error).__name__}.") from None
    except (aiohttp.ClientError, TimeoutError, OSError, discord.DiscordException, zlib.error) as error:
        raise BridgeError(f"Discord did not answer well: {type(error).__name__}.") from None


def _closed(code: int) -> str:
    if code == _BAD_TOKEN:
        return "Discord refused the bot's token. Check channels.discord.botToken."
    if code == _BAD_INTENTS:
        return (
            "Discord does not let this bot read messages. Switch on Message Content Intent at "
            "https://discord.com/developers, under Bot, or set channels.discord.messageContent to false: "
            "then it reads private messages and those that mention it."
        )
    return f"Discord closed the connection with the code {code}."
