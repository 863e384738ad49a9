"""A question in one language about notes in another, in a memory of one note and of five."""

from __future__ import annotations

import tomllib
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

from nacre.memory.contracts.embedder import language_part_of
from nacre.memory.contracts.settings import resolve_settings
from nacre.memory.embedders.e5 import E5Embedder
from nacre.memory.embedders.e5_model import MODEL_FOLDER
from nacre.memory.engine import MemoryEngine
from nacre.memory.vectors.cosine_scale import Subject, cosine
from nacre.memory.workspace.folder import FolderWorkspace
from nacre.runtime.models.scripted import Clock

_SAID: dict[str, Any] = tomllib.loads(
    (Path(__file__).parents[2] / "fixtures" / "first_notes.toml").read_text(encoding="utf-8")
)
STRANGERS: dict[str, list[str]] = _SAID["strangers"]
LANGUAGES = tuple(STRANGERS)
PAIRS = {(pair["matter"], pair["language"]): (pair["note"], pair["question"]) for pair in _SAID["pair"]}
MATTERS = tuple(dict.fromkeys(matter for matter, _ in PAIRS))
DAY = "memory/2026-11-18.md"


class Remembering(E5Embedder):
    """Embeds each question once."""

    def __init__(self) -> None:
        super().__init__()
        self._known: dict[str, Sequence[float]] = {}

    async def embed_query(self, text: str) -> Sequence[float]:
        if text not in self._known:
            self._known[text] = await super().embed_query(text)
        return self._known[text]


@pytest.fixture(scope="module")
def embedder() -> E5Embedder:
    """One loaded model for all."""
    return Remembering()


@asynccontextmanager
async def memory_of(folder: Path, embedder: E5Embedder, notes: Sequence[str]) -> AsyncIterator[MemoryEngine]:
    """A memory with these notes, all of one day, by the usual settings."""
    log = folder / "workspace" / DAY
    log.parent.mkdir(parents=True)
    log.write_text("# 2026-11-18\n\n" + "".join(f"- {note}\n" for note in notes), encoding="utf-8")
    engine = await MemoryEngine.open(
        workspace=FolderWorkspace(folder / "workspace", lock_dir=folder / "locks"),
        index_path=folder / "index.sqlite",
        settings=resolve_settings({"sync": {"watch": False, "onSearch": False}}),
        embedder=embedder,
        now=Clock(),
    )
    await engine.sync(reason="test")
    yield engine
    await engine.close()


async def answered(engine: MemoryEngine, questions: Sequence[str]) -> float:
    """The share of the questions that find something."""
    return fmean([bool((await engine.search(question)).hits) for question in questions])


async def test_one_note_is_found_from_every_language(tmp_path: Path, embedder: E5Embedder) -> None:
    """Nine of ten questions in eight languages find a lone note in another, and one stranger in five at most.

    The matters, and half of the languages, are others than those that the constants were learned from.
    """
    own, strange = [], []
    for at, language in enumerate(LANGUAGES):
        matter = MATTERS[at % len(MATTERS)]
        notes = [PAIRS[matter, language][0]]
        async with memory_of(tmp_path / language, embedder, notes) as engine:
            own.append(await answered(engine, [PAIRS[matter, other][1] for other in LANGUAGES]))
            strange.append(await answered(engine, [STRANGERS[other][at % 5] for other in LANGUAGES]))

    assert fmean(own) >= 0.9, own
    assert fmean(strange) <= 0.2, strange


@pytest.mark.parametrize("language", ["en", "ru", "ja"])
async def test_five_notes_are_found_from_every_language(
    tmp_path: Path, embedder: E5Embedder, language: str
) -> None:
    """The notes of one day are one chunk, and each of them is found; half of the strangers get nothing."""
    async with memory_of(
        tmp_path, embedder, [PAIRS[matter, language][0] for matter in MATTERS[:5]]
    ) as engine:
        own = await answered(
            engine, [PAIRS[matter, other][1] for matter in MATTERS[:5] for other in LANGUAGES]
        )
        strange = await answered(engine, [text for other in LANGUAGES for text in STRANGERS[other]])

    assert own >= 0.8
    assert strange <= 0.5


async def test_a_subject_has_no_language(embedder: E5Embedder) -> None:
    """The same question in two languages is one subject, which the vectors by themselves hide."""
    part = language_part_of(embedder)
    assert part is not None
    apart: list[float] = []
    for matter in MATTERS:
        vectors = [await embedder.embed_query(PAIRS[matter, language][1]) for language in LANGUAGES]
        others = [await embedder.embed_query(text) for text in STRANGERS["en"]]
        subjects = [Subject.of(vector, part).vector for vector in vectors]
        strange = [Subject.of(vector, part).vector for vector in others]
        same = fmean(cosine(subjects[0], subject) for subject in subjects[1:])
        apart.append(same - fmean(cosine(subjects[0], subject) for subject in strange))
    assert fmean(apart) > 0.4


async def test_without_the_constants_questions_keep_their_language(tmp_path: Path) -> None:
    """An install that lacks the file still embeds, and weighs questions with their language."""
    for file in MODEL_FOLDER.iterdir():
        if file.name != "languages.bin":
            (tmp_path / file.name).symlink_to(file)
    assert language_part_of(E5Embedder(tmp_path)) is None
    assert len(await E5Embedder(tmp_path).embed_query("honey")) == 384
