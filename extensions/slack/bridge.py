"""`SlackBridge`: one app of Slack, over Socket Mode.

An envelope is acknowledged when its words are in the ledger and not before; Slack sends one that is not
acknowledged a few times more. What it gave up is read from the chats when a session begins, behind the newest
message that is in the ledger. A message of the bot carries its key, by which it is found again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from nacre.bridges.channels.live_connection import LiveConnection
from nacre.bridges.contracts.bridge import Bridge, Capabilities, Door, Part
from nacre.bridges.contracts.errors import BridgeError, CannotConnect, DeliveryRefused, NotDelivered
from nacre.extensions.slack.api import Api, envelope, opened
from nacre.extensions.slack.formatting import mrkdwn
from nacre.extensions.slack.messages import (
    CHANNEL,
    Heard,
    PassedOver,
    RemoteFile,
    event_of,
    heard,
    is_ts,
    key_of,
)
from nacre.runtime.contracts.inbound import Attachment

log = logging.getLogger(__name__)

T = TypeVar("T")

FILE_SECONDS = 60.0
"""How long one file may take."""
MOST_CHATS = 100
"""So many chats are looked through; Slack allows some fifty requests a minute."""
PATIENCE_SECONDS = 300.0
"""So long Slack may keep the bridge waiting that reads what was missed."""
MARGIN_SECONDS = 60
"""Messages of different chats may come in another order than they were said."""


class _Patience:
    """Asks again when Slack asks to wait, as long as all waits together take no more than so many seconds."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    async def __call__(self, ask: Callable[[], Awaitable[T]]) -> T:
        while True:
            try:
                return await ask()
            except NotDelivered as error:
                wait = error.retry_after_seconds
                if wait is None or wait > self._seconds:
                    raise
            self._seconds -= wait
            await asyncio.sleep(wait)


