"""What a model's cosines mean: the number that unrelated texts get, and the one that related texts get.

Pure arithmetic over vectors; never loads a model.
"""

from __future__ import annotations

import asyncio
import base64
import json
import math
import sys
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import replace
from operator import mul, sub

from nacre.memory.contracts.embedder import Embedder, EmbeddingFailed, LanguagePart
from nacre.memory.vectors.query_vectors import TIMEOUT_SECONDS
from nacre.record import Record

CENTERING = 0.3
"""How much of the usual question is taken off each question."""


class CosineScale(Record):
    """What a model's cosines mean: the usual value for `unrelated` texts and for `related` ones.

    Models differ: 0.1 is unrelated for one and 0.75 for another, so a raw cosine cannot be compared with a
    threshold. `usual_question` is the mean vector of what the notes say, read as questions: some notes are
    near to all of these, whatever is asked. It is empty when it is not known.
    """

    unrelated: float
    related: float
    usual_question: tuple[float, ...] = ()

    def relatedness(self, cosine: float) -> float:
        """The cosine of a centered question on a scale where 0 is unrelated and 1 related, ends open."""
        return (cosine - self.unrelated) / max(self.related - self.unrelated, 0.05)

    def centered(self, question: Sequence[float]) -> Sequence[float]:
        """A question's vector without what it has in common with any question about these notes."""
        return centered(question, self.usual_question)


class Subject(Record):
    """What a question is about, whatever its language: its vector without the language's part.

    `usual` is the vector's cosine with the mean of all passages, `related` what a text that answers the
    question usually has more.
    """

    vector: Sequence[float]
    usual: float
    related: float

    @classmethod
    def of(cls, question: Sequence[float], language: LanguagePart) -> Subject:
        """The subject of a question's vector of length 1."""
        vector = [*map(sub, question, language.questions)]
        shares = [_product(direction, vector) for direction in language.directions]
        for share, direction in zip(shares, language.directions, strict=True):
            vector = [number - share * other for number, other in zip(vector, direction, strict=True)]
        length = math.sqrt(_product(vector, vector)) or 1.0
        usual = _product(vector, language.passages) / length
        return cls(vector=vector, usual=usual, related=language.related)

    def relatedness(self, cosine: float) -> float:
        """The cosine of `vector` and a passage on a scale where 0 is unrelated and 1 related, ends open."""
        return (cosine - self.usual) / self.related


SCALE_SENTENCES: tuple[tuple[str, str], ...] = (
    ("The router stands in the hall closet.", "Our router is in the closet by the entrance."),
    ("She is allergic to walnuts.", "Walnuts give her an allergic reaction."),
    (
        "The nightly build failed because the disk was full.",
        "No disk space was left, so last night's build broke.",
    ),
    ("We fly to Lisbon on the ninth of March.", "The flight to Lisbon leaves on March 9."),
    ("The landlord raised the rent by five percent.", "Rent went up five percent, the owner wrote."),
)
"""Pairs that mean the same, on subjects far apart: what `measured_scale` learns a model's cosines from."""

DEFAULT_SCALE = CosineScale(unrelated=0.1, related=0.75)
"""For a model that was not measured; right for most sentence encoders."""


async def measured_scale(embedder: Embedder, notes: Sequence[str] = ()) -> CosineScale | None:
    """The scale of a model, from ten short sentences: six requests, to be kept with the index.

    The left sides are embedded as questions and the right sides as passages, as a search does it: many models
    have an instruction for each. So are the `notes`, as questions, for `usual_question`. `None` when the
    passages got vectors and a question got none that can be compared with them: a provider waits less long
    for questions, and the index need not wait for them.

    Raises:
        EmbeddingFailed: the model or provider gave no vectors of passages.
    """
    passages = await embedder.embed_documents([right for _, right in SCALE_SENTENCES])
    asked = [*(left for left, _ in SCALE_SENTENCES), *notes]
    try:
        async with asyncio.timeout(TIMEOUT_SECONDS + len(notes)):
            vectors = [await embedder.embed_query(text) for text in asked]
    except (EmbeddingFailed, TimeoutError):
        return None
    if len({len(vector) for vector in (*vectors, *passages)}) != 1:
        return None
    questions, others = vectors[: len(SCALE_SENTENCES)], vectors[len(SCALE_SENTENCES) :]
    usual = tuple(sum(numbers) / len(others) for numbers in zip(*others, strict=True))
    scale = scale_of([centered(question, usual) for question in questions], passages)
    return replace(scale, usual_question=usual) if math.isfinite(scale.unrelated + scale.related) else None


def centered(question: Sequence[float], usual: Sequence[float]) -> Sequence[float]:
    """`question` less `CENTERING` of `usual`; as it is when that has another length."""
    if len(usual) != len(question):
        return question
    return [number - CENTERING * other for number, other in zip(question, usual, strict=True)]


def scale_of(questions: Sequence[Sequence[float]], passages: Sequence[Sequence[float]]) -> CosineScale:
    """The scale that vectors of both sides of `SCALE_SENTENCES` show: means over pairs and over strangers."""
    same: list[float] = []
    strangers: list[float] = []
    for left, question in enumerate(questions):
        for right, passage in enumerate(passages):
            (same if left == right else strangers).append(cosine(question, passage))
    if not same or not strangers:
        return DEFAULT_SCALE
    return CosineScale(unrelated=sum(strangers) / len(strangers), related=sum(same) / len(same))


def cosine(left: Sequence[float], right: Sequence[float]) -> float:
    """Cosine of two vectors; 0 when either has no length."""
    product = sum(a * b for a, b in zip(left, right, strict=True))
    norms = math.sqrt(sum(a * a for a in left)) * math.sqrt(sum(b * b for b in right))
    return product / norms if norms else 0.0


def _product(left: Sequence[float], right: Sequence[float]) -> float:
    return math.fsum(map(mul, left, right))


SCALE_ROW = "cosine_scale"


def scale_row(scale: CosineScale, embedder_key: str, chunk_count: int) -> str:
    """The scale as it is kept with an index of so many chunks."""
    numbers = array("f", scale.usual_question)
    if sys.byteorder == "big":
        numbers.byteswap()
    kept = {
        "embedder": embedder_key,
        "unrelated": float(scale.unrelated),
        "related": float(scale.related),
        "usual_question": base64.b64encode(numbers.tobytes()).decode("ascii"),
        "chunks": chunk_count,
    }
    return json.dumps(kept)


def is_measured(meta: Mapping[str, str], embedder_key: str, chunk_count: int) -> bool:
    """Whether a scale is kept for this embedder that does not rest on less than half of so many chunks."""
    kept = json.loads(meta.get(SCALE_ROW, "{}"))
    return kept.get("embedder") == embedder_key and bool(chunk_count <= 2 * kept.get("chunks", math.inf))


def stored_scale(meta: Mapping[str, str], embedder_key: str) -> CosineScale:
    """The scale that was measured for this embedder, or the usual one."""
    kept = json.loads(meta.get(SCALE_ROW, "{}"))
    if kept.get("embedder") != embedder_key:
        return DEFAULT_SCALE
    numbers = array("f", base64.b64decode(kept.get("usual_question", "")))
    if sys.byteorder == "big":
        numbers.byteswap()
    return CosineScale(unrelated=kept["unrelated"], related=kept["related"], usual_question=tuple(numbers))
