"""Several agents of one state folder: in one process, which shares what it may, and in several at once."""

from __future__ import annotations

import asyncio
import inspect
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from nacre import Agent, Runtime, tool
from nacre.memory.embedders.e5 import E5Embedder
from nacre.runtime.agent.opening.assembly import assemble
from nacre.runtime.agent.opening.author_parts import AgentKeywords, AuthorParts, SharedKeywords
from nacre.runtime.agent.opening.shared import Shared, World
from nacre.runtime.contracts.errors import ConfigError, TurnBroken
from nacre.runtime.models.scripted import Clock, CountingIds, ScriptedModel, calls, says
from nacre.runtime.recall.open_memory import open_memory
from nacre.runtime.settings.config import load_config
from tests.faults.apart.isolation import listed, opened_agent, tree_bytes
from tests.runtime.agents import START, user_texts, write_settings

ROOT = Path(__file__).parents[3]
TURNS = 5


@asynccontextmanager
async def runtime_of(state_dir: Path, **keywords: Any) -> AsyncIterator[Runtime]:
    """An open runtime in an empty environment."""
    async with await Runtime.open(
        state_dir=state_dir,
        environment={"HOME": str(state_dir / "home")},
        clock=Clock(START),
        new_id=CountingIds("main"),
        watch=False,
        **keywords,
    ) as runtime:
        yield runtime


def sessions(state_dir: Path, agent_id: str) -> list[Path]:
    """The transcripts of an agent."""
    return list((state_dir / "agents" / agent_id / "sessions").glob("*.jsonl"))


@tool
def moon() -> str:
    """How the moon stands."""
    return "waxing"


async def test_agents_are_opened_when_they_are_asked_for(tmp_path: Path) -> None:
    """All are listed; folders appear with the first use; asking again gives the same agent."""
    listed(tmp_path, {}, {"name": "Work", "model": "openai/gpt-4o"})
    async with runtime_of(tmp_path) as runtime:
        assert [(agent.id, agent.name, agent.is_default) for agent in runtime.agents] == [
            ("main", "", True),
            ("work", "Work", False),
        ]
        assert runtime.agents[1].model_name == "openai/gpt-4o"
        work = await runtime.agent("work", model=ScriptedModel())
        assert work.id == "work"
        assert work.workspace == tmp_path / "workspace-work"
        assert not (tmp_path / "workspace").exists()
        assert await runtime.agent("work") is await runtime.agent(" WORK ") is work
        assert (await runtime.agent()).id == "main"
        with pytest.raises(ConfigError, match=r"'play'.* main, work"):
            await runtime.agent("play")
        with pytest.raises(ConfigError, match="'work' is open already"):
            await runtime.agent("work", tools=[moon])


async def test_two_agents_talk_at_the_same_time(tmp_path: Path) -> None:
    """Each keeps to its own files; model, tools and instructions are those that it was given."""
    listed(tmp_path, {"tools": {"deny": ["append", "WRITE"]}}, {"tools": {"allow": ["moon", "re*"]}})
    models = {
        name: ScriptedModel(
            calls((asked, {"path": "AGENTS.md"} if asked == "read" else {})),
            says(f"{name} answers"),
            *(says(f"{name} {number}") for number in range(TURNS)),
        )
        for name, asked in (("main", "read"), ("work", "moon"))
    }
    async with runtime_of(tmp_path) as runtime:
        main = await runtime.agent("main", model=models["main"])
        work = await runtime.agent("work", model=models["work"], tools=[moon], instructions="Be brief.")
        for number in range(TURNS + 1):
            replies = await asyncio.gather(main.ask(f"main said {number}"), work.ask(f"work said {number}"))
            assert [reply.session_key for reply in replies if reply] == ["agent:main:main", "agent:work:main"]

    for name, model in models.items():
        model.assert_complete()
        (transcript,) = sessions(tmp_path, name)
        assert user_texts(transcript) == [f"{name} said {number}" for number in range(TURNS + 1)]
    offered = {name: {spec.name for spec in model.requests[0].tools} for name, model in models.items()}
    assert offered["main"] == {"read", "edit", "list", "memory_search", "memory_get"}
    assert offered["work"] == {"read", "moon"}
    assert "Be brief." in models["work"].requests[0].system.stable
    assert "Be brief." not in models["main"].requests[0].system.stable


