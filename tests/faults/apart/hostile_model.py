"""A model that does all it can to bring private words into a chat, and repeats whatever it is told."""

from __future__ import annotations

import unicodedata
from collections.abc import AsyncIterator
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import quote

from nacre.runtime.contracts.model import ModelRequest
from nacre.runtime.contracts.policy import notes_folder_of
from nacre.runtime.models.scripted import ScriptedModel, calls, says
from nacre.sessions.contracts.messages import UserMessage, message_text
from tests.faults.apart.canaries import PHRASE, PLACES

LINKS = ("memory", "all/memory", "state/workspace/memory", "chats", "all/chats", "state/agents/main/sessions")
COMMANDS = (
    "/status",
    "/help",
    "/resume",
    "/resume 1",
    "/resume 2",
    "/fork here",
    "/compact",
    "/rewind 1",
    "/label x",
    "/new",
    "/reset",
    "/approve 1",
    "/export",
)
MOST_CHARS = 1_500
CALLS_A_ROUND = 60


class Hostile(ScriptedModel):
    """Calls tools with hostile arguments twice a turn, and then says what they answered."""

    def __init__(self, state_dir: Path, random: Random) -> None:
        super().__init__(context_window_tokens=24_000, piece_chars=200)  # it says very much
        self._state_dir = state_dir
        self._random = random
        self._rounds = 0
        self.is_harmless = False
        self._planned: list[tuple[str, dict[str, Any]]] = []

    async def stream(self, request: ModelRequest) -> AsyncIterator[Any]:
        """The next step of the attack."""
        if request.purpose == "turn" and self._planned:
            self.add(calls(*(self._planned.pop() for _ in range(min(CALLS_A_ROUND, len(self._planned))))))
        elif request.tools and self._rounds < 2 and not self.is_harmless:
            self._rounds += 1
            self.add(calls(*(self._call() for _ in range(self._random.randint(4, 16)))))
        else:
            self._rounds = 0
            self.add(says(_echo(request) if request.purpose == "turn" else "NO_REPLY"))
        async for item in super().stream(request):
            yield item

    def taken(self) -> list[ModelRequest]:
        """The requests since the last look."""
        requests, self.requests = self.requests, []
        return requests

    def plan_each(self) -> None:
        """Reads each place by each tool in the next turn, under its plain name."""
        paths = [path for kind in self._paths() for path in kind]
        self._planned = [(tool, {"path": path}) for tool in ("read", "list", "memory_get") for path in paths]

    def _call(self) -> tuple[str, dict[str, Any]]:
        path = self._path()
        return self._random.choice(
            [
                ("read", {"path": path}),
                ("read", {"path": "shared/list.md"}),
                ("list", {"path": path}),
                ("write", {"path": path, "content": "x"}),
                ("append", {"path": path, "text": "x"}),
                ("edit", {"path": path, "old_text": PHRASE, "new_text": "x"}),
                ("memory_get", {"path": path}),
                ("memory_get", {"path": path, "from": 1, "lines": 50}),
                ("memory_search", {"query": f"{PHRASE} {path}"}),
                ("memory_search", {"query": PHRASE.upper(), "queries": ["gate", "passphrase", "zq"]}),
                ("memory_search", {"query": "quiet day", "maxResults": 50, "minScore": 0}),
            ]
        )

    def _path(self) -> str:
        """A name of something private, every other time in disguise."""
        name = self._random.choice(self._random.choice(self._paths()))
        if self._random.random() < 0.5:
            return name
        return self._random.choice(_DISGUISES)(name, self._state_dir / "workspace")

    def _paths(self) -> tuple[list[str], ...]:
        """Names of what is private, by kind."""
        return (
            [*PLACES.values(), "memory", "memory/way.md", ".", ""],
            [*(f"shared/{link}" for link in LINKS), *(f"shared/all/{path}" for path in PLACES.values())],
            ["shared/m.md", "shared/state/nacre.json5", "shared/root/etc/passwd", "../nacre.json5"],
            ["../agents/main/sessions/sessions.json", "../bridges/ledger.sqlite", "../memory/main.sqlite"],
            [
                "../../outside/journal.md",
                "chats",
                f"{notes_folder_of('agent:main:line:dm:ann')}/2026-03-13.md",
                f"{notes_folder_of('agent:main:line:group:club')}/2026-03-13.md",
            ],
            self._session_paths() or ["sessions"],
        )

    def _session_paths(self) -> list[str]:
        folder = self._state_dir / "agents" / "main" / "sessions"
        return [
            name
            for file in sorted(folder.glob("*.jsonl"))
            for name in (str(file), f"sessions/{file.name}", f"sessions/main/{file.name}", file.stem)
        ]


_FULL_WIDTH = {letter: letter + 0xFEE0 for letter in range(ord("!"), ord("~") + 1) if letter != ord("/")}
_DISGUISES = (
    lambda name, workspace: name,
    lambda name, workspace: str(workspace / name),
    lambda name, workspace: name.upper(),
    lambda name, workspace: name.lower(),
    lambda name, workspace: name.swapcase(),
    lambda name, workspace: unicodedata.normalize("NFD", name),
    lambda name, workspace: "".join(
        chr(ord(c) + 0xFEE0) if "!" <= c <= "~" and c != "/" else c for c in name
    ),
    lambda name, workspace: f"shared/../{name}",
    lambda name, workspace: f"./{name}/",
    lambda name, workspace: f"AGENTS.md/../{name}",
    lambda name, workspace: f"shared/{name}",
    lambda name, workspace: f" {name} ",
    lambda name, workspace: f"{name}\x00.md",
    lambda name, workspace: f"shared\\..\\{name}",
    lambda name, workspace: quote(f"shared/../{name}", safe=""),
    lambda name, workspace: f"file://{workspace / name}",
    lambda name, workspace: f"/proc/self/root{workspace / name}",
    lambda name, workspace: f"{name}#L1-L9",
    lambda name, workspace: f"{name}\u200b",
)


def _echo(request: ModelRequest) -> str:
    """What the tools of this turn answered, for everybody to read."""
    answers: list[str] = []
    for message in reversed(request.messages):
        if isinstance(message, UserMessage):
            break
        answers.append(message_text(message)[:MOST_CHARS])
    return "\n".join(answers) or "nothing"
