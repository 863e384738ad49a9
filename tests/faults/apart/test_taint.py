"""Words go through chats, tools, notes, flushes, compactions, pages and captures, to no wider audience.

The model spreads all that it can: it notes, marks for pages, sums up, stores and sets as a fact every canary
that it is shown. Every second life has long-term memory in LanceDB, which captures what the owner says.
"""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from random import Random
from typing import Any

import pytest

import nacre
from nacre import Agent, Inbound
from nacre.extensions.curation.reflection import propose_bank
from nacre.extensions.lancedb.records import Memory, Scope
from nacre.extensions.lancedb.table import MemoryTable
from nacre.memory.files.proposals import write_changes
from nacre.memory.files.sources.source import PRIVATE, narrowest
from nacre.memory.files.sources.sources import Sources
from nacre.memory.workspace.folder import FolderWorkspace
from nacre.runtime.models.scripted import Clock
from tests.faults.apart.spreading import CANARY, CHATS, Chat, Spreading
from tests.runtime.agents import START, opened, window_settings, write_settings

MIXES = int(os.environ.get("NACRE_TAINT_MIXES", "150"))
MIXES_OF_A_LIFE = 50
MOST_LIVES = 20
MOST_STEPS_OF_A_MIX = 4
FILLING = "The hive needs sugar before the frost comes. "

STEPS = ("say", *["say long"] * 4, "browse", "note", "search", "fact", "recall", "/compact", "/new")
TOOLS = {
    "browse": "browse",
    "note": "append",
    "search": "memory_search",
    "fact": "memory_set_fact",
    "recall": "memory_recall",
    "recall facts": "memory_recall_facts",
    "store": "memory_store",
}


@dataclass
class Life:
    """One agent, and random things that happen to it."""

    agent: Agent
    model: Spreading
    clock: Clock
    random: Random
    workspace: FolderWorkspace
    steps: tuple[str, ...]
    done: Counter[str] = field(default_factory=Counter)

    async def mix(self) -> None:
        """A few steps in random chats, each a word, a tool, a flush, a compaction or a new session; then now
        and then a reflection."""
        chat = self.random.choice(CHATS)
        for _step in range(self.random.randint(2, MOST_STEPS_OF_A_MIX)):
            chat = self.random.choice((chat, chat, *CHATS))
            self.model.chat = chat
            self.clock.advance(minutes=self.random.choice((1, 1, 1, 1, 1, 400)))
            await self._step(chat, self.random.choice(self.steps))
        if self.random.random() < 0.5:
            await self.reflect()

    async def reflect(self) -> None:
        """What the logs ask to retain is approved unread."""
        found = await propose_bank(self.workspace)
        await write_changes(
            self.workspace,
            (*found.changes, found.taken),
            at=self.clock().isoformat(timespec="seconds"),
            redacts_secrets=False,
        )
        self.done["reflections"] += 1
        self.done["pages written"] += len(found.changes)
        self.done["lines of others refused"] += len(found.unparsed)

    async def look_up_all(self) -> None:
        """The owner asks for what others have said, and has it noted."""
        self.model.chat = CHATS[0]
        for step in ("search", "recall", "note", "fact", "store", "/compact"):
            if step in self.steps:
                await self._step(CHATS[0], step)

    async def _step(self, chat: Chat, step: str) -> None:
        self.model.planned = TOOLS.get(step, "")
        self.done["turns"] += 1
        text = step
        if not step.startswith("/"):
            word = self.model.canary(is_foreign=chat.audience != PRIVATE)
            text = f"Keep in mind that {word} counts. " + FILLING * (450 if step == "say long" else 1)
        is_owner = chat.audience == PRIVATE or step.startswith("/")
        await self.agent.respond(
            Inbound(
                text=text,
                chat_kind="direct" if chat.kind == "direct" else "group",
                channel="line" if chat.key else "terminal",
                chat_id=chat.chat_id,
                sender_id=chat.sender if not is_owner or chat.kind == "direct" else "nora",
                is_owner=is_owner and not chat.key.endswith("dm:ann"),
            )
        )


