"""A memory write costs no cached byte: by a flush, a hand, a reflection, a reminder, or another agent."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nacre import Agent
from nacre.extensions.curation.reflection import propose_bank
from nacre.memory.files.proposals import write_changes
from nacre.memory.workspace.folder import FolderWorkspace
from nacre.memory.workspace.workspace import REMINDERS
from nacre.runtime.contracts.model import ModelRequest, StreamItem, TextDelta
from nacre.runtime.models.scripted import Clock, CountingIds
from nacre.sessions.contracts.messages import AssistantMessage, Text, ToolCall, ToolResultMessage, Usage
from tests.prompts.test_rendering import HEADINGS
from tests.runtime.agents import START, said, write_settings
from tests.runtime.turn.test_prompt_cache import sent

SUMMARY = "\n\nNothing.\n\n".join((*HEADINGS, ""))
SETTINGS = {
    "session": {"reset": {"mode": "idle", "idleMinutes": 1_000_000}},
    "memory": {"bank": {"enabled": True}, "history": {"commits": "off"}},
    "agents": {
        "defaults": {
            "memorySearch": {"provider": "none"},
            "contextTokens": 400_000,
            "compaction": {"keepRecentTokens": 200},
        }
    },
}


class Writer:
    """A model that writes a note in every flush and every fourth turn, and compares its requests.

    `lost` has the requests that do not begin with all of the one before, as a provider caches it: without
    its tail. A compaction replaces the conversation, so the request after one begins anew.
    """

    name = "writer/model"
    context_window_tokens = 400_000

    def __init__(self, dice: random.Random) -> None:
        self.dice = dice
        self.requests = self.flushes = self.compactions = self.tails = 0
        self.lost: list[tuple[str, str]] = []
        self._last: dict[str, str] = {}

    async def stream(self, request: ModelRequest) -> AsyncIterator[StreamItem]:
        """Answers at once; a flush and every fourth turn append a line."""
        self._compare(request)
        is_done = request.messages and isinstance(request.messages[-1], ToolResultMessage)
        day = f"{START:%Y-%m-%d}"
        text, calls = "Noted.", list[ToolCall]()
        if request.purpose == "compaction":
            text = SUMMARY
        elif not is_done and (request.purpose == "flush" or self.dice.random() < 0.25):
            line: Mapping[str, Any] = {"path": f"memory/{day}.md", "text": f"- Line {self.requests}."}
            text, calls = "", [ToolCall(id=f"call_{self.requests}", name="append", arguments=line)]
        if text:
            yield TextDelta(text=text)
        yield AssistantMessage(
            content=(Text(text=text), *calls) if text else tuple(calls),
            api="",
            provider="",
            model="",
            usage=Usage(input_tokens=len(self._last[request.purpose]) // 4, output_tokens=2),
            stop_reason="toolUse" if calls else "stop",
            timestamp_ms=1,
        )

    def _compare(self, request: ModelRequest) -> None:
        self.requests += 1
        self.flushes += request.purpose == "flush"
        self.tails += bool(request.system.tail)
        cached = sent(replace(request, system=replace(request.system, tail="")))
        before = self._last.get(request.purpose, "")
        if request.purpose == "turn" and not cached.startswith(before):
            self.lost.append((before, cached))
        self._last[request.purpose] = cached
        if request.purpose == "compaction":
            self.compactions += 1
            self._last.pop("turn", None)

    async def aclose(self) -> None:
        """Holds nothing."""


@pytest.mark.parametrize("turns", [24, pytest.param(500, marks=pytest.mark.slow)])
async def test_a_write_costs_no_cached_byte(tmp_path: Path, turns: int) -> None:
    """Whoever writes whatever between two requests, the second begins with all bytes of the first."""
    dice, clock = random.Random(7), Clock(START)
    for state in (tmp_path, tmp_path / "second"):
        write_settings(state, SETTINGS)
    workspace = FolderWorkspace(tmp_path / "workspace", lock_dir=tmp_path / "locks")
    models, agents = [Writer(dice) for _ in range(2)], list[Agent]()
    for number, model in enumerate(models):
        agents.append(
            await Agent.open(
                state_dir=tmp_path if not number else tmp_path / "second",
                workspace=tmp_path / "workspace",
                model=model,
                environment={"HOME": str(tmp_path / "home")},
                clock=clock,
                new_id=CountingIds(f"{number}-"),
                watch=False,
            )
        )
    try:
        for number in range(turns):
            await _changed(workspace, tmp_path / "workspace", number, dice)
            which = dice.randrange(2)
            if number % 20 == 19:
                await agents[which].respond(said("/compact"))
            await agents[which].respond(said(f"Question {number} about the boat?"))
            clock.advance(minutes=10)
    finally:
        for agent in agents:
            await agent.close()

    assert [model.lost for model in models] == [[], []]
    assert sum(model.requests for model in models) > turns
    assert sum(model.flushes for model in models) >= 1
    assert sum(model.compactions for model in models) >= 1
    assert sum(model.tails for model in models) >= 1
    assert (tmp_path / "workspace/bank/world.md").exists()


async def _changed(workspace: FolderWorkspace, folder: Path, number: int, dice: random.Random) -> None:
    kind = dice.randrange(5)
    if kind < 3:
        name = ("MEMORY.md", f"memory/{START:%Y-%m-%d}.md", "USER.md")[kind]
        with (folder / name).open("a", encoding="utf-8") as file:
            file.write(f"- By hand {number}: gate {dice.randrange(10**6)}.\n")
    elif kind == 3:
        with (folder / REMINDERS).open("a", encoding="utf-8") as file:
            file.write(f"- [ ] boat: bring up {number}\n")
    else:
        with (folder / f"memory/{START:%Y-%m-%d}-retained.md").open("a", encoding="utf-8") as file:
            file.write(f"## Retain\n\n- W @Boat: Fact {number}.\n\n")
        found = await propose_bank(workspace)
        if found.changes:
            at = START.isoformat(timespec="seconds")
            await write_changes(workspace, (*found.changes, found.taken), at=at, redacts_secrets=False)
