"""The assistant in an editor, over the Agent Client Protocol."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from shutil import which
from typing import TYPE_CHECKING, Any

import lazy_loader
import pytest

from nacre import tool
from nacre.runtime.contracts.errors import ModelAuthError
from nacre.testing import ProviderServer, ScriptedModel, calls, fails, says
from tests.libraries import needs
from tests.runtime.agents import opened, write_settings

if TYPE_CHECKING:
    from nacre.extensions.acp.editor import EditorAgent

needs("acp", why="the extra acp is not installed")
# Its schema takes a second, and every process of a test run reads this file.
acp = lazy_loader.load("acp")

SDK = Path(__file__).parents[3] / "build/acp/node_modules/@agentclientprotocol/sdk/dist/v1/stable/acp.js"
CLIENT = Path(__file__).with_name("client.mjs")
RUN_SECONDS = 120
ASKED = {"tools": {"rules": {"order": {"confirm": True}}}}


@tool
def order(thing: str) -> str:
    """Orders a thing."""
    return f"ordered {thing}"


class Editor:
    """The editor's side: it keeps what it is shown, and answers questions with `outcome`."""

    def __init__(self, outcome: acp.schema.AllowedOutcome | acp.schema.DeniedOutcome) -> None:
        self.outcome = outcome
        self.updates: list[Any] = []
        self.asked: list[str] = []

    async def session_update(self, update: Any, **_more: Any) -> None:
        """Shows something."""
        self.updates.append(update)

    async def request_permission(self, tool_call: Any, **_more: Any) -> acp.schema.RequestPermissionResponse:
        """Asks the user."""
        self.asked.append(f"{tool_call.title} {tool_call.raw_input}")
        return acp.schema.RequestPermissionResponse(outcome=self.outcome)

    def said(self) -> str:
        """The assistant's words."""
        return "".join(
            each.content.text for each in self.updates if each.session_update == "agent_message_chunk"
        )


@asynccontextmanager
async def connected(
    tmp_path: Path,
    model: ScriptedModel,
    outcome: acp.schema.AllowedOutcome | acp.schema.DeniedOutcome | None = None,
) -> AsyncIterator[tuple[EditorAgent, Editor]]:
    """An agent, and the editor that it talks to."""
    from nacre.extensions.acp.editor import EditorAgent

    editor = Editor(outcome or acp.schema.AllowedOutcome(outcome="selected", option_id="allow"))
    async with opened(tmp_path, model, tools=[order]) as agent:
        served = EditorAgent(agent)
        served.on_connect(editor)  # type: ignore[arg-type]  # what the tests use of it
        yield served, editor


def text(words: str) -> list[Any]:
    """A prompt of words alone."""
    return [acp.schema.TextContentBlock(type="text", text=words)]


@pytest.mark.parametrize("may", [True, False])
async def test_the_editors_user_is_asked_about_a_tool(tmp_path: Path, may: bool) -> None:
    """Consent lets it run once, and everything else denies it."""
    write_settings(tmp_path, ASKED)
    model = ScriptedModel(calls(("order", {"thing": "tea"})), says("All right."))
    outcome = (
        acp.schema.AllowedOutcome(outcome="selected", option_id="allow")
        if may
        else acp.schema.DeniedOutcome(outcome="cancelled")
    )
    async with connected(tmp_path, model, outcome) as (served, editor):
        session = await served.new_session("/")
        answer = await served.prompt(session.session_id, text("Order tea"))
    assert answer.stop_reason == "end_turn"
    (asked,) = editor.asked
    assert asked.startswith("order: ")
    assert asked.endswith("{'thing': 'tea'}")
    assert ("ordered tea" in str(model.requests[1].messages)) is may
    ended = [each.status for each in editor.updates if each.session_update == "tool_call_update"]
    assert ended == ["completed" if may else "failed"]
    assert editor.said() == "All right."


async def test_files_and_images_of_a_prompt_are_read(tmp_path: Path) -> None:
    """A link stays a link; what is embedded comes as a file."""
    model = ScriptedModel(says("Seen."))
    async with connected(tmp_path, model) as (served, _editor):
        session = await served.new_session("/")
        inside = acp.schema.TextResourceContents(
            uri="file:///src/a%20b.py", text="print('hello')", mime_type="text/x-python"
        )
        blob = acp.schema.BlobResourceContents(uri="file:///x.bin", blob=b64encode(b"\0\1").decode())
        prompt = [
            *text("Explain"),
            acp.schema.ResourceContentBlock(type="resource_link", name="c.py", uri="file:///c.py"),
            acp.schema.EmbeddedResourceContentBlock(type="resource", resource=inside),
            acp.schema.EmbeddedResourceContentBlock(type="resource", resource=blob),
            acp.schema.ImageContentBlock(
                type="image", data=b64encode(b"no image").decode(), mime_type="image/png"
            ),
        ]
        await served.prompt(session.session_id, prompt)
    told = str(model.requests[0].messages)
    for part in ("Explain", "[c.py](file:///c.py)", "a b.py", "print(", "x.bin"):
        assert part in told


