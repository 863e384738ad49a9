"""A real Synapse with Ann, who speaks the client's protocol over plain HTTP."""

from __future__ import annotations

import asyncio
import base64
import itertools
import os
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from nacre.bridges.contracts.bridge import Bridge
from nacre.extensions.matrix.bridge import MatrixBridge
from nacre.extensions.matrix.settings import MatrixSettings
from tests.bridges.channels.contract.served import ServedWorld
from tests.bridges.channels.contract.servers import ServerProcess, free_port
from tests.bridges.channels.contract.world import until

CONFIG = """
server_name: localhost
pid_file: {folder}/synapse.pid
listeners: [{{port: {port}, type: http, bind_addresses: ["127.0.0.1"], resources: [{{names: [client]}}]}}]
database: {{name: sqlite3, args: {{database: "{folder}/synapse.db"}}}}
media_store_path: {folder}/media
signing_key_path: {folder}/signing.key
trusted_key_servers: []
report_stats: false
macaroon_secret_key: a-secret-of-tests
enable_registration: true
enable_registration_without_verification: true
presence: {{enabled: false}}
bcrypt_rounds: 4
rc_message: {many}
rc_registration: {many}
rc_joins: {{local: {many}, remote: {many}}}
rc_invites: {{per_room: {many}, per_user: {many}, per_issuer: {many}}}
rc_login: {{address: {many}, account: {many}, failed_attempts: {many}}}
"""
MANY = "{per_second: 10000, burst_count: 10000}"


def synapse(folder: Path) -> ServerProcess:
    """A server that is not started yet."""
    if find_spec("synapse") is None:
        pytest.skip("synapse is not installed; `make channels` takes matrix-synapse of pip")
    port, config = free_port(), folder / "homeserver.yaml"
    config.write_text(CONFIG.format(folder=folder, port=port, many=MANY))
    key = base64.b64encode(os.urandom(32)).decode().rstrip("=")
    (folder / "signing.key").write_text(f"ed25519 a_test {key}\n")
    command = [sys.executable, "-P", "-m", "synapse.app.homeserver", "--config-path", str(config)]
    return ServerProcess(command, port, folder)


def bridge(spec: dict[str, Any]) -> Bridge:
    """A bridge to the server."""
    settings = MatrixSettings.model_validate({key: spec[key] for key in spec if key != "folder"})
    return MatrixBridge(settings, folder=Path(spec["folder"]), now=lambda: datetime.now(UTC))


class Person:
    """Somebody on Matrix. `events` are the messages of rooms as they came."""

    def __init__(self, port: int, name: str) -> None:
        self.user_id = f"@{name}:localhost"
        self.events: list[dict[str, Any]] = []
        self.members: dict[tuple[str, str], str] = {}
        self._address = f"http://127.0.0.1:{port}/_matrix"
        self._headers: dict[str, str] = {}
        self._name = name
        self._since = ""
        self._mark: dict[str, Any] = {}
        self._keys = itertools.count()
        self._reading: asyncio.Task[None] | None = None

    async def ask(self, method: str, path: str, body: object = None, **params: Any) -> dict[str, Any]:
        """A request; what the server says."""
        async with httpx.AsyncClient(verify=False, timeout=60, headers=self._headers) as http:
            answer = await http.request(method, self._address + path, json=body, params=params)
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found

    async def register(self) -> None:
        """Makes the account."""
        made = await self.ask(
            "POST",
            "/client/v3/register",
            {"username": self._name, "password": "secret", "auth": {"type": "m.login.dummy"}},
        )
        self._headers["Authorization"] = f"Bearer {made['access_token']}"

    async def join(self) -> None:
        """Hears what is said from now on."""
        self._reading = asyncio.create_task(self._read())

    async def leave(self) -> None:
        """Hears nothing more."""
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.gather(self._reading, return_exceptions=True)

    async def make_room(self, **more: Any) -> str:
        """A new room, to which the assistant is invited."""
        made = await self.ask("POST", "/client/v3/createRoom", more)
        return str(made["room_id"])

    async def send(self, room: str, content: dict[str, Any], kind: str = "m.room.message") -> str:
        """Sends an event; its id."""
        key = f"{self._name}-{os.getpid()}-{id(self)}-{next(self._keys)}"
        path = f"/client/v3/rooms/{quote(room)}/send/{kind}/{key}"
        return str((await self.ask("PUT", path, content))["event_id"])

    async def catch_up(self) -> None:
        """Waits until everything that the server has was heard."""
        mark = {"number": next(self._keys)}
        user = quote(self.user_id)
        await self.ask("PUT", f"/client/v3/user/{user}/account_data/test.mark", mark)
        await until(lambda: self._mark == mark)

    async def _read(self) -> None:
        while True:
            with suppress(httpx.HTTPError, AssertionError):
                since = {"since": self._since} if self._since else {}
                news = await self.ask("GET", "/client/v3/sync", timeout="10000", **since)
                self._since, marked = news["next_batch"], self._mark
                for event in news.get("account_data", {}).get("events", ()):
                    if event["type"] == "test.mark":
                        marked = event["content"]
                for room, info in news.get("rooms", {}).get("join", {}).items():
                    for event in [*info["state"]["events"], *info["timeline"]["events"]]:
                        self._hear(room, event)
                self._mark = marked
                continue
            await asyncio.sleep(0.1)

    def _hear(self, room: str, event: dict[str, Any]) -> None:
        if event["type"] == "m.room.member":
            self.members[room, event["state_key"]] = event["content"]["membership"]
        elif event["type"] == "m.room.message":
            self.events.append({**event, "room_id": room})


