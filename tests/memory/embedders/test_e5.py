"""The embedding model that arrives with the install, as it is shipped."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from nacre.memory.contracts.embedder import EmbeddingFailed
from nacre.memory.embedders.e5 import E5Embedder
from nacre.memory.embedders.e5_model import MODEL_FOLDER, UnigramTokenizer
from nacre.memory.vectors.cosine_scale import SCALE_SENTENCES, cosine, measured_scale, scale_of

SHIPPED_SHA256 = {
    "languages.bin": "f469ec1fc9544d41ab144a46c45d16d3a474df6b2fdc2b5b0ff8a9567903104f",
    "model.onnx": "b46e65ec2f38f152ec5ce15702d106dc0575daf6a58b2ccabfa9ff1b3fa52b4e",
    "pieces.txt": "3e8d27b254845a0251bc7d6087db5afc1d67fa8bc89482334b40aec28fdc1f50",
    "scores.bin": "17cf9324b35c402f66c400541ba23c081e42b69ba2f4c20f16632ce61b93541d",
    "weights.bin": "ed3a977f8cae3f84891fc07f1b491f8317ea63402d3c7f48b74d572ba52d0a65",
}

FIRST_NUMBERS = (0.0489, -0.0768, -0.109, -0.0536, 0.1016, -0.0692, 0.0591, 0.0571)

STREET = [90515, 438, 190, 5885, 6, 10103, 61133, 125047, 30592, 3715, 30094, 4426, 7, 2740, 6, 247278]

BOAT_QUESTIONS = (
    "Where do we keep the boat?",
    "我们把船放在哪里？",
    "Где мы храним лодку?",
    "أين نحتفظ بالقارب؟",
    "हम नाव कहाँ रखते हैं?",
    "Tekneyi nerede tutuyoruz?",
    "Wo bewahren wir das Boot auf?",
)


def test_the_shipped_model_is_the_one_that_is_named() -> None:
    """Indexes are tied to the vectors' name, so other files need another name; the licence is beside them."""
    names = sorted(SHIPPED_SHA256)

    assert {name: _sha256(MODEL_FOLDER / name) for name in names} == SHIPPED_SHA256
    assert E5Embedder().facts.fingerprint == "multilingual-e5-small-int8-1"
    assert "MIT License" in (MODEL_FOLDER / "LICENSE").read_text(encoding="utf-8")


def _sha256(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


async def test_vectors_are_what_they_were() -> None:
    """A vector that was stored by an earlier Nacre is found by today's question: the model reads as it did.

    The numbers are the first eight of the vector that the model gave when it was first shipped.
    """
    embedder = E5Embedder()
    vector = await embedder.embed_query("Café, naïve: [SEP] Ωμέγα what's ünder the bridge?")
    assert list(vector[:8]) == pytest.approx(FIRST_NUMBERS, abs=0.02)
    await embedder.close()


@pytest.mark.parametrize("question", BOAT_QUESTIONS)
async def test_a_question_finds_its_answer_in_another_language(question: str) -> None:
    """A Chinese note about the boat is nearer than one about the rent, and vectors have length 1."""
    embedder = E5Embedder()
    asked = await embedder.embed_query(question)
    boat, rent = await embedder.embed_documents(["皮划艇放在车库后面的棚子里。", "五月份房租涨了百分之五。"])
    await embedder.close()
    assert len(asked) == 384
    assert sum(number * number for number in asked) == pytest.approx(1.0, abs=1e-3)
    assert cosine(asked, boat) > cosine(asked, rent) + 0.02


async def test_a_text_has_one_vector_whatever_is_beside_it() -> None:
    """The same text gets the same vector alone and in company, and another one as a question."""
    embedder = E5Embedder()
    alone = (await embedder.embed_documents(["Walnuts."]))[0]
    beside = (
        await embedder.embed_documents(["A much longer text about something else entirely.", "Walnuts."])
    )[1]
    assert alone == beside != await embedder.embed_query("Walnuts.")
    await embedder.close()


async def test_its_cosines_are_measured() -> None:
    """Related sentences and strangers are apart on the model's own scale."""
    embedder = E5Embedder()
    scale = await measured_scale(embedder)
    assert scale is not None
    assert scale.unrelated < 0.8
    assert scale.related > 0.85
    assert scale.relatedness(scale.unrelated) == 0.0
    assert scale.relatedness(scale.related) == pytest.approx(1.0)
    assert len(SCALE_SENTENCES) == 5
    assert scale_of([], []).related > scale_of([], []).unrelated
    await embedder.close()


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("query: where is the honey?", [41, 1294, 12, 7440, 83, 70, 80493, 32]),
        ("  Straße\u3000№ 5 ﬁne\u200b 皮划艇放在车库 <s> 🐝", STREET),
    ],
)
def test_the_tokenizer_cuts_as_the_models_own(text: str, ids: list[int]) -> None:
    """The ids are those that the `tokenizers` library gives with the model's `tokenizer.json`."""
    assert UnigramTokenizer().ids(text) == ids


@pytest.mark.covers("EMB-13")
async def test_a_missing_model_is_a_sentence(tmp_path: Path) -> None:
    """A broken install says which folder and what to do."""
    with pytest.raises(EmbeddingFailed, match=r"could not be loaded.*Reinstall nacre"):
        await E5Embedder(tmp_path).embed_query("x")
