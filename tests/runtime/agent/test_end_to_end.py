"""Whole turns through litellm and HTTP against a provider on loopback."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from nacre import Agent, Inbound
from nacre.runtime.contracts.errors import ModelAuthError
from nacre.runtime.contracts.events import CompactionEnded, FlushEnded, ModelRetried, ReplyReady, TextStreamed
from tests.runtime.agents import (
    TODAY,
    agent_in,
    events_of,
    kinds,
    said,
    transcript_file,
    user_texts,
    window_settings,
    write_settings,
)
from tests.servers.provider_server import ProviderServer
from tests.servers.provider_wire import Step, reply, tool_calls, usage

LONG = "The hive needs sugar before the frost comes. " * 270


async def open_agent(
    state_dir: Path, server: ProviderServer, settings: dict[str, Any] | None = None
) -> Agent:
    """An agent whose model is the server, reached through the settings file as an owner would."""
    settings = settings or {"agents": {"defaults": {}}}
    settings["models"] = {"providers": {"openai": {"baseUrl": server.url, "apiKey": "sk-secret-key"}}}
    settings["agents"]["defaults"]["model"] = "openai/test-model"
    write_settings(state_dir, settings)
    return await agent_in(state_dir)


async def test_the_first_conversation_fills_in_and_removes_its_file(tmp_path: Path) -> None:
    """The model writes who is who, empties BOOTSTRAP.md, which is gone then and stays gone; in a group it
    cannot."""
    notes = tmp_path / "workspace"
    over = tool_calls(("write", {"path": "BOOTSTRAP.md", "content": ""}))
    name = "- **Name:**"
    async with ProviderServer() as server:
        async with await open_agent(tmp_path, server) as agent:
            server.add(over, reply("I cannot."))
            await agent.respond(said("hello", chat_kind="group", chat_id="7", sender_id="stranger"))
            assert (notes / "BOOTSTRAP.md").is_file()
            server.add(
                tool_calls(("read", {"path": "BOOTSTRAP.md"})),
                tool_calls(
                    ("edit", {"path": "IDENTITY.md", "old_text": name, "new_text": f"{name} Pim"}),
                    ("edit", {"path": "USER.md", "old_text": name, "new_text": f"{name} Ada"}),
                ),
                over,
                reply("Nice to meet you, Ada."),
            )
            await agent.ask("I am Ada, and you are Pim.")
        async with await open_agent(tmp_path, server):
            pass

    assert "Removed BOOTSTRAP.md" in json.dumps(server.requests[-1]["messages"][-1])
    assert not (notes / "BOOTSTRAP.md").exists()
    assert f"{name} Pim" in (notes / "IDENTITY.md").read_text()
    assert f"{name} Ada" in (notes / "USER.md").read_text()


class Provider:
    """Answers like a model with a small window: it notes things in a flush and summarizes when asked."""

    def __init__(self) -> None:
        self.purposes: list[str] = []

    def __call__(self, request: dict[str, Any]) -> Step:
        last = request["messages"][-1]
        text = json.dumps(last["content"])
        if "memory flush" in text:
            self.purposes.append("flush")
            return tool_calls(("append", {"path": TODAY, "text": "- Nora feeds the bees in October"}))
        if "<conversation>" in text:
            self.purposes.append("compaction")
            return reply("## Goal\nFeed the bees before the frost.")
        if last["role"] == "tool" and self.purposes[-1:] == ["flush"]:
            return reply("NO_REPLY")
        self.purposes.append("turn")
        return reply("Understood.", usage=usage(self._tokens(request), 10))

    def _tokens(self, request: dict[str, Any]) -> int:
        return len(json.dumps(request["messages"])) // 4


async def test_a_long_conversation_flushes_once_before_it_is_compacted(tmp_path: Path) -> None:
    """One flush, then the compaction; the note is in today's file, and no user message is lost."""
    provider = Provider()
    async with ProviderServer(responder=provider) as server:
        agent = await open_agent(tmp_path, server, window_settings(20_000))
        replies: list[str] = []
        events = []
        async with agent:
            while "compaction" not in provider.purposes:
                happened = await events_of(agent, said(f"{len(replies)}: {LONG}"))
                replies += [event.reply.text for event in happened if isinstance(event, ReplyReady)]
                events += happened
                assert len(replies) < 12
            await agent.respond(said("what next?"))

        last = server.requests[-1]

    told = [event for event in events if isinstance(event, FlushEnded | CompactionEnded)]
    assert [type(event) for event in told] == [FlushEnded, CompactionEnded]
    assert "Nora feeds the bees" in (tmp_path / "workspace" / TODAY).read_text()
    assert all("NO_REPLY" not in text for text in replies)
    assert not any("NO_REPLY" in event.text for event in events if isinstance(event, TextStreamed))
    first_after_system = json.dumps(last["messages"][1])
    assert "Feed the bees before the frost" in first_after_system
    file = transcript_file(tmp_path)
    assert [text.split(":")[0] for text in user_texts(file)[:-1]] == [str(n) for n in range(len(replies))]
    assert kinds(file).count("compaction") == 1


