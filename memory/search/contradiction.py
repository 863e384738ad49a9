"""Orders hits that contradict each other or the question: the later first, "did not like" before "liked".

Compares only the lines of the hits that the question is about. A hit that belongs before another takes its
place and score. No hit is removed: a line that a later note contradicts is marked as superseded.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import field, replace
from datetime import date
from functools import cached_property, lru_cache
from itertools import permutations, product

from nacre.memory.contracts.records import Chunk, Superseded, citation
from nacre.memory.search.ranking import Ranked
from nacre.memory.text.chunker import day_in
from nacre.memory.text.claims import (
    QUESTION_MARKS,
    Claim,
    begin_alike,
    claim_of,
    has_other_value,
    is_own_heading,
    says_otherwise,
    says_otherwise_by_verb,
    tell_of_others,
)
from nacre.memory.text.days.query_dates import DayRange
from nacre.memory.text.evidence import Finder
from nacre.memory.text.forms.spelling import fold, gram_run, stem
from nacre.memory.text.markdown_blocks import HEADING, ITEM, Headings, outline
from nacre.memory.text.speakers import is_chat
from nacre.record import Record

LINES = 2
"""How many lines of a hit are compared: those with most terms of the question, at least half."""

_LAG = 0.9
"""By how much less a newer hit may be related to the question if one word beside the name is in both; four
times as much for two words."""

_OWNED = ("'", "’s")
"""The ends of stems such as "Olek's": his coffee is no coffee with Olek."""

HitGroup = tuple[Ranked, Sequence[Chunk]]
"""A hit, and the chunks that only repeat it."""

_Pair = tuple["_Line", "_Line"]


class _Order:
    """The hits by their numbers in an order that changes."""

    def __init__(self, groups: Sequence[HitGroup]) -> None:
        self._groups = {group[0].chunk_id: group for group in groups}
        self.ids = list(self._groups)

    def put_before(self, right: int, wrong: int) -> None:
        """Gives a hit the place and score of another one, if that stands before it."""
        place, behind = self.ids.index(wrong), self.ids.index(right)
        if place < behind:
            self.ids.insert(place, self.ids.pop(behind))
            item, others = self._groups[right]
            score = self._groups[wrong][0].explanation.final
            self._groups[right] = replace(item, explanation=replace(item.explanation, final=score)), others

    def groups(self) -> list[HitGroup]:
        """The hits in this order."""
        return [self._groups[chunk_id] for chunk_id in self.ids]


class Intent(Record):
    """What a wording asks for, in the words `asked`: `finder` finds its terms, `denied` are the numbers
    of the negated ones.

    `about` are the numbers of the terms that do not only name days, `names` those of them with a capital
    letter, or where words are not apart the first of them. `until` is the last day that the wording names, if
    any. `asks_state`: it is a question about what is so now, or was on those days; a few words, such as
    "Anna's boat", `may_ask_state`. `asks_about_past`: it asks for what was before. `said` keeps what `_said`
    found, by chunk id.
    """

    asked: frozenset[str]
    finder: Finder
    denied: frozenset[int]
    about: frozenset[int]
    names: frozenset[int]
    until: date | None
    asks_state: bool
    may_ask_state: bool
    asks_about_past: bool
    said: dict[int, Sequence[_Line]] = field(default_factory=dict, compare=False)


class Supersession(Record):
    """A line of the chunk with the id `newer` supersedes one of the chunk `older`."""

    newer: int
    older: int
    mark: Superseded


class _Line(Record):
    """A line of a hit. `at` counts from 0; `terms` are the numbers of the question's terms in it and in the
    headings above, `own` those in it."""

    chunk: Chunk
    chunk_id: int
    at: int
    own: frozenset[int]
    terms: frozenset[int]
    text: str
    sentence: Claim | None = None

    @cached_property
    def claim(self) -> Claim:
        """What the line claims, or one `sentence` of it."""
        return self.sentence or claim_of(self.text)

    @property
    def number(self) -> int:
        return min(self.chunk.start_line + self.at, self.chunk.end_line)

    @cached_property
    def headings(self) -> Sequence[str]:
        """The headings above the line, outermost first, perhaps with repeats."""
        return _headings_above(self.chunk, self.at)

    @cached_property
    def day(self) -> date | None:
        """The day in the nearest heading that has one, otherwise the day of the chunk."""
        return next((day for text in reversed(self.headings) if (day := day_in(text))), self.chunk.date)

    def day_or_first(self) -> date:
        return self.day or date.min

    def shared_words(self, other: _Line) -> int:
        """How many words both lines have, in any form, without the headings above."""
        ones, others = set[str](), set[str]()
        for beginning in self.stems.keys() & other.stems.keys():
            for one, two in product(self.stems[beginning], other.stems[beginning]):
                if _is_one_word(one, two):
                    ones.add(one)
                    others.add(two)
        return min(len(ones), len(others))

    @cached_property
    def stems(self) -> Mapping[str, Sequence[str]]:
        """The stems of the line by their first four letters, in which all forms of a word agree."""
        found: dict[str, list[str]] = {}
        for each in {stem(word) for word in self.claim.stems}:
            found.setdefault(each[:4], []).append(each)
        return found

    @cached_property
    def above(self) -> frozenset[str]:
        texts = self.chunk.text.split("\n")
        over, indent = list(self.headings), _indent(texts[self.at])
        for text in reversed(texts[: self.at]):
            if ITEM.match(text) and _indent(text) < indent:
                indent = _indent(text)
                over.append(text.strip())
        return frozenset(fold(text) for text in over if day_in(text) is None and not is_own_heading(text))


class _Sense(Record):
    """The numbers of the terms in a hit, of those that it asserts, and of those that it denies."""

    terms: frozenset[int] = frozenset()
    asserted: frozenset[int] = frozenset()
    denied: frozenset[int] = frozenset()

    def with_line(self, line: _Line, terms: Sequence[str]) -> _Sense:
        return _Sense(
            terms=self.terms | line.terms,
            asserted=self.asserted | line.claim.having(terms, denied=False),
            denied=self.denied | line.claim.having(terms, denied=True),
        )


def intent_of(
    text: str, finder: Finder, days: Sequence[DayRange], rest: str, counts: Sequence[int]
) -> Intent:
    """What `text` asks for; `rest` is what it says beside the `days` that it names.

    A term that no note has, by `counts`, is asked of no line, such as a pair across two words in Chinese.
    """
    known = frozenset(at for at, count in enumerate(counts) if count)
    claim, about = claim_of(text), finder.look(rest).terms & known
    # Beside letters with case, a word without case is a name, too.
    has_case = any(map(str.islower, text))
    capitals = (
        word
        for word in text.split()
        if word != word.lower()
        or word.startswith("owner")
        or (has_case and word[0].isalpha() and word[0] == word[0].upper())
    )
    names = about & finder.look(" ".join(capitals)).terms
    if not text.isascii() and gram_run().search(text):  # where words touch, whom it concerns comes first
        folded = fold(text)
        names = frozenset(at for at in about if finder.terms[at].isascii())
        names |= about & {min(about, default=0, key=lambda at: len(folded.partition(finder.terms[at])[0]))}
    until = max((span.last for span in days), default=None)
    return Intent(
        asked=claim.significant,
        finder=finder,
        denied=claim.having(finder.terms, denied=True),
        about=about,
        names=names,
        until=until,
        asks_state=text.endswith(QUESTION_MARKS) and (until is not None or not claim.asks_about_past),
        may_ask_state=claim.is_phrase and not claim.asks_about_past,
        asks_about_past=until is not None or claim.asks_about_past,
    )


def read_claims(text: str, finder: Finder) -> None:
    """Reads what the lines of a text about a question claim, and the headings above, which is remembered."""
    lines, _ = text.split("\n"), _headings(text)
    for claim in (claim_of(lines[at]) for at in finder.look(text).lines):
        _ = claim.attributes, claim.stems


def corrected_order(
    groups: Sequence[HitGroup], chunks: Mapping[int, Chunk], intents: Mapping[int, Intent | None], count: int
) -> tuple[list[HitGroup], list[Supersession]]:
    """The hits, each right one before the ones that it contradicts, and what of them is superseded.

    `intents` has the intent of the wording that found each chunk. If a question names days, what was so at
    their end comes first. What is behind the first `count` only moves if it corrects one of them.
    """
    order = _Order(groups)
    _put_notes_first(order, chunks, intents)
    is_of_somebody = _put_answers_first(order, chunks, intents)
    asking = {
        chunk_id: intent
        for chunk_id, intent in intents.items()
        if intent is not None and (intent.asks_state or (is_of_somebody and intent.may_ask_state))
    }
    first = order.ids[:count]
    lines = list(_lines(first, chunks, intents))
    for right, wrong in _right_senses(lines, intents):
        order.put_before(right, wrong)
    related = {item.chunk_id: item.related for item, _ in groups}
    for newer, older in _told_later(order.ids, chunks, asking, first, related):
        _put_in_time(order, newer, older, intents)
    supersessions: list[Supersession] = []
    for newer, older in _later_claims(lines, intents):
        _put_in_time(order, newer, older, intents)
        # A mark needs a day, and more of the question than a place: half of all terms, those of days too.
        intent = intents[older.chunk_id]
        if older.day is None or (intent and 2 * len(older.terms) < len(intent.finder.terms)):
            continue
        by = citation(newer.chunk.path, newer.number, newer.number)
        mark = Superseded(line=older.number, by=by)
        supersessions.append(Supersession(newer=newer.chunk_id, older=older.chunk_id, mark=mark))
    return order.groups(), supersessions


def superseded_lines(
    supersessions: Sequence[Supersession], shown: Collection[int]
) -> dict[int, tuple[Superseded, ...]]:
    """By chunk id, the lines that one of the `shown` chunks supersedes, each with the latest such line."""
    marks: dict[int, dict[int, Superseded]] = {}
    for item in supersessions:
        if item.newer in shown:
            marks.setdefault(item.older, {})[item.mark.line] = item.mark
    return {chunk_id: tuple(found[line] for line in sorted(found)) for chunk_id, found in marks.items()}


def asked_lines(
    chunk: Chunk, chunk_id: int, intent: Intent | None
) -> tuple[tuple[int, tuple[str, ...]], ...]:
    """The lines with half of what a question asks about now, but no questions: `SearchHit.asked`."""
    if intent is None or intent.asks_about_past:
        return ()
    terms = intent.finder.terms
    return tuple(
        (line.number, tuple(terms[at] for at in sorted(line.own)))
        for line in _said(chunk, chunk_id, intent)
        if 2 * len(line.terms) >= len(intent.about) and not line.text.rstrip().endswith(QUESTION_MARKS)
    )


def _lines(
    ids: Sequence[int], chunks: Mapping[int, Chunk], intents: Mapping[int, Intent | None]
) -> Iterator[_Line]:
    for chunk_id in ids:
        intent = intents[chunk_id]
        if intent is None:
            continue
        lines = [line for line in _said(chunks[chunk_id], chunk_id, intent) if line.own]
        lines = [line for line in lines if 2 * len(line.terms) >= len(intent.about)]
        for line in sorted(lines, key=lambda line: (-len(line.terms), line.at))[:LINES]:
            is_one = line.claim.is_statement
            yield from [line] if is_one else [replace(line, sentence=one) for one in line.claim.sentences]


def _said(chunk: Chunk, chunk_id: int, intent: Intent) -> Sequence[_Line]:
    if chunk_id not in intent.said:
        intent.said[chunk_id] = [*_lines_about(chunk, chunk_id, intent)]
    return intent.said[chunk_id]


def _lines_about(chunk: Chunk, chunk_id: int, intent: Intent) -> Iterator[_Line]:
    # The lines with a term of the question, or below headings with one: "car: Golf" below "# Ada".
    texts, found = chunk.text.split("\n"), intent.finder.look(chunk.text).lines
    in_headings = any(found[at] & intent.about for at in found if HEADING.match(texts[at]))
    in_headings = in_headings or any(intent.finder.look(text).terms for text in chunk.heading_path)
    for at in range(len(texts)) if in_headings else found:
        own = found.get(at, frozenset()) & intent.about
        if not texts[at] or HEADING.match(texts[at]) or not (own or in_headings):
            continue
        over = map(intent.finder.look, _headings_above(chunk, at) if in_headings else ())
        terms = intent.about & own.union(*(above.terms for above in over))
        yield _Line(chunk=chunk, chunk_id=chunk_id, at=at, own=own, terms=terms, text=texts[at])


def _headings_above(chunk: Chunk, at: int) -> Sequence[str]:
    return (*chunk.heading_path, *_headings(chunk.text).path_over(at, at))


@lru_cache(maxsize=2048)  # the same notes are hits of many questions
def _headings(text: str) -> Headings:
    return outline(text.split("\n") if "#" in text else ()).headings


def _right_senses(lines: Sequence[_Line], intents: Mapping[int, Intent | None]) -> Iterator[tuple[int, int]]:
    # A contrary hit that has more of the question stays first.
    if not any(denied for line in lines for _, denied in line.claim.words):
        return
    senses: dict[int, _Sense] = {}
    for line in lines:
        intent, known = intents[line.chunk_id], senses.get(line.chunk_id, _Sense())
        if intent is not None:
            senses[line.chunk_id] = known.with_line(line, intent.finder.terms)
    for (wrong_id, wrong), (right_id, right) in permutations(senses.items(), 2):
        intent = intents[wrong_id]
        if intent is None or intents[right_id] is not intent:
            continue
        if intent.denied:
            is_contrary = not wrong.denied & intent.denied and wrong.asserted & right.denied & intent.denied
            says_enough = len(wrong.terms) <= len(right.terms) + 1
        else:
            is_contrary = (wrong.denied - wrong.asserted) & right.asserted
            says_enough = wrong.terms <= right.terms
        if is_contrary and says_enough:
            yield right_id, wrong_id


def _later_claims(lines: Sequence[_Line], intents: Mapping[int, Intent | None]) -> Iterator[_Pair]:
    # What a log says was said on its day; when a page without days was written, nobody knows.
    rows = sorted(lines, key=lambda line: (line.day_or_first(), line.chunk.path, line.number))
    for at, newer in enumerate(rows):
        for older in rows[:at] if newer.day is not None else ():
            if not _are_about_one_matter(newer, older):
                continue
            below = older.chunk.path == newer.chunk.path and older.number < newer.number
            if not (below or older.day_or_first() < newer.day_or_first()):
                continue
            # One common word of the question, such as "locker", may be two people's, and so may be all that
            # both have if it is no name that the question asks for.
            names = intent.names if (intent := intents[older.chunk_id]) is not None else ()
            has_name = not names or not older.terms.isdisjoint(names)
            is_one_subject = (
                (older.terms == newer.terms and len(older.terms) > 1 and has_name)
                or begin_alike(newer.claim, older.claim)
                or older.claim.stems.keys() <= newer.claim.stems.keys()
            )
            if (is_one_subject and says_otherwise(newer.claim, older.claim)) or (
                has_other_value(newer.claim, older.claim)
                and (older.day is None or newer.above == older.above)
            ):
                yield newer, older


def _are_about_one_matter(newer: _Line, older: _Line) -> bool:
    return bool(older.terms & newer.terms) and len(older.terms - newer.terms) <= 1


def _told_later(
    ids: Sequence[int],
    chunks: Mapping[int, Chunk],
    intents: Mapping[int, Intent],
    first: Collection[int],
    related: Mapping[int, float | None],
) -> Iterator[_Pair]:
    # What was told later of the same person, with another word of it, is so now if it answers the question
    # about as well; who tells of a change may use other words. Without a name, both lines begin alike. What
    # people say in a conversation is often true more than once; the note of a session quotes the owner.
    said = [
        line
        for chunk_id in ids
        if (intent := intents.get(chunk_id)) is not None
        for line in _said(chunks[chunk_id], chunk_id, intent)
        if line.terms & (intent.names or line.terms) and line.claim.is_short and not _is_among_several(line)
    ]
    said.sort(key=_Line.day_or_first, reverse=True)
    days = [line.day_or_first() for line in said]
    most = Counter[int]()
    for line in said:
        most[line.chunk_id] = max(most[line.chunk_id], len(line.terms))
    for older, day in zip(said, days, strict=True):
        intent, terms = intents[older.chunk_id], len(older.terms)
        if older.chunk_id not in first or terms < most[older.chunk_id]:
            continue
        named = older.terms & intent.names if intent.names else older.terms - older.own or older.terms
        for newer, newer_day in zip(said, days, strict=True):
            if newer_day <= day:
                break
            may_answer = 2 * terms >= len(intent.about) and not tell_of_others(newer.claim, older.claim)
            if says_otherwise_by_verb(newer.claim, older.claim) or (
                may_answer
                and _tells_of(newer, named, intent, older)
                and _answers_as_well(newer, older, named, related)
            ):
                yield newer, older


def _tells_of(newer: _Line, named: frozenset[int], intent: Intent, older: _Line) -> bool:
    """Whether a line makes another statement about the person or thing that `named` refers to."""
    if not named & newer.terms or not (named <= newer.terms or named & _subject(newer, intent)):
        return False
    is_named = bool(intent.names or older.terms - older.own) or begin_alike(newer.claim, older.claim)
    return is_named and newer.claim.stems != older.claim.stems


def _answers_as_well(
    newer: _Line, older: _Line, named: frozenset[int], related: Mapping[int, float | None]
) -> bool:
    # One of the words is the name, or without a name the one that both begin with.
    words = newer.shared_words(older) - bool(newer.own & older.own & named)
    # Where the later line names what has changed, it is less likely to be what was asked for.
    tells = (1 if newer.claim.values else 2) * (newer.claim.is_change and not older.claim.is_change)
    now, before = related[newer.chunk_id], related[older.chunk_id]
    if now is None or before is None:
        return words > 0 and _are_about_one_matter(newer, older)
    return words + tells > 0 and before - now < _LAG * (words + tells) ** 2


def _is_one_word(one: str, other: str) -> bool:
    half = max(4, -(-max(len(one), len(other)) // 2))
    return one[:half] == other[:half] and one.endswith(_OWNED) is other.endswith(_OWNED)


def _subject(line: _Line, intent: Intent) -> frozenset[int]:
    # The terms in the headings above a line and in its first word: German has other words in capitals too.
    if not line.text.isascii() and gram_run().search(line.text):
        return frozenset()
    return (line.terms - line.own) | intent.finder.look(next(iter(line.claim.stems), "")).terms


def _is_among_several(line: _Line) -> bool:
    text = line.chunk.text
    return is_chat(text, line.at) and not text.split("\n")[line.at].startswith("> User: ")


def _put_notes_first(
    order: _Order, chunks: Mapping[int, Chunk], intents: Mapping[int, Intent | None]
) -> None:
    # The last messages of an ended session repeat the question, so they have more of its words than the note
    # in which the answer was kept. A note with about as much as the answer has, and the same names, stands
    # before them.
    if not any(_is_session(chunks[chunk_id]) for chunk_id in order.ids):
        return
    said = {chunk_id: _most_said(chunks[chunk_id], intents[chunk_id]) for chunk_id in order.ids}
    for at in range(len(order.ids)):
        chunk_id = order.ids[at]
        is_talk, terms = said[chunk_id]
        intent = intents[chunk_id]
        names = intent.names if intent is not None else frozenset()
        for behind in order.ids[at + 1 :] if is_talk else ():
            is_other_talk, others = said[behind]
            lacks = terms - others
            if not is_other_talk and len(others) > 1 and len(lacks) <= 1 and not lacks & names:
                order.put_before(behind, chunk_id)
                break


def _put_answers_first(
    order: _Order, chunks: Mapping[int, Chunk], intents: Mapping[int, Intent | None]
) -> bool:
    """Returns whether a hit gives any thing of somebody who is named a value."""
    # Many notes of somebody's phone numbers are nearer to "When is her birthday?" than the one of it.
    told, things, is_of_somebody = dict[int, Sequence[Claim]](), set[frozenset[str]](), False
    for chunk_id in order.ids:
        intent = intents[chunk_id]
        if intent is None or not (intent.asks_state or intent.may_ask_state):
            continue
        lines = _said(chunks[chunk_id], chunk_id, intent)
        told[chunk_id] = [line.claim for line in lines if line.own & intent.names]
        names = [f" {intent.finder.terms[at]}" for at in intent.names]
        for thing in (thing for claim in told[chunk_id] for thing in claim.attributes):
            is_of_somebody |= all(map(f" {' '.join(thing)}".__contains__, names))
            if thing <= intent.asked:
                things.add(thing)
    others = (
        at for at, claims in told.items() if claims and all(_tells_of_none(each, things) for each in claims)
    )
    if things and (other := next(others, None)) is not None:
        for chunk_id, claims in told.items():
            if any(not things.isdisjoint(claim.attributes) for claim in claims):
                order.put_before(chunk_id, other)
    return is_of_somebody


def _tells_of_none(claim: Claim, things: Collection[frozenset[str]]) -> bool:
    """Whether a line gives a value, but to none of the things: not in other words either."""
    return bool(claim.attributes) and not any(thing <= claim.significant for thing in things)


def _is_session(chunk: Chunk) -> bool:
    beginning = chunk.text.split("\n", 1)[0].lstrip("# ")
    return any(text.startswith("Session: ") for text in (*chunk.heading_path, beginning))


def _most_said(chunk: Chunk, intent: Intent | None) -> tuple[bool, frozenset[int]]:
    # Whether the line with most of the question is talk in the note of a session, and its terms. What asks
    # does not answer; what was decided stands in a list.
    texts = chunk.text.split("\n")
    found = intent.finder.look(chunk.text).lines if intent is not None else {}
    answers = [
        at for at in found if not (texts[at].rstrip().endswith(QUESTION_MARKS) or HEADING.match(texts[at]))
    ]
    best = max(answers, key=lambda at: (len(found[at]), -at), default=None)
    is_talk = _is_session(chunk) and best is not None and not texts[best].startswith(("> - ", "- "))
    return is_talk, found[best] if best is not None else frozenset()


def _put_in_time(order: _Order, newer: _Line, older: _Line, intents: Mapping[int, Intent | None]) -> None:
    intent = intents[older.chunk_id]
    until = intent.until if intent is not None else None
    if until is not None and newer.day is not None and newer.day > until:
        newer, older = older, newer
    order.put_before(newer.chunk_id, older.chunk_id)


def _indent(text: str) -> int:
    return len(text) - len(text.lstrip())
