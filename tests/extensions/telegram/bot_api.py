"""A loopback Bot API: a real HTTP server on 127.0.0.1 that speaks what Telegram documents of it.

It counts what arrives. `getUpdates` holds requests, forgets what an offset confirms, and refuses a second
listener, as Telegram does. `fail(method, …)` makes the next request of a method fail: with a status, or
without an answer, before or after it was carried out.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections import defaultdict, deque
from dataclasses import dataclass
from typing import Any

from aiohttp import web

from tests.servers.loopback_http import Failure, LoopbackHttp

TOKEN = "4711:test-token-of-nobody"
ME = {"id": 4711, "is_bot": True, "first_name": "Nacre", "username": "nacre_bot"}
ANN = {"id": 7, "is_bot": False, "first_name": "Ann"}
PRIVATE = {"id": 7, "type": "private", "first_name": "Ann"}
GROUP = {"id": -100200, "type": "supergroup", "title": "Beekeepers", "is_forum": True}


@dataclass
class Shown:
    """A message of the bot as a chat shows it."""

    id: int
    chat: str
    text: str
    asked: dict[str, Any]
    edits: int = 0


class BotApi(LoopbackHttp):
    """Use it as `with BotApi() as server`."""

    def __init__(self) -> None:
        super().__init__()
        self.shown: list[Shown] = []
        self.signs: list[dict[str, Any]] = []
        self.polls: list[dict[str, Any]] = []
        self.files: dict[str, tuple[str, bytes]] = {}
        self.moved: dict[str, int] = {}
        self.gone: set[str] = set()
        self._updates: list[Any] = []
        self._number = 1_000
        self._messages = 0
        self._failures: defaultdict[str, deque[Failure]] = defaultdict(deque)
        self._holders: set[asyncio.Future[None]] = set()

    # -- people -------------------------------------------------------------------------------------

    def say(
        self, text: str, *, chat: dict[str, Any] = PRIVATE, sender: dict[str, Any] = ANN, **more: Any
    ) -> int:
        """A person says something; `more` are fields of the message. The update's number."""
        self._messages += 1
        message = {"message_id": self._messages, "date": 1_790_000_000, "chat": chat, "from": sender}
        words = {"text": text} if text else {}
        return self.post({"message": {**message, **words, **more}})

    def post(self, update: Any) -> int:
        """Something happens; an update without a number gets the next one."""
        self._number += 1
        if isinstance(update, dict):
            update = {"update_id": self._number, **update}
        with self.changed:
            self._updates.append(update)
        self.soon(self._wake)
        return self._number

    def fail(self, method: str, *failures: Failure) -> None:
        """Makes the next requests of a method fail."""
        self._failures[method].extend(failures)

    def answer_polls(self) -> None:
        """Ends the requests for news with what there is, as Telegram does after a while."""
        self.soon(self._wake)

    def texts(self, chat: Any = 7) -> list[str]:
        """What a chat shows of the bot."""
        return [message.text for message in self.shown if message.chat == str(chat)]

    @property
    def is_polled(self) -> bool:
        """Whether somebody waits for news."""
        return bool(self._holders)

    @property
    def unconfirmed(self) -> list[Any]:
        """The updates that would come again."""
        return list(self._updates)

    def routes(self, app: web.Application) -> None:
        """The methods, and the files."""
        app.router.add_route("*", "/bot{token}/{method}", self._asked)
        app.router.add_get("/file/bot{token}/{path:.+}", self._file)

    def hang_up(self) -> None:
        """Lets go of who waits for news."""
        self._wake()

    # -- requests -----------------------------------------------------------------------------------

    async def _asked(self, request: web.Request) -> web.StreamResponse:
        transport = request.transport
        assert transport is not None
        method, asked = request.match_info["method"], await _fields(request)
        failure = self._failures[method].popleft() if self._failures[method] else None
        if failure and not failure.is_done:
            return self._failed(transport, failure)
        if request.match_info["token"] != TOKEN:
            return _refused(401, "Unauthorized")
        if method == "getUpdates":
            answer = await self._get_updates(asked)
        else:
            handler = getattr(self, re.sub("(?=[A-Z])", "_", f"_{method}").lower(), None)
            answer = handler(asked) if handler else _refused(404, "Not Found")
        return self._failed(transport, failure) if failure else answer

    def _failed(self, transport: asyncio.Transport, failure: Failure) -> web.StreamResponse:
        if failure.status:
            return _refused(failure.status, "it failed", **failure.body)
        transport.abort()
        return web.Response()

    async def _get_updates(self, asked: dict[str, Any]) -> web.Response:
        offset = int(asked.get("offset", 0))
        with self.changed:
            self.polls.append(asked)
            if offset:
                given = self._updates[:100]
                self._updates[:100] = [one for one in given if _number(one) >= offset]
            self.changed.notify_all()
        if self._holders:
            self._wake(conflict=True)
        if not self._updates and int(asked.get("timeout", 0)):
            held = self.loop.create_future()
            with self.changed:
                self._holders.add(held)
                self.changed.notify_all()
            try:
                await asyncio.wait_for(held, int(asked["timeout"]))
            except TimeoutError:
                pass
            except ConnectionRefusedError:
                return _refused(409, "Conflict: terminated by other getUpdates request")
            finally:
                self._holders.discard(held)
        return _good(self._updates[: int(asked.get("limit", 100))])

    def _get_me(self, _asked: dict[str, Any]) -> web.Response:
        return _good(
            {
                **ME,
                "can_join_groups": True,
                "can_read_all_group_messages": False,
                "supports_inline_queries": False,
            }
        )

    def _send_message(self, asked: dict[str, Any]) -> web.Response:
        if (moved := self._place(asked)) is not None:
            return moved
        text = asked.get("text", "")
        units = len(text.encode("utf-16-le")) // 2
        if not text.strip():
            return _refused(400, "Bad Request: message text is empty")
        if units > 4096:
            return _refused(400, "Bad Request: message is too long")
        for entity in json.loads(asked.get("entities", "[]")):
            assert 0 <= entity["offset"] < entity["offset"] + entity["length"] <= units, entity
        self._messages += 1
        self.shown.append(Shown(self._messages, str(asked["chat_id"]), text, asked))
        return _good(self._as_message(self.shown[-1]))

    def _edit_message_text(self, asked: dict[str, Any]) -> web.Response:
        if (moved := self._place(asked)) is not None:
            return moved
        found = [one for one in self.shown if one.id == int(asked["message_id"])]
        if not found:
            return _refused(400, "Bad Request: message to edit not found")
        if found[0].text == asked["text"]:
            return _refused(
                400, "Bad Request: message is not modified: specified new message content is the same"
            )
        found[0].text, found[0].edits, found[0].asked = asked["text"], found[0].edits + 1, asked
        return _good(self._as_message(found[0]))

    def _send_chat_action(self, asked: dict[str, Any]) -> web.Response:
        self.signs.append(asked)
        return _good(True)

    def _get_file(self, asked: dict[str, Any]) -> web.Response:
        path, data = self.files[asked["file_id"]]
        return _good(
            {"file_id": asked["file_id"], "file_unique_id": "u", "file_size": len(data), "file_path": path}
        )

    async def _file(self, request: web.Request) -> web.StreamResponse:
        transport = request.transport
        assert transport is not None
        if self._failures["file"]:
            return self._failed(transport, self._failures["file"].popleft())
        found = [data for path, data in self.files.values() if path == request.match_info["path"]]
        return web.Response(body=found[0]) if found else _refused(404, "Not Found")

    def _place(self, asked: dict[str, Any]) -> web.Response | None:
        chat = str(asked["chat_id"])
        if chat in self.moved:
            text = "Bad Request: group chat was upgraded to a supergroup chat"
            return _refused(400, text, parameters={"migrate_to_chat_id": self.moved[chat]})
        if chat in self.gone:
            return _refused(403, "Forbidden: bot was blocked by the user")
        return None

    def _as_message(self, shown: Shown) -> dict[str, Any]:
        chat = {"id": int(shown.chat), "type": "private", "first_name": "x"}
        return {"message_id": shown.id, "date": 1_790_000_000, "chat": chat, "from": ME, "text": shown.text}

    def _wake(self, *, conflict: bool = False) -> None:
        for held in list(self._holders):
            if not held.done():
                if conflict:
                    held.set_exception(ConnectionRefusedError())
                else:
                    held.set_result(None)


async def _fields(request: web.Request) -> dict[str, Any]:
    posted = dict(await request.post()) if request.method == "POST" else {}
    return {**request.query, **{name: value for name, value in posted.items() if isinstance(value, str)}}


def _number(update: Any) -> int:
    number = update.get("update_id") if isinstance(update, dict) else None
    return number if isinstance(number, int) and number < 2**52 else 0


def _good(result: Any) -> web.Response:
    return web.json_response({"ok": True, "result": result})


def _refused(status: int, text: str, **more: Any) -> web.Response:
    body = {"ok": False, "error_code": status, "description": text, **more}
    return web.json_response(body, status=status)
