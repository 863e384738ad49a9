"""What one wording of a question finds: candidates of one moment of the index, from both lists, ranked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from nacre.memory.contracts.records import Chunk
from nacre.memory.contracts.store import Scores, Snapshot, Vector
from nacre.memory.contracts.words import MatchQuery
from nacre.memory.files.note_files import ROOT_FILES
from nacre.memory.search.absent import Absent, absent_names
from nacre.memory.search.contradiction import Sought, sought
from nacre.memory.search.fusion import FEW_CHUNKS
from nacre.memory.search.mixing import Asked, Candidates, with_sentences
from nacre.memory.search.question import EmbedderInUse, Question
from nacre.memory.search.ranking import Ranked, rank
from nacre.memory.search.same_words import only_answers, only_asks
from nacre.memory.text.days.query_dates import named_days
from nacre.memory.text.evidence import Finder
from nacre.memory.text.forms.letters import is_latin
from nacre.memory.text.forms.unknown_words import with_unknown_words
from nacre.memory.text.lexical import match_query
from nacre.memory.vectors.cosine_scale import stored_scale
from nacre.memory.vectors.identity import embedder_change, stored_identity

POOL = 60
"""Candidates from each list, whatever `max_results` is: asking for more must not change who is first."""

NEAREST_PIECES = 3
"""How many times the pool the best sentences are looked for in: one may be washed out of its piece."""


_BEGINNING_CHARS = 200
_NEAREST_READ = 10
"""So many of the nearest chunks say whether the notes are in another script than the question."""


@dataclass(frozen=True, kw_only=True)
class Found:
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
    if degraded:
        vector = None
    finder = Finder(query) if query is not None else None
    found = _candidates(snapshot, question, text, query, finder, vector)
    absent = absent_names(snapshot, query, question.scope) if query is not None else Absent()
    if days or hybrid.temporal_decay.enabled:
        found = replace(found, places=snapshot.places(list(found.ids)))
    asked = Asked(
        term_counts=snapshot.counts_of(finder.atoms) if finder is not None else None,
        days=days,
        proper_names=finder.proper_names if finder is not None else frozenset(),
        chunk_count=snapshot.chunk_count(),
        legible=embedder.vectors.legible(text) if embedder is not None else 1.0,
        scale=stored_scale(meta, embedder.key if embedder is not None else ""),
        vector_weight=hybrid.vector_weight,
        text_weight=hybrid.text_weight,
        is_absent=absent.asks_for_them,
    )
    ranked = rank(found, asked, hybrid, count=count, min_score=question.min_score, now=question.now)
    return Found(
        ranked=ranked,
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
    snapshot: Snapshot,
    question: Question,
    text: str,
    query: MatchQuery | None,
    finder: Finder | None,
    vector: Vector | None,
) -> Candidates:
    hybrid, scope = question.settings.hybrid, question.scope
    literal = hybrid.fusion == "seed"
    pool = max(POOL, question.max_results)
    if literal:
        pool = min(200, max(1, question.max_results * hybrid.candidate_multiplier))
    by_words = query is not None and (vector is None or hybrid.enabled)
    words = snapshot.lexical(query, limit=pool, scope=scope) if query is not None and by_words else {}
    by_sentences = question.embedder is not None and question.embedder.vectors.sentences and not literal
    wide = NEAREST_PIECES * pool if by_sentences else pool
    nearest: Scores = snapshot.nearest(vector, limit=wide, scope=scope) if vector is not None else {}
    cosines = nearest
    sentences: Scores = {}
    if vector is not None and not literal:
        others = snapshot.cosines(vector, [item for item in words if item not in nearest])
        cosines = {**cosines, **others}
        sentences = snapshot.sentence_cosines(vector, list(cosines)) if by_sentences else {}
    nearest, cosines = with_sentences(nearest, cosines, sentences, pool)
    found = Candidates(
        words=words, nearest=nearest, cosines=cosines, has_sentences=bool(sentences), evidence={}
    )
    if finder is None or not by_words:
        return found
    return _read(snapshot, finder, found, text, question.embedder)


def _read(
    snapshot: Snapshot, finder: Finder, found: Candidates, asked: str, embedder: EmbedderInUse | None
) -> Candidates:
    """The candidates with what their texts have of the query, and which of them only ask or only answer.

    Among a few chunks, where bm25 tells nothing, their names count too.
    """
    ids, is_small = list(found.ids), snapshot.chunk_count() < FEW_CHUNKS
    chunks = snapshot.chunks(ids) if is_small else {}
    texts = {at: chunk.text for at, chunk in chunks.items()} if is_small else snapshot.texts(ids)
    evidence = {at: finder.look(texts[at]) for at in ids}
    asking = frozenset(at for at, item in evidence.items() if only_asks(texts[at], item))
    for at, chunk in chunks.items():
        terms = evidence[at].terms | finder.look(_names(chunk)).terms
        evidence[at] = replace(evidence[at], terms=terms)
    answering = frozenset(at for at in ids if only_answers(texts[at]))
    near = [texts[at] for at in islice(found.nearest, _NEAREST_READ)]
    return replace(
        found,
        evidence=evidence,
        asking=asking,
        answering=answering,
        unread=_unread(asked, near, embedder),
    )


def _unread(asked: str, near: Sequence[str], embedder: EmbedderInUse | None) -> float:
    """How much of a question and of notes in another script the embedder cannot read; 0 in one script."""
    others = [text for text in near if is_latin(text) != is_latin(asked)]
    if embedder is None or not others or 2 * len(others) < len(near):
        return 0.0
    legible = embedder.vectors.legible
    notes = sum(legible(text[:_BEGINNING_CHARS]) for text in others) / len(others)
    return 1 - min(notes, legible(asked))


def _names(chunk: Chunk) -> str:
    """File name and headings. `MEMORY.md` is called so whatever it is about."""
    name = "" if chunk.path in ROOT_FILES else chunk.path.rsplit("/", 1)[-1].rsplit(".", 1)[0]
    return " ".join((name, *chunk.heading_path))
