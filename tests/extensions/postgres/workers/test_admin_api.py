"""`/admin`: agents and their people over HTTP, with a real server, channel, worker and database."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, LiteralString

import pytest

from nacre.extensions.postgres.server.database import Database
from nacre.runtime.settings.config import load_config
from tests.bridges.channels.contract.line_extension import install_line
from tests.bridges.line_channel import LineServer
from tests.cli.program import Terminal, run_nacre
from tests.cli.serving.test_serve import serving
from tests.extensions.http.test_service import free_port
from tests.extensions.postgres.workers.served import settings
from tests.extensions.postgres.workers.worker_process import started
from tests.runtime.agents import write_settings
from tests.servers import provider_wire as wire
from tests.servers.provider_server import ProviderServer

pytest.importorskip("starlette", reason="the extra serve is not installed: make protocols")
httpx = pytest.importorskip("httpx")
pytestmark = pytest.mark.postgres
NOW = datetime(2026, 11, 29, 9, 30, tzinfo=UTC)
CODE = re.compile(r"approve (\w{8})")


def _code_in(server: LineServer, chat: str) -> str:
    found = CODE.search(server.shown(chat)[-1])
    assert found is not None, server.shown(chat)
    return found[1]


def _said(count: int, chat: str) -> Callable[[LineServer], bool]:
    return lambda server: len(server.shown(chat)) == count


async def test_an_assistant_is_made_talks_rests_and_goes(tmp_path: Path, database_url: str) -> None:
    """While `nacre serve` and a worker run: no settings change, and nothing is started anew."""
    port = free_port()
    with LineServer() as server, ProviderServer(responder=lambda _: wire.reply("hi")) as provider:
        written = settings(provider, 1)
        written["channels"] = {"line": {"port": server.port, "dmPolicy": "pairing"}}
        write_settings(tmp_path / ".nacre", {**written, "http": {"port": port}, "storage": {"workers": True}})
        variables = {
            "NACRE_DATABASE_URL": database_url,
            "PYTHONPATH": install_line(tmp_path / "site"),
        }
        token = _token(tmp_path, "host", "--admin")
        worker = started(tmp_path / ".nacre", database_url)
        try:
            with serving(tmp_path, **variables) as process:
                assert process.stdout is not None
                assert any(line.startswith("Serving HTTP") for line in process.stdout)
                with _api(port, token) as api:
                    await _life_of_an_assistant(server, api, database_url)
                with _api(port, _token(tmp_path, "client")) as client:
                    said = {"messages": [{"role": "user", "content": "hello"}]}
                    answer = (await asyncio.to_thread(client.post, "/v1/chat/completions", json=said)).json()
                    assert answer["choices"][0]["message"]["content"] == "hi"
                    turns = "SELECT state FROM turns WHERE session_key LIKE '%openai%'"
                    assert await _rows(database_url, turns) == [("done",)], "the worker ran it"
        finally:
            worker.kill()
            worker.join()
    log = run_nacre(tmp_path, "admin", "log", "-n", "400").stdout
    for what in ("created the agent user-ann", "paused user-ann", "rows of user-ann", "as owner to user-ann"):
        assert re.search(rf"admin token 'host' .*{what}", log), what
    assert token not in log


def _token(home: Path, name: str, *options: str) -> str:
    made = run_nacre(home, "admin", "access", "token", "add", name, *options, "--json")
    return str(json.loads(made.stdout)["token"])


def _api(port: int, token: str) -> Any:
    return httpx.Client(
        base_url=f"http://127.0.0.1:{port}", headers={"authorization": f"Bearer {token}"}, timeout=60
    )


async def _life_of_an_assistant(server: LineServer, api: Any, database_url: str) -> None:
    made = api.post("/admin/agents", json={"user": "ann"})
    assert (made.status_code, made.json()["id"]) == (201, "user-ann")
    assert api.post("/admin/agents", json={"user": "ann"}).status_code == 409
    server.say("hello", chat="a", sender="ann")
    await server.until(_said(1, "a"))
    people = "/admin/agents/user-ann/people"
    asking = api.get(people).json()["asking"]
    assert [each["code"] for each in asking] == [_code_in(server, "a")]
    let_in = api.post(people, json={"code": _code_in(server, "a"), "role": "owner"})
    assert (let_in.status_code, let_in.json()["id"]) == (201, "ann")
    assert [each["id"] for each in api.get(people).json()["known"]] == ["ann"]
    server.say("who are you", chat="a", sender="ann")
    await server.until(_said(2, "a"))
    assert server.shown("a")[1] == "hi"
    assert await _talked(database_url) == {"user-ann"}

    await _a_day_has_a_limit(server, api)

    assert api.patch("/admin/agents/user-ann", json={"isPaused": True}).json()["isPaused"] is True
    server.say("are you there", chat="a", sender="ann")
    server.say("/status", chat="c", sender="ann")
    server.say("hello", chat="b", sender="ben")
    await server.until(_said(1, "b"))
    let_in = api.post("/admin/agents/main/people", json={"code": _code_in(server, "b")})
    assert let_in.json()["role"] == "guest"
    server.say("hello", chat="b", sender="ben")
    await server.until(_said(2, "b"))  # behind what ann said, and answered
    assert (len(server.shown("a")), server.shown("c")) == (2, [])
    api.patch("/admin/agents/user-ann", json={"isPaused": False})
    await server.until(lambda server: len(server.shown("a")) == 3 and bool(server.shown("c")))

    assert api.delete("/admin/agents/user-ann").status_code == 409
    api.patch("/admin/agents/user-ann", json={"isPaused": True})
    server.say("too late", chat="a", sender="ann")
    async with asyncio.timeout(60):
        while not (await asyncio.to_thread(api.get, "/admin/agents/user-ann")).json()["turns"]:
            pass
    gone = api.delete("/admin/agents/user-ann")
    assert (gone.status_code, gone.json()["removedRows"] > 5) == (200, True), gone.text
    assert api.get("/admin/agents/user-ann").status_code == 404
    assert [each["id"] for each in api.get("/admin/agents").json()["agents"]] == ["main"]
    server.say("and now", chat="a", sender="ann")
    await server.until(_said(4, "a"))
    assert _code_in(server, "a")  # nobody else answers her
    assert await _talked(database_url) == {"main"}

    api.post("/admin/agents", json={"user": "ann"})
    api.post(people, json={"code": _code_in(server, "a"), "role": "owner"})
    server.say("who are you now", chat="a", sender="ann")
    await server.until(_said(5, "a"))
    assert server.shown("a")[4] == "hi", "what nobody answers any more holds nobody up"
    assert await _rows(database_url, "SELECT text FROM ledger_outbound WHERE text LIKE 'I do not know%'")


async def _a_day_has_a_limit(server: LineServer, api: Any) -> None:
    limited = api.patch("/admin/agents/user-ann", json={"dailyTokens": 1, "dailyUsd": 2})
    assert (limited.json()["dailyTokens"], limited.json()["dailyUsd"]) == (1, 2.0)
    server.say("the last one for today", chat="d", sender="ann")
    await server.until(_said(1, "d"))
    assert api.get("/admin/agents/user-ann").json()["isOverQuota"] is True
    server.say("one more", chat="d", sender="ann")
    await server.until(_said(2, "d"))
    assert server.shown("d")[1].startswith("I have used up what I may use today.")
    api.patch("/admin/agents/user-ann", json={"dailyTokens": 0})
    server.say("and now", chat="d", sender="ann")
    await server.until(_said(3, "d"))
    assert server.shown("d") == ["hi", server.shown("d")[1], "hi"]
    kept = api.patch("/admin/agents/user-ann", json={"maxBytes": 1}).json()
    assert (kept["maxBytes"], kept["dailyUsd"], kept["isOverQuota"]) == (1, 2.0, True)
    server.say("is there room", chat="d", sender="ann")
    await server.until(_said(4, "d"))
    assert server.shown("d")[3].startswith("I have no room left")
    kept = api.patch("/admin/agents/user-ann", json={"maxBytes": kept["sizeBytes"] + 1_000_000}).json()
    assert (kept["sizeBytes"] > 0, kept["isOverQuota"]) == (True, False)


async def _talked(database_url: str) -> set[str]:
    return {agent for (agent,) in await _rows(database_url, "SELECT agent FROM transcripts")}


async def _rows(database_url: str, query: LiteralString) -> list[Any]:
    database = Database(database_url)
    rows = await database.read(lambda db: db.execute(query).fetchall())
    await database.close()
    return rows


@asynccontextmanager
async def admin_server(state: Path, database_url: str) -> AsyncIterator[tuple[Any, Any]]:
    """The server with the admin API alone; a client without a token, and the tokens."""
    from nacre.extensions.http.server.server import HttpServer
    from nacre.extensions.http.server.tokens import Tokens
    from nacre.extensions.postgres.admin_api import admin_mount

    config = load_config({"HOME": str(state), "NACRE_DATABASE_URL": database_url}, state_dir=state)
    tokens = Tokens(state)
    server = await HttpServer.start([admin_mount(config)], tokens=tokens, host="127.0.0.1", port=0)
    try:
        async with httpx.AsyncClient(base_url=server.url, timeout=60) as client:
            yield client, tokens
    finally:
        await server.close()


async def test_only_a_token_of_its_own_opens_it(tmp_path: Path, database_url: str) -> None:
    """None, a wrong one and an owner's are refused; while no admin token is made, that is everybody. And an
    admin's token opens nothing else."""
    async with admin_server(tmp_path, database_url) as (client, tokens):
        owner = tokens.add("owner", agent_id="main", is_owner=True, now=NOW)
        for headers in ({}, {"authorization": "Bearer nacre_wrong"}, {"authorization": f"Bearer {owner}"}):
            for method, path in (("GET", "/agents"), ("POST", "/agents"), ("DELETE", "/agents/main")):
                refused = await client.request(method, f"/admin{path}", headers=headers)
                assert refused.status_code == 401
                assert "token add NAME --admin" in refused.text
        admin = tokens.add("host", agent_id="", is_owner=False, now=NOW, is_admin=True)
        assert (await client.get("/metrics", headers={"authorization": f"Bearer {admin}"})).status_code == 401
        assert (await client.get("/metrics", headers={"authorization": f"Bearer {owner}"})).status_code == 200
        opened = await client.get("/admin/agents", headers={"authorization": f"Bearer {admin}"})
        assert (opened.status_code, opened.json()) == (200, {"agents": []})
        assert tokens.holder_of(admin) is None  # which the page asks
        tokens.revoke("host")
        refused = await client.get("/admin/agents", headers={"authorization": f"Bearer {admin}"})
        assert refused.status_code == 401
        assert "is_admin" not in tokens.path.read_text()  # what an older program would not read


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "told"),
    [
        ("POST", "/agents", b'{"user": "  "}', 400, "A user needs a name"),
        ("POST", "/agents", b"{", 400, "The body is not valid JSON"),
        ("POST", "/agents", b"\xff", 400, "The body is not valid JSON"),
        ("POST", "/agents", b"[" * 60_000, 400, "The body is not valid JSON"),
        ("POST", "/agents", b'{"name": "ann"}', 400, "no keys other than user (str)"),
        ("POST", "/agents", b'{"user": 7}', 400, "no keys other than user (str)"),
        ("POST", "/agents", b'{"user": "' + b"a" * 70_000 + b'"}', 413, "too large"),
        ("PATCH", "/agents/user-none", b'{"isPaused": true}', 404, "There is no agent 'user-none'"),
        ("PATCH", "/agents/main", b'{"isPaused": 1}', 400, "isPaused (bool)"),
        ("PATCH", "/agents/main", b'{"dailyTokens": -1}', 400, "A limit is a positive number"),
        ("PATCH", "/agents/main", b'{"dailyUsd": NaN}', 400, "A limit is a positive number"),
        ("PATCH", "/agents/main", b'{"dailyUsd": 1' + b"0" * 400 + b"}", 400, "int too large"),
        ("PATCH", "/agents/main", b'{"dailyTokens": 1.5}', 400, "dailyTokens (int)"),
        ("GET", "/agents/No%20Body", b"", 400, "'No Body' is not an agent ID"),
        ("GET", "/agents/user-none/people", b"", 404, "There is no agent"),
        ("POST", "/agents/main/people", b'{"code": "ABCD2345"}', 404, "This code is unknown"),
        ("POST", "/agents/main/people", b'{"code": "\\ud800\\u0000"}', 404, "This code is unknown"),
        ("POST", "/agents/main/people", b'{"code": "x", "role": "king"}', 400, "role is 'king'"),
        ("DELETE", "/agents/main", b"", 409, "main is not paused"),
        ("PUT", "/agents/main", b"", 405, ""),
    ],
)
async def test_what_cannot_be_done_is_a_sentence(
    tmp_path: Path, database_url: str, method: str, path: str, body: bytes, status: int, told: str
) -> None:
    """With the status of its kind, and nothing is changed."""
    async with admin_server(tmp_path, database_url) as (client, tokens):
        admin = tokens.add("host", agent_id="", is_owner=False, now=NOW, is_admin=True)
        client.headers["authorization"] = f"Bearer {admin}"
        refused = await client.request(method, f"/admin{path}", content=body)
        assert (refused.status_code, told in refused.text) == (status, True), refused.text
        assert (await client.get("/admin/agents")).json() == {"agents": []}


