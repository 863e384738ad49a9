"""Words go through chats, tools, notes, flushes and compactions; none gets to a wider audience.

The model spreads all that it can: it notes and sums up every canary that it is shown. Each canary has an
audience, that of the chat in which it was first heard.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import pytest

import nacre
from nacre import Agent, Inbound
from nacre.memory.files.sources.source import PRIVATE, may_hear, narrowest
from nacre.memory.files.sources.sources import Sources
from nacre.memory.workspace.folder import FolderWorkspace
from nacre.runtime.contracts.model import ModelRequest, TextDelta
from nacre.runtime.contracts.policy import notes_folder_of
from nacre.runtime.models.scripted import Clock, CountingIds
from nacre.sessions.contracts.messages import (
    AssistantMessage,
    Text,
    ToolCall,
    ToolResultMessage,
    Usage,
)
from tests.runtime.agents import START, window_settings, write_settings

MIXES = int(os.environ.get("NACRE_TAINT_MIXES", "300"))
MIXES_OF_A_LIFE = 50
MOST_STEPS_OF_A_MIX = 4
FILLING = "The hive needs sugar before the frost comes. "

_CANARY = re.compile(r"zq\d+x")


@dataclass(frozen=True)
class Chat:
    """A place to talk: what a message from there says of itself, and its session's key."""

    kind: str
    chat_id: str
    sender: str
    key: str

    @property
    def audience(self) -> str:
        return notes_folder_of(self.key) if self.key else PRIVATE


CHATS = (
    Chat(kind="direct", chat_id="", sender="", key=""),
    Chat(kind="group", chat_id="club", sender="eve", key="agent:main:line:group:club"),
    Chat(kind="group", chat_id="den", sender="bob", key="agent:main:line:group:den"),
    Chat(kind="direct", chat_id="", sender="ann", key="agent:main:line:dm:ann"),
)
STEPS = ("say", "say long", "say long", "browse", "note", "search", "/compact", "/new")


