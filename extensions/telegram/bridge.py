"""`TelegramBridge`: one Telegram bot, by long polling.

The offset of the next poll confirms an update to the server, and the bridge moves it only after the ledger
has the update. Telegram has no idempotency keys and cannot return sent messages, so a part whose
delivery is unclear is sent again with a mark.

markdown-it-py parses Markdown by CommonMark without HTML, lists and tables, which are readable as they are.
The text never becomes longer and loses no word. Telegram counts lengths in UTF-16 units.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, NamedTuple, TypeVar
from urllib.parse import urlencode

import httpx
from markdown_it import MarkdownIt
from markdown_it.token import Token
from telegram import (
    Bot,
    Chat,
    ExternalReplyInfo,
    LinkPreviewOptions,
    Message,
    MessageEntity,
    ReplyParameters,
    Update,
    User,
)
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
from nacre.bridges.channels.messages import (
    FileTooLarge,
    Ignored,
    IncomingMessage,
    RemoteFile,
    mapping,
    with_files,
)
from nacre.bridges.contracts.bridge import Bridge, Capabilities, Inbox, Part, Place
from nacre.bridges.contracts.errors import BridgeError, DeliveryRefused, NotDelivered
from nacre.runtime.contracts.inbound import ChatKind, Inbound, Quoted

log = logging.getLogger(__name__)

CHANNEL = "telegram"
_MAX_UPDATE_ID = 2**52
_KINDS: Mapping[str, ChatKind] = {"private": "direct", "channel": "channel"}

_STYLES = {
    "strong": "bold",
    "em": "italic",
    "s": "strikethrough",
    "heading": "bold",
    "blockquote": "blockquote",
}
_DISABLED_RULES = (
    "list",
    "hr",
    "lheading",
    "reference",
    "code",
    "html_block",
    "html_inline",
    "entity",
    "newline",
)
_LINKS = ("http://", "https://", "mailto:")
_LANGUAGE = re.compile(r"[A-Za-z0-9_+#.-]{1,40}")


def update_id_of(raw: object) -> int | None:
    """The id of an update, `None` if it is invalid: confirming a huge id would confirm all future updates."""
    update_id = mapping(raw).get("update_id")
    return update_id if type(update_id) is int and 0 < update_id < _MAX_UPDATE_ID else None


def read_message(raw: object, me: User, account: str) -> IncomingMessage:
    """The message of an update. `me` is the bot.

    Raises:
        Ignored: the update is not a message of a person, or it is malformed.
    """
    if update_id_of(raw) is None or not isinstance(raw, Mapping):
        raise Ignored("it has no id")
    try:
        update = Update.de_json(dict(raw), None)
        message = update.message
        if message is None:
            raise Ignored("it is not a new message")
        return _read(message, me, account)
    except Ignored:
        raise
    except Exception as error:  # noqa: BLE001 - the library raises whatever a wrong type leads to
        raise Ignored(f"it cannot be read: {type(error).__name__}") from None


def _read(message: Message, me: User, account: str) -> IncomingMessage:
    sender = message.sender_chat or message.from_user
    if sender is None:
        raise Ignored("it has no sender")
    if message.migrate_to_chat_id is not None or message.migrate_from_chat_id is not None:
        old = message.chat.id if message.migrate_to_chat_id else message.migrate_from_chat_id
        new = message.migrate_to_chat_id or message.chat.id
        raise Ignored(f"the group {old} is now the supergroup {new}; add the new id to the settings")
    if message.sender_chat is None and message.from_user and message.from_user.is_bot:
        raise Ignored("a bot wrote it")
    author = _foreign_author(message)
    files = tuple(_files(message, author))
    text = _text(message, me)
    cards = tuple(_cards(message))
    if not (text.strip() or files or cards):
        raise Ignored("it has no readable content")
    ids = (message.chat.id, sender.id, message.message_id, message.message_thread_id or 0)
    if not all(type(number) is int for number in ids):
        raise Ignored("its ids are not numbers")
    answered, answered_files = _answered(message, me)
    quoted = (Quoted(text=text, kind="forward", said_by=author),) if author and text.strip() else ()
    inbound = Inbound(
        text="" if author else text,
        quoted=(
            *quoted,
            *(Quoted(text=card, kind="attached message", said_by=author) for card in cards),
            *answered,
        ),
        # An unknown kind counts as a group, in which nothing private is said.
        chat_kind=_KINDS.get(str(message.chat.type), "group"),
        channel=CHANNEL,
        account=account,
        chat_id=str(message.chat.id),
        # Outside topics the id only says which message this one replies to.
        thread_id=str(message.message_thread_id) if message.is_topic_message is True else "",
        sender_id=str(sender.id),
        sender_name=_name_of(sender),
        message_id=str(message.message_id),
        chat_name=str(message.chat.effective_name or ""),
        is_mentioned=_replies_to_me(message, me)
        or any(_names_me(message, each, me) for each in (*message.entities, *message.caption_entities)),
    )
    return IncomingMessage(inbound=inbound, files=(*files, *answered_files))


def _name_of(sender: User | Chat | None) -> str:
    return str(getattr(sender, "full_name", "") or getattr(sender, "title", "") or "")


def _foreign_author(message: Message) -> str:
    """The author of a forwarded message, as Telegram names them; empty for the sender's own.

    A message made through an inline bot counts as the bot's. The fields from before Bot API 7.0 count as
    well: a self-hosted server may be older than the library.
    """
    old = message.api_kwargs
    if message.forward_origin is None and not any(key.startswith("forward_") for key in old):
        bot = message.via_bot
        return f"@{bot.username or bot.first_name}" if bot is not None else ""
    named = (
        *_origin_names(message.forward_origin),
        old.get("forward_sender_name"),
        *(_old_name(old.get(key)) for key in ("forward_from", "forward_from_chat")),
    )
    return _first_name(*named)


def _origin_names(origin: Any) -> tuple[object, ...]:
    person = getattr(origin, "sender_user", None) or getattr(origin, "sender_chat", None)
    return (
        getattr(person or getattr(origin, "chat", None), "effective_name", None),
        getattr(person, "full_name", None),
        getattr(origin, "sender_user_name", None),
    )


def _first_name(*names: object) -> str:
    return next((name for name in names if isinstance(name, str) and name.strip()), "somebody")


def _answered(message: Message, me: User) -> tuple[tuple[Quoted, ...], tuple[RemoteFile, ...]]:
    """The words and files that a message replies to: those that its sender marked or took from another chat,
    and in a group somebody else's whole message. In a private chat the assistant has read everything.
    """
    answered, outside, mark = message.reply_to_message, message.external_reply, message.quote
    is_unread = message.chat.type != "private" and not _replies_to_me(message, me)
    author, said, source = _first_name(*_origin_names(getattr(outside, "origin", None))), "", outside
    if answered is not None and answered.forum_topic_created is None:
        author = _foreign_author(answered) or _first_name(
            _name_of(answered.sender_chat or answered.from_user)
        )
        if is_unread:
            said = "\n".join((answered.text or answered.caption or "", *_extras(answered))).strip()
            source = source or answered
    said = mark.text if mark is not None else said
    quoted = (Quoted(text=said, kind="quote", said_by=author),) if said.strip() else ()
    return quoted, tuple(_files(source, author)) if source is not None else ()


def _old_name(raw: object) -> object:
    """The name in a `User` or `Chat` object of the fields before Bot API 7.0."""
    names = mapping(raw)
    return names.get("title") or names.get("first_name") or names.get("username")


def _text(message: Message, me: User) -> str:
    text = message.text or message.caption or ""
    if not isinstance(text, str):
        raise Ignored("its text is not text")
    first = next(iter((*message.entities, *message.caption_entities)), None)
    if first is not None and first.offset == 0:
        word = _piece(message, first)
        if first.type == MessageEntity.BOT_COMMAND:
            name, _, bot = word.partition("@")
            if bot and not _is_me(bot, me) and message.forward_origin is None:
                raise Ignored("it is a command for another bot")
            text = name + text[len(word) :]
        elif first.type == MessageEntity.MENTION and _is_me(word[1:], me):
            text = text[len(word) :].lstrip()
    return "\n".join((*([text] if text else []), *_extras(message)))


def _extras(message: Message) -> Iterator[str]:
    """Text for what else a message may contain."""
    if message.sticker is not None:
        yield f"[sticker {message.sticker.emoji or ''}]"
    if message.location is not None and message.venue is None:
        yield f"[location {message.location.latitude}, {message.location.longitude}]"
    if message.poll is not None:
        answers = ", ".join(repr(option.text) for option in message.poll.options)
        yield f"[poll {message.poll.question!r}: {answers}]"
    if message.dice is not None:
        yield f"[dice {message.dice.emoji} shows {message.dice.value}]"


def _cards(message: Message) -> Iterator[str]:
    """Places and contacts. Somebody other than the sender may have chosen their names."""
    if (venue := message.venue) is not None:
        at = venue.location
        yield f"[place {venue.title!r}, {venue.address!r}, {at.latitude}, {at.longitude}]"
    if message.contact is not None:
        yield f"[contact {message.contact.first_name!r}, {message.contact.phone_number!r}]"


def _replies_to_me(message: Message, me: User) -> bool:
    answered = message.reply_to_message
    # All messages of a topic "reply" to the one that created it.
    if answered is None or answered.forum_topic_created is not None:
        return False
    return answered.from_user is not None and answered.from_user.id == me.id


def _names_me(message: Message, entity: MessageEntity, me: User) -> bool:
    if entity.type == MessageEntity.TEXT_MENTION:
        return entity.user is not None and entity.user.id == me.id
    if entity.type not in (MessageEntity.MENTION, MessageEntity.BOT_COMMAND):
        return False
    return _is_me(_piece(message, entity).partition("@")[2], me)


def _piece(message: Message, entity: MessageEntity) -> str:
    is_text = message.text is not None
    return str(message.parse_entity(entity) if is_text else message.parse_caption_entity(entity))


def _is_me(name: str, me: User) -> bool:
    return bool(me.username) and name.lower() == str(me.username).lower()


def _files(message: Message | ExternalReplyInfo, author: str) -> Iterator[RemoteFile]:
    largest = max(message.photo or (), key=lambda size: size.width * size.height, default=None)
    found: tuple[tuple[Any, str, str], ...] = (
        (largest, "photo.jpg", "image/jpeg"),
        (None if message.animation else message.document, "document", "application/octet-stream"),
        (message.animation, "animation.mp4", "video/mp4"),
        (message.voice, "voice.ogg", "audio/ogg"),
        (message.audio, "audio.mp3", "audio/mpeg"),
        (message.video, "video.mp4", "video/mp4"),
        (message.video_note, "video.mp4", "video/mp4"),
    )
    for file, name, mime_type in found:
        if file is not None:
            yield RemoteFile(
                address=str(file.file_id),
                name=str(getattr(file, "file_name", None) or name),
                mime_type=str(getattr(file, "mime_type", None) or mime_type),
                size_bytes=file.file_size if type(file.file_size) is int else 0,
                said_by=author,
            )


class Span(NamedTuple):
    """A formatted range of a text: kind, start and length in UTF-16 units, and what the kind needs."""

    kind: str
    offset: int
    length: int
    url: str = ""
    language: str = ""


@dataclass
class _Output:
    text: str = ""
    units: int = 0
    spans: list[Span] = field(default_factory=list)

    def add(self, text: str) -> None:
        self.text += text
        self.units += utf16_length(text)

    def mark(self, kind: str, start: int, url: str = "", language: str = "") -> None:
        if self.units > start:
            self.spans.append(Span(kind, start, self.units - start, url, language))


def utf16_length(text: str) -> int:
    return len(text) + sum(character > "\uffff" for character in text)


def formatted(markdown: str) -> tuple[str, tuple[Span, ...]]:
    """The plain text to show and its spans. Returns the Markdown itself if no text would be left."""
    lines, output = markdown.split("\n"), _Output()
    opened: list[int] = []
    line = 0
    for token in _reader().parse(markdown):
        if token.map and token.type in ("inline", "fence"):
            if output.text:
                output.add("\n" * max(1, token.map[0] - line + 1))
            line = token.map[1]
        name = token.type.removesuffix("_open").removesuffix("_close")
        if token.type == "inline":
            _write_inline(token, lines, output)
        elif token.type == "fence":
            start, words = output.units, token.info.split()
            output.add(token.content.removesuffix("\n"))
            language = words[0] if words and _LANGUAGE.fullmatch(words[0]) else ""
            output.mark("pre", start, language=language)
        elif token.nesting == 1:
            opened.append(len(output.text))
        elif token.nesting == -1:
            start = opened.pop()
            if name in _STYLES:
                # The line feeds after the previous block come before the block's first word.
                words_of_block = output.text[start:].lstrip("\n")
                output.mark(_STYLES[name], output.units - utf16_length(words_of_block))
    if not output.text.strip():
        return markdown, ()
    return output.text, tuple(output.spans)


def _write_inline(token: Token, lines: Sequence[str], output: _Output) -> None:
    # The parser trims a paragraph's first line, but the indentation of a nested list must stay.
    first = lines[token.map[0]] if token.map else ""
    if (blanks := len(first) - len(first.lstrip(" "))) and first.strip():
        output.add(" " * blanks)
    opened: list[tuple[int, str]] = []
    for child in token.children or ():
        name = child.type.removesuffix("_open").removesuffix("_close")
        if child.nesting == 1:
            opened.append((output.units, str(child.attrGet("href") or "")))
        elif child.nesting == -1:
            start, url = opened.pop()
            output.mark("text_link" if name == "link" else _STYLES.get(name, ""), start, url)
        elif child.type == "code_inline":
            start = output.units
            output.add(child.content)
            output.mark("code", start)
        elif child.type == "hardbreak":
            output.add("\n")
        else:
            # An image becomes its description and its address.
            output.add(
                f"{child.content} ({child.attrGet('src')})" if child.type == "image" else child.content
            )


@cache
def _reader() -> MarkdownIt:
    reader = MarkdownIt("commonmark", {"html": False}).enable("strikethrough").disable(list(_DISABLED_RULES))
    # Other addresses stay as output, so that people see what they tap on.
    reader.validateLink = lambda url: url.startswith(_LINKS)  # type: ignore[method-assign]  # its documented way
    return reader


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
                raise NotSent(str(error.__cause__) or "no connection") from None
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
# Telegram fetches the address of a preview, and an address may contain private data.
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
    )

    def __init__(self, *, account: str, token: str, server: str, file_bytes: int) -> None:
        self.account = account
        self._token = token
        self._server = server
        self._file_bytes = file_bytes
        self._live: LiveConnection[TelegramClient] = LiveConnection("Telegram")
        self._moved: dict[str, str] = {}
        self._albums: dict[str, object] = {}

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
        # Each picture of an album is a message, and only one of them has the caption that mentions the bot.
        album, chat_id = raw["message"].get("media_group_id"), message.inbound.chat_id
        if message.inbound.is_mentioned:
            self._albums[chat_id] = album
        elif album and album == self._albums.get(chat_id):
            message = replace(message, inbound=replace(message.inbound, is_mentioned=True))
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
