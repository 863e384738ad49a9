"""`DiscordBridge`: one Discord bot, connected to the gateway.

Discord's gateway takes no acknowledgments and does not send a new session what it missed. The cursor is
therefore the newest message id in the ledger, and a new session reads the known chats from there on. Ids,
called snowflakes, grow with time across all chats. An answer refers to the message that it answers, so `find`
can look for it after an unclear delivery.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
import re
import zlib
from collections.abc import AsyncIterator, Collection, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp
import discord
from discord.gateway import DiscordWebSocket, ReconnectWebSocket
from discord.http import HTTPClient, Route
from yarl import URL

from nacre.bridges.channels.connection import LiveConnection, until_stopped
from nacre.bridges.channels.messages import (
    Ignored,
    IncomingMessage,
    RemoteFile,
    mapping,
    mappings,
    with_files,
)
from nacre.bridges.contracts.bridge import Bridge, Capabilities, Inbox, Part, Place
from nacre.bridges.contracts.errors import BridgeError, CannotConnect, DeliveryRefused, NotDelivered
from nacre.record import Record
from nacre.runtime.contracts.clock import Clock, epoch_ms
from nacre.runtime.contracts.inbound import ChatKind, Inbound, Quoted, QuoteKind

log = logging.getLogger(__name__)

CHANNEL = "discord"
_MESSAGE_TYPES = (0, 19)  # a plain message and a reply; Discord itself writes all other types
_PRIVATE, _NEWS, _THREADS = 1, 5, (10, 11, 12)
_MIN_DRAFT_CHARS = 24
_FENCE_END = re.compile(r"\n[`~]{3,}\Z")

_EPOCH_MS = 1_420_070_400_000
_TIME_BIT = 22
MARGIN_SECONDS = 60
"""Messages of different chats may arrive out of order by this much."""


class Chat(Record):
    """A Discord channel as a chat, or as a thread of a chat."""

    chat_id: str
    kind: ChatKind
    thread_id: str = ""
    name: str = ""


class Identity(Record):
    """The bot: its id, and the roles that only it has. People also mention it by these roles."""

    id: str
    roles: Collection[str] = ()


def read_chat(raw: object) -> Chat:
    """The chat that a channel object describes. Only Discord's own type makes a chat private.

    Raises:
        Ignored: it has no id, or it is a thread without a channel.
    """
    if not isinstance(raw, Mapping) or not is_snowflake(raw.get("id")):
        raise Ignored("its channel has no id")
    name, kind = raw.get("name"), raw.get("type")
    title = name if isinstance(name, str) else ""
    if kind in _THREADS:
        if not is_snowflake(raw.get("parent_id")):
            raise Ignored("its thread is in no channel")
        return Chat(chat_id=raw["parent_id"], kind="group", thread_id=raw["id"], name=title)
    if type(kind) is int and kind == _PRIVATE:
        return Chat(chat_id=raw["id"], kind="direct")
    return Chat(chat_id=raw["id"], kind="channel" if kind == _NEWS else "group", name=title)


def channel_id_of(raw: object) -> str:
    """The id of a message's channel. Raises `Ignored` if there is none."""
    if not isinstance(raw, Mapping) or not is_snowflake(raw.get("channel_id")):
        raise Ignored("it has no channel")
    return str(raw["channel_id"])


def read_message(raw: object, chat: Chat, me: Identity, account: str) -> IncomingMessage:
    """The message that somebody wrote in a chat. Raises `Ignored` if nobody wrote it, or it is malformed."""
    if not isinstance(raw, Mapping) or not is_snowflake(raw.get("id")):
        raise Ignored("it has no id")
    author = _author(raw)
    if not is_snowflake(author.get("id")):
        raise Ignored("it has no sender")
    if author.get("bot") or author.get("system") or raw.get("webhook_id"):
        raise Ignored("a bot wrote it")
    if type(raw.get("type")) is not int or raw["type"] not in _MESSAGE_TYPES:
        raise Ignored(f"nobody wrote it: its type is {str(raw.get('type'))[:20]!r}")
    mentions = list(mappings(raw.get("mentions")))
    text = "\n".join((*_text(raw.get("content"), mentions, me), *_extras(raw)))
    others = list(_of_others(raw, chat, me))
    quoted = tuple(quote for quote, _ in others if quote.text.strip())
    roles = raw.get("mention_roles")
    is_mentioned = (
        any(user.get("id") == me.id for user in mentions)
        or _author(raw.get("referenced_message")).get("id") == me.id
        or (isinstance(roles, list) and any(isinstance(role, str) and role in me.roles for role in roles))
    )
    files = (*_files(raw), *(file for _, found in others for file in found))
    if not (text.strip() or quoted or files):
        raise Ignored("it has no readable content; is the Message Content Intent switched on?")
    inbound = Inbound(
        text=text,
        quoted=quoted,
        chat_kind=chat.kind,
        channel=CHANNEL,
        account=account,
        chat_id=chat.chat_id,
        thread_id=chat.thread_id,
        sender_id=str(author["id"]),
        sender_name=_name_of(author),
        message_id=str(raw["id"]),
        chat_name=chat.name,
        is_mentioned=is_mentioned,
    )
    return IncomingMessage(inbound=inbound, files=files)


