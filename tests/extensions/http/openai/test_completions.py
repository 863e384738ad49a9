"""`/v1/chat/completions` as OpenAI's own client sees it."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from pydantic import BaseModel, field_validator

from tests.servers import provider_wire as wire

pytest.importorskip("starlette", reason="the extra serve is not installed: make protocols")

from starlette.requests import Request

from nacre.extensions.http.openai.requests import body_of
from nacre.extensions.http.server.tokens import Tokens
from tests.extensions.http.serving import NOW, Served, served

PIXEL = base64.b64encode(b"\x89PNG\r\n\x1a\n" + b"\0" * 16).decode()


@asynccontextmanager
async def asked(tmp_path: Path, *, as_owner: bool = True) -> AsyncIterator[tuple[Served, Any]]:
    """A server and a client with a token."""
    import openai

    async with served(tmp_path) as server:
        key = server.owner if as_owner else server.stranger
        async with openai.AsyncOpenAI(base_url=f"{server.url}/v1", api_key=key, max_retries=0) as client:
            yield server, client


def sent(server: Served) -> list[tuple[str, str]]:
    """Roles and texts of the last request to the provider, without the system prompt."""
    messages = server.provider.requests[-1]["messages"]
    return [(item["role"], str(item.get("content"))) for item in messages if item["role"] != "system"]


def words(text: str) -> dict[str, str]:
    """A message of the user."""
    return {"role": "user", "content": text}


@pytest.mark.slow
async def test_an_answer_whole_and_streamed(tmp_path: Path) -> None:
    """The first chunk has the role, the last ones why it ended and what it took; a command is answered."""
    async with asked(tmp_path) as (server, client):
        server.provider.reply("In the shed.", usage=wire.usage(100, 5))
        whole = await client.chat.completions.create(model="main", messages=[words("Where is the saw?")])
        assert (whole.choices[0].message.content, whole.choices[0].finish_reason) == ("In the shed.", "stop")
        assert (whole.usage.prompt_tokens, whole.usage.completion_tokens) == (100, 5)

        server.provider.reply("Behind the mount.", usage=wire.usage(90, 4))
        stream = await client.chat.completions.create(
            model="main",
            messages=[words("And the rake?")],
            stream=True,
            stream_options={"include_usage": True},
        )
        chunks = [chunk async for chunk in stream]
        assert chunks[0].choices[0].delta.role == "assistant"
        text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
        assert text == "Behind the mount."
        assert chunks[-2].choices[0].finish_reason == "stop"
        assert (chunks[-1].choices, chunks[-1].usage.total_tokens) == ([], 94)

        command = await client.chat.completions.create(model="main", messages=[words("/help")], stream=True)
        told = "".join([chunk.choices[0].delta.content or "" async for chunk in command])
        assert "/status" in told


async def test_only_what_is_new_is_said_and_another_history_is_a_branch(tmp_path: Path) -> None:
    """The client's copy of the conversation is not ours: the session's own goes to the model."""
    async with asked(tmp_path) as (server, client):

        async def say(*messages: dict[str, str], leaves: bool = False) -> None:
            if leaves:
                server.provider.reply("NO_REPLY")  # notes of what is left are saved first
            server.provider.reply("ok")
            await client.chat.completions.create(model="main", messages=list(messages), user="kitchen")

        answered = {"role": "assistant", "content": "(folded by the front end)"}
        await say({"role": "system", "content": "Be brief."}, words("One."))
        first = sent(server)
        assert len(first) == 1
        assert first[0][1].endswith("\n\nOne.")
        assert "> Be brief." in first[0][1]
        await say({"role": "system", "content": "Be brief."}, words("One."), answered, words("Two."))
        assert [role for role, _ in sent(server)] == ["user", "assistant", "user"]
        assert sent(server)[1:] == [("assistant", "ok"), ("user", "Two.")]
        await say(words("One."), answered, words("Two, better."), leaves=True)
        assert [text for role, text in sent(server) if role == "user"][1:] == ["Two, better."]
        await say(words("Another beginning."), answered, words("Three."), leaves=True)
        (only,) = [text for role, text in sent(server) if role == "user"]
        assert "> user: Another beginning." in only
        assert only.endswith("Three.")


async def test_without_a_session_each_request_is_its_own(tmp_path: Path) -> None:
    """What the client tells of before is quoted; nothing of an earlier request is known."""
    async with asked(tmp_path) as (server, client):
        for text in ("My cat is called Rosa.", "What is she called?"):
            server.provider.reply("ok")
            await client.chat.completions.create(model="main", messages=[words(text)])
        assert "Rosa" not in str(server.provider.requests[-1]["messages"])
        header = {"x-nacre-session": "main"}
        server.provider.reply("ok")
        await client.chat.completions.create(model="main", messages=[words("Here.")], extra_headers=header)
        assert [turn.text for turn in await (await server.agent.sessions.get("main")).turns()] == ["Here."]


async def test_front_ends_name_their_chats(tmp_path: Path) -> None:
    """Open WebUI in a header of its own, LibreChat in ours; a chat without a name yet has none."""
    async with asked(tmp_path) as (server, client):
        for header in ({"x-openwebui-chat-id": "a-1"}, {"x-nacre-session": "b-2"}):
            for text in (f"I am {header}.", "Who am I?"):
                server.provider.reply("ok")
                await client.chat.completions.create(
                    model="main", messages=[words(text)], extra_headers=header
                )
            assert str(header) in str(server.provider.requests[-1]["messages"])
        server.provider.reply("ok")
        await client.chat.completions.create(
            model="main", messages=[words("Alone.")], extra_headers={"x-nacre-session": "new"}
        )
        server.provider.reply("ok")
        await client.chat.completions.create(
            model="main", messages=[words("Alone, too.")], extra_headers={"x-nacre-session": "new"}
        )
        assert "Alone." not in str(server.provider.requests[-1]["messages"])


async def test_tools_that_ran_are_told_and_not_asked_of_the_client(tmp_path: Path) -> None:
    """They stand where front ends fold them away."""
    async with asked(tmp_path) as (server, client):
        server.provider.tool_calls(("read", {"path": "MEMORY.md"}))
        server.provider.reply("Read.")
        whole = await client.chat.completions.create(model="main", messages=[words("Read it.")])
        message = whole.choices[0].message
        assert (message.content, message.tool_calls, whole.choices[0].finish_reason) == (
            "Read.",
            None,
            "stop",
        )
        assert message.reasoning_content.startswith("read")


class Harbor(BaseModel):
    name: str
    depth_meters: int


class Trip(BaseModel):
    harbors: list[Harbor]


async def test_an_answer_has_the_form_that_the_client_asks_for(tmp_path: Path) -> None:
    """OpenAI's client parses it, also in a stream; the model is told what does not fit and answers again."""
    wanted = Trip(harbors=[Harbor(name="Horta", depth_meters=9)])
    async with asked(tmp_path) as (server, client):
        server.provider.tool_calls(("final_answer", {"answer": {"harbors": [{"name": "Horta"}]}}))
        server.provider.tool_calls(("final_answer", {"answer": wanted.model_dump()}))
        parsed = await client.chat.completions.parse(
            model="main", messages=[words("Plan a trip.")], response_format=Trip
        )
        assert parsed.choices[0].message.parsed == wanted
        assert "depth_meters" in str(server.provider.requests[-1]["messages"][-1])

        server.provider.tool_calls(("final_answer", {"answer": wanted.model_dump()}))
        response = await client.responses.parse(model="main", input="Plan it.", text_format=Trip)
        assert response.output_parsed == wanted

        server.provider.tool_calls(("final_answer", {"answer": {"depth": 9}}))
        stream = await client.chat.completions.create(
            model="main", messages=[words("As JSON.")], response_format={"type": "json_object"}, stream=True
        )
        text = "".join([chunk.choices[0].delta.content or "" async for chunk in stream if chunk.choices])
        assert json.loads(text) == {"depth": 9}