async def test_a_database_that_is_away_is_told(tmp_path: Path) -> None:
    """As the server's failing, with the reason."""
    async with admin_server(tmp_path, "postgresql://nobody@127.0.0.1:1/none") as (client, tokens):
        admin = tokens.add("host", agent_id="", is_owner=False, now=NOW, is_admin=True)
        refused = await client.get("/admin/agents", headers={"authorization": f"Bearer {admin}"})
    assert (refused.status_code, "127.0.0.1" in refused.text) == (503, True), refused.text


async def test_the_commands_do_the_same(tmp_path: Path, database_url: str) -> None:
    """Made, somebody let in, listed; an unknown agent is refused."""

    def run(*words: str) -> str:
        ended = run_nacre(tmp_path, "admin", "storage", *words, NACRE_DATABASE_URL=database_url)
        return f"{ended.returncode} {ended.stdout}{ended.stderr}"

    assert run("create", "ann").startswith("0 Created user-ann.")
    assert "has an assistant already" in run("create", "ann")
    assert "There is no agent 'user-ben'" in run("pause", "user-ben")
    assert run("limit", "user-ann", "--usd", "1.5", "--megabytes", "50") == (
        "0 user-ann may use a day: tokens unlimited, dollars 1.5; room 50 MB.\n"
    )
    async with admin_server(tmp_path / ".nacre", database_url):
        from nacre.extensions.postgres.hosting import people_in

        config = load_config({"HOME": str(tmp_path), "NACRE_DATABASE_URL": database_url})
        database = Database(database_url)
        people = people_in(config, database)
        now_ms = int(datetime.now(UTC).timestamp() * 1000)
        who = ("line", "default", "ann")
        assert await people.tables.people.ask(who, "ABCD2345", now_ms=now_ms, since_ms=0, most=3)
        await database.close()
    words = ("admin", "storage", "admit", "user-ann", "abcd2345")
    assert run(*words[2:]).startswith("1 ")  # no terminal
    with Terminal(tmp_path, *words, NACRE_DATABASE_URL=database_url) as terminal:
        terminal.wait_for("Let in: line:ann (of user-ann). Nobody else answers them.")
        assert terminal.exit_code() == 0
    listed = run_nacre(tmp_path, "admin", "access", NACRE_DATABASE_URL=database_url)
    assert listed.stdout.startswith("guest     line:ann (of user-ann) since ")
