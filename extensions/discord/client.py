"""The connection to Discord through discord.py: gateway, requests, and their errors. The only file that
imports it.

Only the library's gateway protocol (heartbeats, resuming) and its requests (rate limits, retries) are used.
Its events, caches and models are not: they run in tasks of their own, and one malformed payload ends them.
"""

from __future__ import annotations

import asyncio
import logging
import zlib
from collections.abc import AsyncIterator, Iterator, Mapping
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

REQUEST_SECONDS = 120.0
"""The time limit of a request, including the library's own delays and retries."""
CONNECT_SECONDS = 60.0
MAX_RATE_LIMIT_SECONDS = 30.0
"""The library waits up to this long for a rate limit. Beyond it the outbox waits."""
MAX_PAGES = 10
_PAGE = 100
_EVENTS = ("READY", "GUILD_CREATE", "CHANNEL_CREATE", "THREAD_CREATE", "MESSAGE_CREATE")
_NO_EMBEDS, _NO_MENTIONS = 1 << 2, {"parse": [], "replied_user": False}
_BAD_TOKEN, _BAD_INTENTS = 4004, 4014
_FILE_HOSTS = ("cdn.discordapp.com", "media.discordapp.net")
_NOT_SENT = (aiohttp.ClientConnectorError, aiohttp.ServerTimeoutError)
UNKNOWN_MESSAGE = 10_008
_TOO_MANY = 429


class DiscordClient:
    """An open connection of one bot. `events` holds the gateway's events as pairs of name and payload."""

    def __init__(self, client: discord.Client, events: asyncio.Queue[tuple[str, Any]]) -> None:
        self.events = events
        self._client = client

    async def listen(self) -> None:
        """Puts the gateway's events into `events` until the session is over.

        A broken connection is resumed; Discord then sends what was missed.

        Raises:
            BridgeError: the session is over. What was missed has to be read from the chats.
        """
        session: dict[str, Any] = {"initial": True}
        while True:
            socket = await self._connected(session)
            try:
                with translated_errors():
                    while True:
                        await _poll(socket)
            except ReconnectWebSocket as request:
                if not request.resume or socket.session_id is None:
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
            with translated_errors(connecting=True):
                async with asyncio.timeout(CONNECT_SECONDS):
                    return await DiscordWebSocket.from_client(self._client, **session)
        except ReconnectWebSocket:
            raise CannotConnect("Discord's gateway closed the connection.") from None

    async def send(self, channel_id: str, text: str, *, nonce: str, answers: str) -> str:
        """Sends a message and returns its id.

        A second message with the same nonce within minutes is not sent; the first one's id is returned.
        """
        body: dict[str, Any] = {
            "content": text,
            "nonce": nonce,
            "enforce_nonce": True,
            "flags": _NO_EMBEDS,
            "allowed_mentions": _NO_MENTIONS,
        }
        if answers:
            body["message_reference"] = {"message_id": answers, "fail_if_not_exists": False}
        return str((await self._request("POST", "/messages", channel_id, json=body))["id"])

    async def edit(self, channel_id: str, message_id: str, text: str) -> bool:
        """Edits a message. Returns `False` if it no longer exists."""
        body = {"content": text, "flags": _NO_EMBEDS, "allowed_mentions": _NO_MENTIONS}
        try:
            await self._request(
                "PATCH", "/messages/{message_id}", channel_id, message_id=message_id, json=body
            )
        except DeliveryRefused as refused:
            if isinstance(refused.__cause__, discord.NotFound) and refused.__cause__.code == UNKNOWN_MESSAGE:
                return False
            raise
        return True

    async def type(self, channel_id: str) -> None:
        """Shows the typing indicator."""
        await self._request("POST", "/typing", channel_id)

    async def channel(self, channel_id: str) -> Any:
        """The channel object, as Discord sends it."""
        return await self._request("GET", "", channel_id)

    async def history(self, channel_id: str, after: str) -> list[Any]:
        """The messages of a chat after an id, or the newest ones if `after` is empty; the oldest first."""
        found: list[Any] = []
        for _ in range(MAX_PAGES):
            params = {"limit": _PAGE, **({"after": after} if after else {})}
            page = await self._request("GET", "/messages", channel_id, params=params)
            if not isinstance(page, list):
                raise BridgeError(f"Discord answered a request for messages with {type(page).__name__}.")
            found += reversed(page)
            last = page[0].get("id") if page and isinstance(page[0], dict) else None
            if len(page) < _PAGE or not after or not isinstance(last, str):
                return found
            after = last
        log.warning("more than %d messages were missed in a Discord chat; the rest is skipped", len(found))
        return found

    async def file(self, url: str, limit_bytes: int) -> bytes:  # noqa: ARG002 - the library reads a file whole
        """The bytes of a file. Requests go to Discord's own hosts only."""
        if URL(url).host not in (*_FILE_HOSTS, URL(Route.BASE).host):
            raise DeliveryRefused("it is not on Discord's servers")
        with translated_errors():
            return bytes(await self._http.get_from_cdn(url))

    @property
    def _http(self) -> HTTPClient:
        return self._client.http

    async def _request(
        self, method: str, path: str, channel_id: str, *, message_id: str = "", **more: Any
    ) -> Any:
        route = Route(method, f"/channels/{{channel_id}}{path}", channel_id=channel_id, message_id=message_id)
        with translated_errors():
            async with asyncio.timeout(REQUEST_SECONDS):
                return await self._http.request(route, **more)


