"""One connection to an IRC server: lines in, lines out. Edge to irctokens and ircstates."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import Self

from ircstates import Server
from irctokens import Line, build, tokenise

from nacre.bridges.channels.secure_connection import connect
from nacre.extensions.irc.settings import IrcSettings

log = logging.getLogger(__name__)

MOST_LINE_BYTES = 16_384
"""8,191 bytes of tags and 512 of message are the most that a server may send; twice that is no IRC."""
SILENCE_SECONDS = 90.0
"""After so long a silence the server is asked whether it is there, and after twice as long it is not."""


class LineReader:
    """Bytes as they come become lines; what is no line of IRC is logged and left out."""

    def __init__(self) -> None:
        self._rest = b""
        self._is_skipping = False

    def feed(self, data: bytes) -> Iterator[Line]:
        """The lines that are whole now."""
        *whole, self._rest = (self._rest + data).split(b"\n")
        for raw in whole:
            if self._is_skipping:
                self._is_skipping = False
            elif (line := parsed(raw.strip(b"\r"))) is not None:
                yield line
        if len(self._rest) > MOST_LINE_BYTES:
            log.warning("a line of more than %d bytes was left out", MOST_LINE_BYTES)
            self._rest, self._is_skipping = b"", True


def parsed(raw: bytes) -> Line | None:
    """One line; `None` for what is none, after a word in the log."""
    if not raw.strip(b" \0"):
        return None
    try:
        return tokenise(raw)
    except Exception as error:  # noqa: BLE001 - the library meets what it did not expect with any of them
        log.warning("a line that is not IRC was left out: %s: %r", type(error).__name__, raw[:80])
        return None


class IrcConnection:
    """A connection and what `server` knows of it: its nick, what the network can do, who is where."""

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
        """What the server sends, until it hangs up; its PINGs are answered.

        Raises:
            OSError: the connection broke, or the server is silent.
        """
        reader, asked = LineReader(), False
        while True:
            try:
                async with asyncio.timeout(SILENCE_SECONDS):
                    data = await self._reader.read(4096)
            except TimeoutError:
                if asked:
                    raise
                asked = True
                await self.send("PING", ["nacre"])
                continue
            asked = False
            if not data:
                self.is_open = False
                return
            for line in reader.feed(data):
                self._note(line)
                if line.command == "PING":
                    await self.send("PONG", line.params[-1:])
                yield line

    async def send(
        self, command: str, params: Sequence[str] = (), *, tags: Mapping[str, str] | None = None
    ) -> None:
        """Sends one line. Raises `OSError` when the connection is broken."""
        line = build(command, list(params), tags=dict(tags) if tags else None)
        self._writer.write(line.format().encode("utf-8", "replace") + b"\r\n")
        await self._writer.drain()

    async def close(self) -> None:
        """Hangs up. Safe to repeat."""
        self.is_open = False
        self._writer.close()
        with contextlib.suppress(OSError):
            await self._writer.wait_closed()

    def _note(self, line: Line) -> None:
        try:
            self.server.parse_tokens(line)
        except Exception as error:  # noqa: BLE001 - as above
            log.warning("a line says nothing: %s: %.80r", type(error).__name__, line)