async def test_the_first_agent_stays_where_it_was(tmp_path: Path) -> None:
    """With others beside it, `main` has the same bytes in the same places as alone; they have their own."""
    alone, beside = tmp_path / "alone", tmp_path / "beside"
    script = [calls(("append", {"path": "memory/tea.md", "text": "oolong"})), says("Noted."), says("Bye.")]
    no_hooks: dict[str, Any] = {"hooks": {"internal": {"enabled": False}}}
    write_settings(alone, {"agents": {"defaults": {"memorySearch": {"provider": "none"}}}, **no_hooks})
    listed(beside, {"memorySearch": {"query": {"minScore": 0.35}}}, {})
    async with await opened_agent(alone, "main", ScriptedModel(*script)) as agent:
        await agent.ask("tea")
        await agent.ask("bye")
    async with runtime_of(beside) as runtime:
        agent = await runtime.agent("main", model=ScriptedModel(*script))
        await agent.ask("tea")
        await agent.ask("bye")
        other = await runtime.agent("work", model=ScriptedModel(says("Hello.")))
        await other.ask("hello")

    def kept(state_dir: Path) -> dict[str, bytes]:
        changing = (".git", "nacre.json5", "sqlite")
        return {
            name: re.sub(rb'"frame":"[0-9a-f]+"', b"", data.replace(str(state_dir).encode(), b"STATE"))
            for name, data in tree_bytes(state_dir).items()
            if not any(part in name for part in changing)
        }

    old, new = kept(alone), kept(beside)
    assert old.keys() < new.keys()
    assert {name: new[name] for name in old} == old
    assert {Path(name).parts[:2] for name in new.keys() - old.keys()} <= {
        ("agents", "work"),
        *(("workspace-work", name.name) for name in (beside / "workspace-work").iterdir()),
    }
    assert (alone / "memory" / "main.sqlite").is_file()
    assert {path.name for path in (beside / "memory").glob("*.sqlite")} == {"main.sqlite", "work.sqlite"}
    assert list((beside / "locks" / "lanes").iterdir())
    assert list((beside / "agents" / "work" / "locks" / "lanes").iterdir())


async def test_what_may_be_shared_is_made_once(tmp_path: Path) -> None:
    """One client of a model that both ask, one embedder, loaded once; closed with the last that used it."""
    listed(
        tmp_path,
        {"model": "openai/gpt-4o", "memorySearch": {"provider": "local"}},
        {"model": "openai/gpt-4o", "modelTimeoutSeconds": 180, "memorySearch": {"provider": "local"}},
    )
    shared, made = Shared(), list[E5Embedder]()

    def local() -> E5Embedder:
        made.append(E5Embedder())
        return made[-1]

    configs = [
        load_config({"HOME": str(tmp_path)}, state_dir=tmp_path, agent_id=name) for name in ("main", "work")
    ]
    parts = [
        await assemble(
            config, AuthorParts(), clock=Clock(START), new_id=CountingIds(), watch=False, shared=shared
        )
        for config in configs
    ]
    first, second = (part.turn.model for part in parts)
    assert first is second
    for part in parts:
        await part.closing.aclose()

    stacks = [AsyncExitStack(), AsyncExitStack()]
    for config, stack in zip(configs, stacks, strict=True):
        world = World(now=Clock(START), new_id=CountingIds(), watch=False, shared=shared, closing=stack)
        engine = await open_memory(config, Clock(START), local=local, lent=world.embedder)
        assert engine is not None
        stack.push_async_callback(engine.close)
        await engine.sync(reason="test")
        assert (await engine.status(deep=True)).embeddings_problem == ""
    assert len(made) == 1
    await stacks[0].aclose()
    assert len(await made[0].embed_query("still open")) == 384
    await stacks[1].aclose()


