"""What one wording of a question finds: candidates of one moment of the index, from both lists, ranked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import islice

from nacre.memory.contracts.records import Chunk
from nacre.memory.contracts.store import Scores, Snapshot, Vector
from nacre.memory.contracts.words import MatchQuery
from nacre.memory.files.note_files import ROOT_FILES
from nacre.memory.search.absent import Absent, absent_names
from nacre.memory.search.contradiction import Sought, sought
from nacre.memory.search.fusion import FEW_CHUNKS, may_lead
from nacre.memory.search.mixing import Asked, Candidates, Mixed, mix, with_sentences
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
from nacre.records.record import Record

POOL = 60
"""Candidates from each list, whatever `max_results` is: asking for more must not change who is first."""

NEAREST_PIECES = 3
"""How many times the pool the best sentences are looked for in: one may be washed out of its piece."""

_READ_FIRST = 20
"""So many of the nearest are read before it is known how good a text has to be."""

_BEGINNING_CHARS = 200
_NEAREST_READ = 10
"""So many of the nearest chunks say whether the notes are in another script than the question."""


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
    if degraded:
        vector = None
    finder = Finder(query) if query is not None else None
    found = _candidates(snapshot, question, query, vector)
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
    mixed: Mixed | None = None
    if finder is not None and _by_words(question, vector):
        found = _read(snapshot, question, finder, found, text)
        if hybrid.fusion != "seed" and found.evidence:
            mixed = mix(found, asked)
            if others := may_lead(found, mixed, asked, count):
                found = _looked_at(finder, found, snapshot.texts(others))
                mixed = mix(found, asked)
    least, now = question.min_score, question.now
    ranked = rank(found, asked, hybrid, count=count, min_score=least, now=now, mixed=mixed)
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
    snapshot: Snapshot, question: Question, query: MatchQuery | None, vector: Vector | None
) -> Candidates:
    hybrid, scope = question.settings.hybrid, question.scope
    literal = hybrid.fusion == "seed"
    pool = max(POOL, question.max_results)
    if literal:
        pool = min(200, max(1, question.max_results * hybrid.candidate_multiplier))
    by_words = query is not None and _by_words(question, vector)
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
    return Candidates(
        words=words, nearest=nearest, cosines=cosines, has_sentences=bool(sentences), evidence={}
    )


def _by_words(question: Question, vector: Vector | None) -> bool:
    return vector is None or question.settings.hybrid.enabled


def _read(snapshot: Snapshot, question: Question, finder: Finder, found: Candidates, text: str) -> Candidates:
    """The candidates with what their texts have of the query, and which of them only ask or only answer.

    Of those that are there by their vector alone, just the first are read: `may_lead` says who else has to
    be, unless more than the texts' words makes the order, or any text may say how sure the search is. Among a
    few chunks, where bm25 tells nothing, their names count too.
    """
    hybrid = question.settings.hybrid
    chunks: Mapping[int, Chunk] = {}
    if snapshot.chunk_count() < FEW_CHUNKS:
        chunks = snapshot.chunks(list(found.ids))
        texts: Mapping[int, str] = {at: chunk.text for at, chunk in chunks.items()}
    else:
        all_count = finder.looks_for_names or hybrid.temporal_decay.enabled or hybrid.fusion == "seed"
        nearest = dict(islice(found.nearest.items(), _READ_FIRST))
        texts = snapshot.texts(list(found.ids if all_count else {**found.words, **nearest}))
    near = [texts[at] for at in islice(found.nearest, _NEAREST_READ)]
    found = _looked_at(finder, found, texts)
    return replace(_with_names(found, chunks, finder), unread=_unread(text, near, question.embedder))


def _looked_at(finder: Finder, found: Candidates, texts: Mapping[int, str]) -> Candidates:
    """The candidates with what these texts of some have of the query, beside what is known of others."""
    evidence = {at: finder.look(text) for at, text in texts.items()}
    return replace(
        found,
        evidence={at: known for at in found.ids if (known := evidence.get(at) or found.evidence.get(at))},
        asking=found.asking | {at for at, item in evidence.items() if only_asks(texts[at], item)},
        answering=found.answering | {at for at in texts if only_answers(texts[at])},
    )


def _unread(asked: str, near: Sequence[str], embedder: EmbedderInUse | None) -> float:
    """How much of a question and of notes in another script the embedder cannot read; 0 in one script."""
    others = [text for text in near if is_latin(text) != is_latin(asked)]
    if embedder is None or not others or 2 * len(others) < len(near):
        return 0.0
    legible = embedder.vectors.legible
    notes = sum(legible(text[:_BEGINNING_CHARS]) for text in others) / len(others)
    return 1 - min(notes, legible(asked))


def _with_names(found: Candidates, chunks: Mapping[int, Chunk], finder: Finder) -> Candidates:
    named = {
        at: found.evidence[at]._replace(terms=found.evidence[at].terms | finder.look(_names(chunk)).terms)
        for at, chunk in chunks.items()
    }
    return replace(found, evidence={**found.evidence, **named})


def _names(chunk: Chunk) -> str:
    """File name and headings. `MEMORY.md` is called so whatever it is about."""
    name = "" if chunk.path in ROOT_FILES else chunk.path.rsplit("/", 1)[-1].rsplit(".", 1)[0]
    return " ".join((name, *chunk.heading_path))
