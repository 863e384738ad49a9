"""Embedders, clocks and workspaces for the memory tests: real computation, no network, no pretence."""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import numpy as np

from nacre.memory.contracts.embedder import EmbedderFacts, EmbeddingFailed, TextRefused
from nacre.memory.contracts.settings import MemorySearchSettings
from nacre.memory.engine import MemoryEngine
from nacre.memory.files.sources.sources import Sources
from nacre.memory.workspace.folder import FolderWorkspace

NOON = datetime(2026, 3, 14, 12, 0, tzinfo=UTC)


def noon() -> datetime:
    """A clock that stands still."""
    return NOON


class WordEmbedder:
    """Counts words into fixed places of a vector: texts that share words are near each other.

    Notes every text that it was asked for in `asked`. `synonyms` maps a word to the one that counts for it.
    """

    batch_texts = 16

    def __init__(
        self, *, model: str = "words", dimensions: int = 64, synonyms: dict[str, str] | None = None
    ) -> None:
        self.facts = EmbedderFacts(
            provider="test", model=model, fingerprint=f"here-{dimensions}", batch_texts=self.batch_texts
        )
        self._dimensions = dimensions
        self._synonyms = synonyms or {}
        self.asked: list[str] = []
        self.queries: list[str] = []

    async def embed_query(self, text: str) -> Sequence[float]:
        """The vector of a question."""
        self.queries.append(text)
        return self._vector(text)

    async def embed_documents(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """One vector for each text."""
        self.asked.extend(texts)
        return [self._vector(text) for text in texts]

    async def close(self) -> None:
        """Nothing to let go of."""

    def _vector(self, text: str) -> list[float]:
        vector = [0.0] * self._dimensions
        for word in re.findall(r"\w+", text.lower()):
            known = self._synonyms.get(word, word)
            vector[hashlib.sha256(known.encode()).digest()[0] % self._dimensions] += 1.0
        return vector


class ArrayEmbedder(WordEmbedder):
    """Gives its vectors as numpy arrays, as local models do."""

    async def embed_query(self, text: str) -> Sequence[float]:
        """The vector of a question."""
        return _array(await super().embed_query(text))

    async def embed_documents(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """One vector for each text."""
        return [_array(vector) for vector in await super().embed_documents(texts)]


def _array(vector: Sequence[float]) -> Sequence[float]:
    # numpy does not call its arrays sequences, though they are long enough and give numbers
    return cast("Sequence[float]", np.array(vector, dtype=np.float32))


class RefusingEmbedder(WordEmbedder):
    """Will not take a text that contains `refuses`."""

    def __init__(self, refuses: str) -> None:
        super().__init__()
        self._refuses = refuses

    async def embed_documents(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """Refuses the whole call when one text is not taken."""
        if any(self._refuses in text for text in texts):
            raise TextRefused("The input is too long.")
        return await super().embed_documents(texts)


class DeadEmbedder(WordEmbedder):
    """Fails until `alive` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.alive = False
        self.calls = 0

    async def embed_query(self, text: str) -> Sequence[float]:
        """Fails or answers."""
        self._check()
        return await super().embed_query(text)

    async def embed_documents(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """Fails or answers."""
        self._check()
        return await super().embed_documents(texts)

    def _check(self) -> None:
        self.calls += 1
        if not self.alive:
            raise EmbeddingFailed("The embedding server answered 503.")


class SilentEmbedder(WordEmbedder):
    """Never answers a question."""

    async def embed_query(self, text: str) -> Sequence[float]:
        """Waits for ever."""
        self.queries.append(text)
        await asyncio.Event().wait()
        return []


def workspace(root: Path, files: dict[str, str]) -> Path:
    """Writes files into a workspace below `root` and returns it."""
    folder = root / "workspace"
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder


async def open_engine(root: Path, settings: dict[str, Any] | None = None, **options: Any) -> MemoryEngine:
    """An engine over `root/workspace` with its index in `root/state`."""
    values: dict[str, Any] = {
        "workspace": FolderWorkspace(root / "workspace", lock_dir=root / "locks"),
        "index_path": root / "state" / "main.sqlite",
        "settings": MemorySearchSettings.model_validate(settings or {}),
        "embedder": None,
        "now": noon,
    }
    return await MemoryEngine.open(**(values | options))


NO_SOURCES = Sources(FolderWorkspace(Path("nowhere"), lock_dir=Path("nowhere")))
"""The sources of a workspace in which none were kept."""