async def test_a_closed_agent_is_opened_anew(tmp_path: Path) -> None:
    """One agent may be closed alone; the runtime closes the others, and then opens none."""
    listed(tmp_path, {}, {})
    async with runtime_of(tmp_path) as runtime:
        main = await runtime.agent("main", model=(model := ScriptedModel(says("one"))))
        work = await runtime.agent("work", model=model)
        await main.close()
        again = await runtime.agent("main", model=ScriptedModel(says("two")))
        assert again is not main
        reply = await again.ask("hello")
        assert reply is not None
        assert reply.text == "two"
        reply = await work.ask("hello")
        assert reply is not None
        assert reply.text == "one", "the model that both were given is closed with the last of them"

    assert work.is_closed
    with pytest.raises(TurnBroken, match="runtime is closed"):
        await runtime.agent("work")


def test_a_runtime_takes_what_an_agent_takes() -> None:
    """Every keyword of `Agent.open` has its place: for one agent, or for all."""
    one, every, alone = set(AgentKeywords.__annotations__), _keywords(Runtime.open), _keywords(Agent.open)

    of_users = {"user_idle_seconds", "most_idle_users"}
    assert one | every - {"all_agents", "keywords"} - of_users == alone - {"agent", "workspace"}
    assert set(SharedKeywords.__annotations__) == one - {"memory"}, "an engine is one agent's alone"


def _keywords(function: Callable[..., Any]) -> set[str]:
    return set(inspect.signature(function).parameters)


async def test_asking_twice_at_once_opens_one_agent(tmp_path: Path) -> None:
    """Two messages that arrive together find the same agent."""
    listed(tmp_path, {}, {})
    async with runtime_of(tmp_path) as runtime:
        one, two = await asyncio.gather(runtime.agent("work"), runtime.agent("work"))

        assert one is two


async def test_all_at_once_tells_a_slip_at_the_start(tmp_path: Path) -> None:
    """With `all_agents`, settings that one of them cannot use stop the start, and the others are closed."""
    listed(tmp_path, {}, {"memorySearch": {"extraPaths": [str(tmp_path / "workspace")]}})
    with pytest.raises(ConfigError, match="agent 'work' reaches the workspace"):
        async with runtime_of(tmp_path, all_agents=True):
            pass
    listed(tmp_path, {}, {})
    async with runtime_of(tmp_path, all_agents=True) as runtime:
        assert (tmp_path / "workspace-work" / "MEMORY.md").is_file()
        assert not (await runtime.agent("work")).is_closed


@pytest.mark.slow
def test_several_processes_use_one_state_folder(tmp_path: Path) -> None:
    """Two of `main` and one of `work` at the same time: every word is in its agent's transcript, once."""
    listed(tmp_path, {}, {})
    programs = [
        subprocess.Popen(
            [
                sys.executable,
                "-m",
                "tests.faults.apart.two_agents_driver",
                *(str(tmp_path), agent_id, name, str(TURNS)),
            ],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for agent_id, name in (("main", "ann"), ("main", "ben"), ("work", "cleo"))
    ]
    for program in programs:
        assert program.stdout is not None
        assert program.stdout.readline() == "open\n"
    for program in programs:
        assert program.stdin is not None
        program.stdin.write("go\n")
        program.stdin.flush()
    for program in programs:
        _, problems = program.communicate(timeout=120)
        assert program.returncode == 0, problems

    (main,), (work,) = sessions(tmp_path, "main"), sessions(tmp_path, "work")
    assert sorted(user_texts(main)) == sorted(f"{name} {n}" for name in ("ann", "ben") for n in range(TURNS))
    assert user_texts(work) == [f"cleo {number}" for number in range(TURNS)]
