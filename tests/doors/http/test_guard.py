"""Who is served at all, over real connections: names, origins, sizes, tokens, rates."""

from __future__ import annotations

import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import httpx
import pytest

pytest.importorskip("starlette", reason="the extra serve is not installed: make doors")

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from nacre.doors.http.door import Door, caller_of
from nacre.doors.http.guard import MOST_BODY_BYTES, MOST_WRONG_TOKENS
from nacre.doors.http.limits import Rate
from nacre.doors.http.server import HttpServer, ServerUnusable
from nacre.doors.http.tokens import Tokens, TokensUnusable

NOW = datetime(2026, 11, 20, 9, 30, tzinfo=UTC)


async def _echo(request: Request) -> Response:
    return PlainTextResponse(f"{caller_of(request).name}:{len(await request.body())}")


async def _broken(_request: Request) -> Response:
    raise RuntimeError("a defect with a secret in it")


@asynccontextmanager
async def listening(tmp_path: Path, *hosts: str) -> AsyncIterator[tuple[httpx.AsyncClient, str, Tokens]]:
    """A server with one door, a client without a token, and a token."""
    tokens = Tokens(tmp_path)
    shown = tokens.add("desk", agent_id="main", is_owner=True, now=NOW)
    routes = [Route("/echo", _echo, methods=["POST"]), Route("/broken", _broken)]
    server = await HttpServer.start(
        [Door(path="/v1", routes=routes)], tokens=tokens, host="127.0.0.1", port=0, hosts=hosts
    )
    try:
        async with httpx.AsyncClient(base_url=server.url) as client:
            yield client, shown, tokens
    finally:
        await server.close()


def bearer(token: str, **more: str) -> dict[str, str]:
    """Headers with a token."""
    return {"authorization": f"Bearer {token}", **more}


async def test_a_token_opens_its_door_until_it_is_revoked(tmp_path: Path) -> None:
    """Without one nothing is served but that the server is there."""
    async with listening(tmp_path) as (client, shown, tokens):
        assert (await client.get("/health")).json() == {"status": "ok"}
        assert (await client.post("/v1/echo")).status_code == 401
        assert (await client.post("/v1/echo", headers=bearer("wrong"))).status_code == 401
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


async def test_whoever_tries_tokens_has_to_wait(tmp_path: Path) -> None:
    """Then the right one is not looked at either."""
    async with listening(tmp_path) as (client, shown, _):
        for number in range(MOST_WRONG_TOKENS):
            assert (await client.post("/v1/echo", headers=bearer(f"no{number}"))).status_code == 401
        refused = await client.post("/v1/echo", headers=bearer(shown))
        assert refused.status_code == 429
        assert int(refused.headers["retry-after"]) > 0


async def test_what_is_counted_names_nobody(tmp_path: Path) -> None:
    """For Prometheus, by door and class of status; a token is asked for."""
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
    with pytest.raises(ServerUnusable, match="nacre token add"):
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
    with pytest.raises(TokensUnusable, match="cannot be understood"):
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
