"""Cross-encoders of the sentence-transformers library: without it a sentence, with it a real, tiny model."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from nacre.extensions.providers.embedding.local_models import CrossEncoderReranker
from nacre.memory.embedders.e5_model import MODEL_FOLDER
from nacre.memory.search.rerankers.reranker import RerankingFailed

HAS_LIBRARY = importlib.util.find_spec("sentence_transformers") is not None
needs_library = pytest.mark.skipif(not HAS_LIBRARY, reason='needs pip install ".[sentence-transformers]"')


def tiny_model(folder: Path, labels: int) -> str:
    """A cross-encoder with weights by chance, which the library reads like any other."""
    import torch
    from transformers import BertConfig, BertForSequenceClassification, BertTokenizerFast

    torch.manual_seed(1)
    tokenizer = BertTokenizerFast(vocab_file=str(MODEL_FOLDER / "vocab.txt"))
    config = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        max_position_embeddings=64,
        num_labels=labels,
    )
    BertForSequenceClassification(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)


@pytest.mark.skipif(HAS_LIBRARY, reason="sentence-transformers is installed")
async def test_without_the_library_the_owner_is_told_what_to_do() -> None:
    """The sentence names the missing library and how to get it."""
    reranker = CrossEncoderReranker("cross-encoder/ms-marco-MiniLM-L6-v2")
    with pytest.raises(RerankingFailed, match=r"needs sentence-trans.*install .*sentence-transformers"):
        await reranker.load()
    await reranker.close()


@needs_library
async def test_a_model_that_is_not_there_is_told(tmp_path: Path) -> None:
    """By its name."""
    reranker = CrossEncoderReranker(str(tmp_path / "none"))
    with pytest.raises(RerankingFailed, match="could not load the model"):
        await reranker.load()


@needs_library
async def test_a_real_model_gives_each_text_a_number(tmp_path: Path) -> None:
    """The same for the same pair, whatever stands beside it; long texts are cut."""
    reranker = CrossEncoderReranker(tiny_model(tmp_path, labels=1))
    await reranker.load()
    texts = ["The router is an Omada.", "The hive swarms.", "word " * 500]
    numbers = await reranker.relevance("router?", texts)
    alone = await reranker.relevance("router?", texts[:1])
    await reranker.close()
    assert len(numbers) == 3
    assert len(set(numbers)) == 3
    assert alone == pytest.approx(numbers[:1], abs=1e-4)


@needs_library
async def test_a_classifier_is_no_re_ranker(tmp_path: Path) -> None:
    """A model with several labels is refused by a sentence."""
    reranker = CrossEncoderReranker(tiny_model(tmp_path, labels=3))
    await reranker.load()
    with pytest.raises(RerankingFailed, match="one label"):
        await reranker.relevance("router?", ["The router is an Omada."])
    await reranker.close()
