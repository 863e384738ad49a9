"""`TelegramBridge`: one bot of Telegram, by long polling.

An update is confirmed to the server when it is in the ledger and not before, by the offset of the next
request for news. Sends have no keys in Telegram and nothing can be read back, so that a part of which nobody
knows whether it arrived is sent again with a mark.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from telegram import Bot, LinkPreviewOptions, MessageEntity, ReplyParameters
from telegram.constants import ChatAction
from telegram.error import BadRequest, ChatMigrated, TelegramError

from nacre.bridges.channels.live_connection import LiveConnection
from nacre.bridges.contracts.bridge import Bridge, Capabilities, Door, Part, Place
from nacre.bridges.contracts.errors import BridgeError
from nacre.extensions.telegram.api import Api, opened, told
from nacre.extensions.telegram.formatting import Span, shown
from nacre.extensions.telegram.updates import CHANNEL, PassedOver, RemoteFile, heard, number_of
from nacre.runtime.contracts.inbound import Attachment

log = logging.getLogger(__name__)

T = TypeVar("T")

MOST_BEHIND = 1_000
"""What the server sends again lies so few numbers behind at most: it sends a hundred at a time."""
FILE_SECONDS = 60.0
"""How long one file may take."""
_SAME, _GONE = "message is not modified", "message to edit not found"
_NO_PREVIEW = LinkPreviewOptions(is_disabled=True)
"""Telegram fetches what is previewed, and an address may carry away what it was made of."""


class TelegramBridge(Bridge):
    """A bot. `server` is the Bot API's address; files above `file_bytes` are not fetched."""

    channel = CHANNEL
    capabilities = Capabilities(
        greatest_length=4_096,
        length_unit="utf16",
        can_edit=True,
        edit_seconds=3.0,  # a group may be told 20 things a minute
        has_typing=True,
        has_threads=True,
        takes_attachments=True,
    )

    def __init__(self, *, account: str, token: str, server: str, file_bytes: int) -> None:
        self.account = account
        self._token = token
        self._server = server
        self._file_bytes = file_bytes
        self._live: LiveConnection[Api] = LiveConnection("Telegram")
        self._stopped = asyncio.Event()
        self._moved: dict[str, str] = {}

    async def start(self, door: Door) -> None:
        """Asks for news until it is stopped, or a request fails."""
        async with opened(self._token, self._server) as api:
            self._live.begins(api)
            try:
                door.connected()
                await self._listen(api, door)
            finally:
                self._live.ends()
                await self._live.settled()

    async def stop(self) -> None:
        """Ends the request for news; what came with the one before is taken first."""
        self._stopped.set()

    async def deliver(self, part: Part) -> str:
        """Sends one message."""
        text, spans = shown(part.text)

        async def send(bot: Bot, chat_id: str) -> str:
            sent = await bot.send_message(
                chat_id,
                text,
                entities=_entities(spans),
                link_preview_options=_NO_PREVIEW,
                message_thread_id=_thread(part.place),
                reply_parameters=_answered(part),
            )
            return str(sent.message_id)

        return await self._ask(part.place, send)

    async def edit(self, part: Part, message_id: str) -> None:
        """Changes one; one that somebody deleted meanwhile is sent anew."""
        text, spans = shown(part.text)

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
                if _GONE in error.message.lower():
                    return False
                if _SAME not in error.message.lower():
                    raise
            return True

        if not await self._ask(part.place, change):
            await self.deliver(part)

    async def typing(self, place: Place) -> None:
        """Shows the sign."""

        async def show(bot: Bot, chat_id: str) -> None:
            await bot.send_chat_action(chat_id, ChatAction.TYPING, message_thread_id=_thread(place))

        await self._ask(place, show)

    async def _ask(self, place: Place, call: Callable[[Bot, str], Awaitable[T]]) -> T:
        """What the server says to a request about a chat, which may have another id by now."""
        async with self._live.use() as api:
            with told(self._token):
                try:
                    return await call(api.bot, self._moved.get(place.chat_id, place.chat_id))
                except ChatMigrated as error:
                    self._moved[place.chat_id] = str(error.new_chat_id)
                    return await call(api.bot, str(error.new_chat_id))

    async def _listen(self, api: Api, door: Door) -> None:
        taken, offset = int(door.cursor or 0), None
        while (updates := await self._news(api, offset)) is not None:
            numbers = [number for raw in updates if (number := number_of(raw)) is not None]
            if updates and not numbers:
                raise BridgeError("Telegram sent updates without numbers, which nobody could confirm.")
            for raw in updates:
                await self._take(api, door, raw, taken)
            # An empty answer says that all is confirmed; then none is asked for by number.
            offset = max(numbers) + 1 if numbers else None
            taken = max(numbers, default=taken)

    async def _news(self, api: Api, offset: int | None) -> list[Any] | None:
        """The next updates, `None` when it is stopped."""
        asking = asyncio.create_task(api.updates(offset))
        stopping = asyncio.create_task(self._stopped.wait())
        try:
            await asyncio.wait({asking, stopping}, return_when=asyncio.FIRST_COMPLETED)
            return None if self._stopped.is_set() else asking.result()
        finally:
            asking.cancel()
            stopping.cancel()
            await asyncio.gather(asking, stopping, return_exceptions=True)

    async def _take(self, api: Api, door: Door, raw: Any, taken: int) -> None:
        number = number_of(raw)
        # Numbers begin anew somewhere else when a bot hears nothing for a week.
        if number is not None and taken - MOST_BEHIND < number <= taken:
            return
        try:
            message = heard(raw, api.bot.bot, self.account)
        except PassedOver as why:
            log.info("update %s of Telegram was passed over: %s", number, why)
            return
        files = [await self._fetched(api, file) for file in message.files]
        await door.receive(replace(message.inbound, attachments=tuple(files)), cursor=str(number))

    async def _fetched(self, api: Api, file: RemoteFile) -> Attachment:
        """A file with its bytes, or with the reason why they are not there."""
        data, problem = b"", ""
        try:
            async with asyncio.timeout(FILE_SECONDS):
                data, problem = await self._download(api, file)
        except TimeoutError:
            problem = "Telegram took too long to send it"
        except TelegramError as error:
            log.warning("a file could not be fetched from Telegram: %s", type(error).__name__)
            problem = "Telegram did not send it"
        return Attachment(
            name=file.name, mime_type=file.mime_type, data=data, problem=problem, said_by=file.said_by
        )

    async def _download(self, api: Api, file: RemoteFile) -> tuple[bytes, str]:
        size = file.size_bytes
        if size <= self._file_bytes:
            remote = await api.bot.get_file(file.file_id)
            size = remote.file_size or 0
        if size > self._file_bytes:
            return b"", f"it has {size} bytes, and {self._file_bytes} are fetched at most"
        return bytes(await remote.download_as_bytearray()), ""


def _entities(spans: Sequence[Span]) -> list[MessageEntity]:
    return [
        MessageEntity(
            span.kind, span.offset, span.length, url=span.url or None, language=span.language or None
        )
        for span in spans
    ]


def _thread(place: Place) -> int | None:
    return int(place.thread_id) if place.thread_id else None


def _answered(part: Part) -> ReplyParameters | None:
    """In a group an answer names what it answers; groups have negative ids."""
    if not (part.place.chat_id.startswith("-") and part.answers.isdecimal()):
        return None
    return ReplyParameters(int(part.answers), allow_sending_without_reply=True)
