"""How fast texts become vectors: the model that comes with Nacre, and what we add to a remote provider.

    python -m benchmarks.embed [--chunks 200] [--requests 100] [--dimensions 1536]

The remote side talks to a server in a process of its own that answers at once, so that what is measured is
ours: building the request, the wire, reading and checking the vectors. Beside each way stands the same
request sent with nothing but httpx, its answer read as JSON. Medians.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import json
import multiprocessing
import statistics
import time
from collections.abc import Awaitable, Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx
import numpy as np

from benchmarks.corpus import WORDS_PER_CHUNK, Words
from nacre.extensions.providers.embedding.endpoint import EmbeddingEndpoint
from nacre.extensions.providers.embedding.http_embedder import BATCH_TEXTS, HttpEmbedder
from nacre.memory.contracts.records import Chunk
from nacre.memory.embedders.e5 import E5Embedder
from nacre.memory.vectors.pieces import embedding_texts


def chunks(count: int) -> list[str]:
    """Texts as long as chunks are."""
    words = Words(1)
    return [" ".join(words.draw(WORDS_PER_CHUNK)) for _ in range(count)]


async def local(texts: list[str]) -> None:
    """The model that comes with Nacre: loading, a question, and chunks in pieces as the index cuts them."""
    embedder = E5Embedder()
    started = time.perf_counter()
    await embedder.embed_query("where is the honey?")
    first_ms = (time.perf_counter() - started) * 1000
    question_ms = await median_ms(20, lambda: embedder.embed_query("where is the honey, and who has it?"))
    cut = [piece for text in texts for piece in pieces(text, embedder.facts.piece_tokens)]
    started = time.perf_counter()
    for piece in cut:
        await embedder.embed_query(piece)
    alone = time.perf_counter() - started
    started = time.perf_counter()
    await embedder.embed_documents(cut)
    together = time.perf_counter() - started
    await embedder.close()
    print(f"{embedder.facts.model}: first question {first_ms:.0f} ms, then {question_ms:.1f} ms;", end=" ")
    print(
        f"{len(texts) / alone:.0f} chunks/s one after the other, {len(texts) / together:.0f} on idle cores",
        end=" ",
    )
    print(f"({alone / together:.2f}×)")


def pieces(text: str, piece_tokens: int | None) -> tuple[str, ...]:
    """The texts whose vectors stand for a chunk."""
    chunk = Chunk(
        path="memory/a.md",
        source="memory",
        ordinal=0,
        start_line=1,
        end_line=1,
        text=text,
        heading_path=(),
        date=None,
        content_hash="",
    )
    return embedding_texts(chunk, piece_tokens)


async def remote(texts: list[str], requests: int, dimensions: int) -> None:
    """One request of the usual size: ours beside a bare one, as numbers and in base64."""
    batch = texts[:BATCH_TEXTS]
    with Server(dimensions, len(batch)) as url:
        for compact in (False, True):
            endpoint = EmbeddingEndpoint(
                provider="openai",
                model="m",
                base_url=url,
                api_key="k",
                compact=compact,
                max_input_tokens=8_192,
            )
            embedder = HttpEmbedder(endpoint, now_seconds=time.time)
            body = {"model": "m", "input": batch, **({"encoding_format": "base64"} if compact else {})}
            async with httpx.AsyncClient() as client:

                async def bare(client: httpx.AsyncClient = client, body: Any = body) -> object:
                    return (await client.post(f"{url}/embeddings", json=body)).json()

                async def ours(embedder: HttpEmbedder = embedder) -> object:
                    return await embedder.embed_documents(batch)

                bare_ms, ours_ms = await median_ms(requests, bare), await median_ms(requests, ours)
            await embedder.close()
            form = "base64" if compact else "numbers"
            print(
                f"{len(batch)} texts, {dimensions} {form}: bare request {bare_ms:.1f} ms, "
                f"embedder {ours_ms:.1f} ms ({ours_ms / bare_ms:.2f}×), "
                f"{(ours_ms - bare_ms) / len(batch):.2f} ms more for each text"
            )


async def median_ms(times: int, call: Callable[[], Awaitable[object]]) -> float:
    """The median of so many calls, after one that warms up."""
    await call()
    taken = []
    for _ in range(times):
        started = time.perf_counter()
        await call()
        taken.append((time.perf_counter() - started) * 1000)
    return statistics.median(taken)


class Server:
    """A provider in a process of its own that has its answer ready; gives its address."""

    def __init__(self, dimensions: int, texts: int) -> None:
        context = multiprocessing.get_context("spawn")
        self._ours, theirs = context.Pipe()
        self._process = context.Process(target=serve, args=(theirs, dimensions, texts), daemon=True)

    def __enter__(self) -> str:
        self._process.start()
        return f"http://127.0.0.1:{self._ours.recv()}/v1"

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.join()


def serve(pipe: Any, dimensions: int, texts: int) -> None:
    """Answers every request with the same vectors, in the form that it asks for."""
    rows = np.random.default_rng(1).standard_normal((texts, dimensions)).astype("<f4")
    answers = {
        compact: json.dumps(
            {
                "data": [
                    {"index": at, "embedding": base64.b64encode(row).decode() if compact else row.tolist()}
                    for at, row in enumerate(rows)
                ]
            }
        ).encode()
        for compact in (False, True)
    }

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            answer = answers[b'"base64"' in body]
            self.send_response(200)
            self.send_header("content-length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    pipe.send(server.server_port)
    server.serve_forever()


def main() -> None:
    """Runs both sides."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--chunks", type=int, default=200)
    parser.add_argument("--requests", type=int, default=100)
    parser.add_argument("--dimensions", type=int, default=1536)
    arguments = parser.parse_args()
    texts = chunks(max(arguments.chunks, BATCH_TEXTS))
    asyncio.run(local(texts))
    asyncio.run(remote(texts, arguments.requests, arguments.dimensions))


if __name__ == "__main__":
    main()