async def lived(folder: Path, seed: int, mixes: int, *, has_table: bool) -> tuple[Spreading, Counter[str]]:
    """One life of so many mixes; what its model met, and what was done."""
    random, clock = Random(seed), Clock(START)
    model = Spreading(random)
    write_settings(folder, _settings(has_table=has_table))

    @nacre.tool(chats=("private", "direct", "group"))
    def browse() -> str:
        """Look at a page."""
        return f"The page says: it is known that {model.canary(is_foreign=True)} holds."

    workspace = FolderWorkspace(folder / "workspace", lock_dir=folder / "locks")
    steps = (*STEPS, "store", "recall facts") if has_table else STEPS
    async with opened(folder, model, clock=clock, tools=[browse]) as agent:
        life = Life(agent, model, clock, random, workspace, steps)
        for _mix in range(mixes):
            await life.mix()
        await life.look_up_all()
        await life.reflect()
    await _sources_are_right(workspace, folder / "workspace", model)
    if has_table:
        life.done["captures"] = await _rows_are_right(folder, model)
    return model, life.done


def _settings(*, has_table: bool) -> dict[str, Any]:
    """A small window, pages, facts, and with `has_table` the engine that captures."""
    settings = window_settings()
    settings["agents"]["defaults"]["memorySearch"] = {"provider": "none", "query": {"minScore": 0}}
    settings["session"] = {"dmScope": "per-channel-peer"}
    settings["memory"] = {"bank": {"enabled": True}, "facts": {"enabled": True}}
    if has_table:
        entry = {"config": {"autoCapture": True}}
        settings["plugins"] = {"slots": {"memory": "memory-lancedb"}, "entries": {"memory-lancedb": entry}}
    return settings


async def _sources_are_right(workspace: FolderWorkspace, root: Path, model: Spreading) -> None:
    """Each line with a canary has a source, no wider than that; what others said is not the owner's word."""
    sources = Sources(workspace)
    for note in sorted(root.glob("**/*.md")):
        path = note.relative_to(root).as_posix()
        lines = note.read_text(encoding="utf-8").splitlines()
        for line, source in zip(lines, await sources.of_lines(path, lines), strict=True):
            words = set(CANARY.findall(line))
            if not words:
                continue
            assert source is not None, (path, line)
            audiences = [model.audiences[word] for word in words]
            assert narrowest([source.audience, *audiences]) == source.audience, (path, line, source)
            assert not (words & model.foreign and source.is_owners_word), (path, line, source)


async def _rows_are_right(folder: Path, model: Spreading) -> int:
    """The same of memories in the table; how many were captured."""
    table = await MemoryTable.open(
        str(folder / "memory" / "memory-lancedb" / "main"), agent_id="main", storage_options={}
    )
    rows = await table.all(Scope(agent_id="main", audience=None))
    await table.close()
    for row in rows:
        words = set(CANARY.findall(row.text))
        audiences = [model.audiences[word] for word in words]
        assert narrowest([row.audience, *audiences]) == row.audience, row
        assert not (words & model.foreign and _is_owners_word(row)), row
    return sum(row.origin.written_by == "capture" for row in rows)


def _is_owners_word(row: Memory) -> bool:
    return row.origin.said_by in ("owner", "assistant")


@pytest.mark.parametrize(
    ("seed", "mixes", "tables"),
    [(7, 3, "no"), (10, 5, "yes"), pytest.param(4, MIXES, "every second", marks=pytest.mark.slow)],
)
@pytest.mark.covers("SEED-26")
async def test_no_canary_reaches_a_wider_audience(tmp_path: Path, seed: int, mixes: int, tables: str) -> None:
    """Whatever is said, looked up, noted, flushed, compacted, reflected and captured, in whichever order."""
    if tables == "yes":
        pytest.importorskip("lancedb")
    leaks: list[str] = []
    asked, met, done = Counter[str](), Counter[str](), Counter[str]()

    def happened() -> dict[str, int]:
        """What the mixes are for: the owner's chat meets words of others, which are noted and summed up."""
        return {
            "own": met["own"],
            "of others": met["of others"],
            "flush": asked["flush"],
            "compaction": asked["compaction"],
            "pages": done["pages written"],
            "refused": done["lines of others refused"],
        }

    # What a life brings depends on the order of its background work too, so that some take more than one.
    for number in range(MOST_LIVES):
        begun = number * MIXES_OF_A_LIFE
        if begun >= mixes and all(happened().values()):
            break
        model, did = await lived(
            tmp_path / str(number),
            seed * 1_000 + number,
            min(MIXES_OF_A_LIFE, mixes - begun) if begun < mixes else min(MIXES_OF_A_LIFE, mixes),
            has_table=tables == "yes"
            or (tables == "every second" and number % 2 == 1 and find_spec("lancedb") is not None),
        )
        leaks, asked, met, done = leaks + model.leaks, asked + model.asked, met + model.met, done + did
        assert leaks == []

    assert all(happened().values()), happened()
