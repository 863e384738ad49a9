"""The gateway of the loopback Discord, compressed as Discord's.

It keeps sessions and what it told them, so that they can be resumed; `forget` makes it forget them. A session
that is new hears nothing of what was said before.
"""

from __future__ import annotations

import json
import zlib
from dataclasses import dataclass, field
from typing import Any

from aiohttp import WSMsgType, web

from tests.extensions.discord.people import CONTENT_INTENT, GROUP, ME, SERVER, THREAD, TOKEN
from tests.servers.loopback_http import LoopbackHttp

_BAD_TOKEN, _BAD_INTENTS = 4004, 4014


@dataclass
class Session:
    """What a session was told, and the socket that hears it."""

    told: list[dict[str, Any]] = field(default_factory=list)
    socket: Line | None = None


class Line:
    """A socket of the gateway, with its stream of compressed text."""

    def __init__(self, socket: web.WebSocketResponse) -> None:
        self.socket = socket
        self._packer = zlib.compressobj()

    async def send(self, payload: Any) -> None:
        """Sends one payload; bytes go as text, whatever they are."""
        if self.socket.closed:
            return
        text = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
        data = self._packer.compress(text) + self._packer.flush(zlib.Z_SYNC_FLUSH)
        try:
            await self.socket.send_bytes(data)
        except (ConnectionError, RuntimeError):
            return


class LoopbackGateway(LoopbackHttp):
    """The half of the server that tells what happens. `gateway` is the route's handler."""

    def __init__(self) -> None:
        super().__init__()
        self.identified: list[dict[str, Any]] = []
        self.resumed = 0
        self.heartbeats = 0
        self.refuses_content = False
        self._sessions: dict[str, Session] = {}

    def tell_all(self, event: str, payload: Any) -> None:
        """Tells every session of something that happened."""
        self.soon(lambda: self.loop.create_task(self.tell_now(event, payload)))

    def send_raw(self, data: bytes) -> None:
        """Sends bytes to every socket, as one payload."""
        lines = [session.socket for session in self._sessions.values() if session.socket]
        self.soon(lambda: [self.loop.create_task(line.send(data)) for line in lines])

    def ask_to_reconnect(self) -> None:
        """As Discord does a few times a day."""
        self.send_raw(json.dumps({"op": 7, "d": None}).encode())

    def forget(self) -> None:
        """Forgets the sessions: none can be resumed."""
        self._sessions.clear()

    @property
    def is_heard(self) -> bool:
        """Whether somebody listens to the gateway."""
        return any(session.socket for session in self._sessions.values())

    async def gateway(self, request: web.Request) -> web.StreamResponse:
        assert request.query["compress"] == "zlib-stream"
        socket = web.WebSocketResponse(autoping=True)
        await socket.prepare(request)
        line = Line(socket)
        await line.send({"op": 10, "d": {"heartbeat_interval": 200}})
        try:
            async for message in socket:
                if message.type == WSMsgType.TEXT:
                    await self._heard(line, json.loads(message.data))
                    self.tell()
        finally:
            for session in self._sessions.values():
                session.socket = None if session.socket is line else session.socket
        return socket

    async def _heard(self, line: Line, payload: dict[str, Any]) -> None:
        match payload["op"]:
            case 1:
                self.heartbeats += 1
                await line.send({"op": 11})
            case 2:
                await self._identify(line, payload["d"])
            case 6:
                await self._resume(line, payload["d"])

    async def _identify(self, line: Line, asked: dict[str, Any]) -> None:
        self.identified.append(asked)
        if asked["token"] != TOKEN:
            await line.socket.close(code=_BAD_TOKEN)
        elif self.refuses_content and asked["intents"] & CONTENT_INTENT:
            await line.socket.close(code=_BAD_INTENTS)
        else:
            name = f"session-{len(self.identified)}"
            session = self._sessions[name] = Session(socket=line)
            gateway = f"ws://127.0.0.1:{self.port}/gateway"
            ready = {"v": 10, "user": {"id": ME}, "guilds": [], "session_id": name}
            await self._tell_one(session, "READY", {**ready, "resume_gateway_url": gateway})
            guild = {"id": SERVER, "roles": [{"id": "3009", "tags": {"bot_id": ME}}]}
            lists = {
                "channels": [{"id": GROUP, "type": 0, "name": "beekeepers"}],
                "threads": [{"id": THREAD, "type": 11, "parent_id": GROUP}],
            }
            await self._tell_one(session, "GUILD_CREATE", {**guild, **lists})

    async def _resume(self, line: Line, asked: dict[str, Any]) -> None:
        session = self._sessions.get(asked["session_id"])
        if session is None:
            await line.send({"op": 9, "d": False})
            return
        session.socket = line
        for payload in session.told[asked["seq"] :]:
            await line.send(payload)
        self.resumed += 1
        await self._tell_one(session, "RESUMED", {})

    async def tell_now(self, event: str, payload: Any) -> None:
        for session in list(self._sessions.values()):
            await self._tell_one(session, event, payload)

    async def _tell_one(self, session: Session, event: str, payload: Any) -> None:
        told = {"op": 0, "t": event, "s": len(session.told) + 1, "d": payload}
        session.told.append(told)
        if session.socket is not None:
            await session.socket.send(told)
