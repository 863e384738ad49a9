"""The connection to an IRC server: lines in and out, the handshake, and the pace of sending."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import logging
from collections.abc import AsyncIterator, Collection, Iterator, Mapping, Sequence
from typing import Self

from ircstates import Server
from irctokens import Line, build, tokenise

from nacre.bridges.channels.connection import check_password_is_safe, connect
from nacre.bridges.contracts.errors import CannotConnect
from nacre.extensions.irc.settings import IrcSettings

log = logging.getLogger(__name__)

MAX_LINE_BYTES = 16_384
"""A server may send 8,191 bytes of tags and 512 bytes of message. Twice that is not IRC."""
SILENCE_SECONDS = 90.0
"""After this long without a line the bridge sends a PING, and after twice as long it gives up."""

CAPABILITIES = ("account-tag", "account-notify", "extended-join", "message-tags")
MAX_NICKS = 4
_SASL_CHUNK = 400
_NICK_TAKEN = ("433", "436", "437")
_LOGIN_REFUSED = ("902", "904", "905", "906", "908")

BURST_LINES = 5


class LineReader:
    """Splits bytes into lines. Input that is not IRC is logged and ignored."""

    def __init__(self) -> None:
        self._rest = b""
        self._is_skipping = False

    def feed(self, data: bytes) -> Iterator[Line]:
        """The lines that these bytes complete."""
        *whole, self._rest = (self._rest + data).split(b"\n")
        for raw in whole:
            if self._is_skipping:
                self._is_skipping = False
            elif (line := parsed(raw.strip(b"\r"))) is not None:
                yield line
        if len(self._rest) > MAX_LINE_BYTES:
            log.warning("an IRC line of more than %d bytes was ignored", MAX_LINE_BYTES)
            self._rest, self._is_skipping = b"", True


def parsed(raw: bytes) -> Line | None:
    """One line, or `None` for input that is not IRC, which is logged."""
    if not raw.strip(b" \0"):
        return None
    try:
        return tokenise(raw)
    except Exception as error:  # noqa: BLE001 - the library raises all kinds for malformed input
        log.warning("a line that is not IRC was ignored: %s: %r", type(error).__name__, raw[:80])
        return None


class IrcClient:
    """A connection. `server` tracks the nick, what the network supports, and who is in which channel."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.server = Server("irc")
        self.is_open = True
        self._reader = reader
        self._writer = writer

    @classmethod
    async def open(cls, settings: IrcSettings) -> Self:
        """Connects. Raises `CannotConnect`."""
        return cls(*await connect(settings.address))

    async def lines(self) -> AsyncIterator[Line]:
        """What the server sends until it closes the connection. PINGs are answered.

        Raises:
            OSError: the connection broke, or the server is silent.
        """
        reader, is_pinged = LineReader(), False
        while True:
            try:
                async with asyncio.timeout(SILENCE_SECONDS):
                    data = await self._reader.read(4096)
            except TimeoutError:
                if is_pinged:
                    raise
                is_pinged = True
                await self.send("PING", ["nacre"])
                continue
            is_pinged = False
            if not data:
                self.is_open = False
                return
            for line in reader.feed(data):
                try:
                    self.server.parse_tokens(line)
                except Exception as error:  # noqa: BLE001 - the library raises all kinds for malformed input
                    log.warning("an IRC line could not be interpreted: %s: %.80r", type(error).__name__, line)
                if line.command == "PING":
                    await self.send("PONG", line.params[-1:])
                yield line

    async def send(
        self, command: str, params: Sequence[str] = (), *, tags: Mapping[str, str] | None = None
    ) -> None:
        """Sends one line. Raises `OSError` if the connection is broken."""
        line = build(command, list(params), tags=dict(tags) if tags else None)
        self._writer.write(line.format().encode("utf-8", "replace") + b"\r\n")
        await self._writer.drain()

    async def close(self) -> None:
        """Closes the connection. Safe to repeat."""
        self.is_open = False
        self._writer.close()
        with contextlib.suppress(OSError):
            await self._writer.wait_closed()


def may_free_nick(line: Line, server: Server, nick: str) -> bool:
    """Whether a line is a reason to request the nick again that somebody else had at the start.

    After a crash, that is the bridge's own last connection, which the server drops a moment later. The server
    announces this only to people who share a channel with it, so PINGs are reasons as well. A refusal does no
    harm.
    """
    if server.casefold_equals(server.nickname, nick):
        return False
    if line.command not in ("QUIT", "NICK") or line.source is None:
        return bool(line.command == "PING")
    return bool(server.casefold_equals(line.hostmask.nickname, nick))


