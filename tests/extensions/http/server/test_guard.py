"""Who is served at all, over real connections: names, origins, sizes, tokens, rates."""

from __future__ import annotations

import asyncio
import stat
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import httpx
import pytest

pytest.importorskip("starlette", reason="the extra serve is not installed: make protocols")

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Mount, Route

from nacre.extensions.http.server.guard import (
    MOST_AT_ONCE,
    MOST_BODY_BYTES,
    MOST_BODY_BYTES_OF_STRANGERS,
    MOST_REQUESTS,
    MOST_WRONG_TOKENS,
    Guard,
    Rate,
)
from nacre.extensions.http.server.server import ConnectionLimits, HttpServer, ServerUnusable
from nacre.extensions.http.server.tokens import Tokens, TokensUnusable
from nacre.runtime.extensions.service import HttpMount, caller_of

NOW = datetime(2026, 11, 20, 9, 30, tzinfo=UTC)


async def _echo(request: Request) -> Response:
    return PlainTextResponse(f"{caller_of(request).name}:{len(await request.body())}")


async def _echo_nobody(_request: Request) -> Response:
    return Response("seen")


async def _broken(_request: Request) -> Response:
    raise RuntimeError("a defect with a secret in it")


async def _endless(_request: Request) -> Response:
    async def pieces() -> AsyncIterator[str]:
        yield "begun"
        await asyncio.Event().wait()

    return StreamingResponse(pieces())


async def _silent(_request: Request) -> Response:
    await asyncio.Event().wait()
    return Response()


ROUTES = [
    Route("/echo", _echo, methods=["POST"]),
    Route("/broken", _broken),
    Route("/endless", _endless),
    Route("/silent", _silent),
]


@asynccontextmanager
async def listening(tmp_path: Path, *hosts: str) -> AsyncIterator[tuple[httpx.AsyncClient, str, Tokens]]:
    """A server with one mount, a client without a token, and a token."""
    tokens = Tokens(tmp_path)
    shown = tokens.add("desk", agent_id="main", is_owner=True, now=NOW)
    server = await HttpServer.start(
        [HttpMount(path="/v1", routes=ROUTES)], tokens=tokens, host="127.0.0.1", port=0, hosts=hosts
    )
    try:
        async with httpx.AsyncClient(verify=False, base_url=server.url, timeout=60) as client:
            yield client, shown, tokens
    finally:
        await server.close()


def bearer(token: str, **more: str) -> dict[str, str]:
    """Headers with a token."""
    return {"authorization": f"Bearer {token}", **more}


async def test_a_token_opens_its_door_until_it_is_revoked(tmp_path: Path) -> None:
    """Without one nothing is served but that the server is there; who sent one is not told to send one."""
    async with listening(tmp_path) as (client, shown, tokens):
        assert (await client.get("/health")).json() == {"status": "ok"}
        without = await client.post("/v1/echo")
        assert (without.status_code, "Send a token" in without.text) == (401, True)
        wrong = await client.post("/v1/echo", headers=bearer("wrong"))
        assert (wrong.status_code, "This token gives no access" in wrong.text) == (401, True)
        assert (await client.post("/v1/echo", headers=bearer(shown), content=b"abc")).text == "desk:3"
        tokens.revoke("desk")
        assert (await client.post("/v1/echo", headers=bearer(shown))).status_code == 401


async def test_a_page_of_another_site_is_not_served(tmp_path: Path) -> None:
    """Neither under a name that it made point here, nor from its own address."""
    async with listening(tmp_path, "nacre.example") as (client, shown, _):

        async def status(**headers: str) -> int:
            return (await client.post("/v1/echo", headers=bearer(shown, **headers))).status_code

        assert await status(host="evil.example") == 421
        assert await status(host="nacre.example:443") == 200
        assert await status(origin="https://evil.example") == 403
        assert await status(origin="https://nacre.example") == 200
        assert await status(origin="null") == 403


