"""What a turn over HTTP costs of our own: the ways to a provider side by side, against one on loopback.

    python -m benchmarks.beside.wire [--history 10 1000 5000] [--turns 20] [--tokens 2000] [--rounds 5]

`turn` is the processor time of this process for a whole turn with so many messages in view, and `request`
that of the model's edge alone; the server is another process. `burst` is how long an answer of so many tokens
takes that a server sends at once, beside httpx that only reads the lines. `one-shot` is the wall time of
`nacre send`, beside a Python that does nothing.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

import httpx

from benchmarks.session import entries
from nacre import Agent, Inbound
from nacre.extensions.providers.litellm import LiteLLMModel
from nacre.extensions.providers.openai_compatible.model import OpenAICompatibleModel
from nacre.runtime.contracts.model import ChatModel, ModelRequest, SystemPrompt
from nacre.sessions.contracts.messages import user_message
from nacre.sessions.disk.json_text import to_line
from nacre.sessions.entries.entries import SessionHeader, entry_to_json, header_to_json

QUESTION = "What did we say about the hive in the garden, and when is the next look at it due?"
WAYS = ("openai-completions", "litellm")
HELLO = ModelRequest(
    system=SystemPrompt(stable="Be kind."), messages=(user_message("Hello", timestamp_ms=1),)
)

_SERVER = r"""
import asyncio, json, sys

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: %d\r\n\r\n"

def event(**fields):
    chunk = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "m", **fields}
    return b"data: " + json.dumps(chunk).encode() + b"\n\n"

def said(delta, finish=None):
    return event(choices=[{"index": 0, "delta": delta, "finish_reason": finish}])

def answer(tokens):
    usage = {"prompt_tokens": 4000, "completion_tokens": tokens, "total_tokens": 4000 + tokens}
    words = [said({"content": f"word{number} "}) for number in range(tokens)]
    end = said({}, "stop") + event(choices=[], usage=usage) + b"data: [DONE]\n\n"
    events = said({"role": "assistant", "content": ""}) + b"".join(words) + end
    return HEAD % len(events) + events

USUAL, BURST = answer(12), answer(int(sys.argv[1]))

async def serve(reader, writer):
    try:
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).lower()
            [length] = [line for line in head.split(b"\r\n") if line.startswith(b"content-length:")]
            body = await reader.readexactly(int(length.split(b":")[1]))
            writer.write(BURST if b'"burst"' in body else USUAL)
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()

async def main():
    server = await asyncio.start_server(serve, "127.0.0.1", 0, limit=2**26)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()

