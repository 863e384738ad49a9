"""A memory engine in the slot: what the model sees of it, what a broken one costs, and what `none` leaves."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from nacre import Agent, FunctionTool, MemoryHome, MemoryPlugin, ToolChat, tool
from nacre.runtime.contracts.events import ReplyReady, Warned
from nacre.runtime.contracts.policy import ChatPolicy
from nacre.runtime.models.scripted import Clock, ScriptedModel, calls, says
from nacre.runtime.recall.memory_slot import MemorySlot
from nacre.sessions.contracts.messages import message_text
from tests.runtime.agents import START, TODAY, agent_in, events_of, said, transcript_file, write_settings

GROUP = {"chat_kind": "group", "channel": "chat", "chat_id": "club"}
CORE = ("memory_search", "memory_get")


class Lines(MemoryPlugin):
    """Remembers each line that was said, and recalls those that share a word."""

    def __init__(self) -> None:
        self.heard: list[str] = []
        self.answers: list[str] = []
        self.homes: list[MemoryHome] = []
        self.closed = 0
        self._tools = (tool(self.memory_lines),)

    def memory_lines(self) -> list[str]:
        """All that was said so far."""
        return self.heard

    async def start(self, home: MemoryHome) -> None:
        self.homes.append(home)

    async def close(self) -> None:
        self.closed += 1

    def tools(self, chat: ToolChat) -> Sequence[FunctionTool[..., Any]]:
        return self._tools

    def instructions(self, chat: ToolChat) -> str:
        return "## Lines\n\nCall `memory_lines`."

    async def recall(self, chat: ToolChat, asked: str) -> str:
        words = set(asked.lower().split())
        return "\n".join(line for line in self.heard if words & set(line.lower().split()))

    async def capture(self, chat: ToolChat, asked: str, answered: str) -> None:
        self.heard.append(asked)
        self.answers.append(answered)

    async def status(self) -> str:
        return f"{len(self.heard)} lines"


async def opened_with(state_dir: Path, model: ScriptedModel, memory: MemoryPlugin | None) -> Agent:
    return await agent_in(state_dir, model, memory=memory)


def offered(model: ScriptedModel, number: int = -1) -> set[str]:
    return {spec.name for spec in model.requests[number].tools}


async def test_an_engine_recalls_before_a_turn_and_captures_behind_it(tmp_path: Path) -> None:
    """Its text stands quoted at the end of the prompt, for that turn alone, and nowhere in the transcript."""
    engine = Lines()
    model = ScriptedModel(says("Noted."), says("Twelve."), says("Hello."))
    async with await opened_with(tmp_path, model, engine) as agent:
        await agent.ask("my boat\n# is Halcyon")
        await asyncio.sleep(0)
        await agent.ask("which boat?  boat")
        await agent.ask("hi")

    first, second, third = (request.system for request in model.requests)
    assert "Recalled" not in first.tail
    assert "The memory engine `Lines` found this" in second.tail
    assert second.tail.endswith("> my boat\n> # is Halcyon")
    assert "Recalled" not in third.tail
    assert first.stable == second.stable == third.stable
    assert "found this" not in transcript_file(tmp_path).read_text(encoding="utf-8")
    assert engine.heard == ["my boat\n# is Halcyon", "which boat?  boat", "hi"]
    assert engine.answers == ["Noted.", "Twelve.", "Hello."]
    assert engine.closed == 1


async def test_a_long_recall_is_cut(tmp_path: Path) -> None:
    """A request has the first 12,000 characters of it, and the mark of a cut."""
    engine = Lines()
    engine.heard.append("boat " + "x" * 20_000)
    model = ScriptedModel(says("Yes."))
    async with await opened_with(tmp_path, model, engine) as agent:
        await agent.ask("boat")

    tail = model.requests[0].system.tail
    assert tail.count("x") < 12_000
    assert tail.endswith("> […]")


async def test_an_engine_takes_the_place_of_the_one_that_comes_with_nacre(tmp_path: Path) -> None:
    """Its tools and its section of the prompt stand where those of memory-core did; it has its own folder."""
    engine = Lines()
    model = ScriptedModel(calls(("memory_lines", {})), says("Nothing yet."))
    async with await opened_with(tmp_path, model, engine) as agent:
        await agent.ask("hi")
        status = await agent.ask("/status")
        folder = engine.homes[0].folder()

    assert offered(model) >= {"memory_lines", "read"}
    assert not offered(model) & set(CORE)
    assert message_text(model.requests[1].messages[-1]) == "[]"
    assert "## Lines\n\nCall `memory_lines`.\n\n## Writing memory" in model.requests[0].system.stable
    assert "memory_search" not in model.requests[0].system.stable.partition("# Project context")[0]
    assert status is not None
    assert "Memory: 1 lines" in status.text
    assert folder == tmp_path / "memory" / "Lines" / "main"
    assert folder.stat().st_mode & 0o777 == 0o700


async def test_what_an_engine_knows_does_not_reach_a_group(tmp_path: Path) -> None:
    """No tool, no section, nothing recalled, and nothing captured of what others said."""
    engine = Lines()
    engine.heard.append("the secret boat")
    model = ScriptedModel(says("Hello."))
    async with await opened_with(tmp_path, model, engine) as agent:
        await agent.respond(said("the boat?", **GROUP))

    assert "memory_lines" not in offered(model)
    assert "secret" not in repr(model.requests)
    assert "## Lines" not in model.requests[0].system.stable
    assert engine.heard == ["the secret boat"]


class Broken(MemoryPlugin):
    """Raises wherever it is called, but starts."""

    def tools(self, chat: ToolChat) -> Sequence[FunctionTool[..., Any]]:
        raise RuntimeError("no tools")

    def instructions(self, chat: ToolChat) -> str:
        raise RuntimeError("no instructions")

    async def recall(self, chat: ToolChat, asked: str) -> str:
        raise RuntimeError("the table is gone.")

    async def capture(self, chat: ToolChat, asked: str, answered: str) -> None:
        raise RuntimeError("no room")

    def session_started(self) -> None:
        raise RuntimeError("no session")

    def transcripts_changed(self) -> None:
        raise RuntimeError("no transcript")

    async def sync(self) -> None:
        raise RuntimeError("no sync")

    async def status(self) -> str:
        raise RuntimeError("the table is gone")

    async def close(self) -> None:
        raise RuntimeError("no end")


async def test_an_engine_that_fails_ends_no_turn(tmp_path: Path) -> None:
    """The owner is told once that nothing could be recalled; everything else goes on."""
    model = ScriptedModel(says("Hello."), says("Again."))
    async with await opened_with(tmp_path, model, Broken()) as agent:
        events = await events_of(agent, said("hi"))
        again = await events_of(agent, said("hi"))
        status = await agent.ask("/status")
        await agent.index_notes(wait_seconds=1)

    told = [event.message for event in [*events, *again] if isinstance(event, Warned)]
    assert told == ["The memory engine 'Broken' could not recall anything: the table is gone."]
    assert isinstance(events[-1], ReplyReady)
    assert isinstance(again[-1], ReplyReady)
    assert status is not None
    assert "no search · the table is gone" in status.text


async def test_an_engine_that_does_not_start_is_closed_and_left_out(tmp_path: Path) -> None:
    """The agent opens, says why it has no memory tools, and talks."""

    class Dead(Lines):
        async def start(self, home: MemoryHome) -> None:
            raise OSError("no server at 127.0.0.1")

    engine, model = Dead(), ScriptedModel(says("Hello."))
    async with await opened_with(tmp_path, model, engine) as agent:
        notices = agent.notices
        reply = await agent.ask("hi")

    assert reply is not None
    assert "memory_lines" not in offered(model)
    assert engine.closed == 1
    assert (
        "The memory engine 'Dead' could not be started: no server at 127.0.0.1. "
        "Memory tools are missing until it starts; Nacre retries in the background." in notices
    )


class Late(Lines):
    """Fails to start at first, and later waits for leave."""

    def __init__(self) -> None:
        super().__init__()
        self.may_start = asyncio.Event()

    async def start(self, home: MemoryHome) -> None:
        await super().start(home)
        if len(self.homes) == 1:
            raise OSError("no server yet")
        await self.may_start.wait()


def home_of(folder: Path) -> MemoryHome:
    """Where an engine keeps what it knows."""
    return MemoryHome(
        agent_id="main",
        workspace=folder,
        state_dir=folder,
        engine_id="Late",
        now=Clock(START),
        settings={},
        embedder=lambda _changes: None,
        user_folder=folder,
    )


async def _until(is_true: Callable[[], bool]) -> None:
    for _look in range(12_000):
        if is_true():
            return
        await asyncio.sleep(0.005)
    pytest.fail("it did not happen within a minute")


@pytest.mark.parametrize("failures_before", [0, 1])
async def test_an_engine_that_starts_late_has_its_tools_then(tmp_path: Path, failures_before: int) -> None:
    """One that takes long goes on starting, one that fails is tried again; each is told when it is there."""
    home = home_of(tmp_path)
    policy = ChatPolicy(chat_kind="direct", is_owner=True, session_key_is_private=True)
    chat = ToolChat(
        policy=policy, session_key="agent:main:main", session_id="1", channel="cli", workspace=tmp_path
    )
    engine = Late()
    engine.homes += [home] * (1 - failures_before)
    slot = MemorySlot(engine, name="Late", start_seconds=0.02, retry_seconds=0.01)

    assert await slot.start(home, lambda _engine: "brought") is None
    assert len(slot.notices) == 1
    assert slot.tools(chat) == ()
    await _until(lambda: len(engine.homes) == 2)
    assert slot.tools(chat) == ()
    engine.may_start.set()
    await _until(lambda: bool(slot.tools(chat)))
    assert len(slot.news) == 1
    assert await slot.status() == "0 lines"
    await slot.close()
    assert engine.closed == 1 + failures_before


async def test_an_engine_that_never_starts_holds_up_no_end(tmp_path: Path) -> None:
    """It is cancelled and closed when the agent is."""
    home = home_of(tmp_path)
    engine = Late()
    engine.homes += [home]
    slot = MemorySlot(engine, name="Late", start_seconds=0.02)
    await slot.start(home, lambda _engine: None)
    async with asyncio.timeout(60):
        await slot.close()
    assert engine.closed == 1


async def test_two_tools_of_one_name_end_no_turn(tmp_path: Path) -> None:
    """An engine cannot take the name of a file tool; the owner is told which one is left out."""

    class Reader(MemoryPlugin):
        def tools(self, chat: ToolChat) -> Sequence[FunctionTool[..., Any]]:
            @tool(name="read")
            def other() -> str:
                """Reads something else."""
                return ""

            return (other,)

    model = ScriptedModel(says("Hello."))
    async with await opened_with(tmp_path, model, Reader()) as agent:
        events = await events_of(agent, said("hi"))

    assert ["'read'" in event.message for event in events if isinstance(event, Warned)] == [True]
    assert [spec.name for spec in model.requests[0].tools].count("read") == 1


@pytest.mark.parametrize("written", ["none", " NONE "])
@pytest.mark.covers("CFG-12")
async def test_none_is_no_memory_tool_and_notes_are_still_written(tmp_path: Path, written: str) -> None:
    """No tools, no section about them, no index; the flush before `/new` writes Markdown as ever."""
    write_settings(tmp_path, {"plugins": {"slots": {"memory": written}}})
    note = calls(("append", {"path": TODAY, "text": "- The boat is Halcyon."}), purpose="flush")
    model = ScriptedModel(says("Hello."), note, says("NO_REPLY", purpose="flush"))
    async with await opened_with(tmp_path, model, None) as agent:
        notices = agent.notices
        await agent.ask("my boat is Halcyon")
        status = await agent.ask("/status")
        await agent.ask("/new")
        log = (agent.workspace / TODAY).read_text(encoding="utf-8")

    assert not offered(model, 0) & set(CORE)
    assert "## Memory recall" not in model.requests[0].system.stable
    assert "- The boat is Halcyon." in log
    assert not (tmp_path / "memory" / "main.sqlite").exists()
    assert status is not None
    assert "plugins.slots.memory" in status.text
    assert not [notice for notice in notices if "plugins" in notice]
