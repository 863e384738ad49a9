"""Turns that come over HTTP: a worker runs them and their events stream, within the limits of the agent."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, LiteralString

import httpx
import pytest

from nacre.extensions.postgres.hosting import limit, pause
from nacre.extensions.postgres.server.database import Database
from nacre.extensions.postgres.workers.turn_rows import TurnRows
from tests.extensions.postgres.workers.worker_process import started
from tests.servers import provider_wire as wire

pytest.importorskip("starlette", reason="the extra serve is not installed: make protocols")
from tests.extensions.http.serving import Browser, Served, served

pytestmark = pytest.mark.postgres

SAID = "The first words of an answer"
HELLO = {"model": "main", "messages": [{"role": "user", "content": "hello"}]}
TURNS: LiteralString = "SELECT state FROM turns"


@asynccontextmanager
async def with_worker(page: Served, url: str) -> AsyncIterator[None]:
    """A worker, from when it lives."""
    worker, database = started(page.state, url), Database(url)
    try:
        async with asyncio.timeout(60):
            while not (await TurnRows(database).admission("main")).has_workers:  # noqa: ASYNC110 - a process
                await asyncio.sleep(0)
        yield
    finally:
        worker.kill()
        worker.join()
        await database.close()


@asynccontextmanager
async def reached(
    tmp_path: Path, url: str, answer: Callable[[Mapping[str, Any]], wire.Step], *, has_worker: bool = True
) -> AsyncIterator[tuple[Served, Any, Browser]]:
    """A server, a client of `/v1` with the owner's token, and the page in a browser."""
    async with AsyncExitStack() as stack:
        page = await stack.enter_async_context(served(tmp_path, responder=answer, database_url=url))
        if has_worker:
            await stack.enter_async_context(with_worker(page, url))
        headers = {"authorization": f"Bearer {page.owner}"}
        http = httpx.AsyncClient(base_url=f"{page.url}/v1", headers=headers, timeout=60)
        browser = Browser(page)
        for each in (http, browser.http):
            await stack.enter_async_context(each)
        await browser.login()
        yield page, http, browser


async def rows(url: str, statement: LiteralString) -> list[Any]:
    database = Database(url)
    try:
        return await database.read(lambda connection: connection.execute(statement).fetchall())
    finally:
        await database.close()


async def deltas(answer: Any) -> AsyncIterator[dict[str, Any]]:
    """The deltas of a streamed completion, as they arrive."""
    async for line in answer.aiter_lines():
        if line.startswith("data: {"):
            data = json.loads(line.removeprefix("data: "))
            for choice in data.get("choices", ()):
                yield choice["delta"]
            if data.get("usage"):
                yield {"usage": data["usage"]}


async def test_a_worker_streams_to_a_client_who_may_leave(tmp_path: Path, database_url: str) -> None:
    """The words arrive while the model is in the middle of them; without its client the turn is over."""
    async with reached(tmp_path, database_url, lambda _: wire.stall(SAID)) as (page, http, _):
        asking = http.stream("POST", "/chat/completions", json={**HELLO, "stream": True})
        said = ""
        async with asking as answer:
            async for delta in deltas(answer):
                said += delta.get("content", "")
                if said.strip() == SAID:
                    assert await rows(database_url, TURNS) == [("running",)]
                    break
        await page.provider.client_left()
        while await rows(database_url, TURNS) != [("done",)]:  # noqa: ASYNC110 - the database says when
            await asyncio.sleep(0)


async def test_a_conversation_goes_on_in_workers(tmp_path: Path, database_url: str) -> None:
    """With tools, usage and history as if the turns ran here; also what is not streamed."""
    counted = wire.usage(30, 5)
    steps = iter(
        [
            wire.tool_calls(("read", {"path": "MEMORY.md"}), usage=counted),
            wire.reply("One.", usage=counted),
            wire.reply("Two.", usage=counted),
        ]
    )
    seen: list[Mapping[str, Any]] = []

    def answer(request: Mapping[str, Any]) -> wire.Step:
        seen.append(request)
        return next(steps)

    async with reached(tmp_path, database_url, answer) as (_, http, _browser):
        body = {**HELLO, "user": "talk", "stream": True, "stream_options": {"include_usage": True}}
        async with http.stream("POST", "/chat/completions", json=body) as response:
            found = [delta async for delta in deltas(response)]
        history = [*HELLO["messages"], {"role": "assistant", "content": "One."}]
        more = {**HELLO, "user": "talk", "messages": [*history, {"role": "user", "content": "more"}]}
        second = (await http.post("/chat/completions", json=more)).json()
    assert "".join(delta.get("content", "") for delta in found) == "One."
    assert "read" in "".join(delta.get("reasoning_content", "") for delta in found)
    assert found[-1]["usage"]["total_tokens"] == 70
    assert second["choices"][0]["message"]["content"] == "Two."
    assert second["usage"]["total_tokens"] == 35
    asked = [message["content"] for message in seen[-1]["messages"] if message["role"] == "user"]
    assert [text.splitlines()[-1] for text in map(str, asked)] == ["hello", "more"]
    assert await rows(database_url, TURNS) == [("done",)] * 2


