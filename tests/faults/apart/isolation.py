"""A state folder with the agents `main` and `work`, where `work` has secrets in every place of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from nacre import Agent
from nacre.runtime.models.scripted import ScriptedModel, says
from tests.runtime.agents import agent_in, write_settings

SECRET = "the vault opens with heliotrope"
NO_EMBEDDER = {"provider": "none", "query": {"minScore": 0}}


def listed(state_dir: Path, main: dict[str, Any], work: dict[str, Any], **settings: Any) -> None:
    """Writes settings in which `main` and `work` have something of their own."""
    agents = {
        "defaults": {"memorySearch": NO_EMBEDDER},
        "list": [{"id": "main", "default": True, **main}, {"id": "work", **work}],
    }
    write_settings(state_dir, {"agents": agents, "hooks": {"internal": {"enabled": False}}, **settings})


async def opened_agent(state_dir: Path, agent_id: str, model: ScriptedModel | None = None) -> Agent:
    """One agent alone."""
    return await agent_in(state_dir, model, ids=agent_id, agent=agent_id)


async def with_secrets(state_dir: Path) -> Path:
    """Lets `work` have notes, an index and a conversation; gives its transcript."""
    notes = state_dir / "workspace-work" / "memory"
    notes.mkdir(parents=True)
    for file in (notes.parent / "MEMORY.md", notes / "2026-03-14.md", notes.parent / "plans.txt"):
        file.write_text(f"- {SECRET}.\n", encoding="utf-8")
    async with await opened_agent(state_dir, "work", ScriptedModel(says(f"I know: {SECRET}."))) as work:
        await work.ask(f"Know that {SECRET}.")
        await work.index_notes(wait_seconds=30)
    (transcript,) = (state_dir / "agents" / "work" / "sessions").glob("*.jsonl")
    assert SECRET in transcript.read_text(encoding="utf-8")
    assert (state_dir / "memory" / "work.sqlite").is_file()
    return transcript


def tree_bytes(folder: Path) -> dict[str, bytes]:
    """Every file below a folder, but for locks."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.suffix not in (".lock", ".lane", ".file")
    }