@pytest.mark.parametrize(
    ("model", "asked_for"),
    [
        ("main/plain", {"response_format": {"type": "json_object"}}),
        ("main", {"response_format": {"type": "xml"}}),
        ("main", {"response_format": {"type": "json_schema", "json_schema": {"schema": {"type": "x"}}}}),
        ("main", {"n": 2}),
    ],
)
async def test_what_an_answer_cannot_be_is_refused(
    tmp_path: Path, model: str, asked_for: dict[str, Any]
) -> None:
    """A client that asks for a form never gets something else."""
    import openai

    async with asked(tmp_path) as (server, client):
        with pytest.raises(openai.BadRequestError):
            await client.chat.completions.create(model=model, messages=[words("Hi.")], **asked_for)
        assert server.provider.requests == []


async def test_the_model_alone_knows_nothing_and_keeps_nothing(tmp_path: Path) -> None:
    """The id for titles and tags: no prompt of the agent, no tools, no session."""
    async with asked(tmp_path) as (server, client):
        server.provider.reply("A title")
        answer = await client.chat.completions.create(
            model="main/plain",
            messages=[{"role": "system", "content": "Name it."}, words("We spoke of cats.")],
        )
        request = server.provider.requests[-1]
        assert answer.choices[0].message.content == "A title"
        assert [item["content"] for item in request["messages"]] == ["Name it.", "We spoke of cats."]
        assert "tools" not in request
        assert await server.agent.sessions.list() == ()


async def test_a_stranger_sees_no_private_memory_and_names_no_session_of_the_owner(tmp_path: Path) -> None:
    """The token says who asks; a header does not."""
    async with asked(tmp_path, as_owner=False) as (server, client):
        (server.state / "workspace/MEMORY.md").write_text("The safe's code is 4711.\n")
        server.provider.reply("Hello.")
        await client.chat.completions.create(
            model="main", messages=[words("What is the code?")], extra_headers={"x-nacre-session": "main"}
        )
        assert "4711" not in str(server.provider.requests[-1])
        assert "main" not in {info.key.rpartition(":")[2] for info in await server.agent.sessions.list()}


