"""`SlackBridge`: one Slack app in Socket Mode.

The bridge acknowledges an envelope only after the ledger has its message. Slack sends an envelope without an
acknowledgment a few more times and then gives up. At the start of a session the bridge therefore reads the
chats from the newest message in the ledger on. Each message of the bot carries its key as metadata, by which
`find` recognizes it.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from http import HTTPStatus
from typing import Any, TypeVar

import aiohttp
from slack_sdk.errors import SlackApiError
from slack_sdk.web.async_client import AsyncWebClient
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
from nacre.bridges.contracts.bridge import Bridge, Capabilities, Inbox, Part
from nacre.bridges.contracts.errors import BridgeError, CannotConnect, DeliveryRefused, NotDelivered
from nacre.runtime.contracts.inbound import Inbound, Quoted

log = logging.getLogger(__name__)

CHANNEL = "slack"
EVENT_TYPE = "nacre_part"
"""The type of the metadata that holds the key of a part in the bot's messages."""
_ID = re.compile(r"[A-Z0-9]{2,32}")
_TIMESTAMP = re.compile(r"\d{1,12}\.\d{6}")
_SUBTYPES = (None, "file_share", "thread_broadcast", "me_message")  # Slack itself writes all others

_CODE = re.compile(r"(```.*?(?:```|\Z)|`[^`\n]+`)", re.DOTALL)
_HEADING = re.compile(r"^#{1,6} +(.+?) *#*$", re.MULTILINE)
_BOLD = re.compile(r"\*\*(?=\S)(.+?)(?<=\S)\*\*")
_STRUCK = re.compile(r"~~(?=\S)(.+?)(?<=\S)~~")
_LINK = re.compile(r"!?\[([^\]\n|]+)\]\(((?:https?://|mailto:)(?:[^\s()<>|]|\([^\s()<>|]*\))+)\)")
_FENCE = re.compile(r"^```[A-Za-z0-9_+#.-]+ *$", re.MULTILINE)
_MARKED = re.compile(r"<(?P<address>[^<>|\s]+)(?:\|(?P<label>[^<>]*))?>")
# Slack also reads `>`, but only after a `<`. Leaving it alone keeps texts short.
_ESCAPES = (("&", "&amp;"), ("<", "&lt;"))


def is_timestamp(value: object) -> bool:
    """Whether a value is a Slack timestamp, which also is a message's id within its chat."""
    return isinstance(value, str) and _TIMESTAMP.fullmatch(value) is not None


def message_event(payload: object) -> Mapping[str, Any]:
    """The message event in an envelope's payload. Raises `Ignored` if there is none."""
    event = mapping(mapping(payload).get("event"))
    if event.get("type") not in ("message", "app_mention"):
        raise Ignored("it is not a message")
    return event


def read_message(event: object, me: str, account: str) -> IncomingMessage:
    """The message that somebody wrote. `me` is the bot's user id.

    Raises:
        Ignored: nobody wrote it, or it is malformed.
    """
    if not isinstance(event, Mapping) or not is_timestamp(event.get("ts")):
        raise Ignored("it has no timestamp")
    subtype, chat, user = event.get("subtype"), event.get("channel"), event.get("user")
    if not isinstance(chat, str) or not _ID.fullmatch(chat):
        raise Ignored("it has no chat")
    if subtype not in _SUBTYPES:
        raise Ignored(f"nobody wrote it: its subtype is {str(subtype)[:30]!r}")
    if event.get("bot_id") or user == me:
        raise Ignored("a bot wrote it")
    if not isinstance(user, str) or not _ID.fullmatch(user):
        raise Ignored("it has no sender")
    marked, thread = event.get("text") or "", event.get("thread_ts")
    if not isinstance(marked, str):
        raise Ignored("its text is not text")
    files, quoted = tuple(_files(event)), tuple(_shared(event))
    profile, mention = mapping(event.get("user_profile")), f"<@{me}>"
    marked = re.sub(rf"<@{re.escape(me)}\|[^<>]*>", mention, marked)
    text = plain(marked.removeprefix(mention).lstrip() if marked.startswith(mention) else marked)
    if not (text.strip() or files or quoted):
        raise Ignored("it has no readable content")
    inbound = Inbound(
        text=text,
        quoted=quoted,
        # Only the channel type says for certain that a chat is private; its id does not.
        chat_kind="direct" if event.get("channel_type") == "im" else "group",
        channel=CHANNEL,
        account=account,
        chat_id=chat,
        thread_id=str(thread) if is_timestamp(thread) and thread != event["ts"] else "",
        sender_id=user,
        sender_name=str(profile.get("display_name") or profile.get("real_name") or ""),
        message_id=str(event["ts"]),
        is_mentioned=mention in marked or event.get("parent_user_id") == me,
    )
    return IncomingMessage(inbound=inbound, files=files)


