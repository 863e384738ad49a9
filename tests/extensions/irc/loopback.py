"""A server on loopback that says what a test hands it, for what ngircd cannot do: accounts, and nonsense."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from tests.servers.listening import stop_accepting

WELCOME = (
    ":irc.test 001 Nacre :hi",
    ":irc.test 005 Nacre CASEMAPPING=rfc1459 CHANTYPES=#& STATUSMSG=@+ :are supported",
    ":irc.test 376 Nacre :end",
)


class Loopback:
    """`heard` are the lines that came. `password`: what the account `bot` logs in with; empty is no SASL."""

    def __init__(self, password: str, behind: Sequence[bytes]) -> None:
        self.heard: list[str] = []
        self.port = 0
        self._password = password
        self._behind = behind

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection."""
        try:
            while raw := await reader.readline():
                line = raw.decode().rstrip()
                self.heard.append(line)
                writer.writelines(f"{answer}\r\n".encode() for answer in self._answers(line))
                if line.startswith("PING"):
                    writer.writelines(self._behind)
        except ConnectionError:
            pass
        finally:
            writer.close()

    def _answers(self, line: str) -> Sequence[str]:
        command, _, words = line.partition(" ")
        right = base64.b64encode(f"\0bot\0{self._password}".encode()).decode()
        match command:
            case "CAP" if words == "LS 302":
                return (
                    f":irc.test CAP * LS :account-tag message-tags{' sasl=PLAIN' if self._password else ''}",
                )
            case "CAP" if words.startswith("REQ"):
                return (f":irc.test CAP * ACK {words[4:]}",)
            case "AUTHENTICATE" if words == "PLAIN":
                return ("AUTHENTICATE +",)
            case "AUTHENTICATE":
                return (":irc.test 903 Nacre :in" if words == right else ":irc.test 904 Nacre :SASL failed",)
            case "CAP":
                return WELCOME
            case "PING":
                return (f":irc.test PONG irc.test {words}",)
            case "WHOIS":
                return (
                    f":irc.test 311 Nacre {words} ~a host * :Ann",
                    f":irc.test 330 Nacre {words} Ann :is logged in as",
                    f":irc.test 318 Nacre {words} :End",
                )
        return ()


@asynccontextmanager
async def loopback(*, password: str = "", behind: Sequence[bytes] = ()) -> AsyncIterator[Loopback]:
    """A server; `behind` follows once the assistant is there."""
    at = Loopback(password, behind)
    server = await asyncio.start_server(at.serve, "127.0.0.1", 0)
    at.port = server.sockets[0].getsockname()[1]
    try:
        yield at
    finally:
        await stop_accepting(server.sockets)
        server.close()
