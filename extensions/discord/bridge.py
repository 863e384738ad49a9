"""`DiscordBridge`: one Discord bot, connected to the gateway.

Discord's gateway takes no acknowledgments and does not tell a new session what it missed. The cursor is
therefore the newest message id in the ledger. At the start of a session the bridge reads the known chats from
there on. An answer refers to the message it answers, so `find` can look for it after an unclear delivery.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

from nacre.bridges.channels.connection import LiveConnection, until_stopped
from nacre.bridges.channels.messages import Ignored, with_files
from nacre.bridges.contracts.bridge import Bridge, Capabilities, Inbox, Part, Place
from nacre.bridges.contracts.errors import CannotConnect, DeliveryRefused
from nacre.extensions.discord.client import CONNECT_SECONDS, DiscordClient, open_client
from nacre.extensions.discord.messages import (
    CHANNEL,
    Chat,
    Identity,
    channel_id_of,
    is_part,
    own_roles,
    read_chat,
    read_message,
    snowflake_at,
    with_margin,
)
from nacre.runtime.contracts.clock import Clock, epoch_ms

log = logging.getLogger(__name__)

MAX_KNOWN_CHATS = 500
"""Only the most recent known chats are read after a pause."""
_KNOWN_CHATS_FILE = "known-chats"
_NONCE_CHARS = 25


class DiscordBridge(Bridge):
    """One bot. It does not fetch files above `file_bytes`. `folder` is private to the account."""

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
        self._live: LiveConnection[DiscordClient] = LiveConnection("Discord")
        self._stopped = asyncio.Event()
        self._known: KnownChats | None = None
        self._chats: dict[str, Chat] = {}
        self._me = Identity(id="")
        self._newest = 0

    async def start(self, inbox: Inbox) -> None:
        known = self._known = await asyncio.to_thread(KnownChats.load, self._folder, self._now)
        self._newest = int(inbox.cursor or 0)
        async with open_client(self._token, reads_content=self._reads_content) as client:
            self._live.open(client)
            try:
                await until_stopped(self._stopped, client.listen(), self._receive(client, inbox, known))
            finally:
                await self._live.close()

    async def stop(self) -> None:
        self._stopped.set()

    async def deliver(self, part: Part) -> str:
        nonce = hashlib.sha256(part.key.encode()).hexdigest()[:_NONCE_CHARS]
        async with self._live.use() as client:
            channel_id = _channel_id(part.place)
            sent_id = await client.send(channel_id, part.text, nonce=nonce, answers=_answered_id(part))
            await self._remember(channel_id)
            return sent_id

    async def edit(self, part: Part, message_id: str) -> None:
        """Edits the message. If somebody has deleted it, sends a new one."""
        async with self._live.use() as client:
            is_there = await client.edit(_channel_id(part.place), message_id, part.text)
        if not is_there:
            await self.deliver(part)

    async def typing(self, place: Place) -> None:
        async with self._live.use() as client:
            await client.type(_channel_id(place))

    async def find(self, part: Part) -> str | None:
        """Looks for the part in the chat, after the message that it answers."""
        answers = _answered_id(part)
        async with self._live.use() as client:
            history = await client.history(_channel_id(part.place), answers)
        found = [raw for raw in history if is_part(raw, part.text, answers, self._me.id)]
        return str(found[-1]["id"]) if found else None

    async def _receive(self, client: DiscordClient, inbox: Inbox, known: KnownChats) -> None:
        """Receives what was missed, then what the gateway sends, one message after the other."""
        await self._wait_until_ready(client)
        inbox.connected()
        since = str(max(known.since, with_margin(self._newest)))
        for channel_id in known.newest:
            await self._catch_up(client, inbox, channel_id, since)
        while True:
            name, payload = await client.events.get()
            if name == "MESSAGE_CREATE":
                await self._take(client, inbox, payload)
            else:
                self._note(payload)

    async def _wait_until_ready(self, client: DiscordClient) -> None:
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                while True:
                    name, payload = await client.events.get()
                    if name == "READY":
                        self._me = Identity(id=str(payload["user"]["id"]))
                        return
        except TimeoutError:
            raise CannotConnect("Discord's gateway did not send its READY event.") from None
        except (KeyError, TypeError):
            raise CannotConnect("Discord's READY event does not say who the bot is.") from None

    def _note(self, payload: Any) -> None:
        """Notes the chats that an event describes, and the bot's own roles."""
        if not isinstance(payload, dict):
            return
        self._me = replace(self._me, roles={*self._me.roles, *own_roles(payload, self._me.id)})
        lists = [payload.get(name) for name in ("channels", "threads")]
        for raw in [payload, *(raw for found in lists if isinstance(found, list) for raw in found)]:
            try:
                chat = read_chat(raw)
            except Ignored:
                continue
            if "type" in raw:
                self._chats[str(raw["id"])] = chat

    async def _catch_up(self, client: DiscordClient, inbox: Inbox, channel_id: str, since: str) -> None:
        try:
            missed = await client.history(channel_id, since)
        except DeliveryRefused as error:
            log.info("a Discord chat cannot be read any more: %s", error)
            return
        for raw in missed:
            # The cursor stays until all chats are read: new messages of the next chat may be older.
            await self._take(client, inbox, raw, moves_cursor=False, channel_id=channel_id)

    async def _take(
        self,
        client: DiscordClient,
        inbox: Inbox,
        raw: Any,
        *,
        moves_cursor: bool = True,
        channel_id: str = "",
    ) -> None:
        try:
            at = channel_id or channel_id_of(raw)
            message = read_message(raw, await self._chat(client, at), self._me, self.account)
        except Ignored as why:
            log.info("a Discord message was ignored: %s", why)
            return
        inbound = message.inbound
        if inbound.chat_kind == "direct" or inbound.is_mentioned:
            await self._remember(at)
        if moves_cursor:
            self._newest = max(self._newest, int(inbound.message_id))
        inbound = await with_files(message, client.file, service="Discord", limit_bytes=self._file_bytes)
        await inbox.receive(inbound, cursor=str(self._newest) if moves_cursor else "")

    async def _remember(self, channel_id: str) -> None:
        if self._known is not None and self._known.add(channel_id):
            await asyncio.to_thread(self._known.save, channel_id)

    async def _chat(self, client: DiscordClient, channel_id: str) -> Chat:
        if channel_id not in self._chats:
            try:
                self._chats[channel_id] = read_chat(await client.channel(channel_id))
            except DeliveryRefused as error:
                raise Ignored(f"its channel cannot be read: {error}") from None
        return self._chats[channel_id]


