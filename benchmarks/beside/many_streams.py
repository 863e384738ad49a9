"""What `nacre serve` adds to a streamed answer, with many clients at once, beside the bare provider.

    python -m benchmarks.beside.many_streams [--clients 200] [--tokens 100] [--a-second 20]

A provider on loopback, in a process of its own, sends each client so many tokens at that pace. The same
clients, in this process, ask it first itself and then through `/v1/chat/completions` of a `nacre serve`,
each in a new session; once all in the same moment, once begun within ten seconds. Printed for both: seconds
to the first token, how late each further token is (the time from the one before it, less the pace), and the
processor's time of the server. All share one machine, so the ratios of one run count, and not a figure alone.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from urllib.parse import urlsplit

from nacre.extensions.http.server.tokens import Tokens
from nacre.runtime.contracts.clock import owner_clock

STARTED_SECONDS = 60
SPREAD_SECONDS = 10.0
CLIENTS_A_TOKEN = 50
"""The server lets one token have a hundred open requests."""
_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


@dataclass
class Heard:
    """When a client asked, and when it heard each token, in seconds."""

    asked_at: float
    token_at: list[float] = field(default_factory=list)


async def provide(port: int, tokens: int, a_second: float) -> None:
    """A provider that sends everybody so many tokens, until it is killed, and keeps connections open as
    providers do."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError):  # the other side has hung up
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                lengths = [
                    line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")
                ]
                if not lengths:  # somebody asked which models there are
                    writer.write(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n")
                    continue
                await reader.readexactly(int(lengths[0].partition(b":")[2]))
                writer.write(_HEAD)
                begun = asyncio.get_running_loop().time()
                for number in range(tokens):
                    await asyncio.sleep(begun + (number + 1) / a_second - asyncio.get_running_loop().time())
                    writer.write(_event({"content": f" word{number}"}, None))
                writer.write(_event({}, "stop") + _chunk(b"data: [DONE]\n\n") + _chunk(b""))
                await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", port, backlog=1024)
    await server.serve_forever()


def _event(delta: dict[str, str], finish: str | None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    body = {"id": "c", "object": "chat.completion.chunk", "created": 0, "model": "m", "choices": [choice]}
    return _chunk(b"data: " + json.dumps(body).encode() + b"\n\n")


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


async def ask(url: str, token: str, session: str) -> Heard:
    """One streamed answer. Raises `OSError` or `ValueError` when it is not one."""
    address = urlsplit(url)
    body = {
        "model": "main",
        "stream": True,
        "user": session,
        "messages": [{"role": "user", "content": "Tell me of the garden."}],
    }
    content = json.dumps(body).encode()
    reader, writer = await asyncio.open_connection(address.hostname, address.port)
    heard = Heard(time.perf_counter())
    writer.write(
        f"POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer {token}\r\n"
        f"content-type: application/json\r\ncontent-length: {len(content)}\r\n\r\n".encode()
        + content
    )
    try:
        status = await reader.readline()
        if b" 200 " not in status:
            raise ValueError(f"The server answered {status!r}.")
        while (line := await reader.readline()) and b"[DONE]" not in line:
            # Tokens that waited for a reader come as one piece.
            heard.token_at += [time.perf_counter()] * line.count(b" word")
    finally:
        writer.close()
    return heard


async def all_at_once(
    url: str, tokens: Sequence[str], clients: int, label: str, over_seconds: float
) -> list[Heard]:
    """So many clients that ask in the same moment, or one after the other within `over_seconds`."""

    async def later(number: int) -> Heard:
        await asyncio.sleep(over_seconds * number / clients)
        return await ask(url, tokens[number % len(tokens)], f"{label}-{number}")

    return await asyncio.gather(*(later(number) for number in range(clients)))


def told(
    name: str, heard: Sequence[Heard], tokens: int, pace: float, cpu_seconds: float
) -> tuple[float, float]:
    """Prints a line; gives the medians: seconds to the first token, and that a further one is late."""
    first = sorted(one.token_at[0] - one.asked_at for one in heard)
    gaps = sorted(
        after - before - pace
        for one in heard
        for before, after in zip(one.token_at, one.token_at[1:], strict=False)
    )
    whole = sum(len(one.token_at) == tokens for one in heard)
    late = [gaps[int(len(gaps) * part)] for part in (0.5, 0.95, 0.99)]
    print(
        f"{name}: {whole} of {len(heard)} answers whole; first token {median(first):.3f} s, p95 "
        f"{first[int(len(first) * 0.95)]:.3f} s; a further one late by {1000 * late[0]:.1f} ms, p95 "
        f"{1000 * late[1]:.1f}, p99 {1000 * late[2]:.1f}; processor {cpu_seconds:.1f} s"
    )
    return median(first), late[0]


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@contextmanager
def running(command: Sequence[str], environment: dict[str, str], port: int) -> Iterator[int]:
    """A program that listens at `port`, and its process id."""
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL)
    try:
        until = time.monotonic() + STARTED_SECONDS
        while time.monotonic() < until:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            except OSError:
                time.sleep(0.1)
        yield process.pid
    finally:
        process.kill()
        process.wait()


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure(clients: int, tokens: int, a_second: float) -> None:
    """Prints a line for the provider, one for the server, and what the server added."""
    provider_port, port = free_port(), free_port()
    this = [sys.executable, "-m", "benchmarks.beside.many_streams"]
    providing = [*this, "--provide", str(provider_port), "--tokens", str(tokens), "--a-second", str(a_second)]
    with tempfile.TemporaryDirectory() as folder:
        state = Path(folder) / ".nacre"
        state.mkdir()
        settings = {
            "agents": {"defaults": {"model": {"primary": "openai/m"}, "memorySearch": {"enabled": False}}},
            "models": {
                "providers": {"openai": {"baseUrl": f"http://127.0.0.1:{provider_port}/v1", "apiKey": "k"}}
            },
            "http": {"port": port},
        }
        (state / "nacre.json5").write_text(json.dumps(settings), encoding="utf-8")
        kept, now = Tokens(state), owner_clock("UTC")()
        names = [f"load{number}" for number in range(-(-clients // CLIENTS_A_TOKEN))]
        keys = [kept.add(name, agent_id="main", is_owner=True, now=now) for name in names]
        serving = [sys.executable, "-m", "nacre", "serve", "--state-dir", str(state)]
        environment = {**os.environ, "HOME": folder}
        with (
            running(providing, environment, provider_port) as provider,
            running(serving, environment, port) as server,
        ):
            for over_seconds in (0.0, SPREAD_SECONDS):
                print(f"{clients} clients that begin within {over_seconds:.0f} s")
                lines = []
                for name, at, pid in (("provider", provider_port, provider), ("nacre serve", port, server)):
                    url = f"http://127.0.0.1:{at}"
                    asyncio.run(all_at_once(url, keys, 2, "warm", 0))
                    before = _cpu_seconds(pid)
                    label = f"load-{over_seconds}"
                    heard = asyncio.run(all_at_once(url, keys, clients, label, over_seconds))
                    lines.append(told(name, heard, tokens, 1 / a_second, _cpu_seconds(pid) - before))
                first, further = (1000 * (after - before) for before, after in zip(*lines, strict=True))
                print(f"added: {first:.0f} ms to the first token, {further:.1f} ms to each further one")


def main() -> None:
    """Reads the arguments."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--tokens", type=int, default=100)
    parser.add_argument("--a-second", type=float, default=20.0, help="tokens a second for each client")
    parser.add_argument("--provide", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.provide:
        asyncio.run(provide(given.provide, given.tokens, given.a_second))
    else:
        measure(given.clients, given.tokens, given.a_second)


if __name__ == "__main__":
    main()
