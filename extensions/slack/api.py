"""The way to Slack: the Web API through slack-sdk, and the socket of its Socket Mode.

Edge. The library's socket client is not used: it connects anew by itself, hears in tasks of its own, and its
tries send a message again of which nobody knows whether it arrived.
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

ASK_SECONDS = 30
PING_SECONDS = 10.0
MOST_PAGES = 10
PAGE = 200
_FILE_HOSTS = ("files.slack.com",)
_BAD_TOKENS = ("invalid_auth", "not_authed", "account_inactive", "token_revoked", "token_expired")
_UNSURE = ("internal_error", "fatal_error", "service_unavailable", "request_timeout", "")
_TOO_MANY = 429


class Api:
    """An app while it is open. `me` is the bot's id."""

    def __init__(self, web: AsyncWebClient, app_token: str, session: aiohttp.ClientSession) -> None:
        self.me = ""
        self._web = web
        self._app_token = app_token
        self._session = session

    async def log_in(self) -> None:
        """Asks who the bot is. Raises `BridgeError` with a sentence."""
        with told(connecting=True):
            self.me = str((await self._web.auth_test())["user_id"])

    @asynccontextmanager
    async def socket(self) -> AsyncIterator[aiohttp.ClientWebSocketResponse]:
        """A new socket. Raises `BridgeError` with a sentence."""
        with told(connecting=True):
            opened = await self._web.apps_connections_open(app_token=self._app_token)
            socket = await self._session.ws_connect(str(opened["url"]), heartbeat=PING_SECONDS)
        try:
            yield socket
        finally:
            await socket.close()

    async def send(self, chat: str, text: str, *, thread: str, key: str) -> str:
        """Sends a message; its time, which is its id."""
        with told():
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
        """Changes a message; `False` when it is gone."""
        try:
            with told():
                await self._web.chat_update(channel=chat, ts=ts, text=text)
        except DeliveryRefused as refused:
            if "message_not_found" in str(refused):
                return False
            raise
        return True

    async def history(self, chat: str, oldest: str, *, thread: str = "") -> list[Any]:
        """What was said in a chat, or in a thread of it, behind a moment; the oldest first."""
        more: dict[str, Any] = {"oldest": oldest, "limit": PAGE, "include_all_metadata": True}
        found: list[Any] = []
        cursor = ""
        for _ in range(MOST_PAGES):
            with told():
                if thread:
                    page = await self._web.conversations_replies(
                        channel=chat, ts=thread, cursor=cursor or None, **more
                    )
                else:
                    page = await self._web.conversations_history(channel=chat, cursor=cursor or None, **more)
            said = page.get("messages")
            found += said if isinstance(said, list) else []
            cursor = _cursor(page.data)
            if not cursor:
                return found if thread else found[::-1]
        log.warning("in a chat of Slack's more was said meanwhile than %d messages", len(found))
        return found if thread else found[::-1]

    async def chats(self, most: int) -> Sequence[tuple[str, bool]]:
        """The chats that the bot is in, and which of them are private."""
        found: list[tuple[str, bool]] = []
        cursor = ""
        while len(found) < most:
            with told():
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
        return found[:most]

    async def file(self, url: str, most_bytes: int) -> bytes:
        """The bytes of a file. The token goes to Slack's own addresses alone."""
        if URL(url).host not in (*_FILE_HOSTS, URL(self._web.base_url).host):
            raise DeliveryRefused("it does not lie on Slack")
        headers = {"Authorization": f"Bearer {self._web.token}"}
        with told():
            async with self._session.get(url, headers=headers, allow_redirects=False) as answer:
                if answer.status != HTTPStatus.OK:
                    raise DeliveryRefused(f"Slack answered {answer.status}")
                data = await answer.content.read(most_bytes + 1)
                while len(data) <= most_bytes and (more := await answer.content.read(most_bytes)):
                    data += more
        return bytes(data)


@asynccontextmanager
async def opened(bot_token: str, app_token: str, server: str) -> AsyncIterator[Api]:
    """An app; Slack has said that the bot's token is good. Raises `BridgeError` with a sentence."""
    timeout = aiohttp.ClientTimeout(total=None, sock_connect=ASK_SECONDS, sock_read=None)
    async with aiohttp.ClientSession(timeout=timeout) as session:
        web = AsyncWebClient(
            token=bot_token, base_url=f"{server.rstrip('/')}/", session=session, retry_handlers=[]
        )
        api = Api(web, app_token, session)
        await api.log_in()
        yield api


def envelope(message: aiohttp.WSMessage) -> Mapping[str, Any]:
    """What a socket tells. Raises `ValueError`."""
    if message.type is not aiohttp.WSMsgType.TEXT:
        raise ValueError("it is no text")
    found = json.loads(message.data)
    if not isinstance(found, Mapping):
        raise ValueError("it is no object")
    return found


@contextmanager
def told(*, connecting: bool = False) -> Iterator[None]:
    """Turns the library's errors into those of a bridge."""
    try:
        yield
    except SlackApiError as error:
        raise _meaning(error) from None
    except aiohttp.ClientConnectorError as error:
        kind = CannotConnect if connecting else NotDelivered
        raise kind(f"Slack cannot be reached: {type(error).__name__}.") from None
    except (aiohttp.ClientError, TimeoutError, OSError, KeyError, AttributeError) as error:
        raise BridgeError(f"Slack did not answer well: {type(error).__name__}.") from None


def _meaning(error: SlackApiError) -> BridgeError:
    response = error.response
    data = response.data if isinstance(getattr(response, "data", None), Mapping) else {}
    code = str(data.get("error", ""))
    if getattr(response, "status_code", 0) == _TOO_MANY or code in ("ratelimited", "rate_limited"):
        asked = str(response.headers.get("Retry-After", "30"))
        return NotDelivered(
            "Slack asks to wait", retry_after_seconds=float(asked) if asked.isdecimal() else 30.0
        )
    if code in _BAD_TOKENS:
        return CannotConnect(
            f"Slack refused a token ({code}). Check channels.slack.botToken (xoxb-…) and "
            "channels.slack.appToken (xapp-…); https://api.slack.com/apps has them."
        )
    if code == "missing_scope":
        return DeliveryRefused(
            f"The Slack app lacks the scope {data.get('needed', '?')}. Add it at https://api.slack.com/apps "
            "under OAuth & Permissions, and install the app anew."
        )
    if code in _UNSURE:
        return BridgeError(f"Slack did not answer well: {code or getattr(response, 'status_code', '?')}.")
    return DeliveryRefused(f"Slack refused: {code}")


def _cursor(data: Any) -> str:
    found = data.get("response_metadata") if isinstance(data, Mapping) else None
    return str(found.get("next_cursor") or "") if isinstance(found, Mapping) else ""
