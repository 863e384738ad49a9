"""A GGUF model in this process: what an owner sees without the library, and a real tiny model with it."""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Callable
from pathlib import Path

import pytest

from nacre.extensions.providers.embedding.local_models import FileOnDisk, GgufEmbedder
from nacre.memory.contracts.embedder import EmbeddingFailed
from tests.memory.embedders.tiny_gguf import write_tiny_bert

HAS_LLAMA = importlib.util.find_spec("llama_cpp") is not None
with_llama = pytest.mark.skipif(not HAS_LLAMA, reason='needs llama-cpp-python: pip install ".[gguf]"')
without_llama = pytest.mark.skipif(HAS_LLAMA, reason="llama-cpp-python is installed")


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A model on disk."""
    path = tmp_path / "tiny.gguf"
    write_tiny_bert(path)
    return path


class Coming:
    """A file that is on its way."""

    name = "coming.gguf"
    identity = "hf:coming"

    def ready(self) -> Path | None:
        """Not yet."""
        return None

    def fetch(self, stopped: Callable[[], bool]) -> Path:
        """Never asked for by a question."""
        raise AssertionError(f"a question waited for a download ({stopped()})")

    def progress(self) -> str:
        """A third."""
        return "The embedding model coming.gguf is being downloaded: 1 MB of 3 MB."


@without_llama
@pytest.mark.covers("EMB-8")
async def test_without_the_library_the_owner_is_told_what_to_do(model: Path) -> None:
    """The sentence names the missing library, how to get it, and the ways around it."""
    embedder = GgufEmbedder(FileOnDisk(model))
    with pytest.raises(EmbeddingFailed, match=r"needs llama-cpp-python.*install .*gguf.*to openai"):
        await embedder.embed_documents(["honey"])
    await embedder.close()


async def test_a_question_does_not_wait_for_a_download() -> None:
    """It is answered by words, with how far the download is."""
    with pytest.raises(EmbeddingFailed, match="1 MB of 3 MB"):
        await GgufEmbedder(Coming()).embed_query("honey?")


async def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    """By its path."""
    with pytest.raises(EmbeddingFailed, match=r"gone\.gguf is not"):
        await GgufEmbedder(FileOnDisk(tmp_path / "gone.gguf")).embed_query("honey?")


def test_another_model_is_another_fingerprint(tmp_path: Path, model: Path) -> None:
    """Under the same name too; the same file elsewhere is the same model."""
    other, copy = tmp_path / "other.gguf", tmp_path / "copy.gguf"
    write_tiny_bert(other, context_tokens=32)
    copy.write_bytes(model.read_bytes())
    one, two, three = (GgufEmbedder(FileOnDisk(path)).facts.fingerprint for path in (model, other, copy))

    assert one == three != two


@with_llama
@pytest.mark.covers("PART-14")
async def test_a_real_model_embeds(model: Path) -> None:
    """Vectors of length 1, in order, near where texts share words; long texts are cut, not refused."""
    embedder = GgufEmbedder(FileOnDisk(model))
    texts = ["the honey is in the cellar", "an invoice for march", "honey " * 500]
    near, far, long = await embedder.embed_documents(texts)
    question = await embedder.embed_query("where is the honey")
    again = await embedder.embed_documents(texts[:1])
    await embedder.close()

    assert [math.hypot(*vector) for vector in (near, far, long, question)] == pytest.approx([1.0] * 4)
    assert sum(a * b for a, b in zip(question, near, strict=True)) > sum(
        a * b for a, b in zip(question, far, strict=True)
    )
    assert again[0] == pytest.approx(near, abs=1e-6)


@with_llama
async def test_a_broken_file_is_told(tmp_path: Path) -> None:
    """A file that was cut, or is something else, ends in a sentence and not in the process's end."""
    path = tmp_path / "broken.gguf"
    path.write_bytes(b"GGUF is what it is not")
    embedder = GgufEmbedder(FileOnDisk(path))
    with pytest.raises(EmbeddingFailed, match=r"broken\.gguf could not be loaded"):
        await embedder.embed_documents(["honey"])
    await embedder.close()
