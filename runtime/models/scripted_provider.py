"""A scripted provider over HTTP: a real server on 127.0.0.1 that speaks OpenAI's protocol.

    async with ProviderServer() as provider:
        provider.tool_calls(("weigh", {"hive": "garden"}))
        provider.reply("It weighs 31 kg.")
        ...  # a model at `provider.url`, with any key

It runs in its own thread, so that tests with an event loop, without one, and of other programs can use it.
Answers come from the added steps, in order; a request without a step is refused and fails the test at the
end, and so does an unused step. `responder` is called, in a thread of its own (so it may wait), for each
request that no step answers.

`requests` are the parsed chat requests, `embedding_requests` those for embeddings, and `raw` has every
request as bytes, head and body. `questions` are the paths that a model asks for beforehand, such as the list
of models; `facts` has the answers by path, and any other path is not found.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import json
import math
import re
import struct
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from socket import socket
from types import TracebackType
from typing import Any, Literal

EMBEDDING_DIMENSIONS = 64
CREATED_SECONDS = 1_790_000_000

Ending = Literal["done", "cut", "drop", "stall"]
"""How a stream ends: complete; without finish reason and `[DONE]`; connection reset; silent forever."""

Held = Literal["", "head", "words"]
"""The part of an answer that waits for `ProviderServer.go_on`: the head, the body, or nothing."""


@dataclass(frozen=True, kw_only=True)
class Step:
    """One scripted answer. `status` other than 200 makes it an error with `body` and `headers`.

    `tool_calls` are `(name, arguments)`; arguments that are text are sent unchanged, so that a test can send
    invalid JSON. `usage` "counted" derives numbers from the request's size.
    """

    text: str = ""
    tool_calls: tuple[tuple[str, Mapping[str, Any] | str], ...] = ()
    reasoning: str = ""
    usage: Mapping[str, Any] | Literal["counted"] | None = "counted"
    finish_reason: str | None = None
    ending: Ending = "done"
    call_ids: bool = True
    held: Held = ""
    status: int = 200
    body: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)


def reply(text: str, **options: Any) -> Step:
    """A text answer; `options` are fields of `Step`."""
    return Step(text=text, **options)


def tool_calls(*calls: tuple[str, Mapping[str, Any] | str], **options: Any) -> Step:
    """Tool calls, all in one answer, after an optional `text=`."""
    return Step(tool_calls=calls, **options)


def stall(text: str = "") -> Step:
    """Streams `text` and then nothing, with the connection open, until the client disconnects."""
    return Step(text=text, ending="stall")


def drop(text: str = "") -> Step:
    """Streams `text` and then resets the connection."""
    return Step(text=text, ending="drop")


def error(
    status: int, message: str = "", *, code: str | None = None, retry_after: float | str | None = None
) -> Step:
    """An HTTP error in OpenAI's form; `retry_after` is the `Retry-After` header."""
    kind = {401: "invalid_request_error", 429: "requests"}.get(
        status, "server_error" if status >= 500 else ""
    )
    default = {401: "Incorrect API key provided", 429: "Rate limit reached", 500: "The server had an error"}
    details = {
        "message": message or default.get(status, f"HTTP {status}"),
        "type": kind or "invalid_request_error",
        "param": None,
        "code": code,
    }
    headers = {} if retry_after is None else {"retry-after": str(retry_after)}
    return Step(status=status, body=json.dumps({"error": details}), headers=headers)


def overflow(window_tokens: int = 8192, asked_tokens: int = 9000) -> Step:
    """The 400 that OpenAI sends when the request is larger than the window."""
    return error(
        400,
        f"This model's maximum context length is {window_tokens} tokens. However, your messages resulted in "
        f"{asked_tokens} tokens. Please reduce the length of the messages.",
        code="context_length_exceeded",
    )


def usage(input_tokens: int, output_tokens: int, *, cached_tokens: int = 0) -> dict[str, Any]:
    """OpenAI's usage object; its `prompt_tokens` include the cached ones, so they are added here."""
    prompt = input_tokens + cached_tokens
    return {
        "prompt_tokens": prompt,
        "completion_tokens": output_tokens,
        "total_tokens": prompt + output_tokens,
        "prompt_tokens_details": {"cached_tokens": cached_tokens},
    }


def chunks(step: Step, request: Mapping[str, Any], number: int) -> Iterator[dict[str, Any]]:
    """The chunks of a streamed answer, in order; tool calls come in fragments, interleaved by index."""

    def chunk(delta: Mapping[str, Any], finish: str | None = None) -> dict[str, Any]:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        return {**_head(request, number, "chat.completion.chunk"), "choices": [choice]}

    yield chunk({"role": "assistant", "content": ""})
    if step.reasoning:
        yield chunk({"reasoning_content": step.reasoning})
    for piece in re.findall(r"\s*\S+\s*|\s+", step.text):
        yield chunk({"content": piece})
    for fragment in _call_fragments(step, number):
        yield chunk({"tool_calls": [fragment]})
    if step.ending != "done":
        return
    yield chunk({}, _finish_reason(step))
    counted = _usage(step, request)
    if counted is not None and (request.get("stream_options") or {}).get("include_usage"):
        yield {**_head(request, number, "chat.completion.chunk"), "choices": [], "usage": counted}


