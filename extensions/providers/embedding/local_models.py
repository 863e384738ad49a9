"""Models of libraries in this process: GGUF files through llama.cpp, and those of sentence-transformers.

Both libraries are extras: llama_cpp is compiled on the machine that installs it, sentence-transformers needs
PyTorch. A model is loaded on first use, in a thread. An interrupted download of a GGUF file continues, in
this process or another; the file gets its name when it is complete and, if the hub sends its hash, correct.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import math
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from nacre.extensions.providers.completions.addresses import is_loopback, without_credentials
from nacre.extensions.providers.embedding.instructions import instructions_for
from nacre.installation import install_command
from nacre.memory.contracts.embedder import EmbedderFacts, EmbeddingFailed, TextRefused
from nacre.memory.search.rerankers.reranker import RerankingFailed
from nacre.runtime.contracts.errors import ConfigError

if TYPE_CHECKING:
    import httpx
    from llama_cpp import Llama

log = logging.getLogger(__name__)

MAX_INPUT_TOKENS = 2_048
"""The longest input of a model, unless it was trained on less."""

_HEAD_BYTES = 1 << 20


class FileOnDisk:
    """The file of a model that the owner keeps."""

    def __init__(self, path: Path) -> None:
        self._path = path

    @property
    def name(self) -> str:
        """The file's name, for the owner and for choosing instructions."""
        return self._path.name

    @property
    def identity(self) -> str:
        """A text that differs between models: size and a hash of the beginning; the path without a file."""
        try:
            with self._path.open("rb") as file:
                head = hashlib.sha256(file.read(_HEAD_BYTES)).hexdigest()
            return f"{head} {self._path.stat().st_size}"
        except OSError:
            return str(self._path)

    def ready(self) -> Path | None:
        """The file, if it exists."""
        return self._path if self._path.is_file() else None

    def fetch(self, stopped: Callable[[], bool]) -> Path:  # noqa: ARG002 - nothing here takes time
        """The file. Raises `EmbeddingFailed` if it is not available now."""
        if (path := self.ready()) is None:
            raise EmbeddingFailed(
                f"The embedding model {self._path} does not exist. Put the GGUF file there, or change "
                "memorySearch.local.modelPath."
            )
        return path

    def progress(self) -> str:
        """The progress of a `fetch`, as a sentence; empty without one."""
        return ""


