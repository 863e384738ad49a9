"""The scale of a model's cosines: the typical values for unrelated and for related texts."""

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
"""How much of the mean question is subtracted from each question."""


class CosineScale(Record):
    """The typical cosine of `unrelated` texts and of `related` ones.

    For one model 0.1 means unrelated, for another 0.75, so a raw cosine cannot be compared with a threshold.
    `usual_question` is the mean vector of the notes, embedded as questions, or empty if unknown: some notes
    are near to every question.
    """

    unrelated: float
    related: float
    usual_question: tuple[float, ...] = ()

    def relatedness(self, cosine: float) -> float:
        """Rescales the cosine of a centered question: 0 is unrelated, 1 related; values may lie outside."""
        return (cosine - self.unrelated) / max(self.related - self.unrelated, 0.05)

    def centered(self, question: Sequence[float]) -> Sequence[float]:
        """The question minus `CENTERING` times the usual one; unchanged if their lengths differ."""
        if len(self.usual_question) != len(question):
            return question
        return [
            number - CENTERING * other for number, other in zip(question, self.usual_question, strict=True)
        ]


class Subject(Record):
    """The subject of a question in any language: its vector without the part of the language.

    `usual` is the cosine of this vector with the mean passage; the cosine with an answer is typically higher
    by `related`.
    """

    vector: Sequence[float]
    usual: float
    related: float

    @classmethod
    def of(cls, question: Sequence[float], language: LanguagePart) -> Subject:
        """The subject of a question, from its vector of length 1."""
        if numpy := sys.modules.get("numpy"):  # a command's only search takes less than to import it
            whole = numpy.subtract(question, language.questions)
            directions = numpy.asarray(language.directions)
            whole -= numpy.vecdot(directions, whole) @ directions
            usual = float(
                numpy.vecdot(whole, language.passages) / (numpy.sqrt(numpy.vecdot(whole, whole)) or 1.0)
            )
            return cls(vector=whole, usual=usual, related=language.related)
        vector = [*map(sub, question, language.questions)]
        shares = [_product(direction, vector) for direction in language.directions]
        for share, direction in zip(shares, language.directions, strict=True):
            vector = [number - share * other for number, other in zip(vector, direction, strict=True)]
        length = math.sqrt(_product(vector, vector)) or 1.0
        usual = _product(vector, language.passages) / length
        return cls(vector=vector, usual=usual, related=language.related)

    def relatedness(self, cosine: float) -> float:
        """Rescales the cosine of `vector` and a passage like `CosineScale.relatedness`."""
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
"""Pairs with the same meaning on very different subjects, for `measured_scale`."""

DEFAULT_SCALE = CosineScale(unrelated=0.1, related=0.75)
"""The scale of most sentence encoders, for models that were not measured."""


async def measured_scale(embedder: Embedder, notes: Sequence[str] = ()) -> CosineScale | None:
    """Measures the scale of a model with ten short sentences, in six requests.

    As in a search, one side of each pair is embedded as a question and the other as a passage, because many
    models have different instructions for them. The `notes` are embedded as questions for `usual_question`.
    Returns `None` if questions get no comparable vectors, or too late.

    Raises:
        EmbeddingFailed: the passages got no vectors.
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
    centered = replace(DEFAULT_SCALE, usual_question=usual).centered
    scale = scale_of([*map(centered, questions)], passages)
    return replace(scale, usual_question=usual) if math.isfinite(scale.unrelated + scale.related) else None


def scale_of(questions: Sequence[Sequence[float]], passages: Sequence[Sequence[float]]) -> CosineScale:
    """The scale from vectors of `SCALE_SENTENCES`: the mean cosines of pairs and of unrelated sentences."""
    same: list[float] = []
    unrelated: list[float] = []
    for left, question in enumerate(questions):
        for right, passage in enumerate(passages):
            (same if left == right else unrelated).append(cosine(question, passage))
    if not same or not unrelated:
        return DEFAULT_SCALE
    return CosineScale(unrelated=sum(unrelated) / len(unrelated), related=sum(same) / len(same))


def cosine(left: Sequence[float], right: Sequence[float]) -> float:
    """The cosine of two vectors; 0 if one is a zero vector."""
    product = sum(a * b for a, b in zip(left, right, strict=True))
    norms = math.sqrt(sum(a * a for a in left)) * math.sqrt(sum(b * b for b in right))
    return product / norms if norms else 0.0


def _product(left: Sequence[float], right: Sequence[float]) -> float:
    return math.fsum(map(mul, left, right))


SCALE_ROW = "cosine_scale"


def scale_row(scale: CosineScale, embedder_key: str, chunk_count: int) -> str:
    """The row of `meta` for a scale that was measured with `chunk_count` chunks."""
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
    """Whether there is a scale of this embedder that was measured with at least half as many chunks."""
    kept = json.loads(meta.get(SCALE_ROW, "{}"))
    return kept.get("embedder") == embedder_key and bool(chunk_count <= 2 * kept.get("chunks", math.inf))


def stored_scale(meta: Mapping[str, str], embedder_key: str) -> CosineScale:
    """The stored scale of this embedder, or the default."""
    kept = json.loads(meta.get(SCALE_ROW, "{}"))
    if kept.get("embedder") != embedder_key:
        return DEFAULT_SCALE
    numbers = array("f", base64.b64decode(kept.get("usual_question", "")))
    if sys.byteorder == "big":
        numbers.byteswap()
    return CosineScale(unrelated=kept["unrelated"], related=kept["related"], usual_question=tuple(numbers))