class SynapseWorld(ServedWorld):
    """`World` on Matrix: accounts and rooms of its own, on a server that may have others."""

    channel = "matrix"
    keeps_messages = True
    has_threads = True
    _numbers = itertools.count(1)

    def __init__(self, server: ServerProcess, folder: Path) -> None:
        super().__init__(server, bridge)
        number = next(self._numbers)
        self.person = Person(server.port, f"ann{number}")
        self.assistant = Person(server.port, f"nacre{number}")
        self.ann = self.person.user_id
        self.private = self.group = ""
        self._roots: dict[str, str] = {}
        self.spec = {
            "homeserver": f"http://127.0.0.1:{server.port}",
            "userId": self.assistant.user_id,
            "password": "secret",
            "folder": str(folder / "matrix"),
        }

    async def furnish(self) -> None:
        """Makes the accounts and the rooms; the private chat is an invitation that nobody answered yet."""
        await self.assistant.register()
        await self.person.register()
        me = self.assistant.user_id
        self.private = await self.person.make_room(preset="trusted_private_chat", is_direct=True, invite=[me])
        self.group = await self.person.make_room(preset="private_chat", invite=[me])
        self.spec["rooms"] = [self.group]

    async def meet(self) -> None:
        """Waits until the assistant is in both rooms."""
        rooms = [(room, self.assistant.user_id) for room in (self.private, self.group)]
        await until(lambda: [self.person.members.get(room) for room in rooms] == ["join", "join"])

    async def part(self) -> None:
        """Waits until Ann has seen everything."""
        await self.person.catch_up()

    async def say(self, text: str, *, group: bool = False, thread: str = "") -> None:
        """Ann says it."""
        content: dict[str, Any] = {"msgtype": "m.text", "body": text}
        if thread:
            content["m.relates_to"] = {"rel_type": "m.thread", "event_id": self._roots[thread]}
        sent = await self.person.send(self.group if group else self.private, content)
        self._roots.setdefault(text, sent)

    def shown(self, *, group: bool = False, thread: str = "") -> Sequence[str]:
        """What Ann sees, corrected."""
        room, root = self.group if group else self.private, self._roots.get(thread, "")
        texts: dict[str, str] = {}
        for event in self.person.events:
            content = event["content"]
            relation = content.get("m.relates_to", {})
            if event["room_id"] != room or event["sender"] != self.assistant.user_id:
                continue
            if relation.get("rel_type") == "m.replace":
                if relation["event_id"] in texts:
                    texts[relation["event_id"]] = content["m.new_content"]["body"]
            elif (relation.get("event_id", "") if relation.get("rel_type") == "m.thread" else "") == root:
                texts[event["event_id"]] = content["body"]
        return list(texts.values())


@asynccontextmanager
async def synapse_world(server: ServerProcess, folder: Path) -> AsyncIterator[SynapseWorld]:
    """Ann on a server."""
    world = SynapseWorld(server, folder)
    await world.furnish()
    await world.person.join()
    try:
        yield world
    finally:
        await world.person.leave()
