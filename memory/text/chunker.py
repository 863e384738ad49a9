"""Markdown text → chunks of bounded size with exact line ranges. Pure: no file, no clock.

Chunks are whole lines, cut at the best seam near the size limit (heading, block, list item), never inside
a code fence or between a heading and its text unless a piece is larger than a chunk by itself. A line that
is too long alone is cut at sentence or word ends into pieces which all carry its number. Neighbours share up
to `overlap_tokens` of whole lines, except across a heading.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from datetime import date
from functools import cache
from itertools import accumulate

from nacre.memory.contracts.records import Chunk, Source
from nacre.memory.text.markdown_blocks import SEAM_HEADING, Outline, outline
from nacre.record import Record

CHUNKING_VERSION = "4"
"""Part of the index's identity: raise it when the same text would be cut in another way."""

UNITS_PER_TOKEN = 4
"""Sizes are counted in quarter tokens: a byte of UTF-8 is one, a dense character four. So no chunk has more
bytes than units."""

MAX_CHUNK_BYTES = 8_000
"""No embedding provider takes less; a larger `chunking.tokens` is cut down to this."""

_BLANKS = re.compile(r"\s*")
_DAY = re.compile(r"(?<!\d)(\d{4})-(\d{2})-(\d{2})(?!\d)")


