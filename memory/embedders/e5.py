"""The embedder that ships with Nacre: multilingual-e5-small, int8, on idle cores.

It reads about a hundred languages, so that a question in one finds notes in another.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from nacre.memory.contracts.embedder import EmbedderFacts, EmbeddingFailed, LanguagePart
from nacre.memory.embedders.e5_model import (
    DIMENSIONS,
    MODEL_FOLDER,
    PASSAGE,
    QUESTION,
    E5Model,
    language_numbers,
)

if TYPE_CHECKING:
    from nacre.memory.embedders.question_ahead import QuestionAhead

VECTORS = "multilingual-e5-small-int8-1"
"""Identifies the vectors, not the files: another file layout of the same model keeps every index valid."""
PIECE_TOKENS = 60
MOST_THREADS = 4
"""The most threads that embed notes. Each takes one text at a time, because a text is too short to share."""
_NICENESS = 5
"""Not more, because a thread that a busy machine keeps waiting may hold Python's lock."""

_LOADED: WeakValueDictionary[Path, E5Model] = WeakValueDictionary()
_LOADING = threading.Lock()


class E5Embedder:
    """`Embedder`, whose methods are documented there, in this process. Its vectors have length 1.

    Loading on first use takes tenths of a second, a text milliseconds. All embedders of a process share one
    loaded model, which is freed when the last of them closes.
    """

    facts = EmbedderFacts(
        provider="local",
        model="multilingual-e5-small",
        fingerprint=VECTORS,
        batch_texts=16,
        piece_tokens=PIECE_TOKENS,
        in_process=True,
        cosines=(0.73, 0.89),
    )

    def __init__(self, folder: Path = MODEL_FOLDER) -> None:
        self._folder = folder
        self._model: E5Model | None = None
        self._threads: ThreadPoolExecutor | None = None

    @cached_property
    def language_part(self) -> LanguagePart | None:
        """`None` if its file is missing; the language of a question then affects its scores."""
        numbers = language_numbers(self._folder)
        starts = range(1, len(numbers), DIMENSIONS)
        means_and_directions = [numbers[start : start + DIMENSIONS] for start in starts]
        if not means_and_directions:
            return None
        questions, passages, *directions = means_and_directions
        return LanguagePart(related=numbers[0], questions=questions, passages=passages, directions=directions)

    async def embed_query(self, text: str) -> Sequence[float]:
        return await asyncio.to_thread(self._embed, QUESTION + text)

    async def embed_documents(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """Uses threads of low priority, so that neither a question nor a turn waits for them."""
        if self._threads is None:
            self._threads = ThreadPoolExecutor(_idle_cores(), "memory-embed", initializer=_give_way)
        loop = asyncio.get_running_loop()
        return await asyncio.gather(
            *(loop.run_in_executor(self._threads, self._embed, PASSAGE + text) for text in texts)
        )

    async def close(self) -> None:
        """Releases the model after the running texts."""
        threads, self._threads = self._threads, None
        if threads is not None:
            await asyncio.to_thread(threads.shutdown, cancel_futures=True)
        self._model = None

    def _embed(self, text: str) -> Sequence[float]:
        model = self._model = self._model or loaded_model(self._folder)
        return model.vector(text)


class AskedAhead(E5Embedder):
    """An `E5Embedder` that gets the vector of one question from another process.

    If that process fails, the question is embedded here.
    """

    def __init__(self, ahead: QuestionAhead) -> None:
        super().__init__()
        self._ahead = ahead

    async def embed_query(self, text: str) -> Sequence[float]:
        return await asyncio.to_thread(self._ahead.vector, text) or await super().embed_query(text)

    async def close(self) -> None:
        await asyncio.to_thread(self._ahead.end)
        await super().close()


def loaded_model(folder: Path = MODEL_FOLDER) -> E5Model:
    """The model that this process shares. It stays loaded while the caller holds it.

    Raises:
        EmbeddingFailed: the files or onnxruntime are missing or damaged.
    """
    with _LOADING:
        model = _LOADED.get(folder)
        if model is None:
            try:
                model = _LOADED[folder] = E5Model(folder, many=True)
            # onnxruntime raises subclasses of Exception only.
            except Exception as error:
                raise EmbeddingFailed(
                    f"The local embedding model in {folder} could not be loaded ({error}). "
                    "Reinstall nacre, or set memorySearch.provider to another provider."
                ) from error
        return model


def _idle_cores() -> int:
    """The number of threads: on Linux, where they have priorities, one for each core; elsewhere one less."""
    if hasattr(os, "sched_getaffinity"):
        return min(MOST_THREADS, len(os.sched_getaffinity(0)))
    return min(MOST_THREADS, max(1, (os.cpu_count() or 1) - 1))


def _give_way() -> None:
    """Lowers the priority of the calling thread, if the system has one for each thread."""
    if sys.platform == "linux":
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICENESS)
