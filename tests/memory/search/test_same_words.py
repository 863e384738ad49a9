"""A fact that stands in several places is one hit, and an answer stands before its question."""

from __future__ import annotations

from pathlib import Path

import pytest

from nacre.memory.contracts.embedder import Embedder
from nacre.memory.contracts.records import SearchReport
from nacre.memory.contracts.settings import MemorySearchSettings
from nacre.memory.engine import MemoryEngine
from nacre.memory.workspace.folder import FolderWorkspace
from nacre.runtime.models.scripted import Clock

LOG = "- the gate code of the garage is 4711\n"
TOLD = """# Session: 2026-03-14 23:30:00 CET

- **Session Key**: agent:main:main

## Conversation Summary

> User: Remember that the gate code of the garage is 4711.
>
> Assistant: Noted.
>
> User: The dog sleeps at the neighbours.
"""


async def search(
    tmp_path: Path, query: str, *, embedder: Embedder | None = None, **notes: str
) -> SearchReport:
    """What a search finds in notes of these names, by words alone without an `embedder`."""
    for name, text in notes.items():
        path = tmp_path / "workspace" / "memory" / f"{name}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    engine = await MemoryEngine.open(
        workspace=FolderWorkspace(tmp_path / "workspace", lock_dir=tmp_path / "locks"),
        index_path=tmp_path / "index.sqlite",
        settings=MemorySearchSettings(),
        embedder=embedder,
        now=Clock(),
    )
    try:
        await engine.sync(reason="test")
        return await engine.search(query, min_score=0.0)
    finally:
        await engine.close()


@pytest.mark.covers("ATT-10")
async def test_the_same_words_are_one_hit_with_their_places(tmp_path: Path) -> None:
    """A copy and a quotation are cited beside the hit; a note that says more is a hit of its own."""
    report = await search(
        tmp_path,
        "What is the gate code of the garage?",
        log=LOG,
        copy=f"# Again\n\n{LOG}",
        told=TOLD,
        more="The gate code of the garage is new since May, ask Marco.\n",
    )

    hits = {hit.path: hit.also for hit in report.hits}
    assert len(hits) == 2
    assert hits.pop("memory/more.md") == ()
    [(path, also)] = hits.items()
    found = {path, *(place.partition("#")[0] for place in also)}
    assert found == {"memory/log.md", "memory/copy.md", "memory/told.md"}


async def test_a_quotation_is_found_by_what_it_alone_says(tmp_path: Path) -> None:
    """The note of a session is a hit where the query is about words that no other place has."""
    report = await search(tmp_path, "Where does the dog sleep?", log=LOG, told=TOLD)

    assert [(hit.path, hit.also) for hit in report.hits] == [("memory/told.md", ())]