def key_of(message: object) -> str:
    """The key of a part that the bot sent, as the history has it; empty for any other message."""
    metadata = mapping(mapping(message).get("metadata"))
    key = mapping(metadata.get("event_payload")).get("key")
    return key if metadata.get("event_type") == EVENT_TYPE and isinstance(key, str) else ""


def _files(event: Mapping[str, Any]) -> Iterator[RemoteFile]:
    for file in mappings(event.get("files")):
        if isinstance(file.get("url_private"), str):
            yield RemoteFile.read(
                file["url_private"],
                name=file.get("name"),
                mime_type=file.get("mimetype"),
                size_bytes=file.get("size"),
            )


def _shared(event: Mapping[str, Any]) -> Iterator[Quoted]:
    """Messages of others that the sender shares."""
    for each in mappings(event.get("attachments")):
        if each.get("is_share") and isinstance(text := each.get("text"), str) and text.strip():
            yield Quoted(text=plain(text), kind="forward", said_by=str(each.get("author_name") or ""))


def mrkdwn(markdown: str) -> str:
    """Markdown as mrkdwn. Nothing in it notifies anybody, and code stays as it is."""
    pieces = _CODE.split(markdown)
    return "".join(
        _escaped(_FENCE.sub("```", piece, count=1)) if number % 2 else _words(piece)
        for number, piece in enumerate(pieces)
    )


def plain(mrkdwn: str) -> str:
    """A person's text as people see it: links with their labels, and no escapes."""

    def shown(found: re.Match[str]) -> str:
        address, label = found["address"], found["label"]
        if address[0] in "@#!":
            return f"{address[0]}{label}" if label else f"<{address}>"
        return address if not label or label in address else f"{label} ({address})"

    text = _MARKED.sub(shown, mrkdwn)
    return text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")


def _escaped(text: str) -> str:
    for character, escape in _ESCAPES:
        text = text.replace(character, escape)
    return text


def _words(text: str) -> str:
    text = _HEADING.sub(r"**\1**", _escaped(text))
    text = _STRUCK.sub(r"~\1~", _BOLD.sub(r"*\1*", text))
    return _LINK.sub(r"<\2|\1>", text)


REQUEST_SECONDS = 30
PING_SECONDS = 10.0
MAX_PAGES = 10
PAGE = 200
_FILE_HOSTS = ("files.slack.com",)
_BAD_TOKENS = ("invalid_auth", "not_authed", "account_inactive", "token_revoked", "token_expired")
_UNCLEAR = ("internal_error", "fatal_error", "service_unavailable", "request_timeout", "")
_TOO_MANY = 429


