"""An embedder that becomes another one, as at a fallback, while the index is being rebuilt."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from nacre.memory.contracts.transcripts import TranscriptInfo, TranscriptText
from tests.memory.doubles import WordEmbedder, open_engine, workspace


@dataclass
class LookedAt:
    """A source without transcripts that does something at a certain look."""

    at_look: dict[int, Callable[[], None]] = field(default_factory=dict)
    looks: int = 0

    async def transcripts(self) -> Sequence[TranscriptInfo]:
        """None."""
        self.looks += 1
        self.at_look.get(self.looks, lambda: None)()
        return ()

    async def close(self) -> None:
        """Nothing to let go of."""

    async def text(self, name: str) -> TranscriptText | None:
        """Nothing."""
        return None


async def test_a_rebuild_marks_the_index_with_the_embedder_whose_vectors_it_has(tmp_path: Path) -> None:
    """A switch after the vectors were attached must not make them the other embedder's."""
    workspace(tmp_path, {"MEMORY.md": "The bees are in the garden.\n"})
    embedder, source = WordEmbedder(model="first"), LookedAt()
    settings = {"sources": ["memory", "sessions"], "experimental": {"sessionMemory": True}}
    engine = await open_engine(tmp_path, settings, embedder=embedder, transcripts=source)
    await engine.sync(reason="cli")

    def switch() -> None:
        embedder.facts = replace(embedder.facts, model="second")

    # The first look of a rebuild is before it attaches vectors, the second one behind that.
    source.at_look[source.looks + 2] = switch
    report = await engine.sync(reason="cli", force=True)
    between = (await engine.status()).identity["identity.model"]
    later = await engine.sync(reason="cli")
    status = await engine.status()
    await engine.close()

    assert report.rebuilt
    assert between == "first"
    assert (later.embedded, status.identity["identity.model"], status.identity_problem) == (1, "second", "")
