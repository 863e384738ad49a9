"""The embedding model that arrives with the install, as it is shipped."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from nacre.memory.contracts.embedder import EmbeddingFailed
from nacre.memory.embedders.minilm import MODEL_FOLDER, MiniLmEmbedder
from nacre.memory.vectors.cosine_scale import SCALE_SENTENCES, cosine, measured_scale, scale_of

SHIPPED_SHA256 = {
    "model.onnx": "253773cc522fad1d9ec528f205dcdda648c163664410a501e94b208d690a61d1",
    "vocab.txt": "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3",
    "weights.bin": "2688f37d45bc0c858bbb89a1cf87976fc8bfe4d8f1c9bf7b2028c26951963e01",
}

FIRST_NUMBERS = (0.0055, 0.042, 0.0851, 0.0071, 0.0134, 0.0274, 0.0995, -0.0206)


def test_the_shipped_model_is_the_one_that_is_named() -> None:
    """Indexes are tied to the vectors' name, so other files need another name; the licence is beside them."""
    names = sorted(SHIPPED_SHA256)

    assert {name: _sha256(MODEL_FOLDER / name) for name in names} == SHIPPED_SHA256
    assert MiniLmEmbedder().facts.fingerprint == "all-MiniLM-L6-v2-int8-3c8cc8f22f1a"
    assert "Apache License" in (MODEL_FOLDER / "LICENSE").read_text(encoding="utf-8")


def _sha256(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


async def test_vectors_are_what_they_were() -> None:
    """A vector that was stored by an earlier Nacre is found by today's question: the model reads as it did.

    The numbers are the first eight of the vector that the model gave when it was first shipped.
    """
    embedder = MiniLmEmbedder()
    vector = await embedder.embed_query("Café, naïve: [SEP] 日本 what's ünder the bridge?")
    assert list(vector[:8]) == pytest.approx(FIRST_NUMBERS, abs=0.02)
    await embedder.close()


async def test_meaning_is_nearer_than_strangers() -> None:
    """A question is nearer to its answer than to another note, and vectors have length 1."""
    embedder = MiniLmEmbedder()
    question = await embedder.embed_query("Where do we keep the boat?")
    answer, other = await embedder.embed_documents(
        ["The kayak is stored in the shed.", "Rent went up in May."]
    )
    assert len(question) == 384
    assert cosine(question, question) == pytest.approx(1.0)
    assert sum(number * number for number in question) == pytest.approx(1.0, abs=1e-3)
    assert cosine(question, answer) > cosine(question, other) + 0.2
    await embedder.close()


async def test_a_text_has_one_vector_whatever_is_beside_it() -> None:
    """The same text gets the same vector alone, in company, and as a question."""
    embedder = MiniLmEmbedder()
    alone = (await embedder.embed_documents(["Walnuts."]))[0]
    beside = (
        await embedder.embed_documents(["A much longer text about something else entirely.", "Walnuts."])
    )[1]
    assert alone == beside == await embedder.embed_query("Walnuts.")
    await embedder.close()


async def test_its_cosines_are_measured() -> None:
    """Related sentences and strangers are far apart on the model's own scale."""
    embedder = MiniLmEmbedder()
    scale = await measured_scale(embedder)
    assert scale.unrelated < 0.2
    assert scale.related > 0.6
    assert scale.relatedness(scale.unrelated) == 0.0
    assert scale.relatedness(scale.related) == pytest.approx(1.0)
    assert len(SCALE_SENTENCES) == 5
    assert scale_of([]).related > scale_of([]).unrelated
    await embedder.close()


def test_it_says_which_scripts_it_reads() -> None:
    """Latin text is read, Chinese and bare signs are not, digits are no reason to doubt."""
    embedder = MiniLmEmbedder()
    assert embedder.reads("café") == 1.0
    assert embedder.reads("讨论方案") == 0.0
    assert embedder.reads("VLAN 讨论") == pytest.approx(4 / 6)
    assert embedder.reads("… 12 …") == 1.0
    assert (embedder.reads("😀"), embedder.reads("***")) == (0.0, 0.0)


async def test_a_missing_model_is_a_sentence(tmp_path: Path) -> None:
    """A broken install says which folder and what to do."""
    with pytest.raises(EmbeddingFailed, match=r"could not be loaded.*Reinstall nacre"):
        await MiniLmEmbedder(tmp_path).embed_query("x")