class SlackClient:
    """An open connection of one app. `me` is the bot's user id."""

    def __init__(
        self, web: AsyncWebClient, app_token: str, session: aiohttp.ClientSession, *, me: str
    ) -> None:
        self.me = me
        self._web = web
        self._app_token = app_token
        self._session = session

    @asynccontextmanager
    async def socket(self) -> AsyncIterator[aiohttp.ClientWebSocketResponse]:
        """Opens a new socket. Raises `BridgeError` with a sentence."""
        with translated_errors(connecting=True):
            opened = await self._web.apps_connections_open(app_token=self._app_token)
            socket = await self._session.ws_connect(str(opened["url"]), heartbeat=PING_SECONDS)
        try:
            yield socket
        finally:
            await socket.close()

    async def send(self, chat: str, text: str, *, thread: str, key: str) -> str:
        """Sends a message and returns its timestamp, which is its id."""
        with translated_errors():
            sent = await self._web.chat_postMessage(
                channel=chat,
                text=text,
                thread_ts=thread or None,
                metadata={"event_type": EVENT_TYPE, "event_payload": {"key": key}},
                unfurl_links=False,
                unfurl_media=False,
            )
            return str(sent["ts"])

    async def edit(self, chat: str, ts: str, text: str) -> bool:
        """Edits a message. Returns `False` if it no longer exists."""
        try:
            with translated_errors():
                await self._web.chat_update(channel=chat, ts=ts, text=text)
        except DeliveryRefused as refused:
            if "message_not_found" in str(refused):
                return False
            raise
        return True

    async def history(self, chat: str, oldest: str, *, thread: str = "") -> list[Any]:
        """The messages of a chat, or of one of its threads, after a timestamp; the oldest first."""
        ask: Callable[..., Awaitable[Any]] = self._web.conversations_history
        if thread:
            ask = partial(self._web.conversations_replies, ts=thread)
        ask = partial(ask, channel=chat, oldest=oldest, limit=PAGE, include_all_metadata=True)
        found: list[Any] = []
        cursor = ""
        for _ in range(MAX_PAGES):
            with translated_errors():
                page = await ask(cursor=cursor or None)
            found += mappings(page.get("messages"))
            cursor = _cursor(page.data)
            if not cursor:
                break
        else:
            log.warning("more than %d messages were missed in a Slack chat; the rest is skipped", len(found))
        return found if thread else found[::-1]

    async def chats(self, limit: int) -> Sequence[tuple[str, bool]]:
        """The chats that the bot is in, each with whether it is private."""
        found: list[tuple[str, bool]] = []
        cursor = ""
        while len(found) < limit:
            with translated_errors():
                page = await self._web.users_conversations(
                    types="im,mpim,private_channel,public_channel",
                    exclude_archived=True,
                    limit=PAGE,
                    cursor=cursor or None,
                )
            for chat in mappings(page.get("channels")):
                if isinstance(chat.get("id"), str):
                    found.append((chat["id"], chat.get("is_im") is True))
            cursor = _cursor(page.data)
            if not cursor:
                break
        return found[:limit]

    async def file(self, url: str, limit_bytes: int) -> bytes:
        """The bytes of a file, or the first beyond the limit. Only Slack's own hosts get the token."""
        if URL(url).host not in (*_FILE_HOSTS, URL(self._web.base_url).host):
            raise DeliveryRefused("it is not on Slack's servers")
        headers = {"Authorization": f"Bearer {self._web.token}"}
        with translated_errors():
            async with self._session.get(url, headers=headers, allow_redirects=False) as answer:
                if answer.status != HTTPStatus.OK:
                    raise DeliveryRefused(f"Slack answered {answer.status}")
                data = await answer.content.read(limit_bytes + 1)
                while len(data) <= limit_bytes and (more := await answer.content.read(limit_bytes)):
                    data += more
        return bytes(data)


@asynccontextmanager
async def open_client(bot_token: str, app_token: str, server: str) -> AsyncIterator[SlackClient]:
    """A client with a bot token that Slack has accepted. Raises `BridgeError` with a sentence."""
    timeout = aiohttp.ClientTimeout(total=None, sock_connect=REQUEST_SECONDS, sock_read=None)
    async with aiohttp.ClientSession(timeout=timeout) as session:
        web = AsyncWebClient(
            token=bot_token, base_url=f"{server.rstrip('/')}/", session=session, retry_handlers=[]
        )
        with translated_errors(connecting=True):
            me = str((await web.auth_test())["user_id"])
        yield SlackClient(web, app_token, session, me=me)


def read_envelope(message: aiohttp.WSMessage) -> Mapping[str, Any]:
    """The envelope that a socket message holds. Raises `ValueError`."""
    if message.type is not aiohttp.WSMsgType.TEXT:
        raise ValueError("it is not text")
    found = json.loads(message.data)
    if not isinstance(found, Mapping):
        raise ValueError("it is not an object")
    return found


