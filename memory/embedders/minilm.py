"""The embedder that arrives with the install: all-MiniLM-L6-v2, int8, on the cores that are idle.

English; Chinese through a dictionary; other Latin scripts half-way. `reads` says so, and ranking then leans
on words.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

from nacre.memory.contracts.embedder import EmbedderFacts, EmbeddingFailed
from nacre.memory.embedders.chinese import DICTIONARY, is_chinese, is_han
from nacre.memory.embedders.minilm_model import MODEL_FOLDER, MiniLm

VECTORS = "all-MiniLM-L6-v2-int8-3c8cc8f22f1a-zh-1"
"""Names the vectors, not the files: another layout of the same model keeps it and every index stays good."""
PIECE_TOKENS = 100
MOST_THREADS = 4
"""Threads that embed notes. Each takes one text at a time: a text is too short to be shared."""
_LESS_URGENT = 5
"""Not more: on a busy machine, a thread that is kept waiting may hold what all threads of Python need."""
_LAST_LATIN = "\u024f"
_BY_DICTIONARY = 0.6
"""What a text that was put into English word by word counts for, beside one that was written in it."""


class MiniLmEmbedder:
    """`Embedder` (its methods are described there) in this process; its vectors have length 1.

    Loads on first use (tenths of a second), then takes milliseconds a text.
    """

    facts = EmbedderFacts(
        provider="local",
        model="all-MiniLM-L6-v2",
        fingerprint=VECTORS,
        batch_texts=16,
        piece_tokens=PIECE_TOKENS,
        sentences=True,
    )

    def __init__(self, folder: Path = MODEL_FOLDER, dictionary: Path = DICTIONARY) -> None:
        self._folder = folder
        self._dictionary = dictionary
        self._lock = threading.Lock()
        self._model: MiniLm | None = None
        self._threads: ThreadPoolExecutor | None = None

    def reads(self, text: str) -> float:
        """The share of what it reads among the letters of `text`: Latin, and Chinese by its dictionary.

        1 of digits alone, 0 of signs alone. Every sign that it does not know is the same to it: one emoji
        would be as near as can be to another.
        """
        letters = [char for char in text if char.isalpha()]
        if not letters:
            return float(any(char.isalnum() for char in text))
        if text.isascii():
            return 1.0
        chinese = sum(sum(map(is_han, line)) for line in text.split("\n") if is_chinese(line))
        return (sum(char <= _LAST_LATIN for char in letters) + _BY_DICTIONARY * chinese) / len(letters)

    async def embed_query(self, text: str) -> Sequence[float]:
        return await asyncio.to_thread(self._embed, text)

    async def embed_documents(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """On threads that give way to all others: neither a question nor a turn waits for them."""
        if self._threads is None:
            self._threads = ThreadPoolExecutor(_idle_cores(), "memory-embed", initializer=_give_way)
        loop = asyncio.get_running_loop()
        return await asyncio.gather(
            *(loop.run_in_executor(self._threads, self._embed, text) for text in texts)
        )

    async def close(self) -> None:
        """Frees the model once the texts in hand are done."""
        threads, self._threads = self._threads, None
        if threads is not None:
            await asyncio.to_thread(threads.shutdown, cancel_futures=True)
        await asyncio.to_thread(self._unload)

    def _unload(self) -> None:
        with self._lock:
            self._model = None

    def _embed(self, text: str) -> Sequence[float]:
        with self._lock:
            model = self._model or self._load()
        try:
            return model.vector(text)
        except OSError as error:
            raise EmbeddingFailed(
                "The dictionary that the local embedding model reads Chinese with could not be read "
                f"({error}). Reinstall nacre, or set memorySearch.provider to another provider."
            ) from error

    def _load(self) -> MiniLm:
        try:
            self._model = MiniLm(self._folder, self._dictionary, many=True)
        # onnxruntime and tokenizers raise bare Exceptions of their own.
        except Exception as error:
            raise EmbeddingFailed(
                f"The local embedding model in {self._folder} could not be loaded ({error}). "
                "Reinstall nacre, or set memorySearch.provider to another provider."
            ) from error
        return self._model


def _idle_cores() -> int:
    """How many threads embed: on Linux as many as there are cores, because they give way; else one less."""
    if hasattr(os, "sched_getaffinity"):
        return min(MOST_THREADS, len(os.sched_getaffinity(0)))
    return min(MOST_THREADS, max(1, (os.cpu_count() or 1) - 1))


def _give_way() -> None:
    """Lowers the priority of the calling thread; where only a whole process has one, it stays."""
    if sys.platform == "linux":
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _LESS_URGENT)