async def test_a_call_that_waits_is_shown(tmp_path: Path) -> None:
    """Who answers `/approve` has read what they let run."""
    settings = {"tools": {"rules": {"write": {"confirm": True}}, "approvals": {"waitSeconds": 0.01}}}
    async with served(tmp_path, settings) as server, httpx.AsyncClient(verify=False) as http:
        server.provider.tool_calls(("write", {"path": "paid.md", "content": "Ann\u202e"}))
        server.provider.reply("It waits.")
        said = await http.post(
            f"{server.url}/v1/chat/completions",
            json={"messages": [words("Pay Ann.")]},
            headers={"authorization": f"Bearer {server.owner}"},
        )
        message = said.json()["choices"][0]["message"]
        assert r'write {"path": "paid.md", "content": "Ann\u202e"}' in message["reasoning_content"]
        assert message["content"] == "It waits."


async def test_a_stranger_names_no_session_of_another(tmp_path: Path) -> None:
    """Names of tokens and sessions may have slashes, and "team" and "team/ann" are two people."""
    async with served(tmp_path) as server, httpx.AsyncClient(verify=False) as http:
        for name, session in (("team/ann", "tea"), ("team", "ann/tea")):
            key = Tokens(server.state).add(name, agent_id="main", is_owner=False, now=NOW)
            server.provider.reply("Noted.")
            said = await http.post(
                f"{server.url}/v1/chat/completions",
                json={"model": "main", "messages": [words(f"I am {name}.")]},
                headers={"authorization": f"Bearer {key}", "x-nacre-session": session},
            )
            assert said.status_code == 200
        assert "I am team/ann." not in str(server.provider.requests[-1])
        assert len(await server.agent.sessions.list()) == 2


async def test_pictures_come_along(tmp_path: Path) -> None:
    """As Open WebUI and LibreChat send them: a data address in a part."""
    async with asked(tmp_path) as (server, client):
        server.provider.reply("A dot.")
        parts = [
            {"type": "text", "text": "What is this?"},
            {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}},
        ]
        await client.chat.completions.create(model="main", messages=[{"role": "user", "content": parts}])
        assert "What is this?" in str(server.provider.requests[-1]["messages"][-1])


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"model": "main", "messages": []}, "messages"),
        ({"model": "main"}, "messages"),
        ({"model": "gpt-5", "messages": [{"role": "user", "content": "Hi"}]}, "model"),
        ({"model": "main", "messages": [{"role": "assistant", "content": "Hi"}]}, "messages"),
    ],
)
async def test_errors_have_the_protocols_shape(tmp_path: Path, body: dict[str, Any], field: str) -> None:
    """With the field that is meant."""
    async with served(tmp_path) as server, httpx.AsyncClient(verify=False) as http:
        answer = await http.post(
            f"{server.url}/v1/chat/completions",
            json=body,
            headers={"authorization": f"Bearer {server.owner}"},
        )
        assert answer.status_code in (400, 404)
        assert answer.json()["error"]["param"] == field


async def test_an_address_that_is_not_served_names_one_that_is(tmp_path: Path) -> None:
    """Older programs ask for `/v1/completions`."""
    async with served(tmp_path) as server, httpx.AsyncClient(verify=False, base_url=server.url) as client:
        headers = {"authorization": f"Bearer {server.owner}"}
        answer = await client.post("/v1/completions", headers=headers, json={"prompt": "Hi"})
        wrong_method = await client.get("/v1/chat/completions", headers=headers)
    assert (answer.status_code, wrong_method.status_code) == (404, 405)
    told = answer.json()["error"]["message"]
    assert told == "There is no /v1/completions here, but /v1/chat/completions is."


async def test_a_model_that_fails_is_an_error_and_the_words_are_on_disk(tmp_path: Path) -> None:
    """Whole: a status; streamed: an error that the client raises."""
    import openai

    async with asked(tmp_path) as (server, client):
        server.provider.error(401, "wrong key")
        with pytest.raises(openai.APIStatusError) as failed:
            await client.chat.completions.create(model="main", messages=[words("Hi")], user="u")
        assert failed.value.status_code == 502
        server.provider.error(401, "wrong key")
        stream = await client.chat.completions.create(
            model="main", messages=[words("Hi again")], user="u", stream=True
        )
        with pytest.raises(openai.APIError):
            _ = [chunk async for chunk in stream]
        texts = [path.read_text() for path in (server.state / "agents/main/sessions").glob("*.jsonl")]
        assert any("Hi again" in text for text in texts)


@pytest.mark.parametrize(("size", "on_loop"), [(100, True), (10_000_000, False)])
async def test_a_large_body_is_parsed_on_a_thread(size: int, on_loop: bool) -> None:
    """Other requests are answered meanwhile; a small one does not wait for a thread."""
    parsed: list[bool] = []

    class Body(BaseModel):
        text: str

        @field_validator("text")
        @classmethod
        def _seen(cls, text: str) -> str:
            parsed.append(threading.current_thread() is threading.main_thread())
            return text

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b'{"text": "' + b"x" * size + b'"}'}

    body = await body_of(Request({"type": "http", "headers": []}, receive), Body)
    assert (len(body.text), parsed) == (size, [on_loop])
