"""The connection to the Bot API through python-telegram-bot, its errors, and tokens kept out of logs.

The library's own delays and retries are not used. Errors tell callers what is known about a request: it did
not arrive, it was refused, or nobody knows.
"""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any
from urllib.parse import urlencode

import httpx
from telegram import Bot
from telegram.error import BadRequest, Conflict, Forbidden, InvalidToken, NetworkError, TelegramError
from telegram.request import HTTPXRequest

from nacre.bridges.channels.messages import FileTooLarge
from nacre.bridges.contracts.errors import BridgeError, DeliveryRefused, NotDelivered

POLL_SECONDS = 50
"""How long the server may hold a poll open."""
_ANSWER_SECONDS = 20.0
_NOT_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.ProxyError)
_TOO_MANY = 429
_HIDDEN = "[hidden]"
_HTTP_LOG, _LIBRARY_LOGS = "httpx", ("telegram.Bot", "telegram.request.BaseRequest")


class NotSent(NetworkError):
    """There was no connection, so the request certainly did not arrive."""


class RateLimited(TelegramError):
    """The server refuses further requests for a number of seconds."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"the rate limit is reached, for {seconds:.0f} s")
        self.seconds = seconds


class _Request(HTTPXRequest):
    """The library's requests, with distinct errors for requests that were not sent and for rate limits."""

    async def do_request(self, *args: Any, **kwargs: Any) -> tuple[int, bytes]:
        try:
            code, payload = await super().do_request(*args, **kwargs)
        except NetworkError as error:
            if isinstance(error.__cause__, _NOT_SENT):
                raise NotSent(str(error)) from None
            raise
        if code == _TOO_MANY:
            raise RateLimited(_retry_after_seconds(payload))
        return code, payload


class TelegramClient:
    """An open connection of one bot to the Bot API."""

    def __init__(self, bot: Bot, polling: _Request) -> None:
        self.bot = bot
        self._polling = polling

    async def updates(self, offset: int | None) -> list[Any]:
        """Waits for new updates and returns them as the server sends them.

        They are not parsed here, so that a malformed update does not spoil the others. An offset confirms all
        updates with lower ids: the server never sends them again.
        """
        params = {"timeout": POLL_SECONDS, "allowed_updates": json.dumps(["message"])}
        if offset is not None:
            params["offset"] = offset
        with translated_errors(self.bot.token):
            found = await self._polling.post(
                f"{self.bot.base_url}/getUpdates?{urlencode(params)}",
                read_timeout=POLL_SECONDS + _ANSWER_SECONDS,
            )
        if not isinstance(found, list):
            raise BridgeError(f"Telegram answered a poll with {type(found).__name__} instead of a list.")
        return found

    async def file(self, file_id: str, limit_bytes: int) -> bytes:
        """The bytes of a file.

        Raises:
            FileTooLarge: the server says that it is larger than `limit_bytes`.
            BridgeError: the server does not send it.
        """
        with translated_errors(self.bot.token):
            remote = await self.bot.get_file(file_id)
            if (size_bytes := remote.file_size or 0) > limit_bytes:
                raise FileTooLarge(size_bytes)
            return bytes(await remote.download_as_bytearray())


@asynccontextmanager
async def open_client(token: str, server: str) -> AsyncIterator[TelegramClient]:
    """A client with a token that the server has accepted. Raises `BridgeError` with a sentence."""
    address = server.rstrip("/")
    with _hidden_in_logs(token):
        bot = Bot(
            token,
            base_url=f"{address}/bot",
            base_file_url=f"{address}/file/bot",
            request=_Request(read_timeout=_ANSWER_SECONDS),
            get_updates_request=(polling := _Request(connection_pool_size=1)),
        )
        try:
            with translated_errors(token):
                await bot.initialize()
            yield TelegramClient(bot, polling)
        finally:
            await bot.shutdown()


@contextmanager
def translated_errors(token: str) -> Iterator[None]:
    """Raises the library's errors as bridge errors without the token. `ChatMigrated` passes through."""
    try:
        yield
    except RateLimited as error:
        raise NotDelivered(f"Telegram: {error}", retry_after_seconds=error.seconds) from None
    except NotSent as error:
        raise NotDelivered(f"Telegram cannot be reached: {_clean(error, token)}") from None
    except InvalidToken:
        raise BridgeError(
            "Telegram refused the bot's token. Check channels.telegram.botToken. @BotFather gives a new one."
        ) from None
    except Conflict as error:
        raise BridgeError(
            f"Another program receives this bot's updates: {_clean(error, token)}. "
            "Stop the other program or remove the bot's webhook."
        ) from None
    except (BadRequest, Forbidden) as error:
        raise DeliveryRefused(f"Telegram refused: {_clean(error, token)}") from None
    except NetworkError as error:
        raise BridgeError(f"Telegram failed to answer: {_clean(error, token)}") from None


def _clean(error: Exception, token: str) -> str:
    return str(error).replace(token, _HIDDEN)


def _retry_after_seconds(payload: bytes) -> float:
    try:
        seconds = json.loads(payload)["parameters"]["retry_after"]
        return float(seconds) if seconds >= 0 else 1.0
    except (ValueError, TypeError, KeyError):
        return 1.0


@contextmanager
def _hidden_in_logs(token: str) -> Iterator[None]:
    # httpx logs each URL, which contains the token. The library also logs what is said in chats.
    def hide(record: logging.LogRecord) -> bool:
        record.msg, record.args = record.getMessage().replace(token, _HIDDEN), ()
        return record.name == _HTTP_LOG

    logs = [logging.getLogger(name) for name in (_HTTP_LOG, *_LIBRARY_LOGS)]
    for one in logs:
        one.addFilter(hide)
    try:
        yield
    finally:
        for one in logs:
            one.removeFilter(hide)
