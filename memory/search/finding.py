"""What one wording of a question finds in one snapshot of the index: candidates by words and by vector.

An invoice number, a hash, a path or a quoted phrase is either in the notes or not. If it is not, whatever
resembles it is about something else, so names that stand nowhere are looked up first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import CancelledError, Future
from dataclasses import replace
from datetime import datetime
from functools import cache
from itertools import islice
from typing import TYPE_CHECKING

from nacre.memory.contracts.embedder import LanguagePart
from nacre.memory.contracts.records import Chunk, Question
from nacre.memory.contracts.store import Scope, Scores, Snapshot, Vector
from nacre.memory.contracts.words import Atom, MatchQuery
from nacre.memory.files.note_files import ROOT_FILES
from nacre.memory.search.contradiction import Intent, intent_of, read_claims
from nacre.memory.search.ranking import Ranked, rank
from nacre.memory.search.scoring import FEW_CHUNKS, Candidates, QueryFacts
from nacre.memory.text.claims import QUESTION_MARKS, speaker_words
from nacre.memory.text.days.query_dates import days_and_rest
from nacre.memory.text.evidence import Finder
from nacre.memory.text.forms.spelling import (
    emoji_words,
    gram_run,
    is_emoji,
    normalize,
    spelled_out,
    without_spelling,
)
from nacre.memory.text.lexical import match_query, whole_atoms, words_of
from nacre.memory.text.speakers import label_counts, lines_of_assistants, may_name_an_assistant
from nacre.memory.vectors.cosine_scale import CosineScale, Subject, stored_scale
from nacre.memory.vectors.identity import embedder_change, stored_identity
from nacre.memory.vectors.query_vectors import QueryVectors
from nacre.record import Record

if TYPE_CHECKING:
    from nacre.memory.contracts.settings import QuerySettings
    from nacre.memory.search.rerankers.reranker import Reranking

POOL = 60
"""Candidates from each list, independent of `max_results`: a request for more must not change the order."""

MAY_ANSWER = 12
"""How many of the best texts by words are examined for an assistant that speaks in them."""

OTHER_WORDS = 1
"""The most words besides the name in a question that asks only for a name, such as "who said …?"."""
OTHER_WORDS_BESIDE_A_NUMBER = 2
"""The same for a name with a digit, which identifies one thing."""


class EmbedderInUse(Record):
    """The embedder of questions, and the identity of an index whose vectors are comparable with its own."""

    vectors: QueryVectors
    identity: Mapping[str, str]
    key: str
    language_part: LanguagePart | None = None


class SearchContext(Record):
    """A question with its limits resolved, and what its engine answers it with.

    Without an `embedder`, words alone are searched. Without a `min_score`, only the best hit must be good
    enough. `now` is the moment as of which the question is asked.
    """

    question: Question
    max_results: int
    min_score: float | None
    scope: Scope
    settings: QuerySettings
    embedder: EmbedderInUse | None
    reranking: Reranking | None
    now: datetime


class WordingResult(Record):
    """What one wording found, in order, and what it asked for."""

    ranked: Sequence[Ranked]
    candidates: Candidates
    facts: QueryFacts
    finder: Finder | None
    intent: Intent | None
    absent: tuple[str, ...]
    degraded: str
    has_vector: bool


def find(
    snapshot: Snapshot, context: SearchContext, text: str, asked: Future[Vector | None] | None, count: int
) -> WordingResult:
    """The best `count` chunks for one wording, whose vector was `asked` for; words are read meanwhile."""
    hybrid, embedder = context.settings.hybrid, context.embedder
    text, speaker = _of_owner(snapshot, text)
    days, rest = days_and_rest(text, context.now.date())
    query = match_query(text, days)
    if query is not None:
        query = with_unknown_words(query, snapshot.is_known)
    finder = Finder(query, for_last=speaker) if query is not None else None
    words: Scores | None = None
    texts: Mapping[int, str] = {}
    absent = AbsentNames()
    if query is not None and finder is not None:
        if hybrid.enabled and asked is not None and not asked.done():
            words = snapshot.lexical(query, limit=_pool_size(context), scope=context.scope)
            texts = snapshot.texts(list(words))
        absent = absent_names(snapshot, query, context.scope)
    counts = snapshot.counts_of(finder.atoms) if finder is not None else None
    facts = QueryFacts(
        term_counts=counts,
        days=days,
        is_day_alone=bool(days) and not _says_more(finder, rest, counts),
        chunk_count=snapshot.chunk_count(),
        vector_weight=hybrid.vector_weight,
        text_weight=hybrid.text_weight,
        is_absent=absent.asks_for_them,
        is_implied=bool(speaker),
    )
    intent = intent_of(text, finder, days, rest, counts or ()) if finder is not None else None
    meta, dimensions, has_chunks = snapshot.meta(), snapshot.dimensions(), facts.chunk_count > 0
    scale = stored_scale(meta, embedder.key if embedder is not None else "")
    # Nothing above needs the vector, which takes as long.
    bare = _answer(asked, finder, [texts[at] for at in words or ()])
    if degraded := _degraded(embedder, meta, bare, dimensions, has_chunks=has_chunks):
        bare = None
    vector = scale.centered(bare) if bare is not None else None
    found = _candidates(snapshot, context, query, vector, words)
    if bare is not None:
        is_measured = embedder is not None and embedder.language_part is not None
        related = _related(snapshot, found, scale, bare, embedder)
        found = replace(found, related=related, is_measured=is_measured)
    if days or hybrid.temporal_decay.enabled:
        found = replace(found, places=snapshot.places(list(found.ids)))
    if finder is not None and _by_words(context, vector):
        found = _with_evidence(snapshot, finder, found, texts)
    return WordingResult(
        ranked=rank(found, facts, hybrid, count=count, min_score=context.min_score, now=context.now),
        candidates=found,
        facts=facts,
        finder=finder,
        intent=intent,
        absent=absent.names if has_chunks else (),
        degraded=degraded,
        has_vector=vector is not None,
    )


def _of_owner(snapshot: Snapshot, text: str) -> tuple[str, frozenset[str]]:
    # "Where do I live?" and "my city" ask about the owner, as notes say. A word in no note would weigh most.
    speaker = frozenset() if "owner" in text.lower() else speaker_words(text)
    if not speaker or not snapshot.is_known(Atom("owner")):
        return text, frozenset()
    return f"{text[:-1]} Owner{text[-1]}" if text.endswith(QUESTION_MARKS) else f"{text} Owner", speaker


def _says_more(finder: Finder | None, rest: str, counts: Sequence[int] | None) -> bool:
    # "What happened last March?" does not where no note says "happened".
    return bool(finder and counts and any(counts[at] for at in finder.look(rest).terms))


def _degraded(
    embedder: EmbedderInUse | None,
    meta: Mapping[str, str],
    vector: Vector | None,
    dimensions: int | None,
    *,
    has_chunks: bool,
) -> str:
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
            f"of the index {dimensions}: its model has changed."
        )
    return ""


def _answer(
    asked: Future[Vector | None] | None, finder: Finder | None, texts: Sequence[str]
) -> Vector | None:
    if asked is None:
        return None
    if finder is not None:
        # The best by words are likely hits. What is read in them now is remembered, not waited for later.
        for text in texts:
            finder.look(text)
            label_counts(text)
        for text in texts:
            if not asked.done():
                read_claims(text, finder)
    try:
        return asked.result()
    except CancelledError:  # the engine closes
        return None


def _pool_size(context: SearchContext) -> int:
    hybrid = context.settings.hybrid
    if hybrid.fusion == "seed":
        return min(200, max(1, context.max_results * hybrid.candidate_multiplier))
    return max(POOL, context.max_results)


def _candidates(
    snapshot: Snapshot,
    context: SearchContext,
    query: MatchQuery | None,
    vector: Vector | None,
    words: Scores | None,
) -> Candidates:
    pool, scope = _pool_size(context), context.scope
    by_vector = snapshot.begin_nearest(vector, limit=pool, scope=scope) if vector is not None else dict
    if words is None:
        by_words = query is not None and _by_words(context, vector)
        words = snapshot.lexical(query, limit=pool, scope=scope) if query is not None and by_words else {}
    nearest: Scores = by_vector()
    cosines = nearest
    if vector is not None and context.settings.hybrid.fusion != "seed":
        others = snapshot.cosines(vector, [item for item in words if item not in nearest])
        cosines = {**nearest, **others}
    return Candidates(words=words, nearest=nearest, cosines=cosines, evidence={})


def _related(
    snapshot: Snapshot, found: Candidates, scale: CosineScale, vector: Vector, embedder: EmbedderInUse | None
) -> Scores:
    # Without the language of the texts, if the embedder knows what that is in its vectors.
    if embedder is None or embedder.language_part is None:
        return {at: scale.relatedness(cosine) for at, cosine in found.cosines.items()}
    subject = Subject.of(vector, embedder.language_part)
    cosines = snapshot.cosines(subject.vector, list(found.cosines))
    return {at: subject.relatedness(cosine) for at, cosine in cosines.items()}


def _by_words(context: SearchContext, vector: Vector | None) -> bool:
    return vector is None or context.settings.hybrid.enabled


def _with_evidence(
    snapshot: Snapshot, finder: Finder, found: Candidates, known: Mapping[int, str]
) -> Candidates:
    ids = list(found.ids)
    names: dict[int, str] = {}
    if snapshot.chunk_count() < FEW_CHUNKS:
        # BM25 says little among a few chunks, so names of files and headings count too.
        chunks = snapshot.chunks(ids)
        texts: Mapping[int, str] = {at: chunk.text for at, chunk in chunks.items()}
        names = {at: _names(chunk) for at, chunk in chunks.items()}
    else:
        texts = {**known, **snapshot.texts([at for at in ids if at not in known])}
    evidence = {at: finder.look(texts[at]) for at in ids}
    for at, name in names.items():
        evidence[at] = evidence[at]._replace(terms=evidence[at].terms | finder.look(name).terms)
    found = replace(found, evidence=evidence)
    # Where an assistant speaks, one of the best texts by words shows it; to look into all of them takes long.
    if not any(may_name_an_assistant(texts[at]) for at in islice(found.words, MAY_ANSWER)):
        return found
    answers = lines_of_assistants(
        texts, lambda: {at: place.path for at, place in snapshot.places(ids).items()}
    )
    return replace(found, answers=answers)


def _names(chunk: Chunk) -> str:
    # `MEMORY.md` has this name whatever it is about.
    name = "" if chunk.path in ROOT_FILES else chunk.path.rsplit("/", 1)[-1].rsplit(".", 1)[0]
    return " ".join((name, *chunk.heading_path))


class AbsentNames(Record):
    """The `names` of a question, as typed, that stand nowhere.

    `asks_for_them` is true if no hit can be what was asked for: all names of the question are absent, a word
    of each is in no note either, and the question has few other words. A path with all its words in the notes
    may be meant anyway, and a longer question says by itself what it is about.
    """

    names: tuple[str, ...] = ()
    asks_for_them: bool = False


def absent_names(snapshot: Snapshot, query: MatchQuery, scope: Scope) -> AbsentNames:
    """Looks up each identifier, long number and quoted phrase of the question."""
    names = tuple(dict.fromkeys((*query.identifiers, *query.numbers, *query.phrases)))
    absent = tuple(name for name in names if not _stands(snapshot, whole_atoms(name), scope))
    if not absent:
        return AbsentNames()
    asks_for_them = (
        len(absent) == len(names)
        and _says_little_else(query, names)
        and not any(
            all(_stands(snapshot, (Atom(word),), scope) for word in words_of(name)) for name in absent
        )
    )
    return AbsentNames(names=absent, asks_for_them=asks_for_them)


def _says_little_else(query: MatchQuery, names: Sequence[str]) -> bool:
    named = {word.lower() for name in names for word in words_of(name)}
    named.update(name.lower() for name in names)
    others = sum(term not in named for term in query.terms)
    has_number = all(any(char.isdigit() for char in name) for name in names)
    return others <= (OTHER_WORDS_BESIDE_A_NUMBER if has_number else OTHER_WORDS)


def _stands(snapshot: Snapshot, atoms: Iterable[Atom], scope: Scope) -> bool:
    return any(snapshot.lexical(MatchQuery(atoms=(atom,)), limit=1, scope=scope) for atom in atoms)


_LEAST_WORD_LETTERS = 6
_LEAST_LETTERS_OF_OTHERS = 3
_MOST_WORDS = 12
_LEAST_SEGMENT_LETTERS = 3
_MOST_LETTERS = 40
_MOST_SEGMENTS = 3
_LINKS = ("", "s", "es", "n", "en")
"""Letters that German, Dutch and Swedish put between the words of a compound."""


def with_unknown_words(query: MatchQuery, is_known: Callable[[Atom], bool]) -> MatchQuery:
    """Adds other spellings of terms that stand nowhere, or the words that they consist of.

    `is_known` says whether any chunk has an atom. Only the first terms of a long question are examined.
    """
    stands = cache(lambda word: is_known(Atom(normalize(word), "text")))
    terms: list[str] = []
    atoms: list[Atom] = []
    for at, term in enumerate(query.terms):
        other = _other(term, stands) if at < _MOST_WORDS else ()
        if not other and at < _MOST_WORDS and _may_begin(term) and not stands(term):
            atoms.append(Atom(normalize(term), prefix=True))
        if not other and terms and at < _MOST_WORDS and _is_one(terms[-1], term, stands):
            other = (terms.pop() + term,)
        terms += other or (term,)
        atoms += map(Atom, other)
        if len(other) > 1:
            atoms.append(Atom(" ".join(other)))
    if not atoms:
        return query
    return replace(
        query, atoms=tuple(dict.fromkeys((*query.atoms, *atoms))), terms=tuple(dict.fromkeys(terms))
    )


def _may_begin(term: str) -> bool:
    least = _LEAST_WORD_LETTERS if term.isascii() else _LEAST_LETTERS_OF_OTHERS
    return len(term) >= least and term.isalpha() and not _has_run(term)


def _has_run(term: str) -> bool:
    return not term.isascii() and gram_run().search(term) is not None


def _other(term: str, stands: Callable[[str], bool]) -> tuple[str, ...]:
    if is_emoji(term):
        shown = tuple(word for word in emoji_words(term) if stands(word))
        return (term, *shown) if shown else ()
    is_word = len(term) >= _LEAST_WORD_LETTERS and term.isalnum() and not (term.isdigit() or _has_run(term))
    if not is_word or stands(term):
        return ()
    spelled = next(filter(stands, (*spelled_out(term), *without_spelling(term))), "")
    return (spelled,) if spelled else segments(term, stands)


def _is_one(left: str, right: str, stands: Callable[[str], bool]) -> bool:
    both_words = left.isascii() and right.isascii() and left.isalpha() and right.isalpha()
    return both_words and stands(left + right) and not stands(left) and not stands(right)


def segments(word: str, is_known: Callable[[str], bool]) -> tuple[str, ...]:
    """The fewest known words that `word` consists of; empty if there are none.

    The first word is as long as possible. Linking letters may stand between two words.
    """
    if not 2 * _LEAST_SEGMENT_LETTERS <= len(word) <= _MOST_LETTERS:
        return ()
    stands = cache(is_known)
    for count in range(2, _MOST_SEGMENTS + 1):
        if found := _cut(word, count, stands):
            return found
    return ()


def _cut(word: str, count: int, stands: Callable[[str], bool]) -> tuple[str, ...]:
    if count == 1:
        return (word,) if len(word) >= _LEAST_SEGMENT_LETTERS and stands(word) else ()
    for end in range(len(word) - _LEAST_SEGMENT_LETTERS * (count - 1), _LEAST_SEGMENT_LETTERS - 1, -1):
        first = word[:end]
        bare = next((b for link in _LINKS if (b := _without(first, link)) and stands(b)), "")
        if bare and (rest := _cut(word[end:], count - 1, stands)):
            return (bare, *rest)
    return ()


def _without(word: str, link: str) -> str:
    bare = word.removesuffix(link) if link else word
    return bare if len(bare) >= _LEAST_SEGMENT_LETTERS and (not link or bare != word) else ""
