"""A tool call in a worker that needs the owner's approval: asked in the chat, answered there, run once."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.bridges.line_channel import LineServer
from tests.extensions.postgres.workers.served import gateway, settings
from tests.extensions.postgres.workers.worker_process import started
from tests.runtime.agents import write_settings
from tests.servers import provider_wire as wire
from tests.servers.provider_server import ProviderServer

pytestmark = pytest.mark.postgres

NOTE = "- Ann is paid."


def model(request: Mapping[str, Any]) -> wire.Step:
    """Calls the tool when it is asked to pay, and says what came of it."""
    last = request["messages"][-1]
    said = json.dumps(last["content"])
    if last["role"] == "user" and "pay" in said and "The owner approved it" not in said:
        folder = "chats/line-group-g" if "for the group" in said else "memory"
        return wire.tool_calls(("write", {"path": f"{folder}/paid.md", "content": NOTE}))
    return wire.reply(said[-150:])


def prepared(state_dir: Path, provider: ProviderServer) -> None:
    """Settings under which writing a note needs the owner's word."""
    write_settings(state_dir, {**settings(provider, 2), "tools": {"rules": {"write": {"confirm": True}}}})


async def asked_in(server: LineServer, chat: str = "n") -> str:
    """The id of the question that a chat shows, when it is there."""
    await server.until(lambda server: any("❓" in text for text in server.shown(chat)))
    [question] = [text for text in server.shown(chat) if "❓" in text]
    assert NOTE in question
    found = re.search(r"/approve (\w+) runs it", question)
    assert found is not None
    return found[1]


def is_paid(shown: list[str]) -> bool:
    """Whether the one message says that the tool ran; a draft of it does not yet."""
    return ["Wrote" in text for text in shown] == [True]


TRIGGER = """
-- The note goes at once, so that whoever writes it a second time is seen.
CREATE TABLE runs (at TIMESTAMPTZ);
CREATE FUNCTION ran() RETURNS TRIGGER LANGUAGE plpgsql
AS 'BEGIN
    INSERT INTO runs VALUES (now());
    DELETE FROM documents WHERE agent = NEW.agent AND name = NEW.name;
    RETURN NEW;
END';
CREATE TRIGGER ran AFTER INSERT OR UPDATE ON documents FOR EACH ROW WHEN (NEW.name LIKE '%paid.md')
EXECUTE FUNCTION ran();
"""


async def sql(url: str, statement: str) -> Any:
    """What a statement gives: the first column of its first row."""

    def run() -> Any:
        import psycopg

        with psycopg.connect(url, autocommit=True) as connection:
            cursor = connection.execute(statement.encode())
            row = cursor.fetchone() if cursor.description else None
            return row[0] if row else None

    return await asyncio.to_thread(run)


async def paid(url: str) -> int:
    """How often the tool wrote its note."""
    return int(await sql(url, "SELECT count(*) FROM runs"))


async def test_the_owner_is_asked_and_answers_in_the_chat(tmp_path: Path, database_url: str) -> None:
    """Nobody else's word counts, the call runs once in the worker that waits, and late answers are told so.

    What somebody else asks for is shown to the owner in private, and not in that chat.
    """
    with LineServer() as server, ProviderServer(responder=model) as provider:
        prepared(tmp_path, provider)
        worker = started(tmp_path, database_url)
        try:
            async with gateway(tmp_path, database_url, server.port):
                server.say("hello", chat="n", sender="nora")
                await server.until(lambda server: len(server.shown("n")) == 1)
                await sql(database_url, TRIGGER)
                server.say("pay Ann for the group", chat="g", sender="bob", chat_kind="group")
                name = await asked_in(server)
                server.say(f"/approve {name}", chat="b", sender="bob")
                await server.until(lambda server: server.shown("b"))
                assert await paid(database_url) == 0
                server.say(f"/approve {name}", chat="n", sender="nora")
                await server.until(lambda server: server.shown("g") and len(server.shown("n")) == 3)
                server.say(f"/approve {name}", chat="n", sender="nora")
                await server.until(lambda server: len(server.shown("n")) == 4)
        finally:
            worker.kill()
            worker.join()
    [reply] = server.shown("g")
    assert "paid.md" in reply
    _, _, yes, late = server.shown("n")
    assert yes.startswith("Approved: write.")
    assert f"'{name}'" in late
    assert await paid(database_url) == 1


@pytest.mark.slow
async def test_an_answer_outlives_the_worker_that_asked(tmp_path: Path, database_url: str) -> None:
    """A worker is killed with its question open, and the owner answers before another one goes on: that one
    runs the call, once. Where nobody answered by then, the call still waits, and runs when it is approved.

    Another worker waits until the killed one's session is free, which is seven seconds for each.
    """
    with LineServer() as server, ProviderServer(responder=model) as provider:
        prepared(tmp_path, provider)
        workers = [started(tmp_path, database_url)]
        try:
            async with gateway(tmp_path, database_url, server.port):
                server.say("hello", chat="n", sender="nora")
                await server.until(lambda server: len(server.shown("n")) == 1)
                await sql(database_url, TRIGGER)
                server.say("pay Ann", chat="n", sender="nora")
                name = await asked_in(server)
                workers[0].kill()
                workers[0].join()
                server.say(f"/approve {name}", chat="n", sender="nora")
                await server.until(lambda server: len(server.shown("n")) == 3)
                assert await paid(database_url) == 0
                workers.append(started(tmp_path, database_url))
                await server.until(
                    lambda server: ["Wrote" in text for text in server.shown("n")[3:]] == [True]
                )
                assert await paid(database_url) == 1
                assert await sql(database_url, "SELECT count(*) FROM approvals") == 0

                server.say("pay Ann", chat="m", sender="nora")
                name = await asked_in(server, "m")
                workers[1].kill()
                workers[1].join()
                workers.append(started(tmp_path, database_url))
                await server.until(lambda server: "waits for the owner's approval" in server.shown("m")[-1])
                assert await paid(database_url) == 1
                server.say(f"/approve {name}", chat="m", sender="nora")
                await server.until(
                    lambda server: ["Wrote" in text for text in server.shown("m")[2:]] == [True]
                )
                assert await paid(database_url) == 2
        finally:
            for worker in workers:
                worker.kill()
                worker.join()


async def test_a_question_of_a_stopped_turn_is_void(tmp_path: Path, database_url: str) -> None:
    """`/stop` ends it in the worker, and who approves it afterwards is told that nothing waits."""
    with LineServer() as server, ProviderServer(responder=model) as provider:
        prepared(tmp_path, provider)
        worker = started(tmp_path, database_url)
        try:
            async with gateway(tmp_path, database_url, server.port):
                server.say("hello", chat="n", sender="nora")
                await server.until(lambda server: len(server.shown("n")) == 1)
                await sql(database_url, TRIGGER)
                server.say("pay Ann", chat="n", sender="nora")
                name = await asked_in(server)
                server.say("/stop", chat="n", sender="nora")
                await server.until(lambda server: len(server.shown("n")) == 3)
                server.say(f"/approve {name}", chat="n", sender="nora")
                await server.until(lambda server: len(server.shown("n")) == 4)
        finally:
            worker.kill()
            worker.join()
    assert f"'{name}'" in server.shown("n")[3]
    assert await paid(database_url) == 0
