"""The transport below httpx: connections that are kept, pieces, and what a server does wrong."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import httpx
import pytest

from nacre.extensions.providers.openai_compatible.connection import Connection, hang_up
from nacre.extensions.providers.openai_compatible.transport import Transport

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
HEAD = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
WHOLE = HEAD + b"2\r\nHi\r\n0\r\n\r\n"


@asynccontextmanager
async def server_of(serve: Serve) -> AsyncIterator[str]:
    """The address of a server that handles each connection with `serve`, and then closes it."""
    ended: set[asyncio.Task[None] | None] = set()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        ended.add(asyncio.current_task())
        try:
            await serve(reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # the client is gone
        finally:
            writer.close()

    async with await asyncio.start_server(handle, "127.0.0.1", 0) as listening:
        yield f"127.0.0.1:{listening.sockets[0].getsockname()[1]}"
        await asyncio.gather(*filter(None, ended))


@asynccontextmanager
async def asked(serve: Serve, *, keep_seconds: float = 60.0) -> AsyncIterator[httpx.AsyncClient]:
    """A client of a server that handles each connection with `serve`."""
    async with server_of(serve) as place:
        transport = Transport(None, keep_seconds=keep_seconds)
        async with httpx.AsyncClient(
            base_url=f"http://{place}", transport=transport, trust_env=False
        ) as client:
            yield client


async def request_of(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readuntil(b"\r\n\r\n")
    length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0] or 0)
    return await reader.readexactly(length)


async def test_what_arrived_together_is_one_piece() -> None:
    """Under load, a hundred tokens cost one step of each reader behind and not a hundred."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request_of(reader)
        writer.write(HEAD + b"2\r\nHi\r\n1\r\n \r\n5\r\nthere\r\n0\r\n\r\n")

    async with asked(serve) as client, client.stream("POST", "/", content=b"x") as response:
        assert [piece async for piece in response.aiter_bytes()] == [b"Hi there"]


async def test_as_many_connections_as_requests_at_once_and_the_newest_serves_the_next() -> None:
    """Whatever else is idle is not looked at."""
    served: list[int] = []
    connections: list[asyncio.StreamWriter] = []
    together = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.append(writer)
        while True:
            await request_of(reader)
            served.append(connections.index(writer))
            if len(served) == 5:
                together.set()
            await together.wait()
            writer.write(WHOLE)

    async with asked(serve) as client:
        await asyncio.gather(*(client.post("/", content=b"x") for _ in range(5)))
        for _ in range(3):
            assert (await client.post("/", content=b"x")).text == "Hi"
    assert sorted(served[:5]) == list(range(5))
    assert len(set(served[5:])) == 1


@pytest.mark.parametrize("says", ["HTTP/1.1 408 Request Timeout\r\ncontent-length: 0\r\n\r\n", ""])
async def test_a_server_that_speaks_unasked_or_hangs_up_is_asked_over_another_connection(says: str) -> None:
    """What it says on an idle connection answers nothing."""
    spoke, connections = asyncio.Event(), 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        await request_of(reader)
        writer.write(WHOLE)
        if connections == 1:
            await spoke.wait()
            writer.write(says.encode())

    async with asked(serve) as client:
        assert (await client.post("/", content=b"x")).text == "Hi"
        transport = client._transport
        assert isinstance(transport, Transport)
        (idle,) = next(iter(transport._idle.values()))
        spoke.set()
        while not idle.transport.is_closing():  # noqa: ASYNC110 - the client says when
            await asyncio.sleep(0)
        assert (await client.post("/", content=b"x")).text == "Hi"
    assert connections == 2


async def test_an_idle_connection_is_closed_after_its_time() -> None:
    """No descriptor is held for somebody who says nothing more."""
    left = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request_of(reader)
        writer.write(WHOLE)
        await reader.read()
        left.set()

    async with asked(serve, keep_seconds=0.02) as client:
        await client.post("/", content=b"x")
        await left.wait()


async def test_a_server_is_not_read_faster_than_its_answer_is_taken() -> None:
    """An answer without end does not fill the memory."""
    written, all_bytes = 0, 32 * 1024 * 1024

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal written
        await request_of(reader)
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % all_bytes)
        while written < all_bytes:
            writer.write(b"x" * 65536)
            written += 65536
            await writer.drain()

    async with asked(serve) as client, client.stream("POST", "/", content=b"x") as response:
        before = -1
        while before != written:  # until the buffers between are full
            before = written
            await asyncio.sleep(0.05)
        assert written < all_bytes
        assert sum([len(piece) async for piece in response.aiter_bytes()]) == all_bytes


async def test_an_answer_that_breaks_off_gives_what_arrived_and_an_error() -> None:
    """The error is httpx's, which says that the answer is not whole; the connection is not used again."""
    connections = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        await request_of(reader)
        writer.write(HEAD + b"2\r\nHi\r\n" if connections == 1 else WHOLE)

    async with asked(serve) as client:
        async with client.stream("POST", "/", content=b"x") as response:
            pieces = response.aiter_bytes()
            assert await anext(pieces) == b"Hi"
            with pytest.raises(httpx.RemoteProtocolError):
                await anext(pieces)
        assert (await client.post("/", content=b"x")).text == "Hi"


async def test_a_reader_that_leaves_ends_the_connection() -> None:
    """The rest of that answer would stand in front of the next one."""
    left = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request_of(reader)
        writer.write(HEAD + b"2\r\nHi\r\n")
        await reader.read()
        left.set()

    async with asked(serve) as client:
        async with client.stream("POST", "/", content=b"x") as response:
            assert await anext(response.aiter_bytes()) == b"Hi"
        await left.wait()


async def test_a_server_that_never_shakes_hands() -> None:
    """The limit for connecting includes TLS."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    async with server_of(serve) as place:
        transport = Transport(httpx.create_ssl_context(), keep_seconds=60)
        timeout = httpx.Timeout(None, connect=0.05)
        async with httpx.AsyncClient(transport=transport, timeout=timeout) as client:
            with pytest.raises(httpx.ConnectTimeout):
                await client.get(f"https://{place}")


async def test_a_proxy_of_the_environment_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """For any other machine than this one."""
    seen = asyncio.Queue[bytes]()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.put_nowait(await reader.readuntil(b"\r\n\r\n"))
        writer.write(WHOLE)

    async with server_of(serve) as place:
        monkeypatch.setenv("http_proxy", f"http://{place}")
        monkeypatch.delenv("no_proxy", raising=False)
        connection = Connection("http://models.example/v1")
        await hang_up(await connection.open("http://models.example/v1", b"{}", {}))
        await connection.aclose()
    assert (await seen.get()).startswith(b"POST http://models.example/v1 HTTP/1.1\r\n")
