"""A GGUF embedding model in this process, through llama.cpp. Edge: the only file that imports llama_cpp.

The library is the extra `gguf`, because it is compiled on the machine that installs it.
Loads on first use, in a thread. Never touches the network: whoever makes one says where the file is.
"""

from __future__ import annotations

import asyncio
import hashlib
import math
import threading
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from nacre.extensions.providers.embedding.instructions import instructions_for
from nacre.installation import install_command
from nacre.memory.contracts.embedder import EmbedderFacts, EmbeddingFailed, TextRefused

if TYPE_CHECKING:
    from llama_cpp import Llama

MAX_INPUT_TOKENS = 2_048
"""What a model reads of a text, unless it was trained on less."""

_HEAD_BYTES = 1 << 20


class ModelFile(Protocol):
    """Where a model's file is, or will be."""

    @property
    def name(self) -> str:
        """The file's name, for the owner and for choosing instructions."""

    @property
    def identity(self) -> str:
        """Text that is another one for another model."""

    def ready(self) -> Path | None:
        """The file, if it is there."""

    def fetch(self, stopped: Callable[[], bool]) -> Path:
        """The file, brought here first if need be; gives up soon after `stopped` says so.

        Raises:
            EmbeddingFailed: it cannot be had now.
        """

    def progress(self) -> str:
        """How far a `fetch` is, as a sentence."""


class FileOnDisk:
    """`ModelFile` (its methods are described there) for one that the owner put somewhere."""

    def __init__(self, path: Path) -> None:
        self._path = path

    @property
    def name(self) -> str:
        return self._path.name

    @property
    def identity(self) -> str:
        """Size and a hash of the beginning, which describes the model; the path while there is no file."""
        try:
            with self._path.open("rb") as file:
                head = hashlib.sha256(file.read(_HEAD_BYTES)).hexdigest()
            return f"{head} {self._path.stat().st_size}"
        except OSError:
            return str(self._path)

    def ready(self) -> Path | None:
        return self._path if self._path.is_file() else None

    def fetch(self, stopped: Callable[[], bool]) -> Path:  # noqa: ARG002 - nothing here takes time
        if (path := self.ready()) is None:
            raise EmbeddingFailed(
                f"The embedding model {self._path} is not there. Put the GGUF file there, or change "
                "memorySearch.local.modelPath."
            )
        return path

    def progress(self) -> str:
        return ""


class GgufEmbedder:
    """`Embedder` (its methods are described there) for one GGUF file. Its vectors have length 1."""

    def __init__(self, file: ModelFile) -> None:
        self._file = file
        self._instructions = instructions_for(file.name)
        self._lock = threading.Lock()
        self._llama: Llama | None = None
        self._closed = threading.Event()
        self.facts = EmbedderFacts(
            provider="local",
            model=file.name,
            fingerprint=f"gguf-{hashlib.sha256(file.identity.encode()).hexdigest()[:16]}",
            batch_texts=16,
        )

    @property
    def lack(self) -> str:
        """That the library is not installed, as a sentence; else empty."""
        return "" if find_spec("llama_cpp") else _without_library(self.facts.model, "")

    async def embed_query(self, text: str) -> Sequence[float]:
        """A question does not wait for a download."""
        if self._llama is None and await asyncio.to_thread(self._file.ready) is None:
            raise EmbeddingFailed(
                self._file.progress() or f"The embedding model {self.facts.model} is not on this machine yet."
            )
        return await asyncio.to_thread(self._embed, self._instructions.query + text)

    async def embed_documents(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """A question asked meanwhile waits for one text only."""
        return [await asyncio.to_thread(self._embed, self._instructions.document + text) for text in texts]

    async def close(self) -> None:
        """Stops a download, and frees the model once the text in hand is done."""
        self._closed.set()
        await asyncio.to_thread(self._unload)

    def _unload(self) -> None:
        with self._lock:
            if self._llama is not None:
                self._llama.close()
                self._llama = None

    def _embed(self, text: str) -> Sequence[float]:
        with self._lock:
            llama = self._llama or self._load()
            try:
                found: Any = llama.embed(text, normalize=False, truncate=True)
            except (RuntimeError, ValueError) as error:
                raise TextRefused(
                    f"The model {self.facts.model} made no vector of a text ({error})."
                ) from error
        return _unit(found, self.facts.model)

    def _load(self) -> Llama:
        try:
            from llama_cpp import Llama
        except ImportError as error:
            raise EmbeddingFailed(_without_library(self.facts.model, f" ({error})")) from error
        path = self._file.fetch(self._closed.is_set)
        try:
            window = _window_tokens(Llama(str(path), vocab_only=True, verbose=False).metadata)
            # such models look at the whole text at once, so it has to fit one batch
            llama = Llama(
                str(path), embedding=True, n_ctx=window, n_batch=window, n_ubatch=window, verbose=False
            )
        except (RuntimeError, ValueError, OSError, AssertionError) as error:
            raise EmbeddingFailed(
                f"{path} could not be loaded as a GGUF embedding model ({error}). "
                "Check that the file is whole, or change memorySearch.local.modelPath."
            ) from error
        self._llama = llama
        return llama


def _window_tokens(metadata: Mapping[str, str]) -> int:
    """What the model was trained on, at most `MAX_INPUT_TOKENS`: llama.cpp crashes on more."""
    trained = metadata.get(f"{metadata.get('general.architecture')}.context_length", "")
    return min(MAX_INPUT_TOKENS, int(trained)) if trained.isdigit() else MAX_INPUT_TOKENS


def _unit(found: Any, model: str) -> list[float]:
    """One vector of length 1; of a model that pools nothing, the mean of its tokens'."""
    rows: list[list[float]] = found if found and isinstance(found[0], list) else [found]
    vector = [sum(column) / len(rows) for column in zip(*rows, strict=True)]
    # quantised models give single numbers that are none; the others still point somewhere
    vector = [value if math.isfinite(value) else 0.0 for value in vector]
    length = math.hypot(*vector)
    if length == 0:
        raise TextRefused(f"The model {model} gave a vector that is all zero for a text.")
    return [value / length for value in vector]


def _without_library(model: str, why: str) -> str:
    return (
        f"The embedding model {model} needs llama-cpp-python, which is not installed{why}. Install it with: "
        f"{install_command('gguf')} (it is compiled, which needs a C++ compiler and some minutes). Or leave "
        "memorySearch.local.modelPath out to use the model that comes with Nacre, or set "
        "memorySearch.provider to openai."
    )