class SlackBridge(Bridge):
    """An app. `server` is the Web API's address; files above `file_bytes` are not fetched."""

    channel = CHANNEL
    capabilities = Capabilities(
        greatest_length=2_900,  # an edit takes 4,000, and signs that Slack reads become longer
        length_unit="utf16",
        can_edit=True,
        edit_seconds=1.5,
        has_threads=True,
        takes_attachments=True,
        can_read_back=True,
    )

    def __init__(self, *, account: str, bot_token: str, app_token: str, server: str, file_bytes: int) -> None:
        self.account = account
        self._bot_token = bot_token
        self._app_token = app_token
        self._server = server
        self._file_bytes = file_bytes
        self._live: LiveConnection[Api] = LiveConnection("Slack")
        self._stopped = asyncio.Event()
        self._newest = ""

    async def start(self, door: Door) -> None:
        """Hears the socket until it is stopped, or the connection ends."""
        self._newest = door.cursor if is_ts(door.cursor) else ""
        async with opened(self._bot_token, self._app_token, self._server) as api:
            hearing = asyncio.create_task(self._hear(api, door))
            stopping = asyncio.create_task(self._stopped.wait())
            try:
                await asyncio.wait({hearing, stopping}, return_when=asyncio.FIRST_COMPLETED)
                if not self._stopped.is_set():
                    await hearing
            finally:
                self._live.ends()
                for task in (hearing, stopping):
                    task.cancel()
                await asyncio.gather(hearing, stopping, return_exceptions=True)
                await self._live.settled()

    async def stop(self) -> None:
        """Ends the connection."""
        self._stopped.set()

    async def deliver(self, part: Part) -> str:
        """Sends one message."""
        async with self._live.use() as api:
            place = part.place
            return await api.send(place.chat_id, mrkdwn(part.text), thread=place.thread_id, key=part.key)

    async def edit(self, part: Part, message_id: str) -> None:
        """Changes one; one that somebody deleted meanwhile is sent anew."""
        async with self._live.use() as api:
            is_there = await api.edit(part.place.chat_id, message_id, mrkdwn(part.text))
        if not is_there:
            await self.deliver(part)

    async def find(self, part: Part) -> str | None:
        """Looks for its key in the chat, behind the message that it answers."""
        place, since = part.place, part.answers if is_ts(part.answers) else ""
        async with self._live.use() as api:
            said = await api.history(place.chat_id, since or "0", thread=place.thread_id)
        found = [str(raw["ts"]) for raw in said if key_of(raw) == part.key and is_ts(raw.get("ts"))]
        return found[0] if found else None

    async def _hear(self, api: Api, door: Door) -> None:
        """One socket after the other: Slack asks for a new one every few hours."""
        is_first = True
        while True:
            async with api.socket() as socket:
                async for message in socket:
                    try:
                        told = envelope(message)
                    except ValueError as error:
                        log.info("an envelope of Slack's was passed over: it cannot be read: %s", error)
                        continue
                    if told.get("type") == "hello" and is_first:
                        is_first = False
                        self._live.begins(api)
                        door.connected()
                        await self._catch_up(api, door)
                    if told.get("type") == "disconnect":
                        break
                    await self._take_envelope(api, door, socket, told)
                else:
                    raise CannotConnect("Slack ended the connection.")
            if told.get("reason") == "link_disabled":
                raise CannotConnect("Socket Mode is switched off for this app; https://api.slack.com/apps.")

    async def _take_envelope(self, api: Api, door: Door, socket: Any, told: Any) -> None:
        name = told.get("envelope_id")
        if not isinstance(name, str):
            if told.get("type") != "hello":
                log.info("an envelope of Slack's was passed over: it has no id")
            return
        try:
            await self._take(api, door, heard(event_of(told.get("payload")), api.me, self.account))
        except PassedOver as why:
            log.info("an envelope of Slack's was passed over: %s", why)
        await socket.send_json({"envelope_id": name})

    async def _catch_up(self, api: Api, door: Door) -> None:
        """Reads what Slack gave up while nobody listened."""
        if not self._newest:
            return
        seconds, _, number = self._newest.partition(".")
        patiently = _Patience(PATIENCE_SECONDS)
        since = f"{max(0, int(seconds) - MARGIN_SECONDS)}.{number}"
        for chat, is_private in await patiently(lambda: api.chats(MOST_CHATS)):
            try:
                said = await self._said_since(api, patiently, chat, since)
            except DeliveryRefused as error:
                log.info("a chat of Slack's cannot be read: %s", error)
                continue
            except NotDelivered:
                log.warning("Slack lets no more of what was said meanwhile be read")
                return
            for raw in said:
                at = {"channel": chat, **({"channel_type": "im"} if is_private else {})}
                try:
                    message = heard({**raw, **at}, api.me, self.account)
                except (PassedOver, TypeError) as why:
                    log.info("a message of Slack's was passed over: %s", why)
                    continue
                # The cursor stands until all chats are read: what is new in the next one may be older.
                await self._take(api, door, message, moves_cursor=False)

    async def _said_since(self, api: Api, patiently: _Patience, chat: str, since: str) -> list[Any]:
        said = list(await patiently(lambda: api.history(chat, since)))
        for thread in [raw["ts"] for raw in said if _has_newer_replies(raw, since)]:
            said += await patiently(partial(api.history, chat, since, thread=thread))
        return said

    async def _take(self, api: Api, door: Door, message: Heard, *, moves_cursor: bool = True) -> None:
        if moves_cursor:
            self._newest = max(self._newest, message.inbound.message_id, key=_moment)
        files = [await self._fetched(api, file) for file in message.files]
        inbound = replace(message.inbound, attachments=tuple(files))
        await door.receive(inbound, cursor=self._newest if moves_cursor else "")

    async def _fetched(self, api: Api, file: RemoteFile) -> Attachment:
        """A file with its bytes, or with the reason why they are not there."""
        data, problem, size = b"", "", file.size_bytes
        if size <= self._file_bytes:
            try:
                async with asyncio.timeout(FILE_SECONDS):
                    data = await api.file(file.url, self._file_bytes)
                size = len(data)
            except TimeoutError:
                problem = "Slack took too long to send it"
            except (BridgeError, ValueError) as error:
                log.warning("a file could not be fetched from Slack: %s", error)
                problem = "Slack did not send it"
        if size > self._file_bytes:
            data, problem = b"", f"it has {size} bytes, and {self._file_bytes} are fetched at most"
        return Attachment(name=file.name, mime_type=file.mime_type, data=data, problem=problem)


def _moment(ts: str) -> tuple[int, str]:
    """For comparing moments, of which the seconds may differ in length."""
    seconds, _, number = ts.partition(".")
    return (int(seconds or 0), number)


def _has_newer_replies(raw: Any, since: str) -> bool:
    latest = raw.get("latest_reply") if isinstance(raw, dict) and "ts" in raw else None
    return isinstance(latest, str) and is_ts(latest) and is_ts(raw["ts"]) and _moment(latest) > _moment(since)
