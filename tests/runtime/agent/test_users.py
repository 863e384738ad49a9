"""The users of one runtime: each with a private assistant, which is open while it is needed."""

from __future__ import annotations

import asyncio
import json
import platform
import sys
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from nacre import Agent, Runtime, tool
from nacre.runtime.agent.runtime import _return_memory
from nacre.runtime.contracts.errors import ConfigError, TurnBroken
from nacre.runtime.models.scripted import Clock, CountingIds, ScriptedModel, calls, says
from nacre.runtime.settings.config import load_config
from nacre.sessions.contracts.messages import message_text
from tests.runtime.agents import START, user_texts, write_settings

WORDS_ALONE: dict[str, Any] = {
    "agents": {"defaults": {"memorySearch": {"provider": "none", "query": {"minScore": 0}}}},
    "hooks": {"internal": {"enabled": False}},
}


@asynccontextmanager
async def runtime_of(state_dir: Path, *script: Any, **keywords: Any) -> AsyncIterator[Runtime]:
    """An open runtime whose agents all ask one scripted model."""
    async with Runtime.open(
        state_dir=state_dir,
        environment={"HOME": str(state_dir / "home")},
        model=ScriptedModel(*script),
        clock=Clock(START),
        new_id=CountingIds("users"),
        **keywords,
    ) as runtime:
        yield runtime


async def until(is_so: Callable[[], bool]) -> None:
    """Lets the loop run until something is so."""
    while not is_so():  # noqa: ASYNC110 - a thread that ends sets no event
        await asyncio.sleep(0.001)


def index_files(state_dir: Path) -> set[str]:
    """The open files of this process that belong to an index."""
    found = set[str]()
    for each in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # a thread has closed it since
            found.add(str(each.readlink()))
    return {name for name in found if name.startswith(str(state_dir)) and ".sqlite" in name}


async def test_a_user_needs_no_settings(tmp_path: Path) -> None:
    """The first use makes the assistant, whose owner the user is; who never speaks leaves no trace."""
    async with runtime_of(tmp_path, says("Hello Ann."), says("Still here.")) as runtime:
        silent = [runtime.user(f"silent-{number}") for number in range(1_000)]
        assert not (tmp_path / "users").exists()
        async with runtime.user("ann") as agent:
            reply = await agent.ask("Hi")
            async with runtime.user("ann") as again:
                assert again is agent
        assert reply is not None
        assert reply.session_key == "agent:user-ann:main"
        assert agent.workspace == tmp_path / "users" / "user-ann" / "workspace"
        async with runtime.user("ann") as again:
            assert again is agent
            await again.ask("Are you there?")
        assert len(silent) == 1_000
        assert [folder.name for folder in (tmp_path / "users").iterdir()] == ["user-ann"]
    assert agent.is_closed
    assert not (tmp_path / "nacre.json5").exists()
    (transcript,) = (tmp_path / "users" / "user-ann" / "sessions").glob("*.jsonl")
    assert user_texts(transcript) == ["Hi", "Are you there?"]


@pytest.mark.parametrize(
    "name", ["Ann", "ann@example.com", "../../etc", "a/b", "アン", "user-ann", "x" * 300, "."]
)
async def test_any_text_names_a_user(tmp_path: Path, name: str) -> None:
    """Every name has one folder of its own below `users/`, apart from that of `ann`."""
    async with runtime_of(tmp_path) as runtime:
        async with runtime.user("ann") as ann, runtime.user(name) as other:
            assert other.id != ann.id
            assert other.workspace.parent.parent == tmp_path / "users"
        with pytest.raises(ConfigError, match="A user needs a name"):
            async with runtime.user("  "):
                pass


