"""A loopback Discord: a real server on 127.0.0.1 that speaks the gateway and the requests that are used."""

from __future__ import annotations

import json
from collections import defaultdict, deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from aiohttp import web
from discord.gateway import DiscordWebSocket
from discord.http import Route
from yarl import URL

from tests.extensions.discord.loopback_gateway import LoopbackGateway
from tests.extensions.discord.people import ANN, GROUP, ME, PRIVATE, SERVER, THREAD, TOKEN
from tests.servers.loopback_http import Failure

_FIRST_ID, _ID_STEP = 1_550_000_000_000_000_000, 100_000 << 22  # 100 s between two messages


class LoopbackDiscord(LoopbackGateway):
    """Use it as `with discord_server() as server`."""

    def __init__(self) -> None:
        super().__init__()
        self.channels: dict[str, dict[str, Any]] = {
            PRIVATE: {"id": PRIVATE, "type": 1, "recipients": [{"id": ANN, "username": "ann"}]},
            GROUP: {"id": GROUP, "type": 0, "name": "beekeepers", "guild_id": SERVER},
            THREAD: {"id": THREAD, "type": 11, "name": "honey", "parent_id": GROUP, "guild_id": SERVER},
        }
        self.said: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
        self.requests: list[tuple[str, str, dict[str, Any]]] = []
        self.typed = 0
        self.files: dict[str, bytes] = {}
        self._nonces: dict[tuple[str, str], dict[str, Any]] = {}
        self._failures: defaultdict[str, deque[Failure]] = defaultdict(deque)
        self._last_id = _FIRST_ID

    # -- people -------------------------------------------------------------------------------------

    def say(self, text: Any, *, chat: str = PRIVATE, author: Any = ANN, **more: Any) -> str:
        """Somebody says something; `more` are fields of the message. Its id."""
        who = {"id": author, "username": "ann", "global_name": "Ann"} if isinstance(author, str) else author
        message = self._message(chat, who, text, **more)
        with self.changed:
            self.said[chat].append(message)
        guild = {"guild_id": SERVER} if chat != PRIVATE else {}
        self.tell_all("MESSAGE_CREATE", {**message, **guild})
        return str(message["id"])

    def shown(self, chat: str = PRIVATE) -> list[str]:
        """What a chat shows of the bot."""
        return [message["content"] for message in self.said[chat] if message["author"]["id"] == ME]

    def minutes_pass(self) -> None:
        """Nonces are remembered for a few minutes."""
        self._nonces.clear()

    def fail(self, request: str, *failures: Failure) -> None:
        """Makes the next requests of a kind (`POST messages`) fail."""
        self._failures[request].extend(failures)

    def routes(self, app: web.Application) -> None:
        """The gateway, the requests, the files."""
        app.router.add_get("/gateway", self.gateway)
        app.router.add_get("/files/{name}", self._file)
        app.router.add_route("*", "/api/v10/{path:.+}", self._asked)

    # -- requests -----------------------------------------------------------------------------------

    async def _asked(self, request: web.Request) -> web.StreamResponse:
        path, transport = request.match_info["path"].split("/"), request.transport
        assert transport is not None
        body = json.loads(await request.read() or b"{}")
        kind = f"{request.method} {path[2] if len(path) > 2 else path[0]}"
        self.requests.append((request.method, "/".join(path), body))
        failure = self._failures[kind].popleft() if self._failures[kind] else None
        if failure is None or failure.is_done:
            answer = self._answer(request, path, body)
            if failure is None:
                return answer
        if failure.status:
            return _json(failure.body, failure.status)
        transport.abort()
        return web.Response()

    def _answer(self, request: web.Request, path: list[str], body: dict[str, Any]) -> web.Response:
        if request.headers.get("Authorization") != f"Bot {TOKEN}":
            return _json({"message": "401: Unauthorized", "code": 0}, 401)
        match [request.method, *path]:
            case ["GET", "users", "@me"]:
                return _json({"id": ME, "username": "nacre", "discriminator": "0", "avatar": None})
            case ["GET", "oauth2", "applications", "@me"]:
                return _json(_APPLICATION)
            case [_, "channels", chat, *_] if chat not in self.channels:
                return _json({"message": "Unknown Channel", "code": 10_003}, 404)
            case ["GET", "channels", chat]:
                return _json(self.channels[chat])
            case ["POST", "channels", _, "typing"]:
                self.typed += 1
                return web.Response(status=204)
            case ["GET", "channels", chat, "messages"]:
                after, limit = int(request.query.get("after", 0)), int(request.query["limit"])
                found = [message for message in self.said[chat] if int(message["id"]) > after]
                return _json((found[:limit] if after else found[-limit:])[::-1])
            case ["POST", "channels", chat, "messages"]:
                return self._post(chat, body)
            case ["PATCH", "channels", chat, "messages", message_id]:
                return self._patch(chat, message_id, body)
        return _json({"message": "404: Not Found", "code": 0}, 404)

    def _post(self, chat: str, body: dict[str, Any]) -> web.Response:
        if bad := _bad(body["content"]):
            return bad
        assert len(body["nonce"]) <= 25
        key = (chat, body["nonce"])
        if body["enforce_nonce"] and key in self._nonces:
            return _json(self._nonces[key])
        more = {"message_reference": body["message_reference"]} if "message_reference" in body else {}
        message = self._message(chat, {"id": ME, "username": "nacre", "bot": True}, body["content"], **more)
        self._nonces[key] = message
        self.said[chat].append(message)
        self.loop.create_task(self.tell_now("MESSAGE_CREATE", {**message, "nonce": body["nonce"]}))
        return _json({**message, "nonce": body["nonce"]})

    def _patch(self, chat: str, message_id: str, body: dict[str, Any]) -> web.Response:
        found = [message for message in self.said[chat] if message["id"] == message_id]
        if not found:
            return _json({"message": "Unknown Message", "code": 10_008}, 404)
        if bad := _bad(body["content"]):
            return bad
        found[0]["content"] = body["content"].strip()
        return _json(found[0])

    async def _file(self, request: web.Request) -> web.StreamResponse:
        found = self.files.get(request.match_info["name"])
        return web.Response(status=404) if found is None else web.Response(body=found)

    def _message(self, chat: str, author: Any, text: Any, **more: Any) -> dict[str, Any]:
        with self.changed:
            self._last_id += _ID_STEP
            number = self._last_id
        content = text.strip() if isinstance(text, str) else text
        message = {"id": str(number), "type": 0, "channel_id": chat, "author": author, "content": content}
        return {**message, "mentions": [], "mention_roles": [], "attachments": [], **more}


