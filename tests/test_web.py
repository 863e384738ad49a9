"""`nacre.web`: a web chat in the app of somebody else, with users, groups and history."""

from __future__ import annotations

import json
import runpy
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette", reason="the extra serve is not installed: make protocols")
pytest.importorskip("sse_starlette", reason="the extra serve is not installed: make protocols")

import httpx
from starlette.applications import Starlette
from starlette.requests import Request

from nacre import Runtime, tool
from nacre.runtime.contracts.errors import ModelAuthError
from nacre.sessions.contracts.messages import message_text
from nacre.testing import Clock, ScriptedModel, calls, fails, says
from nacre.web import MOST_BODY_BYTES, WebUser, chat_router
from tests.runtime.agents import START

JSON = {"content-type": "application/json"}
EXAMPLE = Path(__file__).parents[1] / "examples" / "10-web-chat.py"


@tool(chats=("private", "group"))
def moon() -> str:
    """How the moon stands."""
    return "waxing"


async def signed_in(request: Request) -> WebUser | None:
    name = request.headers.get("x-user", "")
    return WebUser(id=name, name=name.title()) if name else None


@asynccontextmanager
async def site(state_dir: Path, model: ScriptedModel) -> AsyncIterator[httpx.AsyncClient]:
    """A client of an app that has mounted the chat; Ann and Bob are in the group `chess`."""
    async with Runtime.open(
        state_dir=state_dir,
        environment={},
        model=model,
        tools=[moon],
        profile="bare",
        clock=Clock(START),
        watch=False,
    ) as runtime:
        app = Starlette()
        router = chat_router(runtime, user=signed_in, groups=lambda user, _group: user in ("ann", "bob"))
        app.mount("/chat", router)
        async with httpx.AsyncClient(
            verify=False, transport=httpx.ASGITransport(app=app), base_url="http://site.example"
        ) as client:
            yield client


async def said(client: httpx.AsyncClient, user: str, body: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """The events of the answer to a message, by name."""
    answer = await client.post("/chat/messages", json=body, headers={"x-user": user})
    assert answer.status_code == 200, answer.text
    found = []
    for block in answer.text.replace("\r\n", "\n").split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.splitlines() if not line.startswith(":"))
        if fields:
            found.append((fields["event"], json.loads(fields["data"])))
    return found


async def history(client: httpx.AsyncClient, user: str, **query: str) -> list[str]:
    """The texts of a conversation."""
    answer = await client.get("/chat/messages", params=query, headers={"x-user": user})
    assert answer.status_code == 200, answer.text
    return [each["text"] for each in answer.json()]


async def test_each_user_has_a_chat_of_their_own(tmp_path: Path) -> None:
    """The answer streams in with its tools; the history is the user's alone, by session."""
    model = ScriptedModel(calls(("moon", {})), says("Waxing."), says("Hello Bob."), says("A trip."))
    async with site(tmp_path, model) as client:
        events = await said(client, "ann", {"text": "How is the moon?"})
        assert [name for name, _ in events if name != "text"] == ["tool", "tool", "reply"]
        assert "".join(data["text"] for name, data in events if name == "text") == "Waxing."
        assert events[-1][1] == {"text": "Waxing.", "session": "agent:user-ann:main"}
        await said(client, "bob", {"text": "Hi"})
        await said(client, "ann", {"text": "Plan", "session": "trips"})
        assert await history(client, "ann") == ["How is the moon?", "Waxing."]
        assert await history(client, "ann", session="trips") == ["Plan", "A trip."]
        assert await history(client, "bob") == ["Hi", "Hello Bob."]
        assert await history(client, "bob", session="trips") == []


async def test_a_session_has_any_plain_name(tmp_path: Path) -> None:
    """The scheme's own word names a conversation like any other; a blank name is the main one."""
    model = ScriptedModel(says("A spy."), says("The main one."))
    async with site(tmp_path, model) as client:
        events = await said(client, "ann", {"text": "Who?", "session": "agent"})
        assert events[-1] == ("reply", {"text": "A spy.", "session": "agent:user-ann:direct:%61gent"})
        assert await history(client, "ann", session="agent") == ["Who?", "A spy."]
        events = await said(client, "ann", {"text": "Where?", "session": "  "})
        assert events[-1] == ("reply", {"text": "The main one.", "session": "agent:user-ann:main"})