async def test_no_user_reaches_another(tmp_path: Path) -> None:
    """Neither a tool, a search, a session key nor the prompt shows Bob what Ann said."""
    write_settings(tmp_path, WORDS_ALONE)
    secret = "the vault opens with heliotrope"
    notes = tmp_path / "users" / "user-ann" / "workspace"
    paths = [str(notes / "MEMORY.md"), "../../user-ann/workspace/MEMORY.md", "../../user-ann", str(tmp_path)]
    tried = [
        call
        for path in paths
        for call in (
            ("read", {"path": path}),
            ("list", {"path": path}),
            ("write", {"path": path, "content": "gone"}),
            ("memory_get", {"path": path}),
        )
    ]
    async with runtime_of(
        tmp_path,
        calls(("append", {"path": "MEMORY.md", "text": f"- {secret}."})),
        says("Noted."),
        calls(*tried),
        calls(("memory_search", {"query": "vault heliotrope"})),
        says("Nothing."),
    ) as runtime:
        async with runtime.user("ann") as ann:
            await ann.ask(f"Remember: {secret}.")
        before = (notes / "MEMORY.md").read_bytes()
        async with runtime.user("bob") as bob:
            await bob.ask("How is the vault opened?")
            with pytest.raises(Exception, match="belongs to agent 'user-ann', and this is agent 'user-bob'"):
                await bob.ask("Hello", session="agent:user-ann:main")
            model = bob._parts.turn.model
    assert secret.encode() in before
    assert (notes / "MEMORY.md").read_bytes() == before
    requests = [each for each in model.requests if "How is the vault" in str(each.messages)]
    assert len(requests) == 3
    for request in requests:
        assert "heliotrope." not in "\n".join([request.system.joined(), *map(message_text, request.messages)])


@pytest.mark.skipif(sys.platform != "linux", reason="counts the open files in /proc")
async def test_an_idle_user_holds_nothing(tmp_path: Path) -> None:
    """After a search the index is open; once idle, no file and no thread is left, and the notes are found."""
    write_settings(tmp_path, WORDS_ALONE)
    search = calls(("memory_search", {"query": "oolong tea"}))
    note = calls(("append", {"path": "MEMORY.md", "text": "- The oolong tea is in the blue tin."}))
    script = (note, says("Noted."), search, says("In the tin."), search, says("In the tin."))
    async with runtime_of(tmp_path, *script, user_idle_seconds=0.0) as runtime:
        async with runtime.user("ann") as first:
            await first.ask("The tea is in the blue tin.")
            assert not index_files(tmp_path) or first.is_busy is False
            await first.ask("Where is the tea?")
            assert index_files(tmp_path)
        await until(lambda: first.is_closed and not index_files(tmp_path))
        await until(lambda: not [each for each in threading.enumerate() if each.name.startswith("memory-")])
        async with runtime.user("ann") as second:
            assert second is not first
            await second.ask("And now, where is the tea?")
            model = second._parts.turn.model
        found = json.loads(message_text(model.requests[-1].messages[-1]))
        assert "blue tin" in found["results"][0]["snippet"]


async def test_a_turn_in_the_background_keeps_its_user_open(tmp_path: Path) -> None:
    """Who is idle for too long is closed, but not while something runs for them."""
    begun, may_end = asyncio.Event(), asyncio.Event()

    @tool
    async def knit() -> str:
        """Knits until it may end."""
        begun.set()
        await may_end.wait()
        return "a sock"

    script = (calls(("knit", {})), says("The sock is done."))
    async with runtime_of(tmp_path, *script, tools=(knit,), user_idle_seconds=0.0) as runtime:
        async with runtime.user("ann") as ann:
            turn = asyncio.create_task(ann.ask("Knit a sock."))
            await begun.wait()
        async with runtime.user("bob") as bob:
            pass
        await until(lambda: bob.is_closed)
        assert not ann.is_closed
        may_end.set()
        assert (await turn).text == "The sock is done."


async def test_the_longest_idle_user_is_closed_first(tmp_path: Path) -> None:
    """Of those that nobody uses only so many stay open; one that is used never counts."""
    async with runtime_of(tmp_path, most_idle_users=1) as runtime:
        opened: dict[str, Agent] = {}
        async with runtime.user("used") as used:
            for name in ("ann", "bob", "cat"):
                async with runtime.user(name) as opened[name]:
                    pass
            await until(lambda: opened["bob"].is_closed)
            closed = {name: agent.is_closed for name, agent in opened.items()}
            assert closed == {"ann": True, "bob": True, "cat": False}
            assert not used.is_closed


