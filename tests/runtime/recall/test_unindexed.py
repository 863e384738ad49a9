"""An agent whose memory index cannot be opened: it talks, reads notes and says why it cannot search."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from nacre.runtime.models.scripted import ScriptedModel, calls, says
from nacre.sessions.contracts.messages import message_text
from tests.cli.program import run_nacre
from tests.runtime.agents import opened, said


def _in_the_way(state_dir: Path) -> None:
    """A note, and a file where the folder of the index should be."""
    notes = state_dir / "workspace" / "memory"
    notes.mkdir(parents=True)
    (notes / "boat.md").write_text("The boat is called Halcyon.\n", encoding="utf-8")
    (state_dir / "memory").write_text("not a folder", encoding="utf-8")


def _results(model: ScriptedModel) -> list[dict[str, Any]]:
    return [json.loads(message_text(request.messages[-1])) for request in model.requests[1:]]


async def test_an_index_that_cannot_be_opened_does_not_take_the_conversation_away(tmp_path: Path) -> None:
    """The owner is told at the start; a search comes back disabled with the reason, a file is read."""
    _in_the_way(tmp_path)
    model = ScriptedModel(
        calls(("memory_search", {"query": "boat"})),
        calls(("memory_get", {"path": "memory/boat.md"})),
        says("Halcyon."),
    )

    async with opened(tmp_path, model) as agent:
        notices = agent.notices
        reply = await agent.respond(said("What is my boat called?"))
        status = await agent.respond(said("/status"))

    searched, read = _results(model)
    assert reply is not None
    assert status is not None
    assert reply.text == "Halcyon."
    assert any("Memory cannot be searched" in notice for notice in notices)
    assert (searched["results"], searched["disabled"]) == ([], True)
    assert str(tmp_path / "memory" / "main.sqlite") in searched["error"]
    assert read["text"] == "The boat is called Halcyon."
    assert "cannot be used" in str(status.text)


async def test_a_group_is_not_offered_what_is_left_of_memory(tmp_path: Path) -> None:
    """Without its index, private memory is as closed to a group as with it."""
    _in_the_way(tmp_path)
    model = ScriptedModel(calls(("memory_get", {"path": "memory/boat.md"})), says("Hello."))

    async with opened(tmp_path, model) as agent:
        await agent.respond(said("Hello?", chat_kind="group", chat_id="7", is_owner=False))

    got = message_text(model.requests[1].messages[-1])
    assert "Halcyon" not in got


def test_a_file_is_printed_without_the_index(tmp_path: Path) -> None:
    """`nacre memory get` reads the file and asks nothing of the index, which `search` fails on."""
    _in_the_way(tmp_path / ".nacre")

    got = run_nacre(tmp_path, "memory", "get", "memory/boat.md")
    searched = run_nacre(tmp_path, "memory", "search", "boat")

    assert (got.returncode, got.stdout, got.stderr) == (0, "The boat is called Halcyon.\n", "")
    assert (searched.returncode, searched.stdout) == (1, "")
    assert searched.stderr.startswith("Memory search failed: ")