async def register(client: IrcClient, settings: IrcSettings, lines: AsyncIterator[Line]) -> None:
    """Runs the handshake. Afterwards the server takes messages.

    Raises:
        CannotConnect: the server refuses the password, the nick or the connection.
        OSError: the connection broke.
    """
    password = settings.sasl_password.get_secret_value()
    server_password = settings.server_password.get_secret_value()
    if password or server_password:
        check_password_is_safe(settings.address)
    nick, tries = settings.nick, 1
    await client.send("CAP", ["LS", "302"])
    if server_password:
        await client.send("PASS", [server_password])
    await client.send("NICK", [nick])
    await client.send("USER", [settings.nick, "0", "*", settings.real_name])
    async for line in lines:
        if line.command == "CAP":
            await _capabilities(client, settings, line)
        elif line.command == "AUTHENTICATE" and line.params == ["+"]:
            # SASL PLAIN (RFC 4616) in pieces of 400 bytes; `+` follows a last piece of exactly 400.
            login = f"\0{settings.sasl_account or settings.nick}\0{password}"
            secret = base64.b64encode(login.encode()).decode()
            for start in range(0, len(secret) + 1, _SASL_CHUNK):
                await client.send("AUTHENTICATE", [secret[start : start + _SASL_CHUNK] or "+"])
        elif line.command == "903":
            await client.send("CAP", ["END"])
        elif line.command in _NICK_TAKEN and tries < MAX_NICKS:
            nick, tries = f"{nick}_", tries + 1
            await client.send("NICK", [nick])
        elif line.command in ("376", "422"):  # end of the greeting, after all that the network supports
            return
        elif problem := refusal(line, settings):
            raise CannotConnect(problem)
    raise CannotConnect(f"{settings.host} closed the connection during the handshake.")


def refusal(line: Line, settings: IrcSettings) -> str:
    """The refusal in a line as a sentence; empty if there is none."""
    reason = line.params[-1] if line.params else ""
    if line.command in _LOGIN_REFUSED:
        account = settings.sasl_account or settings.nick
        return f"{settings.host} refuses the password of {account!r} (channels.irc.saslPassword): {reason}"
    if line.command == "464":
        return f"{settings.host} refuses the password in channels.irc.serverPassword: {reason}"
    if line.command in ("432", *_NICK_TAKEN):
        return f"{settings.host} refuses the nick {settings.nick!r}: {reason}"
    if line.command in ("465", "466", "ERROR"):
        return f"{settings.host} refuses the connection: {reason}"
    return ""


def history_capabilities(available: Collection[str]) -> tuple[str, ...]:
    """The capabilities to request for the history, or at least for the times of played-back messages."""
    for way in ("draft/chathistory", "znc.in/playback"):
        if {way, "batch", "server-time"} <= set(available):
            return (way, "batch", "server-time")
    # Without server-time, ZNC writes the time into the text of played-back messages.
    return ("server-time",) if "server-time" in available else ()


async def _capabilities(client: IrcClient, settings: IrcSettings, line: Line) -> None:
    subcommand = line.params[1] if len(line.params) > 1 else ""
    if subcommand == "LS" and "*" in line.params[2:-1]:
        return  # the list continues
    available = client.server.available_caps
    if subcommand == "LS":
        wanted = [name for name in CAPABILITIES if name in available]
        wanted += history_capabilities(available)
        if settings.sasl_password.get_secret_value():
            if "sasl" not in available:
                raise CannotConnect(
                    f"{settings.host} offers no login (SASL), which channels.irc.saslPassword needs. "
                    "Remove the setting or choose another server."
                )
            wanted.append("sasl")
        await client.send(*(("CAP", ["REQ", " ".join(wanted)]) if wanted else ("CAP", ["END"])))
    elif subcommand == "ACK" and settings.sasl_password.get_secret_value():
        await client.send("AUTHENTICATE", ["PLAIN"])
    elif subcommand in ("ACK", "NAK"):
        await client.send("CAP", ["END"])


class Pacer:
    """A token bucket of `BURST_LINES` lines that fills at `lines_per_second`, against floods."""

    def __init__(self, lines_per_second: float) -> None:
        self._seconds = 1 / max(lines_per_second, 0.01)
        self._free_at = 0.0

    def wait_seconds(self, now_seconds: float) -> float:
        """How long to wait before the next line. Counts that line."""
        self._free_at = max(self._free_at, now_seconds - BURST_LINES * self._seconds) + self._seconds
        return max(0.0, self._free_at - now_seconds)
