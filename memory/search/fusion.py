"""The order of the candidates (`mixing.py`) becomes a score between 0 and 1 for each chunk.

`fuse` gives the best chunk how sure the search is of itself, and each other chunk its share of that
(docs/recall.md). `seed_scores` is the literal formula of the first description, kept because owners may
depend on it. Pure arithmetic.
"""

from __future__ import annotations

import math

from nacre.memory.search.mixing import Asked, Candidates, Mixed, mix, most_in_a_text

EXACT_FLOOR = 0.6
"""The least score of a chunk that has an identifier or a quoted phrase of the query, word for word."""
ABSENT_CEILING = 0.3
"""The most that a hit scores when what was asked for by name stands nowhere; too little to be shown."""
QUESTION_SHARE = 0.72
"""What is left of the score of a chunk that asks what the query asks: an answer has fewer of its words."""
FEW_CHUNKS = 30
"""Below this many chunks bm25 takes every word for a frequent one, so matched words are counted as well."""
USUAL_MIN_SCORE = 0.35
"""What the best hit has to score for anything to be shown when no `minScore` is set."""
LEAST_SHARE = 0.25
"""A hit behind it is shown from this share of its score on, when no `minScore` is set."""
_WORDS_NEEDED = 2.15
_MEANING_NEEDED = 2.45
_LESS_AMONG_FEW = 0.4
_CHANCE_A_DECADE = 0.7
_NO_CHANCE = 75
_CHANCE_OF_NO_TERM = 0.6
_CHANCE_A_TERM = 0.08
_MOST_TERMS = 20
_LESS_OF_UNREAD = 1.0
_WITHOUT_A_WORD = 0.5
_MEANING_LESS_A_DECADE = 0.65
_MANY_CHUNKS = 300
_WORD_AMONG_FEW = 0.8


def fuse(found: Candidates, asked: Asked, mixed: Mixed | None = None) -> dict[int, float]:
    """The score of each candidate by chunk id, 0…1, whatever the number of results asked for.

    `mixed` is their mix, if it was made before.
    """
    if not found.words and not found.nearest:
        return {}
    mixed = mixed or mix(found, asked)
    words = asked.term_counts is not None
    strength = lexical_strength(mixed.top, asked.chunk_count, mixed.matched) if words else None
    if strength and not mixed.covered and not any(item.exact for item in found.evidence.values()):
        strength *= _WITHOUT_A_WORD
    sure = confidence(strength, mixed, asked, unread=found.unread)
    sure = max(sure, 0.6 * mixed.best_fit)
    if asked.is_absent:
        sure *= ABSENT_CEILING
    best = max(mixed.values.values()) or 1.0
    scores = {chunk_id: sure * value / best for chunk_id, value in mixed.values.items()}
    for chunk_id, item in found.evidence.items():
        if item.exact:
            scores[chunk_id] = EXACT_FLOOR + (1 - EXACT_FLOOR) * scores[chunk_id]
    for chunk_id in found.asking:
        scores[chunk_id] *= QUESTION_SHARE
    return scores


def may_lead(found: Candidates, mixed: Mixed, asked: Asked, count: int) -> list[int]:
    """Those of the candidates without evidence that may be among the best `count` when they are read.

    For questions that name nothing as it is written; `mixed` is the mix with what was read so far.
    """
    if len(found.evidence) == len(mixed.values):
        return []
    known = [mixed.values[at] * (QUESTION_SHARE if at in found.asking else 1.0) for at in found.evidence]
    known.sort(reverse=True)
    least = known[count - 1] - most_in_a_text(asked) if len(known) >= count else 0.0
    return [at for at, value in mixed.values.items() if value >= least and at not in found.evidence]


def lexical_strength(top: float, chunk_count: int, matched_terms: int) -> float:
    """The best BM25 in units of one word that stands in a single chunk.

    Among a few chunks bm25 is nearly 0 for any word, since each stands in a good part of them; the
    `matched_terms` of the best chunk are counted there instead.
    """
    counted = among_few(chunk_count) * _WORD_AMONG_FEW * matched_terms
    return max(top / math.log(chunk_count + 2), counted)


