"""A loopback model provider: a real HTTP server on 127.0.0.1 that speaks OpenAI's protocol from a script.

It runs in its own thread, so that async tests (`async with ProviderServer() as server`) and tests of
subprocesses (`with ProviderServer() as server`) use it alike. Answers come from the steps that the test
added, in order; a request without a step is refused and fails the test at the end, and so does a step that
nobody asked for. With `responder=` there is no script to keep: it is called, in a thread of its own (so it
may wait), for each request that no step answers.

Point a model at `server.url` with any key. What was sent stands in `server.requests` (parsed chat
requests), `server.embedding_requests` and `server.raw` (every request, head and body, as bytes). What a model
asks of its server beforehand, such as which models it has, stands in `server.questions`; `server.facts` holds
the answers by their paths, and whatever is not there is not found.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Any

from tests.servers import provider_wire as wire
from tests.servers.listening import hear_nobody
from tests.servers.provider_wire import Step

Responder = Callable[[Mapping[str, Any]], Step]

_MAX_WAIT_SECONDS = 60.0
_MOST_AT_ONCE = 64
"""So many requests may wait for their responder."""
_REASONS = {200: "OK", 400: "Bad Request", 401: "Unauthorized", 404: "Not Found", 429: "Too Many Requests"}


class ProviderServer:
    """See the module's docstring. `expected_key`: other keys get a 401; `models`: what it lists, if asked."""

    def __init__(
        self,
        *,
        responder: Responder | None = None,
        expected_key: str | None = None,
        models: Sequence[str] = (),
    ) -> None:
        self.requests: list[dict[str, Any]] = []
        self.embedding_requests: list[dict[str, Any]] = []
        self.raw: list[bytes] = []
        self.questions: list[str] = []
        self.facts: dict[str, Any] = {}
        self.problems: list[str] = []
        self.port = 0
        self._responder = responder
        self._expected_key = expected_key
        self._models = models
        self._steps: deque[Step] = deque()
        self._embedding_failures: deque[Step] = deque()
        self._ready = threading.Event()
        self._client_left = threading.Event()
        self._asked = threading.Event()
        self._go_on = asyncio.Event()
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="provider-server", daemon=True)

    # -- the script ---------------------------------------------------------------------------------

    def add(self, *steps: Step) -> None:
        """Puts steps at the end of the script."""
        self._steps.extend(steps)

    def reply(self, text: str, **options: Any) -> None:
        """Adds a text answer; `options` are fields of `Step`, e.g. `usage=wire.usage(100, 5)`."""
        self.add(wire.reply(text, **options))

    def tool_calls(self, *calls: tuple[str, Mapping[str, Any] | str], **options: Any) -> None:
        """Adds an answer that calls tools."""
        self.add(wire.tool_calls(*calls, **options))

    def error(self, status: int, message: str = "", **options: Any) -> None:
        """Adds an HTTP error; `options`: `code`, `retry_after`."""
        self.add(wire.error(status, message, **options))

    def overflow(self, window_tokens: int = 8192, asked_tokens: int = 9000) -> None:
        """Adds the error of a request that is larger than the window."""
        self.add(wire.overflow(window_tokens, asked_tokens))

    def stall(self, text: str = "") -> None:
        """Adds an answer that stops in the middle and never ends."""
        self.add(wire.stall(text))

    def drop(self, text: str = "") -> None:
        """Adds an answer whose connection breaks in the middle."""
        self.add(wire.drop(text))

    def fail_embeddings(self, status: int, message: str = "", **options: Any) -> None:
        """Makes the next embeddings request fail."""
        self._embedding_failures.append(wire.error(status, message, **options))

    @property
    def url(self) -> str:
        """The base address for clients, ending in `/v1`."""
        return f"http://127.0.0.1:{self.port}/v1"

    def assert_complete(self) -> None:
        """Fails when a request had no step, or a step no request."""
        if self.problems:
            raise AssertionError("; ".join(self.problems))
        if self._steps:
            raise AssertionError(
                f"{len(self._steps)} scripted step(s) were never asked for: {list(self._steps)}"
            )

    def go_on(self) -> None:
        """Lets the answers that are held go on, and those to come."""
        self._loop.call_soon_threadsafe(self._go_on.set)

    async def asked(self) -> None:
        """Waits for the first question to a model; fails after a minute."""
        if not await asyncio.to_thread(self._asked.wait, _MAX_WAIT_SECONDS):
            raise AssertionError("no question came")

    async def client_left(self) -> None:
        """Waits until a client hung up during a stalled answer; fails after a minute."""
        if not await asyncio.to_thread(self._client_left.wait, _MAX_WAIT_SECONDS):
            raise AssertionError("the client kept the stalled connection open")

    # -- life ---------------------------------------------------------------------------------------

    def __enter__(self) -> ProviderServer:
        self._thread.start()
        if not self._ready.wait(_MAX_WAIT_SECONDS):
            raise AssertionError("the provider server did not start")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(_MAX_WAIT_SECONDS)
        if kind is None:
            self.assert_complete()

    async def __aenter__(self) -> ProviderServer:
        return self.__enter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.__exit__(kind, error, trace)

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        # asyncio's own are as few as the machine's cores and four
        self._loop.set_default_executor(ThreadPoolExecutor(_MOST_AT_ONCE, thread_name_prefix="responder"))
        connections: set[asyncio.Task[None]] = set()

        async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None
            connections.add(task)
            try:
                with contextlib.suppress(
                    ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError
                ):
                    while await self._one_request(reader, writer):
                        pass
            finally:
                connections.discard(task)
                writer.close()

        server = await asyncio.start_server(connected, "127.0.0.1", 0, limit=2**24)
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        await self._stop.wait()
        await hear_nobody(server.sockets)
        server.close()
        for task in list(connections):
            task.cancel()
        await asyncio.gather(*connections, return_exceptions=True)
        await asyncio.sleep(0)  # a connection is closed by a call that the loop still has to make

    # -- one request --------------------------------------------------------------------------------

    async def _one_request(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Answers one request; False when the connection is not to be used again."""
        head = await reader.readuntil(b"\r\n\r\n")
        headers = _headers(head)
        body = await reader.readexactly(int(headers.get("content-length", "0")))
        method, path = head.decode("latin-1").split(" ", 2)[:2]
        if method == "GET" or path == "/api/show":  # what a model asks of its server before a request
            await _send(writer, self._answer_question(path, headers))
            return True
        self.raw.append(head + body)
        if self._expected_key is not None and headers.get("authorization") != f"Bearer {self._expected_key}":
            await _send(writer, wire.error(401, code="invalid_api_key"))
            return True
        request = json.loads(body) if body else {}
        if path.endswith("/embeddings"):
            await self._answer_embeddings(writer, request)
            return True
        if not path.endswith("/chat/completions"):
            self.problems.append(f"a request for {path}, which this provider does not have")
            await _send(writer, wire.error(404, f"no such path: {path}"))
            return True
        self.requests.append(request)
        self._asked.set()
        return await self._answer_chat(reader, writer, request)

    def _answer_question(self, path: str, headers: Mapping[str, str]) -> Step:
        self.questions.append(path)
        if self._expected_key is not None and headers.get("authorization") != f"Bearer {self._expected_key}":
            return wire.error(401, code="invalid_api_key")
        if path in self.facts:
            return Step(body=json.dumps(self.facts[path]))
        if path.endswith("/models") and self._models:
            listed = [{"id": name, "object": "model"} for name in self._models]
            return Step(body=json.dumps({"object": "list", "data": listed}))
        return wire.error(404, f"no such path: {path}")

    async def _answer_embeddings(self, writer: asyncio.StreamWriter, request: dict[str, Any]) -> None:
        self.embedding_requests.append(request)
        if self._embedding_failures:
            await _send(writer, self._embedding_failures.popleft())
        else:
            await _send(writer, Step(body=json.dumps(wire.embeddings(request))))

    async def _answer_chat(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: dict[str, Any]
    ) -> bool:
        number = len(self.requests)
        step = await self._step_for(request, number)
        if step.held == "head" and not await self._may_go_on(reader):
            return False
        if step.status != 200 or step.body:
            await _send(writer, step)
            return True
        if not request.get("stream"):
            await _send(writer, Step(body=json.dumps(wire.whole(step, request, number))))
            return True
        writer.write(
            b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
        )
        if step.held == "words" and not await self._may_go_on(reader):
            return False
        try:
            for chunk in wire.chunks(step, request, number):
                await _write_event(writer, json.dumps(chunk, ensure_ascii=False))
            if step.ending == "stall":
                await reader.read()  # returns when the client hangs up
        except ConnectionError:  # who hangs up on words not yet read, or not yet written, resets the line
            if step.ending != "stall":
                raise
        if step.ending == "stall":
            self._client_left.set()
            return False
        if step.ending == "drop":
            writer.transport.abort()
            return False
        if step.ending == "done":
            await _write_event(writer, "[DONE]")
        writer.write(b"0\r\n\r\n")
        await writer.drain()
        return True

    async def _may_go_on(self, reader: asyncio.StreamReader) -> bool:
        """Waits for `go_on`; False when the client left before."""
        left, told = asyncio.create_task(reader.read(1)), asyncio.create_task(self._go_on.wait())
        await asyncio.wait({left, told}, return_when=asyncio.FIRST_COMPLETED)
        if left.done():
            self._client_left.set()
        for task in (left, told):
            task.cancel()
        return not left.done()

    async def _step_for(self, request: dict[str, Any], number: int) -> Step:
        if self._steps:
            return self._steps.popleft()
        if self._responder is not None:
            return await asyncio.to_thread(self._responder, request)
        last = json.dumps(request.get("messages", [])[-1:], ensure_ascii=False)[:300]
        self.problems.append(f"request {number} had no scripted step; its last message was {last}")
        return wire.error(400, "this request is not in the test's script")


async def _write_event(writer: asyncio.StreamWriter, data: str) -> None:
    event = f"data: {data}\n\n".encode()
    writer.write(f"{len(event):x}\r\n".encode("ascii") + event + b"\r\n")
    await writer.drain()


async def _send(writer: asyncio.StreamWriter, step: Step) -> None:
    body = step.body.encode("utf-8")
    lines = [f"HTTP/1.1 {step.status} {_REASONS.get(step.status, 'Error')}", "content-type: application/json"]
    lines += [f"{name}: {value}" for name, value in step.headers.items()]
    lines.append(f"content-length: {len(body)}")
    writer.write("\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body)
    await writer.drain()


def _headers(head: bytes) -> dict[str, str]:
    pairs = (line.partition(":") for line in head.decode("latin-1").split("\r\n")[1:])
    return {name.strip().lower(): value.strip() for name, colon, value in pairs if colon}