@contextmanager
def translated_errors(*, connecting: bool = False) -> Iterator[None]:
    """Raises the library's errors as bridge errors."""
    try:
        yield
    except SlackApiError as error:
        raise _translated(error) from None
    except aiohttp.ClientConnectorError as error:
        kind = CannotConnect if connecting else NotDelivered
        raise kind(f"Slack cannot be reached: {type(error).__name__}.") from None
    except (aiohttp.ClientError, TimeoutError, OSError, KeyError, AttributeError) as error:
        raise BridgeError(f"Slack failed to answer: {type(error).__name__}.") from None


def _translated(error: SlackApiError) -> BridgeError:
    response = error.response
    data = mapping(getattr(response, "data", None))
    code = str(data.get("error", ""))
    if getattr(response, "status_code", 0) == _TOO_MANY or code in ("ratelimited", "rate_limited"):
        delay = str(response.headers.get("Retry-After", ""))
        seconds = float(delay) if delay.isdecimal() else 30.0
        return NotDelivered("Slack's rate limit is reached", retry_after_seconds=seconds)
    if code in _BAD_TOKENS:
        return CannotConnect(
            f"Slack refused a token ({code}). Check channels.slack.botToken (xoxb-…) and "
            "channels.slack.appToken (xapp-…). You find both at https://api.slack.com/apps."
        )
    if code == "missing_scope":
        return DeliveryRefused(
            f"The Slack app lacks the scope {data.get('needed', '?')}. Add it at https://api.slack.com/apps "
            "under OAuth & Permissions, and reinstall the app."
        )
    if code in _UNCLEAR:
        return BridgeError(f"Slack failed to answer: {code or getattr(response, 'status_code', '?')}.")
    return DeliveryRefused(f"Slack refused: {code}")


def _cursor(data: Any) -> str:
    return str(mapping(mapping(data).get("response_metadata")).get("next_cursor") or "")


T = TypeVar("T")

MAX_CHATS = 100
"""How many chats are read after a pause. Slack allows about fifty requests a minute."""
CATCH_UP_SECONDS = 300.0
"""The longest total delay by rate limits while missed messages are read."""
MARGIN_SECONDS = 60
"""Messages of different chats may arrive out of order by this much."""


