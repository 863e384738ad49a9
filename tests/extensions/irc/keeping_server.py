"""An IRC server on loopback that keeps what is said, and tells it as IRCv3 `draft/chathistory` or ZNC do."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from tests.bridges.channels.contract.servers import free_port
from tests.bridges.channels.contract.world import until
from tests.extensions.irc.ngircd import ROOM, Person, bridge
from tests.servers.listening import stop_accepting

CHATHISTORY = ("message-tags", "batch", "server-time", "draft/chathistory")
PLAYBACK = ("batch", "server-time", "znc.in/playback")


@dataclass(kw_only=True)
class Kept:
    """A message in the history."""

    at: datetime
    msgid: str
    source: str
    command: str
    target: str
    text: str

    def line(self, caps: Iterable[str], batch: str = "") -> str:
        """As it goes to somebody with these capabilities."""
        stamp = self.at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        tags = [f"batch={batch}"] if batch else []
        tags += [f"time={stamp}"] if "server-time" in caps else []
        tags += [f"msgid={self.msgid}"] if "message-tags" in caps else []
        head = f"@{';'.join(tags)} " if tags else ""
        return f"{head}:{self.source} {self.command} {self.target} :{self.text}"


@dataclass
class Client:
    """Somebody connected."""

    writer: asyncio.StreamWriter
    nick: str = ""
    user: str = ""
    caps: list[str] = field(default_factory=list)
    rooms: set[str] = field(default_factory=set)

    @property
    def source(self) -> str:
        """The mask."""
        return f"{self.nick}!~{self.user}@127.0.0.1"

    def say(self, *lines: str) -> None:
        """Sends lines."""
        self.writer.writelines(f"{line}\r\n".encode() for line in lines)


class KeepingServer:
    """`fails` is the FAIL code of each CHATHISTORY; empty is none. `asked` are the requests."""

    def __init__(self, caps: tuple[str, ...], limit: int) -> None:
        self.kept: list[Kept] = []
        self.asked: list[str] = []
        self.fails = ""
        self.port = free_port()
        self._caps = caps
        self._limit = limit
        self._clients: list[Client] = []
        self._at = _whole_ms(datetime.now(UTC) - timedelta(minutes=1))

    async def start(self) -> None:
        """Takes connections."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)

    async def stop(self) -> None:
        """Hangs up on everybody. What was said is kept."""
        self._server.close()
        for client in self._clients:
            client.writer.close()
        await stop_accepting(self._server.sockets)

    def keep(self, source: str, target: str, text: str, command: str = "PRIVMSG") -> None:
        """Somebody says something: it goes to who is there, and is kept."""
        self._at = max(self._at + timedelta(milliseconds=1), _whole_ms(datetime.now(UTC)))
        number = len(self.kept)
        kept = Kept(at=self._at, msgid=f"m{number}", source=source, command=command, target=target, text=text)
        self.kept.append(kept)
        for client in self._clients:
            if client.source != source and (client.nick == target or target in client.rooms):
                client.say(kept.line(client.caps))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        client = Client(writer)
        self._clients.append(client)
        with suppress(ConnectionError):
            while raw := await reader.readline():
                line = raw.decode().rstrip("\r\n")
                command, *words = line.partition(" :")[0].split(" ")
                text = line.partition(" :")[2] if " :" in line else words[-1] if words else ""
                self._answer(client, command, words, text)
        self._clients.remove(client)
        self._tell(client, f":{client.source} QUIT :gone")
        writer.close()

    def _tell(self, about: Client, line: str) -> None:
        for other in self._clients:
            if other is about or about.rooms & other.rooms:
                other.say(line)

    def _answer(self, client: Client, command: str, words: list[str], text: str) -> None:
        match command:
            case "CAP" if words[0] == "LS":
                client.caps = ["?"]
                client.say(f":irc.test CAP * LS :{' '.join(self._caps)}")
            case "CAP" if words[0] == "REQ":
                client.caps = text.split()
                client.say(f":irc.test CAP * ACK :{text}")
            case "NICK":
                client.nick = words[0]
            case "USER":
                client.user = words[0]
                self._welcome(client, is_ready=not client.caps)
            case "CAP":
                self._welcome(client, is_ready=True)
            case "JOIN":
                client.rooms.add(words[0])
                self._tell(client, f":{client.source} JOIN {words[0]}")
                names = " ".join(each.nick for each in self._clients if words[0] in each.rooms)
                client.say(f":irc.test 353 {client.nick} = {words[0]} :{names}")
            case "PING":
                client.say(f":irc.test PONG irc.test {text}")
            case "WHOIS":
                for each in self._clients:
                    if each.nick == words[0]:
                        client.say(f":irc.test 311 {client.nick} {each.nick} ~{each.user} 127.0.0.1 * :x")
                client.say(f":irc.test 318 {client.nick} {words[0]} :End")
            case "PRIVMSG" if words[0] == "*playback":
                self.asked.append(text)
                self._play(client, float(text.split(" ")[2]))
            case "PRIVMSG":
                self.keep(client.source, words[0], text)
            case "CHATHISTORY":
                self.asked.append(" ".join(words))
                self._chathistory(client, *words)

    def _welcome(self, client: Client, *, is_ready: bool) -> None:
        if is_ready:
            client.say(
                f":irc.test 001 {client.nick} :hi",
                f":irc.test 005 {client.nick} CHANTYPES=# CHATHISTORY={self._limit} :are supported",
                f":irc.test 376 {client.nick} :end",
            )

    def _between(self, nick: str, chat: str) -> list[Kept]:
        """What one person may read of a chat."""
        if chat.startswith("#"):
            return [kept for kept in self.kept if kept.target == chat]
        people = {nick, chat}
        return [kept for kept in self.kept if {kept.source.partition("!")[0], kept.target} == people]

    def _chathistory(self, client: Client, subcommand: str, first: str, second: str, limit: str) -> None:
        if self.fails:
            client.say(f":irc.test FAIL CHATHISTORY {self.fails} {subcommand} {first} :It does not work")
        elif subcommand == "TARGETS":
            since, before = (_moment(word) for word in (first, second))
            kept = [kept for kept in self.kept if since < kept.at < before]
            chats = {each.partition("!")[0] for said in kept for each in (said.source, said.target)}
            client.say(":irc.test BATCH +t draft/chathistory-targets")
            client.say(*(f"@batch=t :irc.test CHATHISTORY TARGETS {chat} x" for chat in sorted(chats)))
            client.say(":irc.test BATCH -t")
        else:
            assert (subcommand, 0 < int(limit) <= self._limit) == ("AFTER", True)
            kept = [kept for kept in self._between(client.nick, first) if kept.at > _moment(second)]
            client.say(f":irc.test BATCH +h chathistory {first}")
            client.say(*(each.line(client.caps, "h") for each in kept[: int(limit)]))
            client.say(":irc.test BATCH -h")

    def _play(self, client: Client, since: float) -> None:
        kept = [kept for kept in self.kept if kept.at.timestamp() >= since]
        for chat in dict.fromkeys(kept.target for kept in kept):
            lines = [kept.line(client.caps, "p") for kept in kept if kept.target == chat]
            client.say(f":znc.in BATCH +p znc.in/playback {chat}", *lines, ":znc.in BATCH -p")
        client.say(":*playback!znc@znc.in PRIVMSG Nacre :done")


