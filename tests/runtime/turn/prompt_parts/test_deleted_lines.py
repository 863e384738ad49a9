"""What the owner deletes leaves the requests of a flush, a summary and an ending as well."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from nacre.runtime.contracts.model import ModelRequest, TextDelta
from nacre.sessions.contracts.messages import AssistantMessage, Text, ToolCall, Usage
from tests.cli.program import run_nacre
from tests.runtime.agents import TODAY, opened, said, window_settings, write_settings

FACT = "The boat is called Halcyon."
LONG = ("a long message",)
REST = "Lisa plays the cello."


class Hearing:
    """Keeps every request by its purpose. `note` is a line that it appends to MEMORY.md in the next turn."""

    name = "test/hearing"
    context_window_tokens: int | None = 24_000

    def __init__(self) -> None:
        self.requests: list[tuple[str, str]] = []
        self.note = ""

    async def stream(self, request: ModelRequest) -> AsyncIterator[TextDelta | AssistantMessage]:
        """The answer to one request."""
        self.requests.append((request.purpose, f"{request.system.joined()}{request.messages}"))
        text = {"flush": "NO_REPLY", "compaction": "## Goal\nTo sail.\n"}.get(request.purpose, "Noted.")
        content: tuple[Text | ToolCall, ...] = (Text(text=text),)
        if self.note and request.purpose == "turn":
            arguments = {"path": "MEMORY.md", "text": f"- {self.note}\n"}
            content, self.note = (ToolCall(id="1", name="append", arguments=arguments),), ""
        yield TextDelta(text=text)
        yield AssistantMessage(
            content=content,
            api="test",
            provider="test",
            model="hearing",
            usage=Usage(input_tokens=10, output_tokens=10),
            stop_reason="stop" if isinstance(content[0], Text) else "toolUse",
            timestamp_ms=0,
        )

    async def aclose(self) -> None:
        """Holds nothing."""


@pytest.mark.parametrize("path", ["MEMORY.md", "AGENTS.md", TODAY, "memory/2026-03-13.md"])
@pytest.mark.parametrize("then", ["/compact", "/new", "/reset", LONG[0]])
async def test_what_is_deleted_is_in_no_later_request(tmp_path: Path, path: str, then: str) -> None:
    """Neither a flush nor a summary nor an ending is sent a line that the owner took out of a file."""
    write_settings(tmp_path, window_settings())
    model = Hearing()
    async with opened(tmp_path, model) as agent:
        await agent.respond(said("/status"))
        file = agent.workspace / path
        file.parent.mkdir(exist_ok=True)
        file.write_text(f"- {FACT}\n- {REST}\n", encoding="utf-8")
        await agent.respond(said("Hello."))
        await agent.respond(said("How are you?" + " word" * 3000))
        assert FACT in model.requests[0][1]
        file.write_text(f"- {REST}\n", encoding="utf-8")
        model.requests.clear()
        await agent.respond(said("word " * 9000 if then in LONG else then))
        await agent.respond(said("And now?"))
    assert model.requests
    assert [purpose for purpose, text in model.requests if FACT in text] == []
    assert then in LONG or {"flush", "compaction"} & {purpose for purpose, _text in model.requests}


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
@pytest.mark.parametrize("how", ["undo", "forget"])
async def test_what_is_undone_or_forgotten_is_in_no_later_request(tmp_path: Path, how: str) -> None:
    """A line that an earlier session noted goes from the session that is open, its flush and its summary."""
    state = tmp_path / ".nacre"
    write_settings(state, window_settings())
    model = Hearing()
    async with opened(state, model) as agent:
        await agent.respond(said("Hello."))
        workspace, model.note = agent.workspace, FACT
        await agent.respond(said("Note it."))
        await agent.respond(said("/new"))
        await agent.respond(said("Hello again."))
        for _ in range(4):
            await agent.respond(said("word " * 2500))
        assert FACT in model.requests[-1][1]
        # The newest change is the note of the session that ended.
        for words in {"undo": (("undo",),) * 2, "forget": (("forget", "halcyon boat", "--yes"),)}[how]:
            done = await asyncio.to_thread(run_nacre, tmp_path, "memory", *words)
        assert FACT not in (workspace / "MEMORY.md").read_text(), done.stdout + done.stderr
        model.requests.clear()
        for text in ("/compact", "And now?", "/new", "And then?"):
            await agent.respond(said(text))
    assert {purpose for purpose, _text in model.requests} >= {"turn", "flush", "compaction"}
    assert [purpose for purpose, text in model.requests if FACT in text] == []
