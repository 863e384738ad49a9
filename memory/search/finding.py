"""What one wording of a question finds: candidates of one moment of the index, from both lists, ranked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from nacre.memory.contracts.records import Chunk
from nacre.memory.contracts.store import Scores, Snapshot, Vector
from nacre.memory.contracts.words import MatchQuery
from nacre.memory.files.note_files import ROOT_FILES
from nacre.memory.search.absent import Absent, absent_names
from nacre.memory.search.contradiction import Sought, sought
from nacre.memory.search.question import EmbedderInUse, Question
from nacre.memory.search.ranking import Ranked, rank
from nacre.memory.search.scoring import FEW_CHUNKS, Asked, Candidates
from nacre.memory.text.days.query_dates import named_days
from nacre.memory.text.evidence import Finder
from nacre.memory.text.forms.unknown_words import with_unknown_words
from nacre.memory.text.lexical import match_query
from nacre.memory.vectors.cosine_scale import CosineScale, Subject, stored_scale
from nacre.memory.vectors.identity import embedder_change, stored_identity
from nacre.record import Record

POOL = 60
"""Candidates from each list, whatever `max_results` is: asking for more must not change who is first."""


class Found(Record):
    """What one wording found, in order, and what it looked for."""

    ranked: Sequence[Ranked]
    candidates: Candidates
    finder: Finder | None
    sought: Sought | None
    absent: tuple[str, ...]
    degraded: str
    has_vector: bool


def find(snapshot: Snapshot, question: Question, text: str, vector: Vector | None, count: int) -> Found:
    """What one wording finds, the best `count` of it."""
    hybrid, embedder = question.settings.hybrid, question.embedder
    days = named_days(text, question.now.date())
    query = match_query(text, days)
    if query is not None:
        query = with_unknown_words(query, snapshot.is_known)
    meta = snapshot.meta()
    has_chunks = snapshot.chunk_count() > 0
    degraded = _degraded(embedder, meta, vector, snapshot.dimensions(), has_chunks=has_chunks)
    scale = stored_scale(meta, embedder.key if embedder is not None else "")
    bare = None if degraded else vector
    vector = scale.centered(bare) if bare is not None else None
    finder = Finder(query) if query is not None else None
    found = _candidates(snapshot, question, query, vector)
    if bare is not None:
        is_measured = embedder is not None and embedder.language_part is not None
        related = _related(snapshot, found, scale, bare, embedder)
        found = replace(found, related=related, is_measured=is_measured)
    absent = absent_names(snapshot, query, question.scope) if query is not None else Absent()
    if days or hybrid.temporal_decay.enabled:
        found = replace(found, places=snapshot.places(list(found.ids)))
    if finder is not None and _by_words(question, vector):
        found = _read(snapshot, finder, found)
    asked = Asked(
        term_counts=snapshot.counts_of(finder.atoms) if finder is not None else None,
        days=days,
        chunk_count=snapshot.chunk_count(),
        vector_weight=hybrid.vector_weight,
        text_weight=hybrid.text_weight,
        is_absent=absent.asks_for_them,
    )
    return Found(
        ranked=rank(found, asked, hybrid, count=count, min_score=question.min_score, now=question.now),
        candidates=found,
        finder=finder,
        sought=sought(text, finder, names_days=bool(days)) if finder is not None else None,
        absent=absent.names if has_chunks else (),
        degraded=degraded,
        has_vector=vector is not None,
    )


def _degraded(
    embedder: EmbedderInUse | None,
    meta: Mapping[str, str],
    vector: Vector | None,
    dimensions: int | None,
    *,
    has_chunks: bool,
) -> str:
    """Why the vector cannot take part, as a sentence; empty when it can, or none is wanted."""
    if embedder is None:
        return ""
    if change := embedder_change(stored_identity(meta), embedder.identity):
        return f"Only words were searched, because {change} and new vectors are not made yet."
    if vector is None:
        return f"Only words were searched. {embedder.vectors.problem}".strip()
    if dimensions is None:
        return "Only words were searched, because no vectors are made yet." if has_chunks else ""
    if dimensions != len(vector):
        return (
            f"Only words were searched, because the embedder's vectors have {len(vector)} numbers and those "
            f"of the index {dimensions}: its model is not the same any more."
        )
    return ""


def _candidates(
    snapshot: Snapshot, question: Question, query: MatchQuery | None, vector: Vector | None
) -> Candidates:
    hybrid, scope = question.settings.hybrid, question.scope
    literal = hybrid.fusion == "seed"
    pool = max(POOL, question.max_results)
    if literal:
        pool = min(200, max(1, question.max_results * hybrid.candidate_multiplier))
    by_words = query is not None and _by_words(question, vector)
    words = snapshot.lexical(query, limit=pool, scope=scope) if query is not None and by_words else {}
    nearest: Scores = snapshot.nearest(vector, limit=pool, scope=scope) if vector is not None else {}
    cosines = nearest
    if vector is not None and not literal:
        others = snapshot.cosines(vector, [item for item in words if item not in nearest])
        cosines = {**nearest, **others}
    return Candidates(words=words, nearest=nearest, cosines=cosines, evidence={})


def _related(
    snapshot: Snapshot, found: Candidates, scale: CosineScale, vector: Vector, embedder: EmbedderInUse | None
) -> Scores:
    """How related each candidate is to a question: without its language, where the embedder knows that."""
    if embedder is None or embedder.language_part is None:
        return {at: scale.relatedness(cosine) for at, cosine in found.cosines.items()}
    subject = Subject.of(vector, embedder.language_part)
    cosines = snapshot.cosines(subject.vector, list(found.cosines))
    return {at: subject.relatedness(cosine) for at, cosine in cosines.items()}


def _by_words(question: Question, vector: Vector | None) -> bool:
    return vector is None or question.settings.hybrid.enabled


def _read(snapshot: Snapshot, finder: Finder, found: Candidates) -> Candidates:
    """The candidates with what their texts have of the query.

    Among a few chunks, where bm25 tells nothing, the names of files and headings count too.
    """
    ids = list(found.ids)
    names: dict[int, str] = {}
    if snapshot.chunk_count() < FEW_CHUNKS:
        chunks = snapshot.chunks(ids)
        texts: Mapping[int, str] = {at: chunk.text for at, chunk in chunks.items()}
        names = {at: _names(chunk) for at, chunk in chunks.items()}
    else:
        texts = snapshot.texts(ids)
    evidence = {at: finder.look(texts[at]) for at in ids}
    for at, name in names.items():
        evidence[at] = evidence[at]._replace(terms=evidence[at].terms | finder.look(name).terms)
    return replace(found, evidence=evidence)


def _names(chunk: Chunk) -> str:
    """File name and headings. `MEMORY.md` is called so whatever it is about."""
    name = "" if chunk.path in ROOT_FILES else chunk.path.rsplit("/", 1)[-1].rsplit(".", 1)[0]
    return " ".join((name, *chunk.heading_path))
