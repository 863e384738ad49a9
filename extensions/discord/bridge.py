"""`DiscordBridge`: one bot of Discord, over its gateway.

The gateway confirms nothing and tells a new session nothing of what was missed. So the newest id that is in
the ledger is the cursor, and the chats in which the bot has to do with somebody are read from there on when a
session begins. An answer names what it answers, by which it is found again when nobody knows if it arrived.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

from nacre.bridges.channels.live_connection import LiveConnection
from nacre.bridges.contracts.bridge import Bridge, Capabilities, Door, Part, Place
from nacre.bridges.contracts.errors import BridgeError, CannotConnect, DeliveryRefused
from nacre.extensions.discord.api import CONNECT_SECONDS, Api, opened
from nacre.extensions.discord.known_chats import KnownChats
from nacre.extensions.discord.messages import (
    CHANNEL,
    Chat,
    Me,
    PassedOver,
    RemoteFile,
    channel_id_of,
    chat_of,
    heard,
    roles_of,
    shows,
)
from nacre.extensions.discord.snowflakes import before
from nacre.runtime.contracts.clock import Clock
from nacre.runtime.contracts.inbound import Attachment

log = logging.getLogger(__name__)

FILE_SECONDS = 60.0
"""How long one file may take."""
_NONCE_CHARS = 25


class DiscordBridge(Bridge):
    """A bot. Files above `file_bytes` are not fetched; `folder` is its own."""

    channel = CHANNEL
    capabilities = Capabilities(
        greatest_length=2_000,
        length_unit="utf16",
        can_edit=True,
        edit_seconds=1.5,
        has_typing=True,
        typing_seconds=8.0,
        has_threads=True,
        takes_attachments=True,
        can_read_back=True,
    )

    def __init__(
        self, *, account: str, token: str, folder: Path, now: Clock, file_bytes: int, reads_content: bool
    ) -> None:
        self.account = account
        self._token = token
        self._folder = folder
        self._now = now
        self._file_bytes = file_bytes
        self._reads_content = reads_content
        self._live: LiveConnection[Api] = LiveConnection("Discord")
        self._stopped = asyncio.Event()
        self._known: KnownChats | None = None
        self._chats: dict[str, Chat] = {}
        self._me = Me(id="")
        self._newest = 0

    async def start(self, door: Door) -> None:
        """Hears the gateway until it is stopped, or the session ends."""
        known = self._known = await asyncio.to_thread(KnownChats.load, self._folder, self._now)
        self._newest = int(door.cursor or 0)
        async with opened(self._token, reads_content=self._reads_content) as api:
            self._live.begins(api)
            tasks = [
                asyncio.create_task(api.listen()),
                asyncio.create_task(self._take_all(api, door, known)),
                asyncio.create_task(self._stopped.wait()),
            ]
            try:
                await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
                if not self._stopped.is_set():
                    [await task for task in tasks if task.done()]
            finally:
                self._live.ends()
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
                await self._live.settled()

    async def stop(self) -> None:
        """Ends the session."""
        self._stopped.set()

    async def deliver(self, part: Part) -> str:
        """Sends one message."""
        nonce = hashlib.sha256(part.key.encode()).hexdigest()[:_NONCE_CHARS]
        answers = part.answers if part.answers.isdecimal() else ""
        async with self._live.use() as api:
            sent_id = await api.send(_channel_of(part.place), part.text, nonce=nonce, answers=answers)
            await self._know(_channel_of(part.place))
            return sent_id

    async def edit(self, part: Part, message_id: str) -> None:
        """Changes one; one that somebody deleted meanwhile is sent anew."""
        async with self._live.use() as api:
            is_there = await api.edit(_channel_of(part.place), message_id, part.text)
        if not is_there:
            await self.deliver(part)

    async def typing(self, place: Place) -> None:
        """Shows the sign."""
        async with self._live.use() as api:
            await api.type(_channel_of(place))

    async def find(self, part: Part) -> str | None:
        """Looks for it in the chat, behind the message that it answers."""
        answers = part.answers if part.answers.isdecimal() else ""
        async with self._live.use() as api:
            said = await api.history(_channel_of(part.place), answers)
        found = [raw for raw in said if shows(raw, part.text, answers, self._me.id)]
        return str(found[-1]["id"]) if found else None

    async def _take_all(self, api: Api, door: Door, known: KnownChats) -> None:
        """Takes what the gateway tells, one after the other, behind what was missed."""
        await self._ready(api)
        door.connected()
        since = str(max(known.since, before(self._newest)))
        for channel_id in known.newest:
            await self._catch_up(api, door, channel_id, since)
        while True:
            name, payload = await api.events.get()
            if name == "MESSAGE_CREATE":
                await self._take(api, door, payload)
            else:
                self._note(payload)

    async def _ready(self, api: Api) -> None:
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                while True:
                    name, payload = await api.events.get()
                    if name == "READY":
                        self._me = Me(id=str(payload["user"]["id"]))
                        return
        except TimeoutError:
            raise CannotConnect("Discord's gateway did not say that it is ready.") from None
        except (KeyError, TypeError):
            raise CannotConnect("Discord's gateway does not say who the bot is.") from None

    def _note(self, payload: Any) -> None:
        """Keeps what a server, a channel or a thread is, and the bot's own roles."""
        if not isinstance(payload, dict):
            return
        self._me = replace(self._me, roles={*self._me.roles, *roles_of(payload, self._me.id)})
        lists = [payload.get(name) for name in ("channels", "threads")]
        for raw in [payload, *(raw for found in lists if isinstance(found, list) for raw in found)]:
            try:
                chat = chat_of(raw)
            except PassedOver:
                continue
            if "type" in raw:
                self._chats[str(raw["id"])] = chat

    async def _catch_up(self, api: Api, door: Door, channel_id: str, since: str) -> None:
        try:
            missed = await api.history(channel_id, since)
        except DeliveryRefused as error:
            log.info("a chat of Discord's cannot be read any more: %s", error)
            return
        for raw in missed:
            # The cursor stands until all chats are read: what is new in the next one may be older.
            await self._take(api, door, raw, moves_cursor=False, channel_id=channel_id)

    async def _take(
        self,
        api: Api,
        door: Door,
        raw: Any,
        *,
        moves_cursor: bool = True,
        channel_id: str = "",
    ) -> None:
        try:
            at = channel_id or channel_id_of(raw)
            message = heard(raw, await self._chat(api, at), self._me, self.account)
        except PassedOver as why:
            log.info("a message of Discord's was passed over: %s", why)
            return
        inbound = message.inbound
        if inbound.chat_kind == "direct" or inbound.is_mentioned:
            await self._know(at)
        if moves_cursor:
            self._newest = max(self._newest, int(inbound.message_id))
        files = [await self._fetched(api, file) for file in message.files]
        await door.receive(
            replace(inbound, attachments=tuple(files)), cursor=str(self._newest) if moves_cursor else ""
        )

    async def _know(self, channel_id: str) -> None:
        """Notes a chat as one in which the bot has to do with somebody."""
        if self._known is not None and (add := self._known.adding(channel_id)) is not None:
            await asyncio.to_thread(add)

    async def _chat(self, api: Api, channel_id: str) -> Chat:
        """What a channel is; Discord is asked once."""
        if channel_id not in self._chats:
            try:
                self._chats[channel_id] = chat_of(await api.channel(channel_id))
            except DeliveryRefused as error:
                raise PassedOver(f"its channel cannot be read: {error}") from None
        return self._chats[channel_id]

    async def _fetched(self, api: Api, file: RemoteFile) -> Attachment:
        """A file with its bytes, or with the reason why they are not there."""
        data, problem = b"", ""
        if file.size_bytes > self._file_bytes:
            problem = f"it has {file.size_bytes} bytes, and {self._file_bytes} are fetched at most"
        else:
            try:
                async with asyncio.timeout(FILE_SECONDS):
                    data = await api.file(file.url)
            except TimeoutError:
                problem = "Discord took too long to send it"
            except (BridgeError, ValueError) as error:
                log.warning("a file could not be fetched from Discord: %s", error)
                problem = "Discord did not send it"
        return Attachment(name=file.name, mime_type=file.mime_type, data=data, problem=problem)


def _channel_of(place: Place) -> str:
    """The id that Discord sends to: a thread is a channel of its own."""
    return place.thread_id or place.chat_id