@contextmanager
def discord_server() -> Iterator[LoopbackDiscord]:
    """A server to which the library goes meanwhile."""
    with LoopbackDiscord() as server, library_goes_to(server.url):
        yield server


@contextmanager
def library_goes_to(url: str) -> Iterator[None]:
    """The library has no setting for addresses, but two attributes of classes."""
    known = Route.BASE, DiscordWebSocket.DEFAULT_GATEWAY
    point_library_to(url)
    try:
        yield
    finally:
        Route.BASE, DiscordWebSocket.DEFAULT_GATEWAY = known


def point_library_to(url: str) -> None:
    """For the rest of the process."""
    Route.BASE = f"{url}/api/v10"
    DiscordWebSocket.DEFAULT_GATEWAY = URL(f"{url}/gateway".replace("http", "ws", 1))


_APPLICATION = {
    "id": ME,
    "name": "nacre",
    "icon": None,
    "description": "",
    "bot_public": False,
    "bot_require_code_grant": False,
    "owner": {"id": ANN, "username": "ann", "discriminator": "0", "avatar": None},
    "verify_key": "x",
    "flags": 0,
    "team": None,
}


def _bad(content: str) -> web.Response | None:
    if content.strip() and len(content.encode("utf-16-le")) // 2 <= 2_000:
        return None
    return _json({"message": "Invalid Form Body", "code": 50_035}, 400)


def _json(value: Any, status: int = 200) -> web.Response:
    headers = {"Content-Type": "application/json", "Via": "1.1 google"}
    return web.Response(body=json.dumps(value).encode(), status=status, headers=headers)
