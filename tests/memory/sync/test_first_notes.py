"""The first minute: two notes, the model that comes with Nacre, and the usual least score."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from nacre.memory.contracts.settings import MemorySearchSettings
from nacre.memory.embedders.e5 import E5Embedder
from nacre.memory.engine import MemoryEngine
from nacre.memory.workspace.folder import FolderWorkspace
from nacre.runtime.models.scripted import Clock

NOTES = {
    "memory/2026-11-20.md": "# 2026-11-20\n\n- Decided to use sqlite-vec\n- Anna is allergic to peanuts\n",
    "MEMORY.md": "# Memory\n\n## House\n\nThe router is an Omada ER605; VLAN 10 is for IoT.\n",
}


@pytest.fixture
async def engine(tmp_path: Path) -> AsyncIterator[MemoryEngine]:
    """An engine over the two notes, indexed."""
    for name, text in NOTES.items():
        path = tmp_path / "workspace" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    embedder = E5Embedder()
    engine = await MemoryEngine.open(
        workspace=FolderWorkspace(tmp_path / "workspace", lock_dir=tmp_path / "locks"),
        index_path=tmp_path / "index.sqlite",
        settings=MemorySearchSettings(),
        embedder=embedder,
        now=Clock(),
    )
    await engine.sync(reason="test")
    yield engine
    await engine.close()
    await embedder.close()


@pytest.mark.parametrize(
    ("question", "answers"),
    [
        ("who must not eat nuts?", ["memory/2026-11-20.md"]),
        ("food allergies", ["memory/2026-11-20.md"]),
        ("what is the capital of Mongolia", []),
        ("how do I bake bread", []),
        ("when does the train leave?", []),
    ],
)
async def test_a_question_in_other_words_finds_its_note_and_no_other(
    engine: MemoryEngine, question: str, answers: list[str]
) -> None:
    """By meaning alone, and what the notes do not know finds nothing."""
    assert [hit.path for hit in (await engine.search(question)).hits] == answers
