"""The texts whose vectors represent a chunk: all of it, or pieces of a few sentences under its headings.

In the vector of ten lines, one line about something else is lost; the vector of a short piece keeps it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from nacre.memory.contracts.records import Chunk
from nacre.memory.text.markdown_blocks import HEADING

PIECES_VERSION = 2
"""Raise this when the same chunk gives other texts; all vectors of pieces are then made again."""
LEAST_CHARS = 25
"""A shorter sentence is joined with the next one; a third of this in scripts with many characters."""
MOST_CHARS = 240
REQUEST_TOKENS = 8_000
"""The most tokens in one request. Answers are stored one by one, so a kill costs at most one request."""
FEW_CHARS = 400
"""The limit of a short chunk. First notes are short, and each is about something else."""

_END = re.compile(r"(?<=[.!?…])[\"')\]]*\s+|(?<=[。！？])")
_DAY_ALONE = re.compile(r"[\W_]*(?:[^\W\d_]+[\W_]+)?\d{4}-\d{2}-\d{2}(?:[\W_]+[^\W\d_]+)?[\W_]*")
_MARK = re.compile(r"^\s*(?:(?:[-*+>]|\d{1,3}[.)])\s+)*")
_MANY_SIGNS = "\u2e7f"


def embedding_texts(chunk: Chunk, piece_tokens: int | None = None) -> tuple[str, ...]:
    """The texts whose vectors represent a chunk, each under its headings; the best one counts.

    Without `piece_tokens`, this is the whole chunk, otherwise pieces of whole sentences with up to so many
    tokens: four characters per token, or three tokens per four characters in scripts with many characters. In
    a short chunk, each sentence is a piece, without headings that only name a day, which would move its
    vector away from what it says.
    """
    headings, text, most_chars = chunk.heading_path, chunk.text, 4 * (piece_tokens or 0)
    if piece_tokens is None:
        title = " > ".join(headings)
        return (f"{title}\n{text}" if title else text,)
    if _chars(text) <= FEW_CHARS:
        headings = tuple(heading for heading in headings if not _DAY_ALONE.fullmatch(heading))
        text = "\n".join(line for line in text.split("\n") if not _is_day(line))
        most_chars = 0
    title = " > ".join(headings)
    pieces: list[list[str]] = []
    held_chars = 0
    for sentence in sentences_of(text) or (chunk.text,):
        chars = _chars(sentence)
        if not pieces or held_chars + chars > most_chars:
            pieces.append([])
            held_chars = 0
        pieces[-1].append(sentence)
        held_chars += chars
    return tuple("\n".join([title, *piece] if title and piece[0] != title else piece) for piece in pieces)


def _is_day(line: str) -> bool:
    return HEADING.match(line) is not None and _DAY_ALONE.fullmatch(line) is not None


def _chars(text: str) -> int:
    return len(text) + 2 * sum(char > _MANY_SIGNS for char in text)


def sentences_of(text: str) -> tuple[str, ...]:
    """The sentences of each line, up to about `MOST_CHARS` long, without list and quotation marks."""
    found: list[str] = []
    held = ""
    for sentence in _parts(text):
        together = f"{held} {sentence}" if held else sentence
        held = together if _is_short(together) else ""
        if not held:
            found.append(together)
    if held and found and len(found[-1]) < MOST_CHARS:
        found[-1] = f"{found[-1]} {held}"
    elif held:
        found.append(held)
    return tuple(found)


def _parts(text: str) -> Iterator[str]:
    for line in text.split("\n"):
        if HEADING.match(line):
            line = line.lstrip(" #")
        line = _MARK.sub("", line, count=1)
        start = 0
        for end in [*(match.end() for match in _END.finditer(line)), len(line)]:
            sentence, start = line[start:end].strip(), max(start, end)
            while len(sentence) > MOST_CHARS:
                cut = sentence.rfind(" ", MOST_CHARS // 2, MOST_CHARS) + 1 or MOST_CHARS
                yield sentence[:cut].strip()
                sentence = sentence[cut:]
            if sentence:
                yield sentence


def _is_short(sentence: str) -> bool:
    many_signs = sum(char > _MANY_SIGNS for char in sentence) * 2 > len(sentence)
    return len(sentence) < (LEAST_CHARS // 3 if many_signs else LEAST_CHARS)


def batches(texts: Sequence[str], *, most_texts: int) -> Iterator[slice]:
    """Splits texts into requests of up to `most_texts` and `REQUEST_TOKENS`; a longer text goes alone."""
    start = held_tokens = 0
    for at, text in enumerate(texts):
        tokens = estimated_tokens(text)
        if at > start and (at - start >= most_texts or held_tokens + tokens > REQUEST_TOKENS):
            yield slice(start, at)
            start, held_tokens = at, 0
        held_tokens += tokens
    if start < len(texts):
        yield slice(start, len(texts))


def estimated_tokens(text: str) -> int:
    """The approximate number of tokens: one for four ASCII characters, and one for each other character."""
    plain = len(text) if text.isascii() else sum(char.isascii() for char in text)
    return -(-plain // 4) + len(text) - plain
