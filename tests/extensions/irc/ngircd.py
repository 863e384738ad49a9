"""A real ngircd with Ann, who speaks IRC with nothing but a socket."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from datetime import UTC
from pathlib import Path
from typing import Any

from nacre.bridges.contracts.bridge import Bridge
from nacre.extensions.irc.bridge import IrcBridge
from nacre.extensions.irc.settings import IrcSettings
from nacre.runtime.contracts.clock import system_clock
from tests.bridges.channels.contract.served import ServedWorld, inhabited
from tests.bridges.channels.contract.servers import ServerProcess, free_port, program
from tests.bridges.channels.contract.world import until

ROOM = "#room"
CONFIG = """
[Global]
Name = irc.test
Info = A server for tests
Ports = {port}
Listen = 127.0.0.1
{more}
[Limits]
MaxConnectionsIP = 0
[Options]
PAM = no
DNS = no
Ident = no
"""


def bridge(spec: dict[str, Any]) -> Bridge:
    """A bridge to the server."""
    return IrcBridge(IrcSettings.model_validate(spec), now=system_clock(UTC))


class Person:
    """Somebody on IRC. `seen` are the messages that came, as nick, target and text."""

    def __init__(self, port: int, nick: str) -> None:
        self.nick = nick
        self.seen: list[tuple[str, str, str]] = []
        self.here: set[str] = set()
        self.numerics: list[str] = []
        self._port = port

    async def join(self) -> None:
        """Connects and joins the room."""
        await self.arrive(user=self.nick)
        self.send(f"JOIN {ROOM}")
        await until(lambda: self.nick in self.here, lambda: self.here)

    async def arrive(self, *, user: str) -> None:
        """Connects under a user name, and waits until the nick is theirs."""
        reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port)
        self.here.clear()
        self.numerics.clear()
        self._reading = asyncio.create_task(self._read(reader))
        self.send(f"NICK {self.nick}", f"USER {user} 0 * {user}")
        await until(lambda: {"376", "422"} & set(self.numerics), lambda: self.numerics)

    def send(self, *lines: str) -> None:
        """Sends lines."""
        self._writer.writelines(f"{line}\r\n".encode() for line in lines)

    async def leave(self) -> None:
        """Hangs up."""
        self._writer.close()
        await asyncio.wait({self._reading})

    async def _read(self, reader: asyncio.StreamReader) -> None:
        with suppress(ConnectionError):
            while raw := await reader.readline():
                self._hear(raw.decode("utf-8", "replace").rstrip("\r\n"))

    def _hear(self, line: str) -> None:
        source, _, rest = line.removeprefix(":").partition(" ") if line.startswith(":") else ("", "", line)
        nick, (command, *words) = source.partition("!")[0], rest.split(" ")
        text = rest.partition(" :")[2]
        if command == "PING":
            self.send(f"PONG {words[0]}")
        elif command == "PRIVMSG":
            message = text if " :" in rest else words[-1]
            self.seen.append((nick, words[0], message))
        elif command == "353":
            self.here.update(name.lstrip("@+%&~") for name in text.split())
        elif command == "JOIN":
            self.here.add(nick)
        elif command == "NICK":
            self.here.discard(nick)
            self.here.add(text or words[-1])
        elif command in ("PART", "QUIT"):
            self.here.discard(nick)
        elif command.isdigit():
            self.numerics.append(command)


class NgircdWorld(ServedWorld):
    """`World` on IRC."""

    channel = "irc"
    ann = "ann!~ann@127.0.0.1"
    keeps_messages = False
    has_threads = False

    def __init__(self, server: ServerProcess) -> None:
        super().__init__(server, bridge)
        self.person = Person(server.port, "ann")
        self.spec = {
            "host": "127.0.0.1",
            "port": server.port,
            "tls": False,
            "nick": "Nacre",
            "join": [ROOM],
            "linesPerSecond": 100,
        }

    async def meet(self) -> None:
        """Waits until the assistant is in the room."""
        await until(lambda: "Nacre" in self.person.here, lambda: self.person.here)

    async def part(self) -> None:
        """Waits until the assistant has left the room."""
        await until(lambda: "Nacre" not in self.person.here, lambda: self.person.here)

    async def say(self, text: str, *, group: bool = False, thread: str = "") -> None:
        """Ann says it, a line each."""
        lines = text.split("\n")
        self.person.send(*(f"PRIVMSG {ROOM if group else 'Nacre'} :{line}" for line in lines))

    def shown(self, *, group: bool = False, thread: str = "") -> Sequence[str]:
        """What Ann sees."""
        target = ROOM if group else "ann"
        return [text for nick, where, text in self.person.seen if (nick, where) == ("Nacre", target)]


@asynccontextmanager
async def ngircd(folder: Path, more: str = "") -> AsyncIterator[ServerProcess]:
    """A server that runs. It gives up root, so its file is in a folder that everybody may read."""
    port, config = free_port(), folder / "ngircd.conf"
    config.write_text(CONFIG.format(port=port, more=more))
    for each in (folder, *folder.parents[:2]):
        each.chmod(0o755)
    server = ServerProcess([program("ngircd", "ngircd"), "-n", "-f", str(config)], port, folder)
    await server.start()
    try:
        yield server
    finally:
        await server.stop()


def ngircd_world(folder: Path) -> AbstractAsyncContextManager[NgircdWorld]:
    """A server with Ann."""
    return inhabited(ngircd(folder), NgircdWorld)