async def test_without_a_worker_the_gateway_answers(tmp_path: Path, database_url: str) -> None:
    """At once, and nothing is left for a worker to do."""
    reaching = reached(tmp_path, database_url, lambda _: wire.reply("here"), has_worker=False)
    async with reaching as (_, http, _browser):
        answer = (await http.post("/chat/completions", json=HELLO)).json()
    assert answer["choices"][0]["message"]["content"] == "here"
    assert await rows(database_url, TURNS) == []


async def test_a_client_is_told_when_the_last_worker_dies(tmp_path: Path, database_url: str) -> None:
    """Some seconds after its silence; a worker that comes later does not answer what was given up."""
    async with AsyncExitStack() as stack:
        page, http, _ = await stack.enter_async_context(
            reached(tmp_path, database_url, lambda _: wire.stall(SAID), has_worker=False)
        )
        async with with_worker(page, database_url):
            asking = asyncio.create_task(http.post("/chat/completions", json=HELLO))
            while await rows(database_url, TURNS) != [("running",)]:  # noqa: ASYNC110 - the database says when
                await asyncio.sleep(0)
        answer = await asking
        while await rows(database_url, TURNS) != [("done",)]:  # noqa: ASYNC110 - the database says when
            await asyncio.sleep(0)
    assert answer.status_code == 502
    assert answer.json()["error"]["message"].startswith("The last worker ended")


async def test_what_is_refused_changes_no_conversation(tmp_path: Path, database_url: str) -> None:
    """A client that asks again from an earlier place, and the page's button to resume, of a paused agent."""
    answers = iter(["One.", "Two."])
    database = Database(database_url)
    kept: LiteralString = "SELECT agent, key, line FROM session_lines ORDER BY key"
    lines: LiteralString = "SELECT count(*) FROM transcript_lines"
    reaching = reached(tmp_path, database_url, lambda _: wire.reply(next(answers, "More.")), has_worker=False)
    async with reaching as (_, http, browser):

        async def ask(*texts: str) -> int:
            roles = ("user", "assistant")
            said = [{"role": roles[at % 2], "content": text} for at, text in enumerate(texts)]
            body = {"model": "main", "user": "talk", "messages": said}
            return int((await http.post("/chat/completions", json=body)).status_code)

        assert await ask("hello") == 200
        assert await ask("hello", "One.", "more") == 200
        await browser.say("of the page", reply=None)
        before = await rows(database_url, kept), await rows(database_url, lines)
        await pause(database, "main", is_paused=True)
        assert await ask("hello", "One.", "something else") == 503
        shown = await browser.post("/sessions/agent:main:main/resume")
        assert "is paused" in shown.text
        assert (await rows(database_url, kept), await rows(database_url, lines)) == before
    await database.close()


@pytest.mark.parametrize("has_worker", [True, False])
async def test_pause_and_limits_hold_over_http(
    tmp_path: Path, database_url: str, *, has_worker: bool
) -> None:
    """For the agent, a command, its model alone, and the page: refused at once, without asking a model."""
    counted = wire.reply("hi", usage=wire.usage(30, 5))
    used: LiteralString = "SELECT tokens FROM agent_quotas"
    database = Database(database_url)

    reaching = reached(tmp_path, database_url, lambda _: counted, has_worker=has_worker)
    async with reaching as (page, http, browser):

        async def answer(model: str, text: str) -> tuple[int, str]:
            body = {"model": model, "messages": [{"role": "user", "content": text}]}
            found = await http.post("/chat/completions", json=body)
            return found.status_code, found.text

        async def told() -> list[tuple[int, str]]:
            return [await answer(*each) for each in (("main", "hello"), ("main/plain", "hello"))]

        await limit(database, "main", tokens=70, usd=None, max_bytes=None)
        await pause(database, "main", is_paused=True)
        for status, text in [*await told(), await answer("main", "/status")]:
            assert status == 503
            assert "The agent main is paused" in text
        shown = await browser.post("/chat/say", session="main", text="hello")
        [*_, (_, notes), _] = await browser.events(re.findall(r'sse-connect="([^"]+)"', shown.text)[0])
        assert "is paused" in notes
        assert page.provider.requests == []
        await pause(database, "main", is_paused=False)
        assert [status for status, _ in await told()] == [200, 200]
        assert await rows(database_url, used) == [(70,)]
        for status, text in await told():
            assert status == 429
            assert "used up" in text
        assert (await answer("main", "/status"))[0] == 200
    await database.close()
    assert len(page.provider.requests) == 2


async def test_the_page_shows_what_a_worker_says(tmp_path: Path, database_url: str) -> None:
    """While it says it; the stop button ends the turn where it runs."""
    async with reached(tmp_path, database_url, lambda _: wire.stall(SAID)) as (page, _, browser):
        shown = await browser.post("/chat/say", session="main", text="hello")
        path = re.findall(r'sse-connect="([^"]+)"', shown.text)[0]
        watching = asyncio.create_task(browser.events(path))
        async with asyncio.timeout(60):
            while SAID not in await browser.get("/chat"):
                pass
        assert await rows(database_url, TURNS) == [("running",)]
        await browser.post("/chat/stop", session="main")
        found = await watching
        await page.provider.client_left()
    assert any(SAID in data for name, data in found if name == "answer")
    assert found[-1] == ("close", "ended")