def _whole_ms(at: datetime) -> datetime:
    return at.replace(microsecond=at.microsecond // 1000 * 1000)


def _moment(word: str) -> datetime:
    return datetime.fromisoformat(word.removeprefix("timestamp="))


class KeepingWorld:
    """`World` on a server that keeps what is said."""

    channel = "irc"
    maker = f"{bridge.__module__}:{bridge.__name__}"
    ann = "ann!~ann@127.0.0.1"
    keeps_messages = True
    has_threads = False

    def __init__(self, server: KeepingServer) -> None:
        self.server = server
        self.person = Person(server.port, "ann")
        known = {"host": "127.0.0.1", "port": server.port, "tls": False, "nick": "Nacre"}
        self.spec = {**known, "join": [ROOM], "linesPerSecond": 1000}
        self.bridge = lambda: bridge(self.spec)

    async def meet(self) -> None:
        """Ann can always say something."""

    async def part(self) -> None:
        """Ann needs not see who is there."""

    async def say(self, text: str, *, group: bool = False, thread: str = "") -> None:
        """Ann says it."""
        self.person.send(f"PRIVMSG {ROOM if group else 'Nacre'} :{text}")

    def shown(self, *, group: bool = False, thread: str = "") -> list[str]:
        """What Ann sees."""
        target = ROOM if group else "ann"
        return [text for nick, where, text in self.person.seen if (nick, where) == ("Nacre", target)]

    async def server_stops(self) -> None:
        """Ends the server."""
        await self.server.stop()
        await self.person.leave()

    async def server_starts(self) -> None:
        """Starts it, and Ann joins."""
        await self.server.start()
        await self.person.join()


@asynccontextmanager
async def keeping(caps: tuple[str, ...] = CHATHISTORY, *, limit: int = 2) -> AsyncIterator[KeepingServer]:
    """A server; it tells `limit` messages at once."""
    server = KeepingServer(caps, limit)
    await server.start()
    try:
        yield server
    finally:
        await server.stop()


@asynccontextmanager
async def keeping_world(folder: Path) -> AsyncIterator[KeepingWorld]:
    """A server with Ann."""
    async with keeping() as server:
        world = KeepingWorld(server)
        await world.person.join()
        await until(lambda: "ann" in world.person.here)
        try:
            yield world
        finally:
            await world.person.leave()
