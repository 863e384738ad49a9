"""A loopback Slack: a real server on 127.0.0.1 that speaks Socket Mode and the methods that are used.

An event that is not acknowledged is sent again over the next socket, with the same event id, as Slack does.
"""

from __future__ import annotations

import json
from collections import defaultdict, deque
from typing import Any

from aiohttp import WSMsgType, web

from tests.servers.loopback_http import Failure, LoopbackHttp

BOT_TOKEN, APP_TOKEN = "xoxb-test-token-of-nobody", "xapp-test-token-of-nobody"
ME, ANN = "U0BOT", "U0ANN"
PRIVATE, GROUP = "D0ANN", "C0BEES"
_FIRST_SECOND, _STEP_SECONDS = 1_790_000_000, 100
_LONGEST_EDIT = 4_000


class LoopbackSlack(LoopbackHttp):
    """Use it as `with LoopbackSlack() as server`."""

    def __init__(self) -> None:
        super().__init__()
        self.said: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
        self.requests: list[tuple[str, dict[str, Any]]] = []
        self.acknowledged: list[str] = []
        self.opened = 0
        self.files: dict[str, bytes] = {}
        self._unacknowledged: dict[str, dict[str, Any]] = {}
        self._fresh: deque[dict[str, Any]] = deque()
        self._sockets: list[web.WebSocketResponse] = []
        self._failures: defaultdict[str, deque[Failure]] = defaultdict(deque)
        self._events = 0
        self._messages = 0

    # -- people -------------------------------------------------------------------------------------

    def say(self, text: Any, *, chat: str = PRIVATE, user: Any = ANN, thread: str = "", **more: Any) -> str:
        """Somebody says something; `more` are fields of the message. Its time."""
        message = self._message(user, text, thread, **more)
        with self.changed:
            self.said[chat].append(message)
        event = {**message, "channel": chat, "channel_type": "im" if chat[0] == "D" else "channel"}
        self.happen({"type": "event_callback", "event": event})
        return str(message["ts"])

    def happen(self, payload: Any) -> None:
        """An event, in an envelope of its own."""
        with self.changed:
            self._events += 1
            number = f"envelope-{self._events}"
            if isinstance(payload, dict):
                payload = {**payload, "event_id": f"Ev{self._events}"}
            told = {"type": "events_api", "envelope_id": number, "payload": payload, "retry_attempt": 0}
            self._unacknowledged[number] = told
            self._fresh.append(told)
        self.soon(lambda: self.loop.create_task(self._tell_fresh()))

    def send_raw(self, data: bytes) -> None:
        """Sends bytes to every socket, as text where they are text."""
        self.soon(lambda: [self.loop.create_task(_send(socket, data)) for socket in self._sockets])

    def give_up(self) -> None:
        """Does not send again what was not acknowledged, as Slack after a few tries."""
        self._unacknowledged.clear()
        self._fresh.clear()

    def fail(self, method: str, *failures: Failure) -> None:
        """Makes the next requests of a method fail."""
        self._failures[method].extend(failures)

    def shown(self, chat: str = PRIVATE, thread: str | None = None) -> list[str]:
        """What a chat shows of the bot, as people see it."""
        mine = [message for message in self.said[chat] if message["user"] == ME]
        here = [message for message in mine if thread is None or message.get("thread_ts", "") == thread]
        return [str(message["text"]).replace("&lt;", "<").replace("&amp;", "&") for message in here]

    @property
    def is_heard(self) -> bool:
        """Whether somebody listens."""
        return bool(self._sockets)

    def routes(self, app: web.Application) -> None:
        """The socket, the methods, the files."""
        app.router.add_get("/socket", self._socket)
        app.router.add_get("/files/{name}", self._file)
        app.router.add_route("*", "/api/{method}", self._asked)

    # -- the socket ---------------------------------------------------------------------------------

    async def _socket(self, request: web.Request) -> web.StreamResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        await socket.send_json({"type": "hello", "num_connections": 1})
        again = [told for told in self._unacknowledged.values() if told not in self._fresh]
        try:
            for told in again:
                told["retry_attempt"] += 1
                await socket.send_json(told)
            self._sockets.append(socket)
            self.tell()
            await self._tell_fresh()
            async for message in socket:
                if message.type == WSMsgType.TEXT:
                    name = json.loads(message.data)["envelope_id"]
                    self._unacknowledged.pop(name, None)
                    self.acknowledged.append(name)
                    self.tell()
        finally:
            self._sockets[:] = [one for one in self._sockets if one is not socket]
            self.tell()
        return socket

    async def _tell_fresh(self) -> None:
        while self._sockets and self._fresh:
            await _send(self._sockets[-1], json.dumps(self._fresh.popleft()).encode())

    # -- methods ------------------------------------------------------------------------------------

    async def _asked(self, request: web.Request) -> web.StreamResponse:
        method, transport = request.match_info["method"], request.transport
        assert transport is not None
        asked = await _fields(request)
        self.requests.append((method, asked))
        failure = self._failures[method].popleft() if self._failures[method] else None
        if failure is None or failure.is_done:
            answer = self._answer(request, method, asked)
            if failure is None:
                return answer
        if failure.status:
            return web.json_response(
                failure.body,
                status=failure.status,
                headers={"Retry-After": str(failure.body.get("wait", 45))},
            )
        transport.abort()
        return web.Response()

    def _answer(self, request: web.Request, method: str, asked: dict[str, Any]) -> web.Response:
        wanted = APP_TOKEN if method == "apps.connections.open" else BOT_TOKEN
        if request.headers.get("Authorization") != f"Bearer {wanted}":
            return _refused("invalid_auth")
        chat = str(asked.get("channel", ""))
        match method:
            case "auth.test":
                return _good(user_id=ME, bot_id="B0BOT")
            case "apps.connections.open":
                self.opened += 1
                return _good(url=f"ws://127.0.0.1:{self.port}/socket")
            case "users.conversations":
                return _good(channels=[{"id": PRIVATE, "is_im": True}, {"id": GROUP, "is_channel": True}])
            case "chat.postMessage":
                return self._post(chat, asked)
            case "chat.update":
                return self._update(chat, asked)
            case "conversations.history":
                return self._page([m for m in self.said[chat] if "thread_ts" not in m][::-1], asked)
            case "conversations.replies":
                thread = asked["ts"]
                return self._page(
                    [m for m in self.said[chat] if thread in (m["ts"], m.get("thread_ts"))], asked
                )
        return _refused("unknown_method")

    def _post(self, chat: str, asked: dict[str, Any]) -> web.Response:
        if chat not in (PRIVATE, GROUP):
            return _refused("channel_not_found")
        if not asked["text"].strip():
            return _refused("no_text")
        more = {"bot_id": "B0BOT", "metadata": asked["metadata"]}
        message = self._message(ME, asked["text"], asked.get("thread_ts", ""), **more)
        self.said[chat].append(message)
        event = {**message, "channel": chat, "channel_type": "im" if chat[0] == "D" else "channel"}
        self.happen({"type": "event_callback", "event": event})
        return _good(channel=chat, ts=message["ts"])

    def _update(self, chat: str, asked: dict[str, Any]) -> web.Response:
        found = [message for message in self.said[chat] if message["ts"] == asked["ts"]]
        if not found:
            return _refused("message_not_found")
        if len(asked["text"]) > _LONGEST_EDIT:
            return _refused("msg_too_long")
        found[0]["text"] = asked["text"]
        return _good(channel=chat, ts=asked["ts"])

    def _page(self, messages: list[dict[str, Any]], asked: dict[str, Any]) -> web.Response:
        start, limit = int(asked.get("cursor") or 0), int(asked["limit"])
        newer = [message for message in messages if float(message["ts"]) > float(asked.get("oldest", 0))]
        more = str(start + limit) if start + limit < len(newer) else ""
        page = [{**message, **self._replies(message)} for message in newer[start : start + limit]]
        return _good(messages=page, response_metadata={"next_cursor": more})

    def _replies(self, root: dict[str, Any]) -> dict[str, Any]:
        found = [m["ts"] for said in self.said.values() for m in said if m.get("thread_ts") == root["ts"]]
        return {"thread_ts": root["ts"], "latest_reply": found[-1]} if found else {}

    async def _file(self, request: web.Request) -> web.StreamResponse:
        if request.headers.get("Authorization") != f"Bearer {BOT_TOKEN}":
            return web.Response(status=302, headers={"Location": f"{self.url}/login"})
        found = self.files.get(request.match_info["name"])
        return web.Response(status=404) if found is None else web.Response(body=found)

    def _message(self, user: Any, text: Any, thread: str, **more: Any) -> dict[str, Any]:
        with self.changed:
            self._messages += 1
            ts = f"{_FIRST_SECOND + self._messages * _STEP_SECONDS}.{self._messages:06}"
        there = {"thread_ts": thread} if thread else {}
        return {"type": "message", "ts": ts, "user": user, "text": text, **there, **more}


async def _send(socket: web.WebSocketResponse, data: bytes) -> None:
    try:
        text = data.decode()
    except UnicodeDecodeError:
        await socket.send_bytes(data)
    else:
        await socket.send_str(text)


async def _fields(request: web.Request) -> dict[str, Any]:
    if request.content_type == "application/json":
        return {**request.query, **json.loads(await request.read() or b"{}")}
    return {**request.query, **(await request.post())}


def _good(**more: Any) -> web.Response:
    return web.json_response({"ok": True, **more})


def _refused(code: str) -> web.Response:
    return web.json_response({"ok": False, "error": code})
