"""`nacre memory ltm …`, over what a real agent stored, captured and recalls."""

from __future__ import annotations

import asyncio
import json
from importlib.util import find_spec
from pathlib import Path

import pytest

from nacre import Agent
from nacre.runtime.models.scripted import ScriptedModel, calls, says
from tests.cli.program import WAIT_SECONDS, environment, run_here
from tests.runtime.agents import write_settings
from tests.servers.warm_python import run_warm

HAS_LANCEDB = find_spec("lancedb") is not None
needs_lancedb = pytest.mark.skipif(not HAS_LANCEDB, reason="the extra lancedb is not installed")
SETTINGS = {
    "plugins": {
        "slots": {"memory": "memory-lancedb"},
        "entries": {"memory-lancedb": {"config": {"autoCapture": True}}},
    }
}

TRIES = 5
"""A turn waits a few seconds for a recall, which may be too short for the first ones of a busy machine."""


async def _talked(state_dir: Path, model: ScriptedModel, *said: str) -> tuple[str, ...]:
    async with await Agent.open(state_dir=state_dir, model=model, watch=False) as agent:
        for text in said:
            await agent.ask(text)
        return agent.notices


@pytest.mark.slow
@needs_lancedb
@pytest.mark.covers("LDB-8", "LDB-11")
def test_what_an_agent_remembers_is_listed_found_and_counted(tmp_path: Path) -> None:
    """Stored by the model and by itself, with the model that ships; a later turn is given what fits it."""
    state = tmp_path / ".nacre"
    write_settings(state, SETTINGS)
    boat = {"text": "The boat is called Halcyon.", "category": "entity"}
    model = ScriptedModel(calls(("memory_store", boat)), says("Noted."))
    assert asyncio.run(_talked(state, model, "I prefer dark mode in every editor.")) == ()
    later = ScriptedModel(*(says("Dark."),) * TRIES)
    asyncio.run(_talked(state, later, *("What colour scheme do I like for my editor?",) * TRIES))

    listed = run_here(tmp_path, "memory", "ltm", "list")
    found = run_here(tmp_path, "memory", "ltm", "search", "the name of the ship", "--json")
    counted = run_here(tmp_path, "memory", "ltm", "stats", "--json")
    told = run_here(tmp_path, "memory", "ltm", "stats")

    recalled = "".join(request.system.tail for request in later.requests)
    assert "> 1. [preference] I prefer dark mode in every editor. (" in recalled
    assert "call `memory_store`" in later.requests[0].system.stable
    assert [spec.name for spec in later.requests[0].tools if spec.name.startswith("memory_")] == [
        "memory_recall",
        "memory_store",
        "memory_forget",
    ]
    assert listed.stdout.splitlines()[-1] == "Total memories: 2"
    assert {line.partition("[")[2].partition("]")[0] for line in listed.stdout.splitlines()[:2]} == {
        "preference",
        "entity",
    }
    (boat_found,) = json.loads(found.stdout)
    assert boat_found["text"] == boat["text"]
    assert boat_found["id"] in listed.stdout
    assert 0.2 <= boat_found["score"] <= 1
    numbers = json.loads(counted.stdout)
    assert (numbers["total"], numbers["withoutVector"]) == (2, 0)
    assert numbers["writtenBy"] == {"tool": 1, "capture": 1}
    assert told.stdout.startswith("Total memories: 2\nfrom ")


@needs_lancedb
@pytest.mark.covers("SEED-17")
def test_where_the_slot_has_another_engine_the_owner_is_told(tmp_path: Path) -> None:
    """What there is can be looked at all the same; settings that do not fit are refused."""
    empty = run_here(tmp_path, "memory", "ltm", "list")
    write_settings(
        tmp_path / ".nacre", {"plugins": {"entries": {"memory-lancedb": {"config": {"captureMaxChars": 9}}}}}
    )

    assert empty.stdout == "Total memories: 0\n"
    assert "plugins.slots.memory" in empty.stderr
    with pytest.raises(Exception, match=r"captureMaxChars .*100"):
        run_here(tmp_path, "memory", "ltm", "stats")


@pytest.mark.skipif(HAS_LANCEDB, reason="it is about an install without the extra lancedb")
def test_without_the_library_the_sentence_says_how_to_get_it(tmp_path: Path) -> None:
    """The agent runs without memory tools, and says so; the command fails with the same sentence."""
    write_settings(tmp_path / ".nacre", SETTINGS)
    notices = asyncio.run(_talked(tmp_path / ".nacre", ScriptedModel(says("Hi.")), "Hello"))
    ended = run_here(tmp_path, "memory", "ltm", "list")

    sentence = "The package lancedb is not installed. Install it with `"
    assert [notice for notice in notices if sentence in notice]
    assert ended.returncode == 1
    assert sentence in " ".join(ended.stderr.split())


def test_without_the_library_the_settings_cannot_be_used_whole(tmp_path: Path) -> None:
    """`nacre config check` says what is missing and how to get it."""
    write_settings(tmp_path / ".nacre", SETTINGS)
    program = tmp_path / "program.py"
    program.write_text(
        'import sys\n\nsys.modules["lancedb"] = None  # as if it were not installed\n'
        "from nacre.__main__ import main\n\nmain()\n"
    )
    ended = run_warm(
        str(program), "config", "check", cwd=tmp_path, env=environment(tmp_path), timeout_seconds=WAIT_SECONDS
    )
    assert ended.returncode == 1
    assert "The package lancedb is not installed. Install it with `" in " ".join(ended.stderr.split())


@pytest.mark.slow
@needs_lancedb
def test_a_memory_is_forgotten_for_good(tmp_path: Path) -> None:
    """Shown first; then no file has it, the engine's versions included, and the others are found."""
    state = tmp_path / ".nacre"
    write_settings(state, {**SETTINGS, "agents": {"defaults": {"memorySearch": {"provider": "none"}}}})
    texts = ["The boat is called Halcyon.", *(f"Lisa plays piece number {number}." for number in range(30))]
    stored = [calls(("memory_store", {"text": text, "category": "fact"})) for text in texts]
    model = ScriptedModel(*stored, says("Noted."))
    asyncio.run(_talked(state, model, "Keep that."))

    kept = [path for path in (state / "memory").rglob("*") if path.is_file()]
    assert any(b"Halcyon" in path.read_bytes() for path in kept)

    shown = run_here(tmp_path, "memory", "forget", "halcyon boat")
    assert (
        len(json.loads(run_here(tmp_path, "memory", "ltm", "list", "--limit", "50", "--json").stdout)) == 31
    )
    done = run_here(tmp_path, "memory", "forget", "halcyon boat", "--transcripts", "--yes")

    assert "In the long-term memory: The boat is called Halcyon." in shown.stdout
    assert done.returncode == 0, done.stderr
    assert "from the long-term memory." in done.stdout
    assert "nothing remains" in done.stdout, done.stderr
    left = json.loads(run_here(tmp_path, "memory", "ltm", "list", "--limit", "50", "--json").stdout)
    assert sorted(each["text"] for each in left) == sorted(texts[1:])
    assert "number 7" in run_here(tmp_path, "memory", "ltm", "search", "piece number 7").stdout
    has_it = [path for path in state.rglob("*") if path.is_file() and b"halcyon" in path.read_bytes().lower()]
    assert has_it == []