async def test_commands_failures_and_foreign_sessions(tmp_path: Path) -> None:
    """The answer to a command is shown, a failure is the request's error, and other sessions are unknown."""
    async with connected(tmp_path, ScriptedModel(fails(ModelAuthError("The key is wrong.")))) as (
        served,
        editor,
    ):
        session_id = (await served.new_session("/")).session_id
        await served.prompt(session_id, text("/help"))
        assert "/compact" in editor.said()
        (told,) = [each for each in editor.updates if each.session_update == "available_commands_update"]
        named = {each.name: each for each in told.available_commands}
        assert named["help"].input is None
        assert named["rewind"].input.root.hint == "[place]"
        with pytest.raises(acp.RequestError, match="The key is wrong"):
            await served.prompt(session_id, text("Hi"))
        for unknown in ("main", "agent:main:main", "editor-unknown"):
            with pytest.raises(acp.RequestError, match="Resource not found"):
                await served.load_session("/", unknown)


def edited(tmp_path: Path, provider: ProviderServer, *steps: dict[str, Any]) -> dict[str, Any]:
    """What the client of the npm registry sees of `nacre acp`."""
    run = subprocess.run(
        ["node", CLIENT, SDK, json.dumps(steps), sys.executable, "-m", "nacre", "acp"],
        env={"HOME": str(tmp_path), "PATH": os.environ["PATH"], "NACRE_MODEL": f"{provider.url}/some-model"},
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    seen: dict[str, Any] = json.loads(run.stdout)
    return seen


def prompt(words: str, **more: Any) -> dict[str, Any]:
    return {"prompt": [{"type": "text", "text": words}], **more}


def test_a_line_that_is_no_object_is_answered_and_ends_nothing(tmp_path: Path) -> None:
    """An array, a number and half a line are invalid requests; the next request is answered."""
    start = {"jsonrpc": "2.0", "id": 7, "method": "initialize", "params": {"protocolVersion": 1}}
    run = subprocess.run(
        [sys.executable, "-m", "nacre", "acp"],
        env={"HOME": str(tmp_path), "PATH": os.environ["PATH"]},
        input="\n".join(("[1]", "5", '{"half', "", json.dumps(start), "")),
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    answers = [json.loads(line) for line in run.stdout.splitlines()]
    assert [each["error"]["code"] for each in answers if each["id"] is None] == [-32600] * 3
    assert [each["id"] for each in answers if "result" in each] == [7]


@pytest.mark.skipif(not (SDK.exists() and which("node")), reason="`make protocols` installs the npm package")
def test_a_client_of_the_npm_registry_talks_to_it(tmp_path: Path) -> None:
    """Streaming, a tool call, a permission, a cancellation, an error; another process loads the session."""
    write_settings(tmp_path / ".nacre", {"tools": {"rules": {"read": {"confirm": True}}}})
    with ProviderServer() as provider:
        provider.tool_calls(("read", {"path": "SOUL.md"}))
        provider.reply("This is what it says, and more than one piece of it.")
        provider.stall("This answer is never going to come to its end, whatever one does about it.")
        seen = edited(tmp_path, provider, prompt("Read it"), prompt("Go on", cancels=True))
        assert seen["initialized"]["agentCapabilities"]["loadSession"] is True
        assert seen["stops"] == ["end_turn", "cancelled"]
        (asked,) = seen["asked"]
        assert [option["kind"] for option in asked["options"]] == ["allow_once", "reject_once"]
        assert asked["toolCall"]["rawInput"] == {"path": "SOUL.md"}
        kinds = [update["sessionUpdate"] for update in seen["updates"]]
        assert kinds[:2] == ["tool_call", "tool_call_update"]
        # the second answer never ends, so what came of it was streamed
        assert kinds[2:].count("agent_message_chunk") >= 2

        (told,) = seen["commands"]
        assert told["isKnown"]
        assert {"help", "new", "usage"} <= {each["name"] for each in told["availableCommands"]}
        assert all(each["description"] for each in told["availableCommands"])
        asked_before = len(provider.requests)
        helped = edited(tmp_path, provider, prompt("/help"))
        assert any("/compact" in str(update) for update in helped["updates"])
        assert len(provider.requests) == asked_before  # a command asks no model

        provider.error(401)
        loaded = edited(tmp_path, provider, {"load": seen["sessionId"]}, prompt("Again?"), {"load": "main"})
    shown = [
        (update["sessionUpdate"].split("_")[0], update["content"]["text"])
        for update in loaded["updates"]
        if update["sessionUpdate"] != "agent_thought_chunk"
    ]
    assert shown[:3] == [
        ("user", "Read it"),
        ("agent", "This is what it says, and more than one piece of it."),
        ("user", "Go on"),
    ]
    assert [stop.split(":")[0] for stop in loaded["stops"]] == ["error -32603", "error -32002"]
