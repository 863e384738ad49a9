"""A state folder in which each place holds a word of its own, and the chats that may meet it.

A canary is found in whatever letters it comes: `leaked` folds case and Unicode forms.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nacre.runtime.contracts.policy import notes_folder_of
from tests.bridges.chats import QUICK
from tests.runtime.agents import window_settings, write_settings

PHRASE = "the passphrase of the gate is"
"""Stands before every canary, so that one question finds them all."""

PLACES = {
    "memory": "MEMORY.md",
    "user": "USER.md",
    "heartbeat": "HEARTBEAT.md",
    "today": "memory/2026-03-14.md",
    "older": "memory/2026-02-01-visit.md",
    "topic": "memory/plans/Größe.md",
    "plan": "notes/plan.md",
    "hidden": ".git/config",
    "hook": "hooks/gate.py",
    "shared": "shared/list.md",
}
"""What lies in the workspace, by the name of its canary."""


@dataclass(frozen=True, kw_only=True)
class Chat:
    """A place to talk, who talks there, and the canaries that may be met in it besides its own words."""

    name: str
    kind: str
    senders: tuple[str, ...]
    thread: str = ""
    notes: tuple[str, ...] = ()
    is_private: bool = False

    @property
    def said(self) -> str:
        """The name of the canary that is said here."""
        return f"said in {self.name}{self.thread}"

    @property
    def may_meet(self) -> frozenset[str]:
        """The canaries that may reach a model or a person here."""
        return frozenset({"shared", self.said, *self.notes})


CHATS = (
    Chat(name="nora", kind="direct", senders=("nora",), is_private=True),
    Chat(name="ann", kind="direct", senders=("ann",), notes=("notes of ann",)),
    Chat(name="bob", kind="direct", senders=("bob",)),
    Chat(name="club", kind="group", senders=("nora", "ann", "bob"), notes=("notes of club",)),
    Chat(name="club", kind="group", senders=("nora", "eve"), thread="t1", notes=("notes of club",)),
    Chat(name="den", kind="group", senders=("nora", "bob")),
    Chat(name="news", kind="channel", senders=("nora", "eve")),
    Chat(name="odd", kind="megagroup", senders=("nora", "eve")),
)
NAMES = (
    *PLACES,
    "settings",
    "outside",
    "name",
    "notes of ann",
    "notes of club",
    *(chat.said for chat in CHATS),
)


PERMITTED = ("shared", "notes of ann", "notes of club")
"""What some chat of others may read, and therefore change."""


def token(name: str) -> str:
    """The canary of a place: a word that nothing else contains."""
    return f"zq{NAMES.index(name):02d}kéx{NAMES.index(name) * 7919 % 10_007:05d}"


def texts_of(state_dir: Path) -> dict[Path, str]:
    """The canary that each file holds, by name."""
    workspace = state_dir / "workspace"
    return {workspace / path: name for name, path in PLACES.items()} | {
        workspace / notes_folder_of("agent:main:line:dm:ann") / "2026-03-13.md": "notes of ann",
        workspace / notes_folder_of("agent:main:line:group:club") / "2026-03-13.md": "notes of club",
        state_dir.parent / "outside" / "journal.md": "outside",
    }


def plant(state_dir: Path, names: Iterable[str]) -> None:
    """Writes the files of these canaries, where they do not hold them."""
    for path, name in texts_of(state_dir).items():
        text = f"# Gate\n\n- {PHRASE} {token(name)}.\n"
        if name in names and not (path.is_file() and path.read_text(encoding="utf-8") == text):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")


def planted(state_dir: Path) -> dict[str, Any]:
    """Plants every canary but those that are said; gives the settings."""
    plant(state_dir, tuple(texts_of(state_dir).values()))
    workspace, outside = state_dir / "workspace", state_dir.parent / "outside"
    (workspace / "memory" / f"2026-01-05-{token('name')}.md").write_text("- A quiet day.\n", encoding="utf-8")
    for name, target in {
        "memory": workspace / "memory",
        "m.md": workspace / "MEMORY.md",
        "all": workspace,
        "state": state_dir,
        "root": Path("/"),
        "chats": workspace / "chats",
    }.items():
        (workspace / "shared" / name).symlink_to(target)
    (workspace / "memory" / "way.md").symlink_to(workspace / "USER.md")
    settings = {
        **QUICK,
        **window_settings(24_000),
        "models": {"providers": {"openai": {"apiKey": token("settings")}}},
    }
    settings["agents"]["defaults"]["memorySearch"] = {
        "provider": "none",
        "query": {"minScore": 0},
        "extraPaths": [str(outside)],
        "sources": ["memory", "sessions"],
        "experimental": {"sessionMemory": True},
    }
    write_settings(state_dir, settings)
    return settings


def leaked(text: str, allowed: Iterable[str]) -> list[str]:
    """The canaries in a text that are not among those allowed, by name."""
    folded, permitted = _folded(text), set(allowed)
    return [name for name in NAMES if name not in permitted and _folded(token(name)) in folded]


def _folded(text: str) -> str:
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
