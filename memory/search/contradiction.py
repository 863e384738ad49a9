"""Hits that contradict each other, or the question: the later one first, "did not like" before "liked". Pure.

Looks at the hits alone, and in them at the lines that the question is about. A hit that belongs in front of
another takes its place and its score; nothing is taken away. What an older line says is marked, not hidden.
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
"""So many lines of a hit are looked at: those that have most of the question, and half of it at least."""

Told = tuple[Ranked, Sequence[Chunk]]
"""A hit, and the chunks that say nothing else."""

_Pair = tuple["_Line", "_Line"]


class Sought(Record):
    """What a wording looks for: `finder` finds its terms, `denied` are those that it says not to be so.

    With `names_days` it asks for what was so on a day.
    """

    finder: Finder
    denied: frozenset[int]
    names_days: bool


class Later(Record):
    """That a line of the chunk `newer` supersedes one of the chunk `older`, both by their ids."""

    newer: int
    older: int
    mark: Superseded


class _Line(Record):
    """A line of a hit: where it stands (`at` counts from 0), which terms of the question it has."""

    chunk: Chunk
    chunk_id: int
    at: int
    terms: frozenset[int]
    claim: Claim

    @property
    def number(self) -> int:
        """In the file, from 1."""
        return min(self.chunk.start_line + self.at, self.chunk.end_line)

    @cached_property
    def headings(self) -> Sequence[str]:
        """Those over the line, outermost first; some may come twice."""
        text = self.chunk.text
        before = text.split("\n")[: self.at + 1] if "#" in text else ()
        inside = outline(before).headings.path_over(self.at, self.at)
        return (*self.chunk.heading_path, *inside)

    @cached_property
    def day(self) -> date | None:
        """The day that the nearest heading names, or else the file."""
        return next((day for text in reversed(self.headings) if (day := day_in(text))), self.chunk.date)

    @cached_property
    def above(self) -> frozenset[str]:
        """The headings and items of lists that the line belongs to, without those that name a day."""
        texts = self.chunk.text.split("\n")
        over, indent = list(self.headings), _indent(texts[self.at])
        for text in reversed(texts[: self.at]):
            if ITEM.match(text) and _indent(text) < indent:
                indent = _indent(text)
                over.append(text.strip())
        return frozenset(fold(text) for text in over if day_in(text) is None)


class _Sense(Record):
    """Which terms of the question a hit has, and which of them it says to be so, or not to be so."""

    terms: frozenset[int] = frozenset()
    asserted: frozenset[int] = frozenset()
    denied: frozenset[int] = frozenset()

    def with_line(self, line: _Line, terms: Sequence[str]) -> _Sense:
        return _Sense(
            terms=self.terms | line.terms,
            asserted=self.asserted | line.claim.having(terms, denied=False),
            denied=self.denied | line.claim.having(terms, denied=True),
        )


def sought(text: str, finder: Finder, *, names_days: bool) -> Sought:
    """What a question of this `text` looks for."""
    return Sought(finder=finder, denied=Claim(text).having(finder.terms, denied=True), names_days=names_days)


def in_order(
    told: Sequence[Told], chunks: Mapping[int, Chunk], looked_for: Mapping[int, Sought | None]
) -> tuple[list[Told], list[Later]]:
    """The hits, with what is right in front of what it contradicts; and what of them is superseded.

    `looked_for` has for each chunk what the wording looked for that found it. A question that names days asks
    for what was so then, and nothing later comes before that.
    """
    lines = list(_lines(told, chunks, looked_for))
    hits = list(told)
    for right, wrong in _right_senses(lines, looked_for):
        hits = _put_before(hits, right, wrong)
    later: list[Later] = []
    for newer, older in _later_claims(lines):
        asked = looked_for[older.chunk_id]
        if asked is not None and not asked.names_days:
            hits = _put_before(hits, newer.chunk_id, older.chunk_id)
        by = citation(newer.chunk.path, newer.number, newer.number)
        mark = Superseded(line=older.number, by=by)
        later.append(Later(newer=newer.chunk_id, older=older.chunk_id, mark=mark))
    return hits, later


def superseded(later: Sequence[Later], shown: Collection[int]) -> dict[int, tuple[Superseded, ...]]:
    """By chunk id the lines that one of the `shown` chunks supersedes, each with the latest that does."""
    marks: dict[int, dict[int, Superseded]] = {}
    for item in later:
        if item.newer in shown:
            marks.setdefault(item.older, {})[item.mark.line] = item.mark
    return {chunk_id: tuple(found[line] for line in sorted(found)) for chunk_id, found in marks.items()}


def _lines(
    told: Sequence[Told], chunks: Mapping[int, Chunk], looked_for: Mapping[int, Sought | None]
) -> Iterator[_Line]:
    """Of each hit the lines that have most of the question and state something, headings aside."""
    for item, _ in told:
        asked, chunk = looked_for[item.chunk_id], chunks[item.chunk_id]
        if asked is None:
            continue
        texts, found = chunk.text.split("\n"), asked.finder.look(chunk.text).lines
        half = len(asked.finder.terms) / 2
        about = [at for at in found if len(found[at]) >= half and not HEADING.match(texts[at])]
        for at in sorted(about, key=lambda at: (-len(found[at]), at))[:LINES]:
            if (claim := Claim(texts[at])).is_statement:
                yield _Line(chunk=chunk, chunk_id=item.chunk_id, at=at, terms=found[at], claim=claim)


def _right_senses(
    lines: Sequence[_Line], looked_for: Mapping[int, Sought | None]
) -> Iterator[tuple[int, int]]:
    """Pairs of hits, by chunk id: the first says what is asked for, the second the contrary.

    Who asks what they liked may be told what they did not, when that says more of the question.
    """
    senses: dict[int, _Sense] = {}
    for line in lines:
        asked, known = looked_for[line.chunk_id], senses.get(line.chunk_id, _Sense())
        if asked is not None:
            senses[line.chunk_id] = known.with_line(line, asked.finder.terms)
    for (wrong_id, wrong), (right_id, right) in permutations(senses.items(), 2):
        asked = looked_for[wrong_id]
        if asked is None or looked_for[right_id] is not asked:
            continue
        if asked.denied:
            is_contrary = not wrong.denied & asked.denied and wrong.asserted & right.denied & asked.denied
            says_enough = len(wrong.terms) <= len(right.terms) + 1
        else:
            is_contrary = (wrong.denied - wrong.asserted) & right.asserted
            says_enough = wrong.terms <= right.terms
        if is_contrary and says_enough:
            yield right_id, wrong_id


def _later_claims(lines: Sequence[_Line]) -> Iterator[_Pair]:
    """Pairs of lines of which the first is later and says otherwise; the latest last."""
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


def _put_before(hits: list[Told], right: int, wrong: int) -> list[Told]:
    """The hits with `right` in the place of `wrong` and with its score, if it was behind it."""
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
