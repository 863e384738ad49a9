"""A fixture that keeps the size of requests steady, however our own prompts grow."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from nacre.runtime.models.scripted import ScriptedModel, says
from tests.runtime.agents import opened, write_settings

FRAME_TOKENS = 3_240
"""System prompt, tool schemas and the workspace's files together: about what a new owner has."""
TEMPLATES = Path(__file__).parents[3] / "workspace_template"


@pytest.fixture(scope="session")
def agents_file(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The text of an `AGENTS.md` which fills what a request carries up to `FRAME_TOKENS`."""
    return asyncio.run(_filling(tmp_path_factory.mktemp("frame")))


@pytest.fixture
def steady_frame(tmp_path: Path, agents_file: str) -> None:
    """A workspace whose `AGENTS.md` fills what a request carries up to `FRAME_TOKENS`."""
    _write_workspace(tmp_path, agents_file)


async def _filling(state_dir: Path) -> str:
    model = ScriptedModel(says("yes"))
    write_settings(state_dir, {})
    _write_workspace(state_dir, "bees")
    async with opened(state_dir, model) as agent:
        await agent.ask("hello")
        turn, request = agent._parts.turn, model.requests[0]
        missing_tokens = FRAME_TOKENS - await turn.prompts.overhead_tokens(request.system, request.tools)
        assert missing_tokens > 0, "our own prompts and tools alone are larger than FRAME_TOKENS"
        words = ["bees"]
        while turn.estimate_tokens(" ".join(words)) <= missing_tokens:
            words += ["bees"] * 10
        return " ".join(words)


def _write_workspace(state_dir: Path, agents_text: str) -> None:
    workspace = state_dir / "workspace"
    for template in TEMPLATES.rglob("*.md"):
        file = workspace / template.relative_to(TEMPLATES)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("", encoding="utf-8")
    (workspace / "AGENTS.md").write_text(agents_text, encoding="utf-8")
