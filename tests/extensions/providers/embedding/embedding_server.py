"""A loopback server for embeddings, as OpenAI and as Gemini speak them, with scripted answers.

Beside the ordinary answers (hashed words, see `tests.servers.provider_wire`) a test can queue any status
and body, and one answer that never comes.
"""

from __future__ import annotations

import json
import sys
import threading
from collections import deque
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any

from nacre.extensions.providers.embedding.endpoint import EmbeddingEndpoint
from nacre.extensions.providers.embedding.http_embedder import HttpEmbedder
from tests.servers import provider_wire as wire

KEY = "sk-a-secret-key-0123456789"


@dataclass(frozen=True)
class Answer:
    """A scripted answer; `body` is sent as JSON, `raw` as it stands; one that `breaks` ends too early."""

    body: Any
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    hangs: bool = False
    raw: bytes | None = None
    breaks: bool = False


@dataclass(frozen=True)
class Asked:
    """A request as it came; header names are lower case."""

    path: str
    headers: Mapping[str, str]
    body: Mapping[str, Any]


class _QuietServer(ThreadingHTTPServer):
    """A client that was killed is nothing to tell of."""

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class EmbeddingServer:
    """Use it with `with`; point a provider at `url` (OpenAI's `/v1` or Gemini's `/v1beta` behind it)."""

    def __init__(self) -> None:
        self.asked: list[Asked] = []
        self.answers: deque[Answer] = deque()
        self.reached = threading.Event()
        """Set when as many requests came as `expect` says."""
        self._expected = 0
        self._released = threading.Event()
        self._server = _QuietServer(("127.0.0.1", 0), self._handler())
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)

    @property
    def url(self) -> str:
        """The address without a version."""
        return f"http://127.0.0.1:{self._server.server_port}"

    def fail(self, status: int, message: str, **headers: str) -> None:
        """Queues an error; `retry_after` becomes `Retry-After`."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        self.answers.append(Answer({"error": {"message": message}}, status, named))

    def give(self, *vectors: Any, indices: list[int | None] | None = None) -> None:
        """Queues an answer of these vectors; `indices` in place of 0, 1, 2 …"""
        numbers = indices if indices is not None else list(range(len(vectors)))
        data = [
            {"object": "embedding", "embedding": vector, **({} if number is None else {"index": number})}
            for vector, number in zip(vectors, numbers, strict=True)
        ]
        self.answers.append(Answer({"object": "list", "data": data, "model": "m", "usage": USAGE}))

    def expect(self, requests: int) -> None:
        """Sets `reached` after so many further requests."""
        self.reached.clear()
        self._expected = len(self.asked) + requests

    def hang(self) -> None:
        """Queues an answer that comes only when the server ends."""
        self.answers.append(Answer({}, hangs=True))

    def __enter__(self) -> EmbeddingServer:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._released.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(60)

    def route(self, asked: Asked, method: str, raw: bytes) -> Answer | None:
        """The answer to a request that is no ordinary one, in servers that know more; `None` here."""
        return None

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def do_POST(self) -> None:
                raw = self.rfile.read(int(self.headers.get("content-length", 0)))
                headers = {name.lower(): value for name, value in self.headers.items()}
                answer = outer.route(Asked(self.path, headers, {}), self.command, raw)
                if answer is None:
                    body = json.loads(raw)
                    outer.asked.append(Asked(self.path, headers, body))
                    if 0 < outer._expected <= len(outer.asked):
                        outer.reached.set()
                    answer = outer.answers.popleft() if outer.answers else Answer(_ordinary(self.path, body))
                self._send(answer)

            def do_GET(self) -> None:
                self.do_POST()

            def _send(self, answer: Answer) -> None:
                if answer.hangs:
                    outer._released.wait(30)
                    self.close_connection = True
                    return
                data = json.dumps(answer.body).encode() if answer.raw is None else answer.raw
                if answer.breaks:
                    self.close_connection = True
                    if data:
                        self.wfile.write(b"HTTP/1.1 200 OK\r\ncontent-length: 9999\r\n\r\n" + data)
                    return
                self.send_response(answer.status)
                for name, value in answer.headers.items():
                    self.send_header(name, value)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        return Handler


USAGE = {"prompt_tokens": 1, "total_tokens": 1}


def _ordinary(path: str, body: Mapping[str, Any]) -> Any:
    if path.endswith(":embedContent"):
        return {"embedding": {"values": wire.embedding(body["content"]["parts"][0]["text"])}}
    if path.endswith(":batchEmbedContents"):
        texts = [request["content"]["parts"][0]["text"] for request in body["requests"]]
        return {"embeddings": [{"values": wire.embedding(text)} for text in texts]}
    return wire.embeddings(body)


@asynccontextmanager
async def opened(
    server: EmbeddingServer, *, provider: str = "openai", waits: list[float] | None = None, **options: Any
) -> AsyncIterator[HttpEmbedder]:
    """An embedder at that server; what it would wait between retries goes to `waits`."""

    async def sleep(seconds: float) -> None:
        if waits is not None:
            waits.append(seconds)

    own = ("query_seconds", "total_seconds", "budget")
    seconds = {name: options.pop(name) for name in own if name in options}
    version = "v1beta" if provider == "gemini" else "v1"
    endpoint = EmbeddingEndpoint(
        **{
            "provider": provider,
            "model": "m",
            "base_url": f"{server.url}/{version}",
            "api_key": KEY,
            **options,
        }
    )
    embedder = HttpEmbedder(endpoint, now_seconds=lambda: 0.0, sleep=sleep, **seconds)
    try:
        yield embedder
    finally:
        await embedder.close()
