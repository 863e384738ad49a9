"""`nacre chat` without a terminal: a line in, a reply out, until the input ends."""

from __future__ import annotations

import asyncio
import codecs
import os
import sys
import threading
from collections.abc import AsyncIterator

from nacre.cli.invocation import Invocation
from nacre.cli.screen.screen import screen_on
from nacre.cli.talk.quiet_turn import LEAVE_COMMANDS, run_quiet_turn, terminal_message
from nacre.runtime.agent.agent import Agent
from nacre.runtime.contracts.events import ReplyReady, TurnFailed

_READ_BYTES = 65_536
_READS_AHEAD = 4


async def answer_lines(invocation: Invocation, session_key: str, *, first: str = "") -> int:
    """Answers each line of standard input on standard output; returns 1 if a turn failed, else 0.

    `first` is answered before them; if that fails, nothing is read.

    Raises:
        AgentError: the agent could not be opened.
    """
    answers = screen_on(sys.stdout, invocation.environment)
    progress = screen_on(sys.stderr, invocation.environment)
    code = 0
    async with Agent.open(environment=invocation.environment) as agent:
        for notice in agent.notices:
            progress.line(notice, "warning")
        async for line in _lines_after(first):
            if not line.strip():
                continue
            if line.strip() in LEAVE_COMMANDS:
                break
            ending = (await run_quiet_turn(agent, terminal_message(line, session_key), progress)).ending
            if isinstance(ending, ReplyReady):
                answers.line(ending.reply.text.strip())
            elif isinstance(ending, TurnFailed):
                code = 1
                if line is first:
                    break
    return code


async def _lines_after(first: str) -> AsyncIterator[str]:
    if first:
        yield first
    async for line in input_lines(sys.stdin.fileno()):
        yield line


async def input_lines(descriptor: int) -> AsyncIterator[str]:
    """Yields UTF-8 lines of a file, pipe or terminal, without line ends; invalid bytes are replaced."""
    loop = asyncio.get_running_loop()
    pieces: asyncio.Queue[bytes] = asyncio.Queue()
    room = threading.Semaphore(_READS_AHEAD)

    def read() -> None:
        # A daemon thread: nothing can interrupt a blocked read, not every input can be polled, and
        # the lock of sys.stdin must not be held at shutdown.
        piece = b"more"
        while piece:
            room.acquire()
            try:
                piece = os.read(descriptor, _READ_BYTES)
            except OSError:
                piece = b""
            try:
                loop.call_soon_threadsafe(pieces.put_nowait, piece)
            except RuntimeError:
                return  # the loop is closed

    threading.Thread(target=read, name="nacre-input", daemon=True).start()
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    waiting = ""
    while piece := await pieces.get():
        room.release()
        *lines, waiting = (waiting + decoder.decode(piece)).split("\n")
        for line in lines:
            yield line.removesuffix("\r")
    waiting += decoder.decode(b"", final=True)
    if waiting:
        yield waiting