async def test_many_ask_for_one_user_while_it_is_closed(tmp_path: Path) -> None:
    """Whoever comes while an agent is being closed gets an open one."""
    async with runtime_of(tmp_path, most_idle_users=0) as runtime:

        async def use() -> bool:
            async with runtime.user("ann") as agent:
                await asyncio.sleep(0)
                return agent.is_closed

        for _ in range(3):
            assert not any(await asyncio.gather(*(use() for _ in range(8))))
    with pytest.raises(TurnBroken, match="This runtime is closed"):
        async with runtime.user("ann"):
            pass


async def test_a_model_outlives_the_users(tmp_path: Path) -> None:
    """What users share stays open while nobody uses it, and is closed with the runtime."""

    class Closing(ScriptedModel):
        closed = 0

        async def aclose(self) -> None:
            self.closed += 1

    @tool
    def moon() -> str:
        """How the moon stands."""
        return "waxing"

    model = Closing(calls(("moon", {})), says("Waxing."), says("Hello Bob."))
    async with Runtime.open(
        state_dir=tmp_path,
        environment={},
        model=model,
        tools=[moon],
        instructions="Be brief.",
        most_idle_users=0,
    ) as runtime:
        for name, text in (("ann", "How is the moon?"), ("bob", "Hello")):
            async with runtime.user(name) as agent:
                await agent.ask(text)
            await until(lambda: agent.is_closed)
        assert model.closed == 0
    assert model.closed == 1
    assert all("Be brief." in request.system.stable for request in model.requests)


async def test_settings_lead_to_no_user(tmp_path: Path) -> None:
    """A listed agent of a user's name, and a path of all agents into the folder of the users, are refused."""
    write_settings(tmp_path, {"agents": {"list": [{"id": "main"}, {"id": "user-ann"}]}})
    async with runtime_of(tmp_path) as runtime:
        with pytest.raises(ConfigError, match=r"agents.list in .* has one of that name"):
            async with runtime.user("ann"):
                pass
    reaching = {"memorySearch": {"extraPaths": [str(tmp_path / "users")]}}
    write_settings(tmp_path, {"agents": {"defaults": reaching}})
    async with runtime_of(tmp_path) as runtime:
        with pytest.raises(ConfigError, match=r"memorySearch.extraPaths of agent 'user-bob' reaches"):
            async with runtime.user("bob"):
                pass
    (tmp_path / "users").mkdir()
    with pytest.raises(ConfigError, match=r"memorySearch.extraPaths of agent 'main' reaches"):
        await Agent.open(state_dir=tmp_path, environment={})


async def test_an_existing_user_is_an_agent_by_name(tmp_path: Path) -> None:
    """The operator's commands reach the agent of a user that exists by its id, and no other."""
    async with runtime_of(tmp_path) as runtime, runtime.user("ann"):
        pass
    environment = {"HOME": str(tmp_path / "home")}
    config = load_config(environment, state_dir=tmp_path, agent_id="user-ann")
    assert config.workspace == tmp_path / "users" / "user-ann" / "workspace"
    for name in ("user-bob", "user-../user-ann"):
        with pytest.raises(ConfigError, match="There is no agent"):
            load_config(environment, state_dir=tmp_path, agent_id=name)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc keeps freed memory")
def test_freed_memory_is_returned_below_what_is_still_used() -> None:
    """Many small pieces are freed below one that stays: the process is smaller afterwards."""

    def resident_kb() -> int:
        lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
        return int(next(line for line in lines if line.startswith("RssAnon")).split()[1])

    pieces = [bytes([number % 255 + 1]) * 2_000 for number in range(30_000)]
    kept = pieces[::500]
    pieces.clear()
    before_kb = resident_kb()
    _return_memory()
    assert before_kb - resident_kb() > 30_000
    assert all(len(piece) == 2_000 for piece in kept)