class _RateLimitBudget:
    """Repeats requests that Slack asks to delay, until all delays together exceed a number of seconds."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    async def __call__(self, request: Callable[[], Awaitable[T]]) -> T:
        while True:
            try:
                return await request()
            except NotDelivered as error:
                wait = error.retry_after_seconds
                if wait is None or wait > self._seconds:
                    raise
            self._seconds -= wait
            await asyncio.sleep(wait)


class SlackBridge(Bridge):
    """One app. `server` is the URL of the Web API. It does not fetch files above `file_bytes`."""

    channel = CHANNEL
    capabilities = Capabilities(
        greatest_length=2_900,  # an edit takes 4,000, and escaping makes some characters longer
        length_unit="utf16",
        can_edit=True,
        edit_seconds=1.5,
        can_read_back=True,
    )

    def __init__(self, *, account: str, bot_token: str, app_token: str, server: str, file_bytes: int) -> None:
        self.account = account
        self._bot_token = bot_token
        self._app_token = app_token
        self._server = server
        self._file_bytes = file_bytes
        self._live: LiveConnection[SlackClient] = LiveConnection("Slack")
        self._newest = ""

    async def start(self, inbox: Inbox) -> None:
        self._newest = inbox.cursor if is_timestamp(inbox.cursor) else ""
        async with open_client(self._bot_token, self._app_token, self._server) as client:
            try:
                await until_stopped(self.stopping, self._listen(client, inbox))
            finally:
                await self._live.close()

    async def deliver(self, part: Part) -> str:
        async with self._live.use() as client:
            place = part.place
            return await client.send(place.chat_id, mrkdwn(part.text), thread=place.thread_id, key=part.key)

    async def edit(self, part: Part, message_id: str) -> None:
        """Edits the message. If somebody has deleted it, sends a new one."""
        async with self._live.use() as client:
            is_there = await client.edit(part.place.chat_id, message_id, mrkdwn(part.text))
        if not is_there:
            await self.deliver(part)

    async def find(self, part: Part) -> str | None:
        """Looks for the part's key in the chat, after the message that the part answers."""
        place, since = part.place, part.answers if is_timestamp(part.answers) else "0"
        async with self._live.use() as client:
            history = await client.history(place.chat_id, since, thread=place.thread_id)
        found = (str(raw["ts"]) for raw in history if key_of(raw) == part.key and is_timestamp(raw.get("ts")))
        return next(found, None)

    async def _listen(self, client: SlackClient, inbox: Inbox) -> None:
        """Reads one socket after the other: Slack asks for a new one every few hours."""
        is_first = True
        while True:
            async with client.socket() as socket:
                async for message in socket:
                    try:
                        envelope = read_envelope(message)
                    except ValueError as error:
                        log.info("a Slack envelope was ignored because it cannot be read: %s", error)
                        continue
                    if envelope.get("type") == "hello" and is_first:
                        is_first = False
                        self._live.open(client)
                        inbox.connected()
                        await self._catch_up(client, inbox)
                    if envelope.get("type") == "disconnect":
                        break
                    await self._take_envelope(client, inbox, socket, envelope)
                else:
                    raise CannotConnect("Slack closed the connection.")
            if envelope.get("reason") == "link_disabled":
                raise CannotConnect(
                    "Socket Mode is switched off for this app. Switch it on at https://api.slack.com/apps."
                )

    async def _take_envelope(self, client: SlackClient, inbox: Inbox, socket: Any, envelope: Any) -> None:
        envelope_id = envelope.get("envelope_id")
        if not isinstance(envelope_id, str):
            if envelope.get("type") != "hello":
                log.info("a Slack envelope was ignored because it has no id")
            return
        try:
            message = read_message(message_event(envelope.get("payload")), client.me, self.account)
            await self._take(client, inbox, message)
        except Ignored as why:
            log.info("a Slack envelope was ignored: %s", why)
        await socket.send_json({"envelope_id": envelope_id})

    async def _catch_up(self, client: SlackClient, inbox: Inbox) -> None:
        if not self._newest:
            return
        seconds, _, number = self._newest.partition(".")
        within_budget = _RateLimitBudget(CATCH_UP_SECONDS)
        since = f"{max(0, int(seconds) - MARGIN_SECONDS)}.{number}"
        for chat, is_private in await within_budget(lambda: client.chats(MAX_CHATS)):
            try:
                history = await self._history(client, within_budget, chat, since)
            except DeliveryRefused as error:
                log.info("a Slack chat cannot be read: %s", error)
                continue
            except NotDelivered:
                log.warning("Slack's rate limit stops reading the rest of what was missed")
                return
            for raw in history:
                at = {"channel": chat, **({"channel_type": "im"} if is_private else {})}
                try:
                    message = read_message({**raw, **at}, client.me, self.account)
                except (Ignored, TypeError) as why:
                    log.info("a Slack message was ignored: %s", why)
                    continue
                # The cursor stays until all chats are read: new messages of the next chat may be older.
                await self._take(client, inbox, message, moves_cursor=False)

    async def _history(
        self, client: SlackClient, within_budget: _RateLimitBudget, chat: str, since: str
    ) -> list[Any]:
        history = list(await within_budget(lambda: client.history(chat, since)))
        for thread in [raw["ts"] for raw in history if _has_newer_replies(raw, since)]:
            history += await within_budget(partial(client.history, chat, since, thread=thread))
        return history

    async def _take(
        self, client: SlackClient, inbox: Inbox, message: IncomingMessage, *, moves_cursor: bool = True
    ) -> None:
        if moves_cursor:
            self._newest = max(self._newest, message.inbound.message_id, key=_sort_key)
        inbound = await with_files(message, client.file, service="Slack", limit_bytes=self._file_bytes)
        await inbox.receive(inbound, cursor=self._newest if moves_cursor else "")


def _sort_key(ts: str) -> tuple[int, str]:
    # As texts, timestamps whose seconds differ in length would compare wrongly.
    seconds, _, number = ts.partition(".")
    return (int(seconds or 0), number)


def _has_newer_replies(raw: Any, since: str) -> bool:
    latest = raw.get("latest_reply")
    is_thread = is_timestamp(raw.get("ts")) and is_timestamp(latest)
    return is_thread and _sort_key(latest) > _sort_key(since)