def among_few(chunk_count: int) -> float:
    """1 in an empty memory, 0 from `FEW_CHUNKS` on."""
    return max(0.0, 1 - chunk_count / FEW_CHUNKS)


def chance_strength(chunk_count: int, term_count: int) -> float:
    """The strength that some chunk has by chance for a question of which it covers next to nothing.

    Among many chunks there is always one with several of a stranger's words: more by 0.7 words for each
    factor of ten, measured between 75 and 1,500 chunks, for a question of five words. The more words are
    asked for, the more of them meet by chance: 0.6 of that with none, twice that with eighteen.
    """
    decades = math.log10(max(1.0, chunk_count / _NO_CHANCE))
    return _CHANCE_A_DECADE * decades * (_CHANCE_OF_NO_TERM + _CHANCE_A_TERM * min(term_count, _MOST_TERMS))


def confidence(strength: float | None, mixed: Mixed, asked: Asked, *, unread: float = 0.0) -> float:
    """How sure it is, 0…1, that the best candidate has to do with the query at all.

    A logistic curve fitted on answerable queries against queries put to the wrong memory (docs/recall.md).
    `strength` is `None` when words were not searched. Less is asked of notes in another script which the
    model leaves `unread` by so much: they share no words with the query, and are far from it whatever they
    say.
    """
    covered, nearest = mixed.covered, mixed.nearest
    eased = _LESS_AMONG_FEW * among_few(asked.chunk_count) + _LESS_OF_UNREAD * asked.legible * unread
    needed = unread * meaning_needed(_MANY_CHUNKS) + (1 - unread) * meaning_needed(asked.chunk_count)
    meaning = 8.6 * (nearest or 0.0) - needed + eased
    if strength is None:
        # A question that the model cannot read is near to anything and says nothing.
        return asked.legible * _logistic(meaning)
    by_chance = chance_strength(asked.chunk_count, len(asked.term_counts or ())) * (1 - covered)
    if nearest is None:
        # What the words do not show, nothing else can.
        by_chance /= 2
    words = 1.8 * max(0.0, strength - by_chance) + 2.0 * covered - _WORDS_NEEDED + eased
    if nearest is None:
        return _logistic(words)
    # What the words alone would show stays shown: meaning adds to it, and only steadies what is weaker.
    return _logistic(max(words, (1 - 0.4 * asked.legible) * words + 0.6 * asked.legible * meaning))


def meaning_needed(chunk_count: int) -> float:
    """How near the nearest chunk has to be, on the curve's scale.

    The nearest of a few strangers is farther than the nearest of many: by 0.13 of relatedness for each factor
    of ten, measured between 2 and 100 chunks. So a small memory needs less to be sure; half of that is given.
    """
    return _MEANING_NEEDED - _MEANING_LESS_A_DECADE * math.log10(
        _MANY_CHUNKS / min(_MANY_CHUNKS, chunk_count + 1)
    )


def seed_scores(found: Candidates, asked: Asked) -> dict[int, float]:
    """The first description's formula: `vectorWeight · cosine + textWeight · 1 / (1 + max(0, bm25))`.

    Its bm25 is ours with the sign turned and never positive, so every lexical hit gets 1 for its words. When
    one list did not take part at all, the other has the whole weight.
    """
    vector_weight = asked.vector_weight if found.words else 1.0
    text_weight = asked.text_weight if found.cosines else 1.0
    return {
        chunk_id: vector_weight * found.cosines.get(chunk_id, 0.0)
        + (text_weight * seed_text_score(-found.words[chunk_id]) if chunk_id in found.words else 0.0)
        for chunk_id in found.ids
    }


def seed_text_score(bm25: float) -> float:
    """`1 / (1 + max(0, bm25))`; a number that is not finite counts as 999."""
    return 1 / (1 + max(0.0, bm25 if math.isfinite(bm25) else 999.0))


def _logistic(value: float) -> float:
    return 1 / (1 + math.exp(-min(60.0, max(-60.0, value))))