def own_roles(guild: object, me_id: str) -> Iterator[str]:
    """The roles of a server that only the bot has."""
    for role in mappings(mapping(guild).get("roles")):
        if mapping(role.get("tags")).get("bot_id") == me_id and is_snowflake(role.get("id")):
            yield str(role["id"])


def is_part(raw: object, text: str, answers: str, me_id: str) -> bool:
    """Whether a message of the history is the part with this text that answers this message.

    It may also be the beginning of the part, shown as a draft.
    """
    message = mapping(raw)
    content = message.get("content")
    answered = mapping(message.get("message_reference")).get("message_id") or ""
    if _author(message).get("id") != me_id or answered != answers or not isinstance(content, str):
        return False
    shown, whole = content.strip(), text.strip()
    beginning = _FENCE_END.sub("", shown)
    return shown == whole or (len(beginning) >= _MIN_DRAFT_CHARS and whole.startswith(beginning))


def _text(content: object, mentions: list[Mapping[str, Any]], me: Identity) -> Iterator[str]:
    """The text without a leading mention of the bot, and with names in place of other people's ids."""
    if content is None or content == "":
        return
    if not isinstance(content, str):
        raise Ignored("its text is not text")
    signs = [f"<@{me.id}>", f"<@!{me.id}>", *(f"<@&{role}>" for role in me.roles)]
    for sign in signs:
        if content.startswith(sign):
            content = content[len(sign) :].lstrip()
            break
    for user in mentions:
        name = user.get("global_name") or user.get("username")
        if is_snowflake(user.get("id")) and isinstance(name, str):
            content = re.sub(rf"<@!?{user['id']}>", lambda _, name=name: f"@{name}", content)  # type: ignore[misc]
    yield content


def _extras(raw: Mapping[str, Any]) -> Iterator[str]:
    """Text for what else a message may contain."""
    for sticker in mappings(raw.get("sticker_items")):
        yield f"[sticker {str(sticker.get('name'))!r}]"
    if question := mapping(mapping(raw.get("poll")).get("question")):
        yield f"[poll {str(question.get('text'))!r}]"


def _of_others(
    raw: Mapping[str, Any], chat: Chat, me: Identity
) -> Iterator[tuple[Quoted, tuple[RemoteFile, ...]]]:
    """The words and files of forwarded messages, whose author Discord does not name, and in a group those of
    somebody else's message that this one answers. In a private chat the assistant has read everything.
    """
    found: list[tuple[object, QuoteKind]] = [
        (snapshot.get("message"), "forward") for snapshot in mappings(raw.get("message_snapshots"))
    ]
    if chat.kind != "direct" and _author(raw.get("referenced_message")).get("id") != me.id:
        found.append((raw.get("referenced_message"), "quote"))
    for message, kind in found:
        if isinstance(message, Mapping):
            text = message.get("content")
            said = "\n".join((*([text] if isinstance(text, str) else []), *_extras(message)))
            author = _name_of(_author(message))
            files = tuple(replace(file, said_by=author or "somebody") for file in _files(message))
            yield Quoted(text=said, kind=kind, said_by=author), files


def _author(message: object) -> Mapping[str, Any]:
    return mapping(mapping(message).get("author"))


def _name_of(author: Mapping[str, Any]) -> str:
    return str(author.get("global_name") or author.get("username") or "")


def _files(raw: Mapping[str, Any]) -> Iterator[RemoteFile]:
    for file in mappings(raw.get("attachments")):
        kind = file.get("content_type")
        if isinstance(file.get("url"), str):
            yield RemoteFile.read(
                file["url"],
                name=file.get("filename"),
                mime_type=kind.partition(";")[0] if isinstance(kind, str) else None,
                size_bytes=file.get("size"),
            )


def snowflake_at(at_ms: int) -> int:
    """The lowest id of a moment, given in milliseconds since 1970."""
    return max(0, at_ms - _EPOCH_MS) << _TIME_BIT


def with_margin(snowflake: int) -> int:
    """An id `MARGIN_SECONDS` earlier. Messages after it are read again."""
    return max(0, snowflake - (MARGIN_SECONDS * 1_000 << _TIME_BIT))


def is_snowflake(value: object) -> bool:
    return isinstance(value, str) and value.isascii() and value.isdecimal() and 0 < int(value[:20]) < 2**63


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
        await self._request("POST", "/typing", channel_id)

    async def channel(self, channel_id: str) -> Any:
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
            last = mapping(page[0]).get("id") if page else None
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
                await until_stopped(self.stopping, client.listen(), self._receive(client, inbox, known))
            finally:
                await self._live.close()

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
                self._note(mapping(payload))

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

    def _note(self, payload: Mapping[str, Any]) -> None:
        self._me = replace(self._me, roles={*self._me.roles, *own_roles(payload, self._me.id)})
        for raw in (payload, *mappings(payload.get("channels")), *mappings(payload.get("threads"))):
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