@dataclass
class Spreading:
    """A model that repeats every canary that it is shown, into notes and summaries too."""

    random: Random
    name: str = "test/spreading"
    context_window_tokens: int | None = 24_000
    audiences: dict[str, str] = field(default_factory=dict)
    foreign: set[str] = field(default_factory=set)
    chat: Chat = CHATS[0]
    planned: str = ""
    leaks: list[str] = field(default_factory=list)
    asked: Counter[str] = field(default_factory=Counter)
    met: Counter[str] = field(default_factory=Counter)
    _calls: int = 0

    def canary(self, *, is_foreign: bool) -> str:
        """A new word, which the present chat is the first to hear."""
        word = f"zq{len(self.audiences)}x"
        self.audiences[word] = self.chat.audience
        if is_foreign:
            self.foreign.add(word)
        return word

    async def stream(self, request: ModelRequest) -> AsyncIterator[TextDelta | AssistantMessage]:
        shown = "\n".join([request.system.joined(), *map(str, request.messages)])
        canaries = list(dict.fromkeys(_CANARY.findall(shown)))
        listeners = self._listeners(request)
        self.asked[request.purpose] += 1
        for word in canaries:
            self.met["own" if self.audiences[word] == listeners else "of others"] += 1
            if not may_hear(listeners, self.audiences[word]):
                self.leaks.append(f"{word} of {self.audiences[word]} in a {request.purpose} for {listeners}")
        call = self._call(request, canaries)
        text = "" if call else self._words(request, canaries)
        yield TextDelta(text=text)
        yield AssistantMessage(
            content=(call,) if call else (Text(text=text),),
            api="test",
            provider="test",
            model="spreading",
            usage=Usage(input_tokens=len(shown) // 4, output_tokens=10),
            stop_reason="toolUse" if call else "stop",
            timestamp_ms=0,
        )

    async def aclose(self) -> None:
        """Holds nothing."""

    def _listeners(self, request: ModelRequest) -> str:
        """Whom a request is of: an ending may come behind the turn that ended it."""
        if request.purpose == "compaction":
            return self.chat.audience
        system = request.system.joined()
        named = [chat.audience for chat in CHATS if f"`{chat.audience}/`" in system]
        return named[0] if named else PRIVATE

    def _call(self, request: ModelRequest, canaries: list[str]) -> ToolCall | None:
        if isinstance(request.messages[-1], ToolResultMessage) or not request.tools:
            return None
        notes = "\n".join(f"- It is known that {word} holds." for word in canaries[-6:])
        arguments = {"text": f"{notes}\n- All of it: {' '.join(canaries[-4:])}"}
        name, self.planned = ("append", "") if request.purpose == "flush" else (self.planned, "")
        if name == "append" and request.purpose != "flush":
            folder = "memory" if self.chat.audience == PRIVATE else self.chat.audience
            arguments["path"] = f"{folder}/kept.md"
        elif name == "memory_search":
            arguments = {"query": "what is known and holds", "maxResults": 20}
        elif name == "browse":
            arguments = {}
        self._calls += 1
        return ToolCall(id=f"call_{self._calls}", name=name, arguments=arguments) if name else None

    def _words(self, request: ModelRequest, canaries: list[str]) -> str:
        if request.purpose == "flush":
            return "NO_REPLY"
        told = f"I know {' '.join(canaries[-8:])}."
        return f"## Goal\n{told}\n" if request.purpose == "compaction" else told


@dataclass
class Life:
    """One agent, and random things that happen to it."""

    agent: Agent
    model: Spreading
    clock: Clock
    random: Random

    async def mix(self) -> None:
        """A few steps in random chats, each a word, a tool, a flush, a compaction or a new session."""
        chat = self.random.choice(CHATS)
        for _step in range(self.random.randint(2, MOST_STEPS_OF_A_MIX)):
            chat = self.random.choice((chat, chat, *CHATS))
            self.model.chat = chat
            self.clock.advance(minutes=self.random.choice((1, 1, 1, 1, 1, 400)))
            await self._step(chat, self.random.choice(STEPS))

    async def look_up_all(self) -> None:
        """The owner asks for what others have said, and has it noted."""
        self.model.chat = CHATS[0]
        for step in ("search", "note", "/compact"):
            await self._step(CHATS[0], step)

    async def _step(self, chat: Chat, step: str) -> None:
        tools = {"browse": "browse", "note": "append", "search": "memory_search"}
        self.model.planned = tools.get(step, "")
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


async def lived(folder: Path, seed: int, mixes: int) -> Spreading:
    """One life of so many mixes; what its model met."""
    random, clock = Random(seed), Clock(START)
    model = Spreading(random)
    settings = window_settings()
    settings["agents"]["defaults"]["memorySearch"] = {"provider": "none", "query": {"minScore": 0}}
    settings["session"] = {"dmScope": "per-channel-peer"}
    write_settings(folder, settings)

    @nacre.tool(chats=("private", "direct", "group"))
    def browse() -> str:
        """Look at a page."""
        return f"The page says: it is known that {model.canary(is_foreign=True)} holds."

    agent = await Agent.open(
        state_dir=folder,
        model=model,
        environment={"HOME": str(folder / "home")},
        clock=clock,
        new_id=CountingIds(),
        tools=[browse],
        watch=False,
    )
    async with agent:
        life = Life(agent, model, clock, random)
        for _mix in range(mixes):
            await life.mix()
        await life.look_up_all()
    await _sources_are_right(folder, model)
    return model


async def _sources_are_right(folder: Path, model: Spreading) -> None:
    """Each line with a canary has a source, no wider than that; what others said is not the owner's word."""
    root = folder / "workspace"
    sources = Sources(FolderWorkspace(root, lock_dir=folder / "locks"))
    for note in sorted(root.glob("**/*.md")):
        path = note.relative_to(root).as_posix()
        lines = note.read_text(encoding="utf-8").splitlines()
        for line, source in zip(lines, await sources.of_lines(path, lines), strict=True):
            words = set(_CANARY.findall(line))
            if not words:
                continue
            assert source is not None, (path, line)
            audiences = [model.audiences[word] for word in words]
            assert narrowest([source.audience, *audiences]) == source.audience, (path, line, source)
            assert not (words & model.foreign and source.is_owners_word), (path, line, source)


@pytest.mark.parametrize(("seed", "mixes"), [(3, 12), pytest.param(4, MIXES, marks=pytest.mark.slow)])
async def test_no_canary_reaches_a_wider_audience(tmp_path: Path, seed: int, mixes: int) -> None:
    """Whatever is said, looked up, noted, flushed and compacted, in whichever order."""
    leaks: list[str] = []
    asked: Counter[str] = Counter()
    met: Counter[str] = Counter()
    for number, begun in enumerate(range(0, mixes, MIXES_OF_A_LIFE)):
        model = await lived(
            tmp_path / str(number), seed * 1_000 + number, min(MIXES_OF_A_LIFE, mixes - begun)
        )
        leaks, asked, met = leaks + model.leaks, asked + model.asked, met + model.met

    assert leaks == []
    # The mixes do what they are for: the owner's chat meets words of others, which are noted and summed up.
    assert met["own"]
    assert met["of others"]
    assert asked["flush"]
    assert asked["compaction"]
