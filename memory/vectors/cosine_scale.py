"""What a model's cosines mean: the number that unrelated texts get, and the one that related texts get.

Pure arithmetic over vectors; never loads a model.
"""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Mapping, Sequence

from nacre.memory.contracts.embedder import Embedder, EmbeddingFailed
from nacre.memory.vectors.query_vectors import TIMEOUT_SECONDS
from nacre.records.record import Record


class CosineScale(Record):
    """What a model's cosines mean: the usual value for `unrelated` texts and for `related` ones.

    Models differ: 0.1 is unrelated for one and 0.75 for another, so a raw cosine cannot be compared with a
    threshold.
    """

    unrelated: float
    related: float

    def relatedness(self, cosine: float) -> float:
        """The cosine on a scale of 0 (unrelated or less) to 1 (related or more)."""
        span = max(self.related - self.unrelated, 0.05)
        return min(1.0, max(0.0, (cosine - self.unrelated) / span))


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


async def measured_scale(embedder: Embedder) -> CosineScale | None:
    """The scale of a model, from ten short sentences: six requests, to be kept with the index.

    The left sides are embedded as questions and the right sides as passages, as a search does it: many models
    have an instruction for each. `None` when the passages got vectors and a question got none: a provider
    waits less long for questions, and the index need not wait for them.

    Raises:
        EmbeddingFailed: the model or provider gave no vectors of passages.
    """
    passages = await embedder.embed_documents([right for _, right in SCALE_SENTENCES])
    try:
        async with asyncio.timeout(TIMEOUT_SECONDS):
            questions = [await embedder.embed_query(left) for left, _ in SCALE_SENTENCES]
    except (EmbeddingFailed, TimeoutError):
        return None
    return scale_of(questions, passages)


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


SCALE_ROW = "cosine_scale"


def stored_scale(meta: Mapping[str, str], embedder_key: str) -> CosineScale:
    """The scale that was measured for this embedder, or the usual one."""
    kept = json.loads(meta.get(SCALE_ROW, "{}"))
    if kept.get("embedder") != embedder_key:
        return DEFAULT_SCALE
    return CosineScale(unrelated=kept["unrelated"], related=kept["related"])