def whole(step: Step, request: Mapping[str, Any], number: int) -> dict[str, Any]:
    """The same answer as one JSON object, for requests that do not stream."""
    message: dict[str, Any] = {"role": "assistant", "content": step.text or None}
    if step.tool_calls:
        message["tool_calls"] = [
            {
                "id": _call_id(step, number, index),
                "type": "function",
                "function": {"name": name, "arguments": _arguments_text(arguments)},
            }
            for index, (name, arguments) in enumerate(step.tool_calls)
        ]
    choice = {"index": 0, "message": message, "finish_reason": _finish_reason(step)}
    return {
        **_head(request, number, "chat.completion"),
        "choices": [choice],
        "usage": _usage(step, request) or {},
    }


def embeddings(request: Mapping[str, Any]) -> dict[str, Any]:
    """Vectors of hashed words: equal texts have equal unit vectors, and shared words make vectors similar."""
    texts = request["input"] if isinstance(request["input"], list) else [request["input"]]
    binary = request.get("encoding_format") == "base64"
    data = []
    for index, text in enumerate(texts):
        vector = embedding(str(text))
        encoded = base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode("ascii")
        data.append({"object": "embedding", "index": index, "embedding": encoded if binary else vector})
    tokens = sum(len(str(text)) // 4 + 1 for text in texts)
    counted = {"prompt_tokens": tokens, "total_tokens": tokens}
    return {"object": "list", "data": data, "model": request.get("model", ""), "usage": counted}


def embedding(text: str) -> list[float]:
    """One unit vector of `EMBEDDING_DIMENSIONS` numbers."""
    vector = [0.0] * EMBEDDING_DIMENSIONS
    for word in re.findall(r"\w+", text.lower()) or [""]:
        digest = hashlib.sha256(word.encode("utf-8")).digest()
        vector[digest[0] % EMBEDDING_DIMENSIONS] += 1.0
    length = math.sqrt(sum(value * value for value in vector))
    return [value / length for value in vector]


def _head(request: Mapping[str, Any], number: int, kind: str) -> dict[str, Any]:
    model = request.get("model", "")
    return {"id": f"chatcmpl-{number}", "object": kind, "created": CREATED_SECONDS, "model": model}


def _finish_reason(step: Step) -> str:
    return step.finish_reason or ("tool_calls" if step.tool_calls else "stop")


def _usage(step: Step, request: Mapping[str, Any]) -> Mapping[str, Any] | None:
    if step.usage != "counted":
        return step.usage
    asked = json.dumps([request.get("messages"), request.get("tools")], ensure_ascii=False)
    answered = step.text + "".join(_arguments_text(arguments) for _, arguments in step.tool_calls)
    return usage(len(asked) // 4 + 1, len(answered) // 4 + 1)


def _call_id(step: Step, number: int, index: int) -> str:
    return f"call_{number}_{index}" if step.call_ids else ""


def _arguments_text(arguments: Mapping[str, Any] | str) -> str:
    return arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)


def _call_fragments(step: Step, number: int) -> Iterator[dict[str, Any]]:
    for index, (name, _) in enumerate(step.tool_calls):
        function = {"name": name, "arguments": ""}
        yield {"index": index, "id": _call_id(step, number, index), "type": "function", "function": function}
    texts = [_arguments_text(arguments) for _, arguments in step.tool_calls]
    for part in range(3):
        for index, text in enumerate(texts):
            if piece := text[len(text) * part // 3 : len(text) * (part + 1) // 3]:
                yield {"index": index, "function": {"arguments": piece}}


Responder = Callable[[Mapping[str, Any]], Step]

_MAX_WAIT_SECONDS = 60.0
_MOST_AT_ONCE = 64
"""The most requests that may wait for their responder."""
_REASONS = {200: "OK", 400: "Bad Request", 401: "Unauthorized", 404: "Not Found", 429: "Too Many Requests"}


class ProviderServer:
    """See the module's docstring. Keys other than `expected_key` get a 401; `models` are the listed ones."""

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
        """Adds a text answer; `options` are fields of `Step`, e.g. `usage=usage(100, 5)`."""
        self.add(reply(text, **options))

    def tool_calls(self, *calls: tuple[str, Mapping[str, Any] | str], **options: Any) -> None:
        """Adds an answer that calls tools."""
        self.add(tool_calls(*calls, **options))

    def error(self, status: int, message: str = "", **options: Any) -> None:
        """Adds an HTTP error; `options`: `code`, `retry_after`."""
        self.add(error(status, message, **options))

    def overflow(self, window_tokens: int = 8192, asked_tokens: int = 9000) -> None:
        """Adds the error of a request that is larger than the window."""
        self.add(overflow(window_tokens, asked_tokens))

    def stall(self, text: str = "") -> None:
        """Adds an answer that stops in the middle and never ends."""
        self.add(stall(text))

    def drop(self, text: str = "") -> None:
        """Adds an answer whose connection breaks in the middle."""
        self.add(drop(text))

    def fail_embeddings(self, status: int, message: str = "", **options: Any) -> None:
        """Makes the next embeddings request fail."""
        self._embedding_failures.append(error(status, message, **options))

    @property
    def url(self) -> str:
        """The base address for clients, ending in `/v1`."""
        return f"http://127.0.0.1:{self.port}/v1"

    def assert_complete(self) -> None:
        """Fails if a request had no step, or a step no request."""
        if self.problems:
            raise AssertionError("; ".join(self.problems))
        if self._steps:
            raise AssertionError(f"{len(self._steps)} scripted step(s) were not used: {list(self._steps)}")

    def go_on(self) -> None:
        """Releases all held answers, also later ones."""
        self._loop.call_soon_threadsafe(self._go_on.set)

    async def asked(self) -> None:
        """Waits for the first chat request; fails after a minute."""
        if not await asyncio.to_thread(self._asked.wait, _MAX_WAIT_SECONDS):
            raise AssertionError("no request came")

    async def client_left(self) -> None:
        """Waits until a client disconnects during a stalled answer; fails after a minute."""
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
        # asyncio's default has only four threads more than the machine has cores.
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
        await stop_accepting(server.sockets)
        server.close()
        for task in list(connections):
            task.cancel()
        await asyncio.gather(*connections, return_exceptions=True)
        await asyncio.sleep(0)  # a connection is closed by a call that the loop still has to make

    # -- one request --------------------------------------------------------------------------------

    async def _one_request(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Answers one request; `False` if the connection must be closed."""
        head = await reader.readuntil(b"\r\n\r\n")
        pairs = (line.partition(":") for line in head.decode("latin-1").split("\r\n")[1:])
        headers = {name.strip().lower(): value.strip() for name, colon, value in pairs if colon}
        body = await reader.readexactly(int(headers.get("content-length", "0")))
        method, path = head.decode("latin-1").split(" ", 2)[:2]
        if method == "GET" or path == "/api/show":  # what a model asks of its server before a request
            await _send(writer, self._answer_question(path, headers))
            return True
        self.raw.append(head + body)
        if self._expected_key is not None and headers.get("authorization") != f"Bearer {self._expected_key}":
            await _send(writer, error(401, code="invalid_api_key"))
            return True
        request = json.loads(body) if body else {}
        if path.endswith("/embeddings"):
            self.embedding_requests.append(request)
            failed = self._embedding_failures.popleft() if self._embedding_failures else None
            await _send(writer, failed or Step(body=json.dumps(embeddings(request))))
            return True
        if not path.endswith("/chat/completions"):
            self.problems.append(f"a request for {path}, which this provider does not have")
            await _send(writer, error(404, f"no such path: {path}"))
            return True
        self.requests.append(request)
        self._asked.set()
        return await self._answer_chat(reader, writer, request)

    def _answer_question(self, path: str, headers: Mapping[str, str]) -> Step:
        self.questions.append(path)
        if self._expected_key is not None and headers.get("authorization") != f"Bearer {self._expected_key}":
            return error(401, code="invalid_api_key")
        if path in self.facts:
            return Step(body=json.dumps(self.facts[path]))
        if path.endswith("/models") and self._models:
            listed = [{"id": name, "object": "model"} for name in self._models]
            return Step(body=json.dumps({"object": "list", "data": listed}))
        return error(404, f"no such path: {path}")

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
            await _send(writer, Step(body=json.dumps(whole(step, request, number))))
            return True
        writer.write(
            b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
        )
        if step.held == "words" and not await self._may_go_on(reader):
            return False
        try:
            for chunk in chunks(step, request, number):
                await _write_event(writer, json.dumps(chunk))
            if step.ending == "stall":
                await reader.read()  # returns when the client hangs up
        except ConnectionError:  # a client that disconnects before it has read everything resets the line
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
        """Waits for `go_on`; `False` if the client disconnects before."""
        left, released = asyncio.create_task(reader.read(1)), asyncio.create_task(self._go_on.wait())
        await asyncio.wait({left, released}, return_when=asyncio.FIRST_COMPLETED)
        if left.done():
            self._client_left.set()
        for task in (left, released):
            task.cancel()
        return not left.done()

    async def _step_for(self, request: dict[str, Any], number: int) -> Step:
        if self._steps:
            return self._steps.popleft()
        if self._responder is not None:
            return await asyncio.to_thread(self._responder, request)
        last = json.dumps(request.get("messages", [])[-1:], ensure_ascii=False)[:300]
        self.problems.append(f"request {number} had no scripted step; its last message was {last}")
        return error(400, "this request is not in the test's script")


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


async def stop_accepting(sockets: Iterable[socket]) -> None:
    """Stops accepting connections, and lets the accepted ones start.

    A server of asyncio that is closed in between leaks an open connection: Python 3.11 fails in
    `Server._attach`, before the connection is made.
    """
    loop = asyncio.get_running_loop()
    for listening in sockets:
        loop.remove_reader(listening.fileno())
    for _step in range(5):
        await asyncio.sleep(0)
