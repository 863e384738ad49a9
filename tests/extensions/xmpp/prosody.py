"""A real prosody with Ann, who speaks XMPP through slixmpp's plain stream."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from slixmpp import JID, ClientXMPP, Message

from nacre.bridges.contracts.bridge import Bridge
from nacre.extensions.xmpp.bridge import XmppBridge
from nacre.extensions.xmpp.settings import XmppSettings
from tests.bridges.channels.contract.served import ServedWorld, inhabited
from tests.bridges.channels.contract.servers import ServerProcess, free_port, program

ROOM = "room@conference.localhost"
CONFIG = """
run_as_root = true
daemonize = false
admins = {{}}
data_path = "{folder}/data"
pidfile = "{folder}/prosody.pid"
modules_enabled = {{ "roster", "saslauth", "tls", "disco", "ping", "mam", "offline", "carbons" }}
modules_disabled = {{ "s2s" }}
c2s_ports = {{ {port} }}
c2s_interfaces = {{ "127.0.0.1" }}
c2s_direct_tls_ports = {{}}
s2s_ports = {{}}
http_ports = {{}}
https_ports = {{}}
c2s_require_encryption = {tls}
allow_unencrypted_plain_auth = {plain}
authentication = "internal_hashed"
storage = "internal"
log = {{ info = "*console" }}
{more}
VirtualHost "localhost"
Component "conference.localhost" "muc"
  modules_enabled = {{ "muc_mam" }}
  muc_log_by_default = true
  muc_room_default_public_jids = true
  muc_room_locking = false
  muc_room_default_persistent = true
"""


def bridge(spec: dict[str, Any]) -> Bridge:
    """A bridge to the server."""
    return XmppBridge(XmppSettings.model_validate(spec), now=lambda: datetime.now(UTC))


class Person:
    """Somebody on XMPP. `seen` are messages by chat: id and text, corrected as they read now."""

    def __init__(self, port: int, name: str) -> None:
        self.seen: dict[str, dict[str, str]] = {"private": {}, "group": {}}
        self.here: set[str] = set()
        self._port = port
        self._name = name

    async def join(self) -> None:
        """Connects and joins the room."""
        self.stream = ClientXMPP(f"{self._name}@localhost", "secret")
        for plugin in ("xep_0045", "xep_0308", "xep_0199"):
            self.stream.register_plugin(plugin)
        self.stream.enable_starttls = self.stream.enable_direct_tls = False
        self.stream.enable_plaintext = True
        self.stream.plugin["feature_mechanisms"].config.update(unencrypted_plain=True, unencrypted_scram=True)
        started = asyncio.get_running_loop().create_future()
        self.stream.add_event_handler("session_start", started.set_result)
        self.stream.add_event_handler("message", self._hear)
        self.stream.connect("127.0.0.1", self._port)
        await asyncio.wait_for(started, 30)
        self.stream.send_presence()
        await self.stream.plugin["xep_0045"].join_muc_wait(JID(ROOM), self._name, maxstanzas=0)

    async def leave(self) -> None:
        """Hangs up."""
        self.stream.cancel_connection_attempt()
        if self.stream.is_connected():
            await self.stream.disconnect(wait=1.0)
        self.stream.abort()

    def say(self, to: str, kind: str, text: str, *, encryption: str = "") -> None:
        """Says something, or sends `text` beside something encrypted."""
        stanza = self.stream.make_message(mto=JID(to), mbody=text, mtype=kind)
        if encryption:
            stanza.append(
                ElementTree.fromstring(f"<encryption xmlns='urn:xmpp:eme:0' namespace='{encryption}'/>")
            )
        stanza.send()

    def _hear(self, stanza: Message) -> None:
        is_group = stanza["type"] == "groupchat"
        if not stanza["body"] or (is_group and stanza["from"].resource != "Nacre"):
            return
        chat = self.seen["group" if is_group else "private"]
        replaced = stanza.xml.find("{urn:xmpp:message-correct:0}replace")
        if replaced is not None:
            chat[replaced.get("id")] = stanza["body"]
        else:
            chat[stanza["id"] if stanza["id"] not in chat else f"{stanza['id']} again"] = stanza["body"]


class ProsodyWorld(ServedWorld):
    """`World` on XMPP."""

    channel = "xmpp"
    ann = "ann@localhost"
    keeps_messages = True
    has_threads = False

    def __init__(self, server: ServerProcess) -> None:
        super().__init__(server, bridge)
        self.person = Person(server.port, "ann")
        self.spec = {
            "jid": "nacre@localhost",
            "password": "secret",
            "host": "127.0.0.1",
            "port": server.port,
            "tls": False,
            "rooms": [ROOM],
        }

    async def part(self) -> None:
        """Waits until Ann has seen everything."""
        await self.person.stream.plugin["xep_0199"].send_ping("localhost")

    async def say(self, text: str, *, group: bool = False, thread: str = "") -> None:
        """Ann says it."""
        self.person.say(ROOM if group else "nacre@localhost", "groupchat" if group else "chat", text)

    def shown(self, *, group: bool = False, thread: str = "") -> Sequence[str]:
        """What Ann sees."""
        return list(self.person.seen["group" if group else "private"].values())


@asynccontextmanager
async def prosody(folder: Path, *, more: str = "", tls: bool = False) -> AsyncIterator[ServerProcess]:
    """A server that runs, with the accounts `nacre` and `ann`."""
    port, config = free_port(), folder / "prosody.cfg.lua"
    flags = {"tls": str(tls).lower(), "plain": str(not tls).lower()}
    config.write_text(CONFIG.format(folder=folder, port=port, more=more, **flags))
    (folder / "data").mkdir()
    command = [program("prosody", "prosody"), "-F", "--config", str(config)]
    for name in ("nacre", "ann"):
        register = [program("prosodyctl", "prosody"), "--config", str(config)]
        process = await asyncio.create_subprocess_exec(
            *register, "register", name, "localhost", "secret", stdout=asyncio.subprocess.DEVNULL
        )
        assert await process.wait() == 0
    server = ServerProcess(command, port, folder)
    await server.start()
    try:
        yield server
    finally:
        await server.stop()


def prosody_world(folder: Path) -> AbstractAsyncContextManager[ProsodyWorld]:
    """A server with Ann."""
    return inhabited(prosody(folder), ProsodyWorld)