class GgufEmbedder:
    """An `Embedder` (see there for its methods) for one GGUF file. Its vectors have length 1."""

    def __init__(self, file: FileOnDisk) -> None:
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
        """A sentence if the library is not installed; empty otherwise."""
        return "" if find_spec("llama_cpp") else _without_llama_cpp(self.facts.model, "")

    async def embed_query(self, text: str) -> Sequence[float]:
        """Embeds a question; does not wait for a download."""
        if self._llama is None and await asyncio.to_thread(self._file.ready) is None:
            raise EmbeddingFailed(
                self._file.progress() or f"The embedding model {self.facts.model} is not on this machine yet."
            )
        return await asyncio.to_thread(self._embed, self._instructions.query + text)

    async def embed_documents(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """Embeds one text at a time, so that a question waits for one text only."""
        return [await asyncio.to_thread(self._embed, self._instructions.document + text) for text in texts]

    async def close(self) -> None:
        """Stops a download, and frees the model after the current text."""
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
            raise EmbeddingFailed(_without_llama_cpp(self.facts.model, f" ({error})")) from error
        path = self._file.fetch(self._closed.is_set)
        try:
            window = _window_tokens(Llama(str(path), vocab_only=True, verbose=False).metadata)
            # Such models attend to the whole text at once, so it has to fit into one batch.
            llama = Llama(
                str(path), embedding=True, n_ctx=window, n_batch=window, n_ubatch=window, verbose=False
            )
        except (RuntimeError, ValueError, OSError, AssertionError) as error:
            raise EmbeddingFailed(
                f"{path} could not be loaded as a GGUF embedding model ({error}). "
                "Check that the file is complete, or change memorySearch.local.modelPath."
            ) from error
        self._llama = llama
        return llama


def _window_tokens(metadata: Mapping[str, str]) -> int:
    """The window of the training, at most `MAX_INPUT_TOKENS`: llama.cpp crashes on longer inputs."""
    trained = metadata.get(f"{metadata.get('general.architecture')}.context_length", "")
    return min(MAX_INPUT_TOKENS, int(trained)) if trained.isdigit() else MAX_INPUT_TOKENS


def _unit(found: Any, model: str) -> list[float]:
    """One vector of length 1. Without pooling in the model it is the mean over the tokens."""
    rows: list[list[float]] = found if found and isinstance(found[0], list) else [found]
    vector = [sum(column) / len(rows) for column in zip(*rows, strict=True)]
    # quantized models return a few NaNs; the rest of such a vector is still usable
    vector = [value if math.isfinite(value) else 0.0 for value in vector]
    length = math.hypot(*vector)
    if length == 0:
        raise TextRefused(f"The model {model} gave a vector that is all zero for a text.")
    return [value / length for value in vector]


def _without_llama_cpp(model: str, why: str) -> str:
    return (
        f"The embedding model {model} needs llama-cpp-python, which is not installed{why}. Install it with: "
        f"{install_command('gguf')} (it is compiled, which needs a C++ compiler and some minutes). Or leave "
        "memorySearch.local.modelPath out to use the model that comes with Nacre, or set "
        "memorySearch.provider to openai."
    )


HUB = "https://huggingface.co"
BLOCK_BYTES = 1 << 20
STALL_SECONDS = 60.0

_NAME = re.compile(r"[A-Za-z0-9][\w.-]*")
_SHA256 = re.compile(r'"?([0-9a-f]{64})"?')


class RemoteModelFile(FileOnDisk):
    """A model file to be downloaded into `folder`. `source` is an `hf:` URI or an https address.

    Raises:
        ConfigError: `source` is neither.
    """

    def __init__(self, source: str, folder: Path, *, hub: str = HUB) -> None:
        self._source = source
        self._url, parts = _address(source, hub)
        super().__init__(folder.joinpath(*parts))
        self._part = self._path.with_name(f"{self._path.name}.part")
        self._tag = self._path.with_name(f"{self._path.name}.part.tag")
        self._have_bytes = 0
        self._total_bytes: int | None = None

    @property
    def identity(self) -> str:
        return self._source

    def progress(self) -> str:
        if not self._have_bytes:
            return ""
        of = f" of {self._total_bytes / 1e6:.0f} MB" if self._total_bytes else ""
        return f"The embedding model {self.name} is being downloaded: {self._have_bytes / 1e6:.0f} MB{of}."

    def fetch(self, stopped: Callable[[], bool]) -> Path:
        """The file, after a download if it is missing; stops soon after `stopped` returns true.

        Raises:
            EmbeddingFailed: the file is not available now; the part of it is kept for the next attempt.
        """
        if (path := self.ready()) is not None:
            return path
        import httpx
        from filelock import FileLock, Timeout

        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with FileLock(f"{self._path}.lock", timeout=0):
                if (path := self.ready()) is None:
                    self._download(stopped)
                    self._part.replace(self._path)
                    self._tag.unlink(missing_ok=True)
                    log.info("the embedding model %s is downloaded", self._path)
        except Timeout as error:
            raise EmbeddingFailed(
                f"Another process is downloading the embedding model {self.name}. Until then, search uses "
                "words only."
            ) from error
        except httpx.HTTPError as error:
            raise EmbeddingFailed(
                f"The embedding model {self.name} could not be downloaded from "
                f"{without_credentials(self._url)} ({error or type(error).__name__}). "
                "The downloaded part is kept, and the next attempt continues it."
            ) from error
        except OSError as error:
            raise EmbeddingFailed(
                f"The embedding model {self.name} could not be stored in {self._path.parent}: "
                f"{error.strerror or error}. Make room there, or set memorySearch.local.modelCacheDir."
            ) from error
        return self._path

    def _download(self, stopped: Callable[[], bool]) -> None:
        import httpx

        self._have_bytes = self._part.stat().st_size if self._part.exists() else 0
        headers = {"accept-encoding": "identity"}
        if self._have_bytes and self._tag.exists():
            headers |= {"range": f"bytes={self._have_bytes}-", "if-range": self._tag.read_text().strip()}
        log.info("downloading the embedding model %s", self.name)
        trust = not is_loopback(self._url)
        with (
            httpx.Client(timeout=STALL_SECONDS, follow_redirects=True, trust_env=trust) as client,
            client.stream("GET", self._url, headers=headers) as response,
        ):
            # the part is complete: an earlier process was killed before the file got its name
            if response.headers.get("content-range") != f"bytes */{self._have_bytes}":
                self._receive(response, stopped)
            # the hub sends the hash with its redirect, before the server with the bytes answers
            told = [each.headers.get("x-linked-etag", "") for each in (*response.history, response)]
        self._check(next((found[1] for tag in told if (found := _SHA256.fullmatch(tag))), None))

    def _receive(self, response: httpx.Response, stopped: Callable[[], bool]) -> None:
        """Appends the response to the part; httpx raises if the response is too short."""
        response.raise_for_status()
        goes_on = response.status_code == 206
        self._have_bytes = self._have_bytes if goes_on else 0
        length = response.headers.get("content-length", "")
        self._total_bytes = self._have_bytes + int(length) if length.isdigit() else None
        if tag := response.headers.get("etag"):
            self._tag.write_text(tag)
        with self._part.open("ab" if goes_on else "wb") as file:
            for block in response.iter_bytes(BLOCK_BYTES):
                if stopped():
                    raise EmbeddingFailed(
                        f"The download of {self.name} was stopped. The next attempt continues it."
                    )
                file.write(block)
                self._have_bytes += len(block)

    def _check(self, sha256: str | None) -> None:
        if sha256 is None:
            return
        with self._part.open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
        if found != sha256:
            self._part.unlink()
            raise EmbeddingFailed(
                f"The download of {self.name} has the SHA-256 {found}, but the hub says {sha256}. It was "
                "deleted, and the next attempt starts again."
            )


def _address(source: str, hub: str) -> tuple[str, tuple[str, ...]]:
    if source.startswith("hf:"):
        parts = source.removeprefix("hf:").strip("/").split("/")
        if len(parts) >= 3 and all(_NAME.fullmatch(part) for part in parts) and parts[-1].endswith(".gguf"):
            return f"{hub}/{parts[0]}/{parts[1]}/resolve/main/{'/'.join(parts[2:])}", tuple(parts)
    else:
        url = urlsplit(source)
        name = unquote(url.path.rpartition("/")[2])
        safe = url.scheme == "https" or is_loopback(source)
        if safe and url.hostname and _NAME.fullmatch(name) and name.endswith(".gguf"):
            return source, (url.hostname, name)
    raise ConfigError(
        f"memorySearch.local.modelPath is {source!r}. Write the path of a GGUF file, "
        "hf:owner/repository/file.gguf, or the https address of one."
    )


PIECE_TOKENS = 200
"""Most such models are trained on paragraphs and truncate longer texts."""


class _SentenceTransformersModel:
    """A model of the library, which one thread at a time loads and uses."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loaded: Any = None

    async def close(self) -> None:
        await asyncio.to_thread(self._unload)

    def _unload(self) -> None:
        with self._lock:
            self._loaded = None


class SentenceTransformerEmbedder(_SentenceTransformersModel):
    """An `Embedder` (see there for its methods) for a model by its name on the hub or its folder.

    Its vectors have length 1. The model's own prompts for questions and documents are used. The library may
    download a model from its hub.
    """

    def __init__(self, model: str) -> None:
        super().__init__()
        self.facts = EmbedderFacts(
            provider="sentence-transformers",
            model=model,
            fingerprint=f"st-{hashlib.sha256(model.encode()).hexdigest()[:16]}",
            batch_texts=16,
            piece_tokens=PIECE_TOKENS,
        )

    @property
    def lack(self) -> str:
        """A sentence if the library is not installed; empty otherwise."""
        return "" if find_spec("sentence_transformers") else _without_torch(self.facts.model, "")

    async def embed_query(self, text: str) -> Sequence[float]:
        return (await asyncio.to_thread(self._embed, [text], is_query=True))[0]

    async def embed_documents(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        if not texts:
            return []
        return await asyncio.to_thread(self._embed, list(texts), is_query=False)

    def _embed(self, texts: list[str], *, is_query: bool) -> list[list[float]]:
        with self._lock:
            model = self._loaded or self._load()
            encode = model.encode_query if is_query else model.encode_document
            found: Any = encode(texts, normalize_embeddings=True, show_progress_bar=False)
        vectors: list[list[float]] = found.tolist()
        for vector in vectors:
            length = math.hypot(*vector)
            if length == 0 or not math.isfinite(length):
                raise TextRefused(f"The model {self.facts.model} made no usable vector of a text.")
        return vectors

    def _load(self) -> Any:
        try:
            from sentence_transformers import SentenceTransformer
        except ImportError as error:
            raise EmbeddingFailed(_without_torch(self.facts.model, f" ({error})")) from error
        try:
            self._loaded = SentenceTransformer(self.facts.model, device="cpu")
        # The library raises its own errors, and those of its hub client and of torch.
        except Exception as error:
            raise EmbeddingFailed(
                f"sentence-transformers could not load the model {self.facts.model!r} ({error}). "
                "memorySearch.model is its name on the hub or its folder."
            ) from error
        return self._loaded


def _without_torch(model: str, why: str) -> str:
    return (
        f"The embedding model {model} needs sentence-transformers, which is not installed{why}. Install it "
        f"with: {install_command('sentence-transformers')}. Or leave memorySearch.provider out to use the "
        "model that comes with Nacre."
    )


_BATCH_TEXTS = 8
"""Larger batches pad more texts to the longest one, and are not faster on a CPU."""


class CrossEncoderReranker(_SentenceTransformersModel):
    """A `Reranker` (see there for its methods) for a model by its name on the hub or its folder."""

    def __init__(self, model: str) -> None:
        super().__init__()
        self.name = f"sentence-transformers/{model}"
        self._model = model

    async def load(self) -> None:
        await asyncio.to_thread(self._load)

    async def relevance(self, question: str, texts: Sequence[str]) -> Sequence[float]:
        return await asyncio.to_thread(self._relevance, question, list(texts))

    def _relevance(self, question: str, texts: list[str]) -> list[float]:
        with self._lock:
            model = self._loaded
            if model is None:
                raise RerankingFailed(f"The re-ranker {self.name} is not loaded.")
            try:
                found: Any = model.predict(
                    [(question, text) for text in texts], batch_size=_BATCH_TEXTS, show_progress_bar=False
                )
            # torch and the model's own code raise errors of their own
            except Exception as error:
                raise RerankingFailed(f"The re-ranker {self.name} failed ({error}).") from error
        numbers: list[Any] = found.tolist()
        if any(not isinstance(number, float) for number in numbers):
            raise RerankingFailed(
                f"The model {self._model!r} returns several numbers for a text, so it is not a re-ranker. "
                "Use a cross-encoder with one label."
            )
        return numbers

    def _load(self) -> None:
        with self._lock:
            if self._loaded is not None:
                return
            try:
                from sentence_transformers import CrossEncoder
            except ImportError as error:
                raise RerankingFailed(
                    f"The re-ranker {self._model} needs sentence-transformers, which is not installed "
                    f"({error}). Install it with: {install_command('sentence-transformers')}."
                ) from error
            try:
                self._loaded = CrossEncoder(self._model, device="cpu")
            # The library raises its own errors, and those of its hub client and of torch.
            except Exception as error:
                raise RerankingFailed(
                    f"sentence-transformers could not load the model {self._model!r} ({error}). "
                    "memorySearch.query.rerank.model is its name on the hub or its folder."
                ) from error