asyncio.run(main())
"""


@contextmanager
def provider(tokens: int) -> Iterator[str]:
    """The address of a provider in a process of its own; the model `burst` answers with so many tokens."""
    with subprocess.Popen((sys.executable, "-c", _SERVER, str(tokens)), stdout=subprocess.PIPE) as server:
        assert server.stdout is not None
        port = int(server.stdout.readline())
        try:
            yield f"http://127.0.0.1:{port}/v1"
        finally:
            server.terminate()


def model(way: str, url: str, name: str = "openai/answers") -> ChatModel:
    """The model at that provider, reached in this way."""
    kind = OpenAICompatibleModel if way == "openai-completions" else LiteLLMModel
    return kind(name, base_url=url, api_key="sk-benchmark", now_ms=lambda: int(time.time() * 1000))


async def _everything(asked: ChatModel, request: ModelRequest) -> None:
    async for _ in asked.stream(request):
        pass


def _settings(folder: Path, way: str, url: str) -> None:
    provider_settings = {"baseUrl": url, "apiKey": "sk-benchmark", "api": way}
    defaults = {"model": "openai/answers", "memorySearch": {"enabled": False}, "contextTokens": 100_000_000}
    settings = {
        "agents": {"defaults": defaults},
        "models": {"providers": {"openai": provider_settings}},
        "session": {"reset": {"mode": "none"}},
    }
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "nacre.json5").write_text(json.dumps(settings), encoding="utf-8")


async def turn_ms(folder: Path, way: str, url: str, messages: int, turns: int) -> float:
    """The processor time of a turn in a session that holds so many messages: the median, in milliseconds."""
    _settings(folder, way, url)
    said = Inbound(text=QUESTION, chat_kind="direct", is_owner=True)

    async def opened() -> Agent:
        return await Agent.open(state_dir=folder, environment={"HOME": str(folder)}, watch=False)

    async with await opened() as agent:
        await agent.respond(said)
    [path] = (folder / "agents" / "main" / "sessions").glob("*.jsonl")
    header = SessionHeader(id=path.stem, timestamp="2026-03-01T09:00:00.000Z", cwd=str(folder))
    with path.open("wb") as file:
        file.write(to_line(header_to_json(header)))
        for entry in entries(messages, 0):
            file.write(to_line(entry_to_json(entry)))
    taken = []
    async with await opened() as agent:
        for number in range(turns + 3):
            begun = time.process_time()
            await agent.respond(said)
            if number >= 3:
                taken.append((time.process_time() - begun) * 1000)
    return median(taken)


async def request_ms(way: str, url: str, messages: int, turns: int) -> float:
    """The processor time of the edge alone, for a conversation that grows with each request."""
    asked = model(way, url)
    talk = [user_message(f"{number}: {QUESTION}" * 4, timestamp_ms=number) for number in range(messages)]
    taken = []
    for number in range(turns + 3):
        talk.append(user_message(QUESTION, timestamp_ms=number))
        request = ModelRequest(system=HELLO.system, messages=tuple(talk))
        begun = time.process_time()
        await _everything(asked, request)
        if number >= 3:
            taken.append((time.process_time() - begun) * 1000)
    await asked.aclose()
    return median(taken)


async def burst_ms(url: str, rounds: int) -> dict[str, float]:
    """How long a burst takes in each way and for bare httpx, in turns: the best of each, in milliseconds."""
    models = {way: model(way, url, "openai/burst") for way in WAYS}
    best: dict[str, float] = {}
    body = {"model": "burst", "messages": [{"role": "user", "content": "Hello"}], "stream": True}
    async with httpx.AsyncClient(trust_env=False) as client:

        async def bare() -> None:
            async with client.stream("POST", f"{url}/chat/completions", json=body) as response:
                async for line in response.aiter_lines():
                    if line.startswith("data: {"):
                        json.loads(line[6:])

        for number in range(rounds + 1):
            for name, call in (("httpx", bare), *((way, None) for way in WAYS)):
                begun = time.perf_counter()
                await (call() if call is not None else _everything(models[name], HELLO))
                taken = (time.perf_counter() - begun) * 1000
                if number:
                    best[name] = min(taken, best.get(name, taken))
    for asked in models.values():
        await asked.aclose()
    return best


def one_shot_seconds(folder: Path, url: str, rounds: int) -> dict[str, float]:
    """The wall time of `nacre send`, in turns with a Python that does nothing: medians, in seconds."""
    commands: dict[str, tuple[tuple[str, ...], dict[str, str]]] = {
        "python -c pass": ((sys.executable, "-c", "pass"), {})
    }
    for way in WAYS:
        state = folder / f"one-shot-{way}"
        _settings(state, way, url)
        command = (sys.executable, "-m", "nacre", "send", "-m", QUESTION)
        commands[way] = (command, {"NACRE_STATE_DIR": str(state), "HOME": str(state)})
    taken: dict[str, list[float]] = {name: [] for name in commands}
    for number in range(rounds + 1):
        for name, (command, environment) in commands.items():
            begun = time.perf_counter()
            subprocess.run(command, env={**os.environ, **environment}, check=True, capture_output=True)
            if number:
                taken[name].append(time.perf_counter() - begun)
    return {name: median(seconds) for name, seconds in taken.items()}


def main() -> None:
    """Prints a row for each measurement."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--history", type=int, nargs="*", default=[10, 1_000, 5_000])
    parser.add_argument("--turns", type=int, default=20)
    parser.add_argument("--tokens", type=int, default=2_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--folder", type=Path, default=None)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.folder) as name, provider(arguments.tokens) as url:
        folder = Path(name)
        for messages in arguments.history:
            for way in WAYS:
                alone = asyncio.run(request_ms(way, url, messages, arguments.turns))
                place = folder / f"{way}-{messages}"
                whole = asyncio.run(turn_ms(place, way, url, messages, arguments.turns))
                print(f"{messages:>6,} messages, {way:<18}: turn {whole:7.1f} ms, request {alone:7.1f} ms")
        burst = asyncio.run(burst_ms(url, arguments.rounds))
        for way in WAYS:
            lag = (burst[way] - burst["httpx"]) / arguments.tokens
            print(
                f"burst of {arguments.tokens:,}, {way:<18}: {burst[way]:7.1f} ms, bare httpx "
                f"{burst['httpx']:.1f} ms; {lag:.3f} ms more a token"
            )
        for name, seconds in one_shot_seconds(folder, url, arguments.rounds).items():
            print(f"one-shot, {name:<18}: {seconds:.2f} s")


if __name__ == "__main__":
    main()