class ChunkSizes(Record):
    """How large chunks are, in tokens, and how tokens are counted.

    `count_tokens` is exact but slow; without it a plain letter counts a quarter, a Cyrillic one a half and a
    dense character (CJK, Thai, emoji) one.
    """

    tokens: int = 400
    overlap_tokens: int = 80
    count_tokens: Callable[[str], int] | None = None

    @property
    def limit(self) -> int:
        """The largest chunk in units."""
        return min(max(32, self.tokens * UNITS_PER_TOKEN), MAX_CHUNK_BYTES)

    @property
    def overlap(self) -> int:
        """The most that two neighbours share, in units."""
        return min(self.overlap_tokens * UNITS_PER_TOKEN, self.limit // 2)

    def identity(self) -> str:
        """What must be equal for two chunkings of a text to be equal."""
        how = "counted" if self.count_tokens else "estimated"
        return f"{CHUNKING_VERSION}:{self.tokens}:{self.overlap_tokens}:{how}"

    def units(self, text: str) -> int:
        """The size of `text` in units."""
        if self.count_tokens is not None:
            return self.count_tokens(text) * UNITS_PER_TOKEN
        if text.isascii():
            return len(text)
        # Dense characters have three bytes; those above them, emoji among them, have four.
        return len(text.encode("utf-8", "surrogatepass")) + len(_dense().findall(text))


@cache  # made when something is cut: a search would wait for it
def _dense() -> re.Pattern[str]:
    return re.compile(
        "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2600-\u27bf\u2e80-\u9fff\ua000-\ua4cf\uac00-\ud7af"
        "\uf900-\ufaff\ufe30-\ufe4f\uff00-\uffef]"
    )


class Document(Record):
    """A decoded file: `lines` without their ends; `day` what its name says or its owner handed in."""

    source: Source
    path: str
    lines: Sequence[str]
    day: date | None


def decode_markdown(raw: bytes) -> list[str]:
    """The lines of a file: no byte order mark, bytes that are not UTF-8 as U+FFFD, CRLF as one end.

    Only LF and CRLF end a line, so that numbers agree with every editor.
    """
    if raw.startswith((b"\xff\xfe", b"\xfe\xff")):
        text = raw.decode("utf-16", errors="replace")
    else:
        text = raw.decode("utf-8-sig", errors="replace")
    text = storable(text)
    if "\r" in text:
        text = text.replace("\r\n", "\n")
    return text.split("\n")


def storable(text: str) -> str:
    """The text without what no database takes: NUL and halves of characters, which JSON may hold."""
    if not text.isascii():
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text.replace("\x00", "\ufffd")


def day_in_path(path: str) -> date | None:
    """The day that a file's name holds (`2026-02-10.md`, `2026-02-10-standup.md`), if it is a real one."""
    return day_in(path.rsplit("/", 1)[-1])


def chunk_document(document: Document, sizes: ChunkSizes) -> list[Chunk]:
    """All chunks of a document, in order. Every line that is not blank lies in at least one of them."""
    lines = document.lines
    plan = outline(lines)
    chunks: list[Chunk] = []
    for first, last, text in _spans(lines, plan, sizes):
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
    """The SHA-256 of a text, in hex."""
    from hashlib import sha256  # searches cut nothing

    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _spans(lines: Sequence[str], plan: Outline, sizes: ChunkSizes) -> Iterator[tuple[int, int, str]]:
    """First line, last line (from 0, inclusive) and text of each chunk."""
    limit = sizes.limit
    ends = list(accumulate((sizes.units(line) + 1 for line in lines), initial=0))
    start, covered, count = 0, 0, len(lines)
    while covered < count:
        if ends[covered + 1] - ends[covered] > limit + 1:
            yield from ((covered, covered, piece) for piece in cut_long_line(lines[covered], sizes))
            start = covered = covered + 1
            continue
        # One over, because the last line of a chunk has no line end.
        end = bisect_right(ends, ends[start] + limit + 1) - 1
        cut = end if end >= count else _best_cut(ends, plan.seams, (start, covered, end), limit)
        first, last = start, cut - 1
        while first <= last and not lines[first].strip():
            first += 1
        while last > first and not lines[last].strip():
            last -= 1
        if first <= last:
            yield first, last, "\n".join(lines[first : last + 1])
        covered = cut
        start = _overlap_start(ends, plan.seams, (start, cut), sizes) if cut < count else cut


def _best_cut(ends: Sequence[int], seams: Sequence[int], span: tuple[int, int, int], limit: int) -> int:
    """The line before which to cut: the best seam in the later part of the span; the last of equals."""
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
    """Where the next chunk begins: so far before the cut that the overlap fits, and the next line too."""
    start, cut = span
    if sizes.overlap == 0 or seams[cut] >= SEAM_HEADING:
        return cut
    begin = cut
    room = min(sizes.overlap, sizes.limit + 1 - (ends[cut + 1] - ends[cut]))
    while begin - 1 > start and ends[cut] - ends[begin - 1] <= room and seams[begin] < SEAM_HEADING:
        begin -= 1
    return begin


def cut_long_line(line: str, sizes: ChunkSizes) -> list[str]:
    """Pieces of one line, each within the limit, of about equal size, cut after sentences, else words.

    Takes time in proportion to the line: a page without line ends may have megabytes.
    """
    text = line.strip()
    if sizes.count_tokens is not None:
        return list(_counted_pieces(text, sizes))
    return list(_estimated_pieces(text, sizes.limit))


def _estimated_pieces(text: str, limit: int) -> Iterator[str]:
    sums = range(len(text) + 1) if text.isascii() else list(accumulate(map(_char_units, text), initial=0))
    start, end = 0, len(text)
    while (units := sums[end] - sums[start]) > limit:
        wanted = min(limit, _equal_share(units, limit))
        longest = bisect_right(sums, sums[start] + wanted) - 1
        cut = _best_break(text, start, longest)
        yield text[start:cut].rstrip()
        start = _after_blanks(text, cut)
    if start < end:
        yield text[start:]


def _counted_pieces(text: str, sizes: ChunkSizes) -> Iterator[str]:
    """With an exact counter, which knows no sums: what is left is reckoned, and counted again at the end."""
    start, left = 0, sizes.units(text)
    while start < len(text):
        if left <= sizes.limit and (left := sizes.units(text[start:])) <= sizes.limit:
            yield text[start:]
            return
        longest = start + _chars_within(text, start, sizes, min(sizes.limit, _equal_share(left, sizes.limit)))
        cut = _best_break(text, start, longest)
        piece = text[start:cut].rstrip()
        yield piece
        left -= sizes.units(piece)
        start = _after_blanks(text, cut)


def _equal_share(units: int, limit: int) -> int:
    """What each of the fewest pieces that are enough gets, rounded up."""
    return int(units / -(-units // limit)) + 1


def _char_units(char: str) -> int:
    return len(char.encode("utf-8", "surrogatepass")) + bool(_dense().match(char))


@cache
def _breaks() -> tuple[re.Pattern[str], ...]:
    return re.compile(r"[.!?…][\"')\]]*\s|[。！？]"), re.compile(r"[;:,，、；：]\s?|\s")


def _best_break(text: str, start: int, longest: int) -> int:
    """Where a piece that begins at `start` ends: behind a sentence, else a word, in its later half."""
    for pattern in _breaks():
        cuts = [found.end() for found in pattern.finditer(text, start + (longest - start) // 2, longest)]
        if cuts:
            return cuts[-1]
    return max(start + 1, longest)


def _after_blanks(text: str, start: int) -> int:
    found = _BLANKS.match(text, start)
    return found.end() if found else start


def _chars_within(text: str, start: int, sizes: ChunkSizes, limit: int) -> int:
    """The most characters from `start` on that fit into `limit` units, by bisection."""
    low, high = 0, min(len(text) - start, limit * UNITS_PER_TOKEN)
    while low < high:
        middle = (low + high + 1) // 2
        if sizes.units(text[start : start + middle]) <= limit:
            low = middle
        else:
            high = middle - 1
    return low


def _day_of(headings: Sequence[str]) -> date | None:
    return next((day for heading in reversed(headings) if (day := day_in(heading))), None)


def day_in(text: str) -> date | None:
    """The first real day that `text` has as `2026-02-10`."""
    for year, month, day in _DAY.findall(text):
        try:
            return date(int(year), int(month), int(day))
        except ValueError:
            continue
    return None
