"""The texts whose vectors stand for a chunk: all of it, or pieces of a few sentences under its headings.

Among ten lines about other things one line is washed out of a vector; that of a short piece keeps it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from nacre.memory.contracts.records import Chunk
from nacre.memory.text.markdown_blocks import HEADING

PIECES_VERSION = 2
"""Other texts for the same chunks need another number: it makes all vectors of pieces anew."""
LEAST_CHARS = 25
"""A shorter sentence is read together with the next one; a third of that in scripts of many signs."""
MOST_CHARS = 240
FEW_CHARS = 400
"""A chunk of so few characters is short: first notes are, and each is about something else."""

_END = re.compile(r"(?<=[.!?…])[\"')\]]*\s+|(?<=[。！？])")
_DAY_ALONE = re.compile(r"[\W_]*(?:[^\W\d_]+[\W_]+)?\d{4}-\d{2}-\d{2}(?:[\W_]+[^\W\d_]+)?[\W_]*")
_MARK = re.compile(r"^\s*(?:(?:[-*+>]|\d{1,3}[.)])\s+)*")
_MANY_SIGNS = "\u2e7f"


def embedding_texts(chunk: Chunk, piece_tokens: int | None = None) -> tuple[str, ...]:
    """The texts whose vectors stand for a chunk; the best one counts. Each stands under its headings.

    That is the whole chunk, or pieces of whole sentences of up to `piece_tokens` together, at four characters
    a token, and at three tokens for four characters in scripts of many signs. In a short chunk each sentence
    is a piece, without headings that only name a day: they move a short text away from what it says.
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
    """The sentences of each line without the marks of lists and quotations; who speaks is kept.

    Each is at most about `MOST_CHARS` long.
    """
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