class KnownChats:
    """The chats in which the bot has talked to somebody; the bridge reads them after a pause.

    A bot cannot ask Discord for its private chats, so a file lists them: the first line is the time of the
    first start as a snowflake, each further line a chat. Lines are only appended, each with an fsync. Nothing
    older than `since` is ever read.
    """

    def __init__(self, path: Path, since: int, chats: tuple[str, ...]) -> None:
        self.since = since
        self._path = path
        self._chats = dict.fromkeys(chats)

    @classmethod
    def load(cls, folder: Path, now: Clock) -> KnownChats:
        """Reads or creates the file. Raises `OSError`."""
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = folder / _KNOWN_CHATS_FILE
        lines = path.read_text("ascii", "replace").split("\n") if path.exists() else []
        whole = [line for line in lines[:-1] if line.isascii() and line.isdecimal()]
        if not whole:
            whole = [str(snowflake_at(epoch_ms(now())))]
            _append(path, whole[0])
        elif lines[-1]:
            _append(path, "")  # terminates a line that a kill cut off
        return cls(path, int(whole[0]), tuple(whole[1:]))

    @property
    def newest(self) -> tuple[str, ...]:
        """The chats to read, the one added last first."""
        return tuple(reversed(self._chats))[:MAX_KNOWN_CHATS]

    def add(self, chat: str) -> bool:
        """Adds a chat in memory. Returns whether it is new; then `save` puts it on disk."""
        is_new = chat not in self._chats
        self._chats[chat] = None
        return is_new

    def save(self, chat: str) -> None:
        """Appends a chat to the file. Blocks."""
        _append(self._path, chat)


def _append(path: Path, line: str) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        os.write(descriptor, f"{line}\n".encode("ascii"))
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _answered_id(part: Part) -> str:
    return part.answers if part.answers.isdecimal() else ""


def _channel_id(place: Place) -> str:
    """The channel to send to. In Discord a thread is a channel of its own."""
    return place.thread_id or place.chat_id
