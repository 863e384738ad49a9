"""Splits Markdown into chunks of bounded size with exact line ranges.

Chunks are whole lines. They end at the best seam near the size limit (heading, block, list item), but not
inside a code fence or between a heading and its text, unless such a part is larger than a chunk. A line that
is too long is split at sentence or word ends. Neighbors share up to `overlap_tokens` of whole lines, except
across a heading. A chunk has text of one day: a heading with another day begins a new one.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from datetime import date
from functools import cache
from itertools import accumulate

from nacre.memory.contracts.notes import text_of_note
from nacre.memory.contracts.records import Chunk, Source
from nacre.memory.text.markdown_blocks import SEAM_HEADING, Headings, Outline, outline
from nacre.record import Record

CHUNKING_VERSION = "6"
"""Part of the identity of an index. Raise it when the same text gives other chunks."""

UNITS_PER_TOKEN = 4
"""Sizes are counted in quarter tokens: one per byte of UTF-8 and four per dense character, so that no chunk
has more bytes than units."""

MAX_CHUNK_BYTES = 8_000
"""A limit that every embedding provider accepts, also for larger `chunking.tokens`."""

_BLANKS = re.compile(r"\s*")
_DAY = re.compile(r"(?<!\d)(\d{4})-(\d{2})-(\d{2})(?!\d)")


class ChunkSizes(Record):
    """The size of chunks in tokens: an ASCII letter counts a quarter, a Cyrillic letter a half, and a dense
    character (CJK, Thai, emoji) one.
    """

    tokens: int = 400
    overlap_tokens: int = 80

    @property
    def limit(self) -> int:
        """The largest chunk in units."""
        return min(max(32, self.tokens * UNITS_PER_TOKEN), MAX_CHUNK_BYTES)

    @property
    def overlap(self) -> int:
        """The most that two neighbors share, in units."""
        return min(self.overlap_tokens * UNITS_PER_TOKEN, self.limit // 2)

    def identity(self) -> str:
        """Identifies the sizes; equal ones give equal chunks."""
        return f"{CHUNKING_VERSION}:{self.tokens}:{self.overlap_tokens}:estimated"


def units(text: str) -> int:
    """The size of a text in units."""
    if text.isascii():
        return len(text)
    # Dense characters have three bytes; those above them, emoji among them, have four.
    return len(text.encode("utf-8", "surrogatepass")) + len(_dense().findall(text))


@cache  # searches do not need it
def _dense() -> re.Pattern[str]:
    return re.compile(
        "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2600-\u27bf\u2e80-\u9fff\ua000-\ua4cf\uac00-\ud7af"
        "\uf900-\ufaff\ufe30-\ufe4f\uff00-\uffef]"
    )


class Document(Record):
    """A decoded file: `lines` without line ends, and its `day` if it has one."""

    source: Source
    path: str
    lines: Sequence[str]
    day: date | None


def decode_markdown(raw: bytes) -> list[str]:
    """The lines of a file. Only LF and CRLF end a line, so that line numbers agree with editors."""
    text = storable(text_of_note(raw))
    if "\r" in text:
        text = text.replace("\r\n", "\n")
    return text.split("\n")


def storable(text: str) -> str:
    """Replaces what databases reject: null characters and lone surrogates, which JSON may contain."""
    if not text.isascii():
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text.replace("\x00", "\ufffd")


def day_in_path(path: str) -> date | None:
    """The day in a file name such as `2026-02-10-standup.md`, if it exists."""
    return day_in(path.rsplit("/", 1)[-1])


def chunk_document(document: Document, sizes: ChunkSizes) -> list[Chunk]:
    """The chunks of a document in order. Every line that is not blank is in at least one."""
    lines = document.lines
    plan = outline(lines)
    chunks: list[Chunk] = []
    for first, last, text in _spans(lines, plan, sizes, _day_starts(plan.headings, document.day)):
        headings = plan.headings.path_over(first, last)
        chunks.append(
            Chunk(
                source=document.source,
                path=document.path,
                start_line=first + 1,
                end_line=last + 1,
                text=text,
                heading_path=headings,
                date=_day_of(headings) or document.day,
                content_hash=content_hash(text),
                ordinal=len(chunks),
            )
        )
    return chunks


def content_hash(text: str) -> str:
    from hashlib import sha256  # searches do not need it

    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _spans(
    lines: Sequence[str], plan: Outline, sizes: ChunkSizes, day_starts: Sequence[int]
) -> Iterator[tuple[int, int, str]]:
    limit = sizes.limit
    ends = list(accumulate((units(line) + 1 for line in lines), initial=0))
    start, covered, count = 0, 0, len(lines)
    starts = (*day_starts, count)
    while covered < count:
        if ends[covered + 1] - ends[covered] > limit + 1:
            yield from ((covered, covered, piece) for piece in cut_long_line(lines[covered], limit))
            start = covered = covered + 1
            continue
        # Plus one, because the last line of a chunk has no line end.
        end = bisect_right(ends, ends[start] + limit + 1) - 1
        until = starts[bisect_right(day_starts, covered)]
        cut = until if end >= until else _best_cut(ends, plan.seams, (start, covered, end), limit)
        first, last = start, cut - 1
        while first <= last and not lines[first].strip():
            first += 1
        while last > first and not lines[last].strip():
            last -= 1
        if first <= last:
            yield first, last, "\n".join(lines[first : last + 1])
        covered = cut
        start = _overlap_start(ends, plan.seams, (start, cut), sizes) if cut < count else cut


def _day_starts(headings: Headings, day: date | None) -> list[int]:
    """The lines, from 0, of headings below which another day begins; `day` is the one of the file."""
    starts: list[int] = []
    current = day
    for line, path in zip(headings.lines, headings.paths, strict=True):
        if (other := _day_of(path) or day) != current:
            starts.append(line)
            current = other
    return starts


def _best_cut(ends: Sequence[int], seams: Sequence[int], span: tuple[int, int, int], limit: int) -> int:
    """The line before which to split: the last of the best seams in the later part of the span."""
    start, covered, end = span
    quarter = bisect_right(ends, ends[start] + limit // 4)
    half = bisect_right(ends, ends[start] + limit // 2)
    best, best_seam = end, seams[end]
    for line in range(end - 1, max(quarter, covered + 1) - 1, -1):
        if seams[line] > best_seam and (line >= half or seams[line] >= SEAM_HEADING):
            best, best_seam = line, seams[line]
    return best


def _overlap_start(
    ends: Sequence[int], seams: Sequence[int], span: tuple[int, int], sizes: ChunkSizes
) -> int:
    # The overlap must leave room for the next line.
    start, cut = span
    if sizes.overlap == 0 or seams[cut] >= SEAM_HEADING:
        return cut
    begin = cut
    room = min(sizes.overlap, sizes.limit + 1 - (ends[cut + 1] - ends[cut]))
    while begin - 1 > start and ends[cut] - ends[begin - 1] <= room and seams[begin] < SEAM_HEADING:
        begin -= 1
    return begin


def cut_long_line(line: str, limit: int) -> Iterator[str]:
    """Splits a line into pieces of about equal size, up to `limit` units, after sentences or words.

    Takes linear time, because a page without line ends may have megabytes.
    """
    text = line.strip()
    sums = range(len(text) + 1) if text.isascii() else list(accumulate(map(units, text), initial=0))
    start, end = 0, len(text)
    while (left := sums[end] - sums[start]) > limit:
        wanted = min(limit, int(left / -(-left // limit)) + 1)
        cut = _best_break(text, start, bisect_right(sums, sums[start] + wanted) - 1)
        yield text[start:cut].rstrip()
        blanks = _BLANKS.match(text, cut)
        start = blanks.end() if blanks else cut
    if start < end:
        yield text[start:]


@cache
def _breaks() -> tuple[re.Pattern[str], ...]:
    return re.compile(r"[.!?…][\"')\]]*\s|[。！？]"), re.compile(r"[;:,，、；：]\s?|\s")


def _best_break(text: str, start: int, longest: int) -> int:
    for pattern in _breaks():
        cuts = [found.end() for found in pattern.finditer(text, start + (longest - start) // 2, longest)]
        if cuts:
            return cuts[-1]
    return max(start + 1, longest)


def _day_of(headings: Sequence[str]) -> date | None:
    return next((day for heading in reversed(headings) if (day := day_in(heading))), None)


def day_in(text: str) -> date | None:
    """The first existing day of the form `2026-02-10` in a text."""
    for year, month, day in _DAY.findall(text):
        try:
            return date(int(year), int(month), int(day))
        except ValueError:
            continue
    return None
