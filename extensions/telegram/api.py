"""The way to the Bot API through python-telegram-bot: what it raises, and what must not stand in a log.

Edge. The library's own waits and retries are not used: who asks is told what is known of a request, namely
that it did not arrive, that it was refused, or that nobody knows.
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

from nacre.bridges.contracts.errors import BridgeError, DeliveryRefused, NotDelivered

POLL_SECONDS = 50
"""How long the server may hold a request for news."""
_ANSWER_SECONDS = 20.0
_NOT_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.ProxyError)
_TOO_MANY = 429
_HIDDEN = "[hidden]"
_HTTP_LOG, _LIBRARY_LOGS = "httpx", ("telegram.Bot", "telegram.request.BaseRequest")


class NotSent(NetworkError):
    """No connection was had: the request surely did not arrive."""


class Flood(TelegramError):
    """The server asks to wait."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"the server asks to wait for {seconds:.0f} s")
        self.seconds = seconds


class _Request(HTTPXRequest):
    """The library's requests, with an error of its own for what surely was not sent, and for floods."""

    async def do_request(self, *args: Any, **kwargs: Any) -> tuple[int, bytes]:
        try:
            code, payload = await super().do_request(*args, **kwargs)
        except NetworkError as error:
            if isinstance(error.__cause__, _NOT_SENT):
                raise NotSent(str(error)) from None
            raise
        if code == _TOO_MANY:
            raise Flood(_retry_after(payload))
        return code, payload


class Api:
    """An account of the Bot API while it is open."""

    def __init__(self, bot: Bot, polling: _Request) -> None:
        self.bot = bot
        self._polling = polling

    async def updates(self, offset: int | None) -> list[Any]:
        """What is new, as the server words it: raw, so that one odd update does not spoil the others.

        Waits for the first one. With an offset, all before it are confirmed and never come again.
        """
        asked = {"timeout": POLL_SECONDS, "allowed_updates": json.dumps(["message"])}
        if offset is not None:
            asked["offset"] = offset
        with told(self.bot.token):
            found = await self._polling.post(
                f"{self.bot.base_url}/getUpdates?{urlencode(asked)}",
                read_timeout=POLL_SECONDS + _ANSWER_SECONDS,
            )
        if not isinstance(found, list):
            raise BridgeError(f"Telegram answered a request for news with {type(found).__name__}.")
        return found


@asynccontextmanager
async def opened(token: str, server: str) -> AsyncIterator[Api]:
    """An account; the server has said that the token is good. Raises `BridgeError` with a sentence."""
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
            with told(token):
                await bot.initialize()
            yield Api(bot, polling)
        finally:
            await bot.shutdown()


@contextmanager
def told(token: str) -> Iterator[None]:
    """Turns the library's errors into those of a bridge, without the token. Another chat id goes through."""
    try:
        yield
    except Flood as error:
        raise NotDelivered(f"Telegram: {error}", retry_after_seconds=error.seconds) from None
    except NotSent as error:
        raise NotDelivered(f"Telegram cannot be reached: {_clean(error, token)}") from None
    except InvalidToken:
        raise BridgeError(
            "Telegram refused the bot's token. Check channels.telegram.botToken; @BotFather gives a new one."
        ) from None
    except Conflict as error:
        raise BridgeError(
            f"Telegram has another listener for this bot: {_clean(error, token)}. "
            "Stop the other program, or remove the bot's webhook."
        ) from None
    except (BadRequest, Forbidden) as error:
        raise DeliveryRefused(f"Telegram refused: {_clean(error, token)}") from None
    except NetworkError as error:
        raise BridgeError(f"Telegram did not answer well: {_clean(error, token)}") from None


def _clean(error: Exception, token: str) -> str:
    return str(error).replace(token, _HIDDEN)


def _retry_after(payload: bytes) -> float:
    try:
        seconds = json.loads(payload)["parameters"]["retry_after"]
        return float(seconds) if seconds >= 0 else 1.0
    except (ValueError, TypeError, KeyError):
        return 1.0


@contextmanager
def _hidden_in_logs(token: str) -> Iterator[None]:
    """httpx logs each address, which has the token in it, and the library also what is said in chats."""

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
