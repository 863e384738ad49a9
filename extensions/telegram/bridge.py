"""`TelegramBridge`: one Telegram bot, by long polling.

The offset of the next poll confirms an update to the server, and the bridge moves it only after the ledger
has the update. Telegram has no keys for sends and no way to read messages back, so a part whose delivery is
unclear is sent again with a mark.
"""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Any, TypeVar
from urllib.parse import urlencode

import httpx
from telegram import Bot, LinkPreviewOptions, MessageEntity, ReplyParameters
from telegram.constants import ChatAction
from telegram.error import (
    BadRequest,
    ChatMigrated,
    Conflict,
    Forbidden,
    InvalidToken,
    NetworkError,
    TelegramError,
)
from telegram.request import HTTPXRequest

from nacre.bridges.channels.connection import LiveConnection, until_stopped
from nacre.bridges.channels.messages import FileTooLarge, Ignored, with_files
from nacre.bridges.contracts.bridge import Bridge, Capabilities, Inbox, Part, Place
from nacre.bridges.contracts.errors import BridgeError, DeliveryRefused, NotDelivered
from nacre.extensions.telegram.messages import CHANNEL, Span, formatted, read_message, update_id_of

log = logging.getLogger(__name__)


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


T = TypeVar("T")

MAX_REPEATED = 1_000
"""Repeated updates have ids at most this far below the newest: the server sends a hundred at a time."""
_NOT_MODIFIED, _NOT_FOUND = "message is not modified", "message to edit not found"
# Telegram fetches the address of a preview, and an address may leak what it was made from.
_NO_PREVIEW = LinkPreviewOptions(is_disabled=True)


class TelegramBridge(Bridge):
    """One bot. `server` is the URL of the Bot API. It does not fetch files above `file_bytes`."""

    channel = CHANNEL
    capabilities = Capabilities(
        greatest_length=4_096,
        length_unit="utf16",
        can_edit=True,
        edit_seconds=3.0,  # a group takes 20 requests a minute
        has_typing=True,
        has_threads=True,
        takes_attachments=True,
    )

    def __init__(self, *, account: str, token: str, server: str, file_bytes: int) -> None:
        self.account = account
        self._token = token
        self._server = server
        self._file_bytes = file_bytes
        self._live: LiveConnection[TelegramClient] = LiveConnection("Telegram")
        self._moved: dict[str, str] = {}

    async def start(self, inbox: Inbox) -> None:
        async with open_client(self._token, self._server) as client:
            self._live.open(client)
            try:
                inbox.connected()
                await self._poll(client, inbox)
            finally:
                await self._live.close()

    async def deliver(self, part: Part) -> str:
        text, spans = formatted(part.text)

        async def send(bot: Bot, chat_id: str) -> str:
            sent = await bot.send_message(
                chat_id,
                text,
                entities=_entities(spans),
                link_preview_options=_NO_PREVIEW,
                message_thread_id=_thread_id(part.place),
                reply_parameters=_reply_parameters(part),
            )
            return str(sent.message_id)

        return await self._request(part.place, send)

    async def edit(self, part: Part, message_id: str) -> None:
        """Edits the message. If somebody has deleted it, sends a new one."""
        text, spans = formatted(part.text)

        async def change(bot: Bot, chat_id: str) -> bool:
            try:
                await bot.edit_message_text(
                    text,
                    chat_id,
                    int(message_id),
                    entities=_entities(spans),
                    link_preview_options=_NO_PREVIEW,
                )
            except BadRequest as error:
                if _NOT_FOUND in error.message.lower():
                    return False
                if _NOT_MODIFIED not in error.message.lower():
                    raise
            return True

        if not await self._request(part.place, change):
            await self.deliver(part)

    async def typing(self, place: Place) -> None:
        async def show(bot: Bot, chat_id: str) -> None:
            await bot.send_chat_action(chat_id, ChatAction.TYPING, message_thread_id=_thread_id(place))

        await self._request(place, show)

    async def _request(self, place: Place, call: Callable[[Bot, str], Awaitable[T]]) -> T:
        """Makes a request about a chat. A group that became a supergroup has a new id."""
        async with self._live.use() as client:
            with translated_errors(self._token):
                try:
                    return await call(client.bot, self._moved.get(place.chat_id, place.chat_id))
                except ChatMigrated as error:
                    self._moved[place.chat_id] = str(error.new_chat_id)
                    return await call(client.bot, str(error.new_chat_id))

    async def _poll(self, client: TelegramClient, inbox: Inbox) -> None:
        newest, offset = int(inbox.cursor or 0), None
        while (updates := await until_stopped(self.stopping, client.updates(offset))) is not None:
            ids = [update_id for raw in updates if (update_id := update_id_of(raw)) is not None]
            if updates and not ids:
                raise BridgeError("Telegram sent updates without ids, which cannot be confirmed.")
            for raw in updates:
                await self._take(client, inbox, raw, newest)
            # An empty answer means that everything is confirmed. The next poll needs no offset then.
            offset = max(ids) + 1 if ids else None
            newest = max(ids, default=newest)

    async def _take(self, client: TelegramClient, inbox: Inbox, raw: Any, newest: int) -> None:
        update_id = update_id_of(raw)
        # After a week without updates Telegram may start with any id, also a lower one.
        if update_id is not None and newest - MAX_REPEATED < update_id <= newest:
            return
        try:
            message = read_message(raw, client.bot.bot, self.account)
        except Ignored as why:
            log.info("Telegram update %s was ignored: %s", update_id, why)
            return
        inbound = await with_files(message, client.file, service="Telegram", limit_bytes=self._file_bytes)
        await inbox.receive(inbound, cursor=str(update_id))


def _entities(spans: Sequence[Span]) -> list[MessageEntity]:
    return [
        MessageEntity(
            span.kind, span.offset, span.length, url=span.url or None, language=span.language or None
        )
        for span in spans
    ]


def _thread_id(place: Place) -> int | None:
    return int(place.thread_id) if place.thread_id else None


def _reply_parameters(part: Part) -> ReplyParameters | None:
    # Only in groups, whose ids are negative, an answer refers to the message that it answers.
    if not (part.place.chat_id.startswith("-") and part.answers.isdecimal()):
        return None
    return ReplyParameters(int(part.answers), allow_sending_without_reply=True)
