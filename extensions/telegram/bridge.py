"""`TelegramBridge`: one Telegram bot, by long polling.

The offset of the next poll confirms an update to the server, and the bridge moves it only after the ledger
has the update. Telegram has no keys for sends and no way to read messages back, so a part whose delivery is
unclear is sent again with a mark.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

from telegram import Bot, LinkPreviewOptions, MessageEntity, ReplyParameters
from telegram.constants import ChatAction
from telegram.error import BadRequest, ChatMigrated

from nacre.bridges.channels.connection import LiveConnection, until_stopped
from nacre.bridges.channels.messages import Ignored, with_files
from nacre.bridges.contracts.bridge import Bridge, Capabilities, Inbox, Part, Place
from nacre.bridges.contracts.errors import BridgeError
from nacre.extensions.telegram.client import TelegramClient, open_client, translated_errors
from nacre.extensions.telegram.messages import CHANNEL, Span, formatted, read_message, update_id_of

log = logging.getLogger(__name__)

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
        self._stopped = asyncio.Event()
        self._moved: dict[str, str] = {}

    async def start(self, inbox: Inbox) -> None:
        async with open_client(self._token, self._server) as client:
            self._live.open(client)
            try:
                inbox.connected()
                await self._poll(client, inbox)
            finally:
                await self._live.close()

    async def stop(self) -> None:
        """Ends the poll. Updates of the poll before it are received first."""
        self._stopped.set()

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
        while (updates := await until_stopped(self._stopped, client.updates(offset))) is not None:
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
