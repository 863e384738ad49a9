"""The connection to Slack: the Web API through slack-sdk, the Socket Mode socket, and their errors.

The library's socket client is not used. It reconnects by itself and handles events in tasks of its own, and
its retries send a message again although the first attempt may have arrived.
"""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from http import HTTPStatus
from typing import Any

import aiohttp
from slack_sdk.errors import SlackApiError
from slack_sdk.web.async_client import AsyncWebClient
from yarl import URL

from nacre.bridges.contracts.errors import BridgeError, CannotConnect, DeliveryRefused, NotDelivered
from nacre.extensions.slack.messages import EVENT_TYPE

log = logging.getLogger(__name__)

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

    def __init__(self, web: AsyncWebClient, app_token: str, session: aiohttp.ClientSession) -> None:
        self.me = ""
        self._web = web
        self._app_token = app_token
        self._session = session

    async def log_in(self) -> None:
        """Asks Slack who the bot is. Raises `BridgeError` with a sentence."""
        with translated_errors(connecting=True):
            self.me = str((await self._web.auth_test())["user_id"])

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
        more: dict[str, Any] = {"oldest": oldest, "limit": PAGE, "include_all_metadata": True}
        found: list[Any] = []
        cursor = ""
        for _ in range(MAX_PAGES):
            with translated_errors():
                if thread:
                    page = await self._web.conversations_replies(
                        channel=chat, ts=thread, cursor=cursor or None, **more
                    )
                else:
                    page = await self._web.conversations_history(channel=chat, cursor=cursor or None, **more)
            messages = page.get("messages")
            found += messages if isinstance(messages, list) else []
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
            listed = page.get("channels")
            for chat in listed if isinstance(listed, list) else ():
                if isinstance(chat, Mapping) and isinstance(chat.get("id"), str):
                    found.append((chat["id"], chat.get("is_im") is True))
            cursor = _cursor(page.data)
            if not cursor:
                break
        return found[:limit]

    async def file(self, url: str, limit_bytes: int) -> bytes:
        """The bytes of a file, or the first bytes beyond the limit. The token is sent to Slack's own hosts
        only.
        """
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
        client = SlackClient(web, app_token, session)
        await client.log_in()
        yield client


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
    data = response.data if isinstance(getattr(response, "data", None), Mapping) else {}
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
    found = data.get("response_metadata") if isinstance(data, Mapping) else None
    return str(found.get("next_cursor") or "") if isinstance(found, Mapping) else ""
