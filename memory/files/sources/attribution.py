"""A search report with the sources of its lines, and with what the owner said later in place of them.

A search compares texts, and the stored sources say more: a marked line is `superseded` wherever it is found,
and the line that holds now comes before it, however far behind the search had it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date
from typing import NamedTuple, Protocol, TypeAlias

from nacre.memory.contracts.errors import MemoryIndexError
from nacre.memory.contracts.notes import NoteBytes
from nacre.memory.contracts.records import Excerpt, SearchHit, SearchReport, Superseded, citation
from nacre.memory.files.sources.source import PRIVATE, Audience, Source, SourcedLines, may_see, passages
from nacre.memory.files.sources.sources import Mark, Sources, Stored, line_key

ALIKE = 0.85
"""The share of its score from which another hit is about as good."""

MOST_FOLLOWED = 2
"""How many lines that hold now may join the hits of one search."""

Attributed: TypeAlias = tuple[SearchReport, Mapping[str, tuple[SourcedLines, ...]]]


class LineReader(Protocol):
    """Reads lines of notes."""

    async def read(self, path: str, *, from_line: int | None = None, lines: int | None = None) -> Excerpt:
        """Lines of a note."""


class _Shown(NamedTuple):
    """A hit and its lines, as the note is now."""

    hit: SearchHit
    lines: Sequence[str]

    def asked(self) -> Iterator[tuple[str, tuple[str, ...]]]:
        """The lines that the question is about, and the words of the question in each."""
        words = dict(self.hit.asked)
        for number, line in enumerate(self.lines, self.hit.start_line):
            if number in words:
                yield line, words[number]


async def attributed(
    notes: LineReader,
    sources: Sources,
    report: SearchReport,
    *,
    as_of: date | str | None = None,
    listeners: Audience = PRIVATE,
) -> Attributed:
    """The report with marks, and the sources of its hits by citation.

    Lines that later lines of the owner replaced are `superseded`, and the line that holds now comes before
    one that the question is about. What others said neither marks the owner's lines nor precedes them. Every
    search of a model or the owner shows this. The sources are those of the lines in the notes now that
    `listeners` may see, without notes that cannot be read.
    """
    stored = await sources.stored(as_of, listeners)
    if stored.is_empty():
        return _owners_first(report, {}), {}
    shown = await _shown(notes, sources, report.hits)
    shown = await _with_current(shown, stored, sources, notes, listeners)
    shown = shown[: max(len(report.hits), report.max_results)]
    found = [stored.sources(each.hit.path, each.lines) for each in shown]
    visible: dict[str, tuple[SourcedLines, ...]] = {}
    for each, of_hit in zip(shown, found, strict=True):
        lines = passages(of_hit, start_line=each.hit.start_line)
        if allowed := tuple(line for line in lines if may_see(listeners, line.source.audience)):
            visible[each.hit.citation] = allowed
    foreign = {
        citation(each.hit.path, number, number)
        for each in shown
        for of_others in visible.get(each.hit.citation, ())
        if not of_others.source.is_owners_word
        for number in range(of_others.start_line, of_others.end_line + 1)
    }
    hits = (_without_marks(each.hit, foreign) if foreign else each.hit for each in shown)
    marked = (
        _marked(hit, each.lines, of_hit, stored) for hit, each, of_hit in zip(hits, shown, found, strict=True)
    )
    return _owners_first(replace(report, hits=tuple(marked)), visible), visible


async def _shown(notes: LineReader, sources: Sources, hits: Sequence[SearchHit]) -> list[_Shown]:
    from nacre.memory.text.chunker import decode_markdown  # slow, and only a search needs it

    # The notes of the workspace are read in one step.
    found = await sources.workspace.read_notes(list({hit.path for hit in hits if hit.source == "memory"}))
    whole = {at: decode_markdown(note.data) for at, note in found.items() if isinstance(note, NoteBytes)}
    return [
        _Shown(
            hit,
            whole[hit.path][hit.start_line - 1 : hit.end_line]
            if hit.path in whole
            else await _hit_lines(notes, hit),
        )
        for hit in hits
    ]


async def _hit_lines(notes: LineReader, hit: SearchHit) -> Sequence[str]:
    if hit.source != "memory":
        return ()
    count = hit.end_line - hit.start_line + 1
    try:
        excerpt = await notes.read(hit.path, from_line=hit.start_line, lines=count)
    except MemoryIndexError:
        return ()
    return excerpt.text.split("\n")


async def _with_current(
    shown: Sequence[_Shown], stored: Stored, sources: Sources, notes: LineReader, listeners: Audience
) -> list[_Shown]:
    """The hits with the lines that hold now before those that they replaced.

    A question for the old value still finds its note first.
    """
    found, followed = list(shown), set[str]()
    for old, line, words in [(each, *asked) for each in shown for asked in each.asked()]:
        mark = stored.current(line_key(line)) or stored.retired(stored.sources(old.hit.path, [line])[0], line)
        if mark is None or mark.by_key in followed or len(followed) == MOST_FOLLOWED:
            continue
        followed.add(mark.by_key)
        now = next((each for each in found if mark.by_key in map(line_key, each.lines)), None)
        if now is None:
            is_open = listeners == PRIVATE or mark.by_path.startswith(f"{listeners}/")
            now = await _line_of(mark, old.hit, sources, notes) if is_open else None
            source = stored.sources(now.hit.path, now.lines)[0] if now is not None else None
            if now is None or source is None or not may_see(listeners, source.audience):
                continue
            if not _is_about(now.hit.snippet, line, words):
                continue
        elif found.index(now) <= found.index(old):
            continue
        else:
            found.remove(now)
        found.insert(found.index(old), now._replace(hit=replace(now.hit, score=old.hit.score)))
    return found


def _is_about(line: str, replaced: str, words: Sequence[str]) -> bool:
    """Whether a line answers a question that found the line that it `replaced`, by these words.

    It does not if the question asks for the old value.
    """
    from nacre.memory.text.claims import addresses, claim_of

    values = [value for each in addresses(replaced) for value in each.value]
    asks_for_it = any(value.startswith(word) for value in values for word in words)
    return not asks_for_it and (not words or bool(claim_of(line).having(words, denied=False)))


async def _line_of(mark: Mark, old: SearchHit, sources: Sources, notes: LineReader) -> _Shown | None:
    """The line that a mark names, as a hit; `None` if it is gone or may not be read."""
    from nacre.memory.text.chunker import decode_markdown

    note = (await sources.workspace.read_notes([mark.by_path]))[mark.by_path]
    lines = decode_markdown(note.data) if isinstance(note, NoteBytes) else []
    number = next((at for at, line in enumerate(lines, 1) if line_key(line) == mark.by_key), 0)
    hit = SearchHit(
        path=mark.by_path,
        start_line=number,
        end_line=number,
        score=old.score,
        snippet=lines[number - 1] if number else "",
        source="memory",
        citation=citation(mark.by_path, number, number),
    )
    if not number or list(await _hit_lines(notes, hit)) != [hit.snippet]:
        return None
    return _Shown(hit, [hit.snippet])


def _marked(
    hit: SearchHit, lines: Sequence[str], found: Sequence[Source | None], stored: Stored
) -> SearchHit:
    marks, asked = {old.line: old for old in hit.superseded}, dict(hit.asked)
    for number, (line, source) in enumerate(zip(lines, found, strict=True), hit.start_line):
        mark = stored.last.get(line_key(line))
        if mark is None and number in asked:
            mark = stored.retired(source, line)
        if mark is not None and mark.kind == "superseded":
            marks.setdefault(number, Superseded(line=number, by=mark.by_path))
        elif mark is not None and number in marks and _is_before(marks[number].by, mark.at):
            del marks[number]  # it has been so again since
    kept = tuple(marks[number] for number in sorted(marks))
    return hit if kept == hit.superseded else replace(hit, superseded=kept)


def _is_before(place: str, at: str) -> bool:
    """Whether a cited note is of an earlier day than an ISO time."""
    from nacre.memory.text.chunker import day_in_path

    day = day_in_path(place.partition("#")[0])
    return day is not None and day.isoformat() < at[:10]


def _owners_first(report: SearchReport, lines: Mapping[str, Sequence[SourcedLines]]) -> SearchReport:
    """The report with hits that only others said behind the owner's hits that are about as good.

    `lines` are the sources of each hit by its citation.
    """
    hits = list(report.hits)
    for hit in reversed(hits[:]):
        said = [each.source for each in lines.get(hit.citation, ())]
        if said and not any("owner" in source.said_by for source in said):
            better = [each for each in hits if each is not hit and each.score >= ALIKE * hit.score]
            at, last = hits.index(hit), max((hits.index(each) for each in better), default=-1)
            if last > at:
                hits.insert(last, replace(hits.pop(at), score=min(hit.score, hits[last - 1].score)))
    return replace(report, hits=tuple(hits))


def _without_marks(hit: SearchHit, foreign: Collection[str]) -> SearchHit:
    kept = tuple(
        old
        for old in hit.superseded
        if old.by not in foreign or citation(hit.path, old.line, old.line) in foreign
    )
    return hit if len(kept) == len(hit.superseded) else replace(hit, superseded=kept)
