"""The embedding model that arrives with the install, as it is shipped."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from nacre.memory.contracts.embedder import EmbeddingFailed
from nacre.memory.embedders.chinese import DICTIONARY
from nacre.memory.embedders.minilm import MODEL_FOLDER, MiniLmEmbedder
from nacre.memory.vectors.cosine_scale import SCALE_SENTENCES, cosine, measured_scale, scale_of

SHIPPED_SHA256 = {
    "model.onnx": "253773cc522fad1d9ec528f205dcdda648c163664410a501e94b208d690a61d1",
    "vocab.txt": "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3",
    "weights.bin": "2688f37d45bc0c858bbb89a1cf87976fc8bfe4d8f1c9bf7b2028c26951963e01",
}

DICTIONARY_SHA256 = "c504e0b60bd2c52fe90be45b4fbbd55cbd4171ce6828ed0ebd80e56a6eeb8870"

FIRST_NUMBERS = (-0.0521, 0.0462, 0.0126, 0.0244, -0.0153, 0.0129, 0.0467, 0.0314)


def test_the_shipped_model_is_the_one_that_is_named() -> None:
    """Indexes are tied to the vectors' name, so other files need another name; the licence is beside them."""
    names = sorted(SHIPPED_SHA256)

    assert {name: _sha256(MODEL_FOLDER / name) for name in names} == SHIPPED_SHA256
    assert _sha256(DICTIONARY) == DICTIONARY_SHA256
    assert MiniLmEmbedder().facts.fingerprint == "all-MiniLM-L6-v2-int8-3c8cc8f22f1a-zh-1"
    assert "Apache License" in (MODEL_FOLDER / "LICENSE").read_text(encoding="utf-8")


def _sha256(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


async def test_vectors_are_what_they_were() -> None:
    """A vector that was stored by an earlier Nacre is found by today's question: the model reads as it did.

    The numbers are the first eight of the vector that the model gave when it was first shipped.
    """
    embedder = MiniLmEmbedder()
    vector = await embedder.embed_query("Café, naïve: [SEP] Ωμέγα what's ünder the bridge?")
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


async def test_chinese_is_read_through_a_dictionary() -> None:
    """A question in either language is nearer to the Chinese note that answers it than to another one."""
    embedder = MiniLmEmbedder()
    boat, rent = await embedder.embed_documents(["皮划艇放在车库后面的棚子里。", "五月份房租涨了百分之五。"])
    for question in ("我们把船放在哪里？", "Where do we keep the boat?"):
        asked = await embedder.embed_query(question)
        assert cosine(asked, boat) > cosine(asked, rent) + 0.2, question
    await embedder.close()


async def test_without_its_dictionary_chinese_is_a_sentence(tmp_path: Path) -> None:
    """A broken install says so when Chinese is to be read, and goes on with other texts."""
    embedder = MiniLmEmbedder(dictionary=tmp_path / "glosses.txt")
    with pytest.raises(EmbeddingFailed, match=r"glosses\.txt.*Reinstall nacre"):
        await embedder.embed_query("船")
    assert len(await embedder.embed_query("boat")) == 384
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
    assert scale is not None
    assert scale.unrelated < 0.2
    assert scale.related > 0.6
    assert scale.relatedness(scale.unrelated) == 0.0
    assert scale.relatedness(scale.related) == pytest.approx(1.0)
    assert len(SCALE_SENTENCES) == 5
    assert scale_of([], []).related > scale_of([], []).unrelated
    await embedder.close()


def test_it_says_which_scripts_it_reads() -> None:
    """Latin is read, Chinese at second hand, other scripts and bare signs are not; digits are no doubt."""
    embedder = MiniLmEmbedder()
    assert embedder.reads("café") == 1.0
    assert embedder.reads("讨论方案") == pytest.approx(0.6)
    assert embedder.reads("VLAN 讨论") == pytest.approx((4 + 0.6 * 2) / 6)
    assert embedder.reads("会議の方案を讨论") == 0.0
    assert embedder.reads("Обсудили") == 0.0
    assert embedder.reads("… 12 …") == 1.0
    assert (embedder.reads("😀"), embedder.reads("***")) == (0.0, 0.0)


async def test_a_missing_model_is_a_sentence(tmp_path: Path) -> None:
    """A broken install says which folder and what to do."""
    with pytest.raises(EmbeddingFailed, match=r"could not be loaded.*Reinstall nacre"):
        await MiniLmEmbedder(tmp_path).embed_query("x")