async def test_a_body_that_is_too_large_is_refused(tmp_path: Path) -> None:
    """By what it says of itself, and by what comes."""
    async with listening(tmp_path) as (client, shown, _):
        large = b"x" * (MOST_BODY_BYTES + 1)
        assert (await client.post("/v1/echo", headers=bearer(shown), content=large)).status_code == 413

        async def pieces() -> AsyncIterator[bytes]:
            for _ in range(MOST_BODY_BYTES // 1_000_000 + 2):
                yield b"x" * 1_000_000

        answer = await client.post("/v1/echo", headers=bearer(shown), content=pieces())
        assert answer.status_code == 413


async def test_wrong_tokens_wait_and_lock_nobody_out(tmp_path: Path) -> None:
    """Whoever tries tokens has to wait; a good one of the same address is served all the same."""
    async with listening(tmp_path) as (client, shown, _):
        for number in range(MOST_WRONG_TOKENS):
            assert (await client.post("/v1/echo", headers=bearer(f"no{number}"))).status_code == 401
        refused = await client.post("/v1/echo", headers=bearer("no"))
        assert refused.status_code == 429
        assert int(refused.headers["retry-after"]) > 0
        assert (await client.post("/v1/echo", headers=bearer(shown))).status_code == 200


async def test_a_flood_keeps_no_owner_of_the_same_address_out(tmp_path: Path) -> None:
    """Whoever has a token or a login, or logs in, is counted apart from the others at an address."""
    tokens = Tokens(tmp_path)
    shown = tokens.add("desk", agent_id="main", is_owner=True, now=NOW)
    page = [Route("/login", _echo_nobody, methods=["POST"]), Route("/chat", _echo_nobody)]
    mounts = [
        HttpMount(path="/v1", routes=ROUTES),
        HttpMount(path="/", routes=page, wants_token=False, login_of=lambda cookies: cookies),
    ]
    app = Starlette(routes=[*page, Mount("/v1", routes=ROUTES)])
    guard = Guard(app, tokens=tokens, mounts=mounts, hosts=["test"], seconds=lambda: 1.0)
    async with httpx.AsyncClient(
        verify=False, transport=httpx.ASGITransport(guard), base_url="http://test"
    ) as client:
        statuses = [(await client.get("/chat")).status_code for _ in range(MOST_REQUESTS + 1)]
        assert statuses == [200] * MOST_REQUESTS + [429]
        assert (await client.post("/v1/echo", headers=bearer(shown))).status_code == 200
        assert (await client.post("/login")).status_code == 200
        assert (await client.get("/chat", headers={"cookie": "the owner's"})).status_code == 200
        assert (await client.get("/chat")).status_code == 429


async def test_addresses_in_headers_are_believed_of_named_proxies_alone(tmp_path: Path) -> None:
    """Somebody at this machine does not get around the limit for wrong tokens by naming other addresses."""

    async def last_status(url: str) -> int:
        async with httpx.AsyncClient(verify=False, base_url=url) as client:
            for number in range(MOST_WRONG_TOKENS + 1):
                headers = bearer("no", **{"x-forwarded-for": f"192.0.2.{number}"})
                answer = await client.post("/v1/echo", headers=headers)
            return answer.status_code

    async with listening(tmp_path) as (client, _, tokens):
        assert await last_status(str(client.base_url)) == 429
        mount = HttpMount(path="/v1", routes=[])
        proxied = await HttpServer.start(
            [mount], tokens=tokens, host="127.0.0.1", port=0, trusted_proxies=["127.0.0.1"]
        )
        try:
            assert await last_status(proxied.url) == 401
        finally:
            await proxied.close()


async def test_another_port_of_this_machine_is_another_site(tmp_path: Path) -> None:
    """A page of another program on this machine may not ask, one of the server's own may."""
    async with listening(tmp_path) as (client, shown, _):
        own = f"http://127.0.0.1:{client.base_url.port}"
        for origin, status in ((own, 200), ("http://127.0.0.1:1", 403), ("http://localhost", 403)):
            answer = await client.post("/v1/echo", headers=bearer(shown, origin=origin))
            assert answer.status_code == status


async def test_bodies_of_strangers_are_smaller(tmp_path: Path) -> None:
    """Without a token nothing is read, and a stranger's token allows less than the owner's."""
    async with listening(tmp_path) as (client, shown, tokens):
        stranger = tokens.add("guest", agent_id="main", is_owner=False, now=NOW)
        large = b"x" * (MOST_BODY_BYTES_OF_STRANGERS + 1)
        assert (await client.post("/v1/echo", headers=bearer(shown), content=large)).status_code == 200
        assert (await client.post("/v1/echo", headers=bearer(stranger), content=large)).status_code == 413
        assert (await client.post("/v1/echo", content=large)).status_code == 401


async def test_a_stream_ends_when_its_token_is_revoked(tmp_path: Path) -> None:
    """An answer that is still open is closed, and so is a request that has none yet."""
    async with listening(tmp_path) as (client, shown, tokens):
        async with client.stream("GET", "/v1/endless", headers=bearer(shown), timeout=60) as answer:
            pieces = answer.aiter_text()
            assert await anext(pieces) == "begun"
            silent = asyncio.create_task(client.get("/v1/silent", headers=bearer(shown), timeout=60))
            tokens.revoke("desk")
            assert [piece async for piece in pieces] == []
        assert (await silent).status_code == 401


async def test_one_token_does_not_take_every_connection(tmp_path: Path) -> None:
    """So many streams of one token are open at once; another one is still served."""
    async with listening(tmp_path) as (client, shown, tokens), AsyncExitStack() as streams:
        other = tokens.add("phone", agent_id="main", is_owner=True, now=NOW)
        pool = httpx.AsyncClient(verify=False, base_url=client.base_url, limits=httpx.Limits(), timeout=60)
        await streams.enter_async_context(pool)
        for _stream in range(MOST_AT_ONCE):
            begun = await streams.enter_async_context(
                pool.stream("GET", "/v1/endless", headers=bearer(shown))
            )
            assert begun.status_code == 200
        assert (await client.post("/v1/echo", headers=bearer(shown))).status_code == 429
        assert (await client.post("/v1/echo", headers=bearer(other))).status_code == 200


async def test_silent_connections_shut_nobody_out(tmp_path: Path) -> None:
    """They give their places to whoever asks something, and are closed after a while by themselves."""
    tokens = Tokens(tmp_path)
    shown = tokens.add("desk", agent_id="main", is_owner=True, now=NOW)
    server = await HttpServer.start(
        [HttpMount(path="/v1", routes=ROUTES)],
        tokens=tokens,
        host="127.0.0.1",
        port=0,
        connections=ConnectionLimits(most=20, head_seconds=0.5),
    )
    try:
        port = int(server.url.rpartition(":")[2])
        async with (
            httpx.AsyncClient(verify=False, base_url=server.url, timeout=60) as client,
            client.stream("GET", "/v1/endless", headers=bearer(shown)) as stream,
        ):
            pieces = stream.aiter_text()
            assert await anext(pieces) == "begun"
            opened = [await asyncio.open_connection("127.0.0.1", port) for _ in range(50)]
            for number, (_, writer) in enumerate(opened):
                writer.write(b"GET /health HTTP/1.1\r\nHost: lo" if number % 2 else b"")
            assert (await client.post("/v1/echo", headers=bearer(shown), content=b"a")).text == "desk:1"
            reading = [asyncio.wait_for(reader.read(), 20) for reader, _ in opened]
            ended = await asyncio.gather(*reading, return_exceptions=True)
            assert all(each == b"" or isinstance(each, ConnectionError) for each in ended)
            for _, writer in opened:
                writer.close()
            tokens.revoke("desk")  # the open stream was never closed for the silent ones
            assert [piece async for piece in pieces] == []
    finally:
        await server.close()


async def test_what_is_counted_names_nobody(tmp_path: Path) -> None:
    """For Prometheus, by mount and class of status; a token is asked for."""
    async with listening(tmp_path) as (client, shown, _):
        await client.post("/v1/echo")
        await client.post("/v1/echo", headers=bearer(shown))
        assert (await client.get("/metrics/")).status_code == 401
        counts = (await client.get("/metrics", headers=bearer(shown), follow_redirects=True)).text
        assert 'nacre_http_requests_total{door="/v1",status="4xx"} 1.0' in counts
        assert 'nacre_http_requests_total{door="/v1",status="2xx"} 1.0' in counts
        assert "desk" not in counts


async def test_a_defect_tells_nothing(tmp_path: Path) -> None:
    """The log has it."""
    async with listening(tmp_path) as (client, shown, _):
        answer = await client.get("/v1/broken", headers=bearer(shown))
        assert answer.status_code == 500
        assert "secret" not in answer.text


async def test_an_address_that_others_reach_needs_a_token(tmp_path: Path) -> None:
    """And a port that is taken is a sentence."""
    tokens = Tokens(tmp_path)
    with pytest.raises(ServerUnusable, match="nacre admin access token add"):
        await HttpServer.start([], tokens=tokens, host="0.0.0.0", port=0)
    first = await HttpServer.start([], tokens=tokens, host="127.0.0.1", port=0)
    try:
        with pytest.raises(ServerUnusable, match=r"http\.port"):
            await HttpServer.start(
                [], tokens=tokens, host="127.0.0.1", port=int(first.url.rpartition(":")[2])
            )
    finally:
        await first.close()


def test_the_file_of_tokens_holds_none_and_is_the_owners_alone(tmp_path: Path) -> None:
    """What cannot be read is told and not overwritten."""
    tokens = Tokens(tmp_path)
    shown = tokens.add("desk", agent_id="main", is_owner=False, now=NOW)
    assert shown not in tokens.path.read_text()
    assert stat.S_IMODE(tokens.path.stat().st_mode) == 0o600
    with pytest.raises(TokensUnusable, match="already"):
        tokens.add("desk", agent_id="main", is_owner=True, now=NOW)
    tokens.path.write_text("{broken")
    with pytest.raises(TokensUnusable, match="are not valid"):
        tokens.add("phone", agent_id="main", is_owner=True, now=NOW)
    assert tokens.path.read_text() == "{broken"


def test_a_rate_fills_again() -> None:
    """Each name has its own."""
    rate = Rate(most=2, per_second=0.5)
    for _ in range(2):
        assert rate.wait_seconds("a", 10.0) == 0
        rate.take("a", 10.0)
    assert rate.wait_seconds("a", 10.0) == pytest.approx(2)
    assert rate.wait_seconds("b", 10.0) == 0
    assert rate.wait_seconds("a", 12.0) == 0