async def test_a_group_is_one_conversation(tmp_path: Path) -> None:
    """The model is told who speaks; members alone read and write, and see no tools."""
    model = ScriptedModel(calls(("moon", {})), says("Hello both."), says("Yes."))
    async with site(tmp_path, model) as client:
        events = await said(client, "ann", {"text": "Hi all", "group": "chess"})
        assert {name for name, _ in events} == {"text", "reply"}
        await said(client, "bob", {"text": "Me too?", "group": "chess"})
        assert '["Bob", id bob]' in message_text(model.requests[-1].messages[-1])
        texts = await history(client, "bob", group="chess")
        assert [text.rpartition("\n")[2] for text in texts] == ["Hi all", "Hello both.", "Me too?", "Yes."]
        for answer in (
            await client.get("/chat/messages", params={"group": "chess"}, headers={"x-user": "eve"}),
            await client.post(
                "/chat/messages", json={"text": "hi", "group": "chess"}, headers={"x-user": "eve"}
            ),
        ):
            assert answer.status_code == 403


@pytest.mark.parametrize(
    ("body", "headers", "status"),
    [
        ({"json": {"text": "hi"}}, {}, 401),
        ({"json": {"text": " "}}, {"x-user": "ann"}, 422),
        ({"json": {"text": 5}}, {"x-user": "ann"}, 422),
        ({"json": ["hi"]}, {"x-user": "ann"}, 422),
        ({"json": {"text": "hi", "session": "agent:user-bob:main"}}, {"x-user": "ann"}, 422),
        ({"json": {"text": "hi", "session": "a" * 900}}, {"x-user": "ann"}, 422),
        ({"json": {"text": "hi", "session": "a\nb"}}, {"x-user": "ann"}, 422),
        ({"content": b"{"}, {"x-user": "ann", **JSON}, 422),
        ({"content": b"[" * 100_000}, {"x-user": "ann", **JSON}, 422),
        ({"data": {"text": "hi"}}, {"x-user": "ann"}, 415),
        (
            {"content": b" " * (MOST_BODY_BYTES + 1)},
            {"x-user": "ann", "content-type": "application/json"},
            413,
        ),
    ],
)
async def test_what_is_no_message_is_refused(
    tmp_path: Path, body: dict[str, Any], headers: dict[str, str], status: int
) -> None:
    """Before an agent is opened, and with a reason."""
    async with site(tmp_path, ScriptedModel()) as client:
        answer = await client.post("/chat/messages", headers=headers, **body)
        assert answer.status_code == status
        assert answer.text
    assert not (tmp_path / "users").exists()


async def test_a_failed_turn_ends_the_stream(tmp_path: Path) -> None:
    """The last event is the sentence of the error; nothing to stop is no error."""
    async with site(tmp_path, ScriptedModel(fails(ModelAuthError("The key is wrong.")))) as client:
        events = await said(client, "ann", {"text": "hi"})
        assert events[-1][0] == "error"
        assert "key is wrong" in events[-1][1]["message"]
        answer = await client.post("/chat/stop", json={}, headers={"x-user": "ann"})
        assert answer.json() == {"stopped": False}


async def test_the_example_is_a_web_chat(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The app of the example answers with the offline responder."""
    monkeypatch.setenv("NACRE_STATE_DIR", str(tmp_path))
    app = runpy.run_path(str(EXAMPLE))["app"]
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(
            verify=False, transport=httpx.ASGITransport(app=app), base_url="http://site.example"
        ) as client,
    ):
        events = await said(client, "ann", {"text": "Remember that my boat is called Halcyon."})
        assert events[-1][0] == "reply"
        assert len(await history(client, "ann")) == 2
