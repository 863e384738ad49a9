"""A model that repeats every canary that it is shown, in four chats, and says which request met which.

Each canary has an audience, that of the chat in which it was first heard.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from random import Random

from nacre.memory.files.sources.source import PRIVATE, may_see
from nacre.runtime.contracts.model import ModelRequest, TextDelta
from nacre.runtime.contracts.policy import notes_folder_of
from nacre.sessions.contracts.messages import AssistantMessage, Text, ToolCall, ToolResultMessage, Usage

ASKED = "what is known and holds"

CANARY = re.compile(r"zq\d+x")


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
        canaries = list(dict.fromkeys(CANARY.findall(shown)))
        listeners = self._listeners(request)
        self.asked[request.purpose] += 1
        for word in canaries:
            self.met["own" if self.audiences[word] == listeners else "of others"] += 1
            if not may_see(listeners, self.audiences[word]):
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
        arguments: dict[str, object] = {"text": f"{notes}\n- All of it: {' '.join(canaries[-4:])}"}
        name, self.planned = ("append", "") if request.purpose == "flush" else (self.planned, "")
        if request.purpose == "flush":
            arguments["text"] = f"{arguments['text']}\n\n## Retain\n\n{self._marked(canaries)}"
        elif name == "append":
            folder = "memory" if self.chat.audience == PRIVATE else self.chat.audience
            arguments["path"] = f"{folder}/kept.md"
        elif name == "memory_search":
            arguments = {"query": ASKED, "maxResults": 20}
        elif name == "memory_set_fact":
            arguments = {"key": f"thing {self._calls % 5}", "value": " ".join(canaries[-4:])}
        elif name in ("memory_recall", "memory_recall_facts"):
            arguments = {"query": ASKED}
        elif name == "browse":
            arguments = {}
        self._calls += 1
        return ToolCall(id=f"call_{self._calls}", name=name, arguments=arguments) if name else None

    def _marked(self, canaries: list[str]) -> str:
        """Lines for pages: a canary on the first line of an item, or on one that goes on with it."""
        words = self.random.sample(canaries, min(3, len(canaries)))
        kinds = (
            "- W @Hive: {} counts.",
            "- O(c=0.9): Keep in mind\n  that {} counts.",
            "- S @Hive: It is\n  {}.",
        )
        return "\n".join(self.random.choice(kinds).format(word) for word in words)

    def _words(self, request: ModelRequest, canaries: list[str]) -> str:
        if request.purpose == "flush":
            return "NO_REPLY"
        told = f"I know {' '.join(canaries[-8:])}."
        return f"## Goal\n{told}\n" if request.purpose == "compaction" else told