async def _poll(socket: DiscordWebSocket) -> None:
    """Waits for one payload. Ignores one that the library cannot parse."""
    try:
        await socket.poll_event()
    except (ReconnectWebSocket, discord.DiscordException, OSError, zlib.error):
        raise
    except Exception as error:
        if not socket.open:
            raise
        log.info("a Discord payload was ignored because it cannot be read: %s", type(error).__name__)


@asynccontextmanager
async def open_client(token: str, *, reads_content: bool) -> AsyncIterator[DiscordClient]:
    """A client with a token that Discord has accepted. Raises `BridgeError` with a sentence."""
    intents = discord.Intents(
        guilds=True, guild_messages=True, dm_messages=True, message_content=reads_content
    )
    client = discord.Client(intents=intents, max_messages=None, max_ratelimit_timeout=MAX_RATE_LIMIT_SECONDS)
    events: asyncio.Queue[tuple[str, Any]] = asyncio.Queue()

    def put(name: str, payload: Any) -> None:
        events.put_nowait((name, payload))

    # The library has no other way to get events as they arrive.
    client._connection.parsers = {name: partial(put, name) for name in _EVENTS}
    try:
        with translated_errors(connecting=True):
            await client.login(token)
        yield DiscordClient(client, events)
    finally:
        await client.http.close()


@contextmanager
def translated_errors(*, connecting: bool = False) -> Iterator[None]:
    """Raises the library's errors as bridge errors."""
    try:
        yield
    except discord.LoginFailure:
        raise CannotConnect(
            "Discord refused the bot's token. Check channels.discord.botToken. You find a new token at "
            "https://discord.com/developers under Bot."
        ) from None
    except discord.ConnectionClosed as error:
        raise CannotConnect(_close_reason(error.code)) from None
    except discord.RateLimited as error:
        raise NotDelivered("Discord's rate limit is reached", retry_after_seconds=error.retry_after) from None
    except discord.DiscordServerError as error:
        raise BridgeError(f"Discord failed to answer: {error.status}.") from None
    except discord.HTTPException as error:
        if error.status == _TOO_MANY:
            raise NotDelivered("Discord's rate limit is reached", retry_after_seconds=60.0) from None
        raise DeliveryRefused(f"Discord refused: {error.status} {error.text[:200]}") from error
    except _NOT_SENT as error:
        kind = CannotConnect if connecting else NotDelivered
        raise kind(f"Discord cannot be reached: {type(error).__name__}.") from None
    except (aiohttp.ClientError, TimeoutError, OSError, discord.DiscordException, zlib.error) as error:
        raise BridgeError(f"Discord failed to answer: {type(error).__name__}.") from None


def _close_reason(code: int) -> str:
    if code == _BAD_TOKEN:
        return "Discord refused the bot's token. Check channels.discord.botToken."
    if code == _BAD_INTENTS:
        return (
            "Discord does not let this bot read messages. Switch on the Message Content Intent at "
            "https://discord.com/developers under Bot, or set channels.discord.messageContent to false. "
            "Then the bot reads only private messages and messages that mention it."
        )
    return f"Discord closed the connection with the code {code}."
