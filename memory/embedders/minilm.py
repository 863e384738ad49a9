"""The embedding model that arrives with the install: all-MiniLM-L6-v2, int8, on one processor thread. Edge.

The only file that imports onnxruntime and tokenizers, and only on first use. Never touches the network.
English; other Latin scripts half-way; `reads` says so, and ranking then leans on words.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nacre.memory.embedder import EmbeddingFailed

if TYPE_CHECKING:
    from onnxruntime import InferenceSession
    from tokenizers import Tokenizer

MODEL_FOLDER = Path(__file__).parent / "all-MiniLM-L6-v2"
VECTORS = "all-MiniLM-L6-v2-int8-3c8cc8f22f1a"
"""Names the vectors, not the files: another layout of the same model keeps it and every index stays good."""
MAX_INPUT_TOKENS = 256
PIECE_TOKENS = 100
_PADDING, _UNKNOWN, _FIRST, _LAST, _MASK = "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"
_LAST_LATIN = "\u024f"


class MiniLmEmbedder:
    """The local `Embedder`. Loads on first use (tenths of a second), then takes milliseconds a text."""

    provider = "local"
    model = "all-MiniLM-L6-v2"
    batch_texts = 16
    max_input_tokens = MAX_INPUT_TOKENS
    piece_tokens = PIECE_TOKENS
    fingerprint = VECTORS

    def __init__(self, folder: Path = MODEL_FOLDER) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._loaded: tuple[Tokenizer, InferenceSession] | None = None

    def reads(self, text: str) -> float:
        """The share of Latin letters among the letters of `text`; 1 when there are none."""
        if text.isascii():
            return 1.0
        letters = [char for char in text if char.isalpha()]
        return sum(char <= _LAST_LATIN for char in letters) / len(letters) if letters else 1.0

    async def embed_query(self, text: str) -> Sequence[float]:
        """The vector of a question, of length 1."""
        return await asyncio.to_thread(self._embed, text)

    async def embed_documents(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """One vector of length 1 for each text. A question asked meanwhile waits for one text only."""
        return [await asyncio.to_thread(self._embed, text) for text in texts]

    async def close(self) -> None:
        """Frees the model once the text in hand is done."""
        await asyncio.to_thread(self._unload)

    def _unload(self) -> None:
        with self._lock:
            self._loaded = None

    def _embed(self, text: str) -> Sequence[float]:
        import numpy

        with self._lock:
            tokenizer, session = self._loaded or self._load()
            # One text at a time: int8 scales depend on what is in a batch, and padding would change vectors.
            ids = numpy.array([tokenizer.encode(text).ids], dtype=numpy.int64)
            output: Any = session.run(None, {"input_ids": ids, "attention_mask": numpy.ones_like(ids)})[0]
        vector: list[float] = output[0].tolist()
        return vector

    def _load(self) -> tuple[Tokenizer, InferenceSession]:
        # Builds for Linux and macOS report to their maker unless told otherwise before the library is loaded.
        os.environ.update(ORT_DISABLE_TELEMETRY="1", ORT_TELEMETRY_DISABLED="1")
        try:
            # Side by side: a session is opened without Python's lock, a vocabulary is read with it.
            with ThreadPoolExecutor(1, "memory-model") as aside:
                session = aside.submit(_session, self._folder)
                self._loaded = (_tokenizer(self._folder), session.result())
        # onnxruntime and tokenizers raise bare Exceptions of their own.
        except Exception as error:
            raise EmbeddingFailed(
                f"The local embedding model in {self._folder} could not be loaded ({error}). "
                "Reinstall nacre, or set memorySearch.provider to another provider."
            ) from error
        return self._loaded


def _session(folder: Path) -> InferenceSession:
    from onnxruntime import GraphOptimizationLevel, InferenceSession, SessionOptions

    options = SessionOptions()
    # More threads on two shared cores made it slower.
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    # The graph was rewritten before it was shipped (benchmarks/settle_minilm.py).
    options.graph_optimization_level = GraphOptimizationLevel.ORT_DISABLE_ALL
    return InferenceSession(str(folder / "model.onnx"), options, providers=["CPUExecutionProvider"])


def _tokenizer(folder: Path) -> Tokenizer:
    """What the model's own `tokenizer.json` says, around a vocabulary that loads in half the time."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

    tokenizer = Tokenizer(models.WordPiece.from_file(str(folder / "vocab.txt"), unk_token=_UNKNOWN))
    tokenizer.add_special_tokens([_PADDING, _UNKNOWN, _FIRST, _LAST, _MASK])
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    ends = [(token, tokenizer.token_to_id(token)) for token in (_FIRST, _LAST)]
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{_FIRST} $A {_LAST}", special_tokens=ends
    )
    tokenizer.enable_truncation(MAX_INPUT_TOKENS)
    return tokenizer