async def test_tool_calls_travel_to_the_provider_and_back(tmp_path: Path) -> None:
    """Two parallel calls are answered in order, under their ids."""
    async with ProviderServer() as server:
        server.tool_calls(
            ("write", {"path": "plan.md", "content": "1. sugar"}), ("read", {"path": "SOUL.md"})
        )
        server.reply("Written.")
        async with await open_agent(tmp_path, server) as agent:
            answer = await agent.respond(said("write the plan"))
        results = [message for message in server.requests[1]["messages"] if message["role"] == "tool"]
        asked = [call["id"] for call in server.requests[1]["messages"][-3]["tool_calls"]]

    assert answer is not None
    assert answer.text == "Written."
    assert (tmp_path / "workspace/plan.md").read_text() == "1. sugar"
    assert [result["tool_call_id"] for result in results] == asked


@pytest.mark.slow
async def test_a_provider_that_hiccups_is_asked_again(tmp_path: Path) -> None:
    """A 429 with a short Retry-After is waited for and told, and the reply comes."""
    async with ProviderServer() as server:
        server.error(429, retry_after=0.01)
        server.reply("Here.")
        async with await open_agent(tmp_path, server) as agent:
            events = await events_of(agent, said("hello"))
    assert any(isinstance(event, ModelRetried) for event in events)
    assert isinstance(events[-1], ReplyReady)


async def test_an_overflow_at_the_provider_is_helped(tmp_path: Path) -> None:
    """The 400 becomes flush, compaction and one more request; the session's words stay."""
    async with ProviderServer() as server:
        for _ in range(3):
            server.reply("ok", usage=usage(2_000, 10))
        server.overflow(window_tokens=20_000, asked_tokens=20_400)
        server.reply("NO_REPLY")
        server.reply("## Goal\nBees.")
        server.reply("fits now")
        async with await open_agent(tmp_path, server, window_settings(20_000)) as agent:
            for number in range(3):
                await agent.respond(said(f"{number}: {LONG}"))
            answer = await agent.respond(said("and now?"))
    assert answer is not None
    assert answer.text == "fits now"
    assert len(user_texts(transcript_file(tmp_path))) == 4


async def test_a_refused_key_is_told_without_the_key(tmp_path: Path) -> None:
    """The sentence says what to do; the key is in no file of the state folder but the settings."""
    async with ProviderServer() as server:
        server.error(401, "Incorrect API key provided: sk-secret-key")
        async with await open_agent(tmp_path, server) as agent:
            with pytest.raises(ModelAuthError) as caught:
                await agent.respond(said("hello"))
    assert "sk-secret-key" not in str(caught.value)
    holding = [
        path.name for path in tmp_path.rglob("*") if path.is_file() and b"sk-secret-key" in path.read_bytes()
    ]
    assert holding == ["nacre.json5"]


@pytest.mark.parametrize(
    "inbound",
    [
        Inbound(text="what do you know?", chat_kind="group", chat_id="club", channel="chat", is_owner=True),
        Inbound(text="what do you know?", chat_kind="channel", chat_id="news", channel="chat"),
        Inbound(text="what do you know?", chat_kind="anything", chat_id="x", channel="chat"),  # type: ignore[arg-type]
        Inbound(text="what do you know?", chat_kind="direct", sender_id="stranger", channel="chat"),
    ],
)
@pytest.mark.covers("W2-1")
async def test_no_byte_of_private_memory_is_sent_for_a_group(tmp_path: Path, inbound: Inbound) -> None:
    """Not in the prompt, not through tools, not after the model tries to read it."""
    async with ProviderServer() as server:
        async with await open_agent(tmp_path, server) as agent:
            workspace = tmp_path / "workspace"
            (workspace / "MEMORY.md").write_text("The safe code is TURQUOISE-1")
            (workspace / "USER.md").write_text("Nora, born TURQUOISE-2")
            (workspace / TODAY).write_text("- met TURQUOISE-3")
            (workspace / "memory/2026-03-13.md").write_text("- saw TURQUOISE-4")
            (workspace / "shared/alias.md").symlink_to(workspace / "MEMORY.md")
            server.reply("Good.")
            await agent.respond(said("hello, this is TURQUOISE-5"))
            private_requests = len(server.raw)
            server.tool_calls(
                ("read", {"path": "MEMORY.md"}),
                ("read", {"path": "memory/2026-03-14.md"}),
                ("read", {"path": "shared/alias.md"}),
                ("read", {"path": "./shared/../USER.md"}),
                ("list", {"path": "memory"}),
                ("edit", {"path": "MEMORY.md", "old": "x", "new": "y"}),
                ("memory_search", {"query": "safe code"}),
                ("memory_get", {"path": "MEMORY.md"}),
            )
            server.reply("I cannot see that here.")
            answer = await agent.respond(inbound)
        assert answer is not None
        private, group = server.raw[:private_requests], server.raw[private_requests:]

    assert b"TURQUOISE-1" in private[0]
    assert b"TURQUOISE-4" in private[0]
    assert len(group) == 2
    assert not any(b"TURQUOISE" in request for request in group)
