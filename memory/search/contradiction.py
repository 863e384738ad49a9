"""Orders hits that contradict each other or the question: the later first, "did not like" before "liked".

Compares only the lines of the hits that the question is about. A hit that belongs before another takes its
place and score. No hit is removed: a line that a later note contradicts is marked as superseded.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date
from functools import cached_property
from itertools import permutations

from nacre.memory.contracts.records import Chunk, Superseded, citation
from nacre.memory.search.ranking import Ranked
from nacre.memory.text.chunker import day_in
from nacre.memory.text.claims import Claim, has_other_value, says_otherwise
from nacre.memory.text.evidence import Finder, fold
from nacre.memory.text.markdown_blocks import HEADING, ITEM, outline
from nacre.record import Record

LINES = 2
"""How many lines of a hit are compared: those with most terms of the question, at least half."""

HitGroup = tuple[Ranked, Sequence[Chunk]]
"""A hit, and the chunks that only repeat it."""

_Pair = tuple["_Line", "_Line"]


class Intent(Record):
    """What a wording asks for: `finder` finds its terms, `denied` are the numbers of the negated ones.

    With `names_days`, it asks about a day in the past.
    """

    finder: Finder
    denied: frozenset[int]
    names_days: bool


class Supersession(Record):
    """A line of the chunk with the id `newer` supersedes one of the chunk `older`."""

    newer: int
    older: int
    mark: Superseded


class _Line(Record):
    """A line of a hit. `at` counts from 0; `terms` are the numbers of the question's terms in it."""

    chunk: Chunk
    chunk_id: int
    at: int
    terms: frozenset[int]
    claim: Claim

    @property
    def number(self) -> int:
        return min(self.chunk.start_line + self.at, self.chunk.end_line)

    @cached_property
    def headings(self) -> Sequence[str]:
        """The headings above the line, outermost first, perhaps with repeats."""
        text = self.chunk.text
        before = text.split("\n")[: self.at + 1] if "#" in text else ()
        inside = outline(before).headings.path_over(self.at, self.at)
        return (*self.chunk.heading_path, *inside)

    @cached_property
    def day(self) -> date | None:
        """The day in the nearest heading that has one, otherwise the day of the chunk."""
        return next((day for text in reversed(self.headings) if (day := day_in(text))), self.chunk.date)

    @cached_property
    def above(self) -> frozenset[str]:
        texts = self.chunk.text.split("\n")
        over, indent = list(self.headings), _indent(texts[self.at])
        for text in reversed(texts[: self.at]):
            if ITEM.match(text) and _indent(text) < indent:
                indent = _indent(text)
                over.append(text.strip())
        return frozenset(fold(text) for text in over if day_in(text) is None)


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


def intent_of(text: str, finder: Finder, *, names_days: bool) -> Intent:
    return Intent(finder=finder, denied=Claim(text).having(finder.terms, denied=True), names_days=names_days)


def corrected_order(
    groups: Sequence[HitGroup], chunks: Mapping[int, Chunk], intents: Mapping[int, Intent | None]
) -> tuple[list[HitGroup], list[Supersession]]:
    """The hits, each right one before the ones that it contradicts, and what of them is superseded.

    `intents` has the intent of the wording that found each chunk. If a question names days, later notes do
    not move forward.
    """
    lines = list(_lines(groups, chunks, intents))
    hits = list(groups)
    for right, wrong in _right_senses(lines, intents):
        hits = _put_before(hits, right, wrong)
    supersessions: list[Supersession] = []
    for newer, older in _later_claims(lines):
        intent = intents[older.chunk_id]
        if intent is not None and not intent.names_days:
            hits = _put_before(hits, newer.chunk_id, older.chunk_id)
        by = citation(newer.chunk.path, newer.number, newer.number)
        mark = Superseded(line=older.number, by=by)
        supersessions.append(Supersession(newer=newer.chunk_id, older=older.chunk_id, mark=mark))
    return hits, supersessions


def superseded_lines(
    supersessions: Sequence[Supersession], shown: Collection[int]
) -> dict[int, tuple[Superseded, ...]]:
    """By chunk id, the lines that one of the `shown` chunks supersedes, each with the latest such line."""
    marks: dict[int, dict[int, Superseded]] = {}
    for item in supersessions:
        if item.newer in shown:
            marks.setdefault(item.older, {})[item.mark.line] = item.mark
    return {chunk_id: tuple(found[line] for line in sorted(found)) for chunk_id, found in marks.items()}


def _lines(
    groups: Sequence[HitGroup], chunks: Mapping[int, Chunk], intents: Mapping[int, Intent | None]
) -> Iterator[_Line]:
    for item, _ in groups:
        intent, chunk = intents[item.chunk_id], chunks[item.chunk_id]
        if intent is None:
            continue
        texts, found = chunk.text.split("\n"), intent.finder.look(chunk.text).lines
        half = len(intent.finder.terms) / 2
        about = [at for at in found if len(found[at]) >= half and not HEADING.match(texts[at])]
        for at in sorted(about, key=lambda at: (-len(found[at]), at))[:LINES]:
            if (claim := Claim(texts[at])).is_statement:
                yield _Line(chunk=chunk, chunk_id=item.chunk_id, at=at, terms=found[at], claim=claim)


def _right_senses(lines: Sequence[_Line], intents: Mapping[int, Intent | None]) -> Iterator[tuple[int, int]]:
    # A contrary hit that has more of the question stays first.
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


def _later_claims(lines: Sequence[_Line]) -> Iterator[_Pair]:
    dated = [(day, line) for line in lines if (day := line.day) is not None]
    dated.sort(key=lambda item: (item[0], item[1].chunk.path, item[1].number))
    for at, (day, newer) in enumerate(dated):
        for earlier, older in dated[:at]:
            below = older.chunk.path == newer.chunk.path and older.number < newer.number
            about_one_matter = older.terms & newer.terms and len(older.terms - newer.terms) <= 1
            if not (about_one_matter and (earlier < day or below)):
                continue
            if says_otherwise(newer.claim, older.claim) or (
                has_other_value(newer.claim, older.claim) and newer.above == older.above
            ):
                yield newer, older


def _put_before(hits: list[HitGroup], right: int, wrong: int) -> list[HitGroup]:
    ids = [item.chunk_id for item, _ in hits]
    place, behind = ids.index(wrong), ids.index(right)
    if behind <= place:
        return hits
    item, others = hits[behind]
    score = hits[place][0].explanation.final
    lifted = replace(item, explanation=replace(item.explanation, final=score))
    return [*hits[:place], (lifted, others), *hits[place:behind], *hits[behind + 1 :]]


def _indent(text: str) -> int:
    return len(text) - len(text.lstrip())
