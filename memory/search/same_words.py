"""Hits that say the same words are one hit with several places. Pure.

A fact stands in the daily log, in the note of the session that told it, and in quotations of both.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property

from nacre.memory.contracts.records import Chunk
from nacre.memory.search.ranking import Ranked
from nacre.memory.text.evidence import Finder
from nacre.memory.text.markdown_blocks import HEADING

MIN_CHARS = 12
"""Shorter statements are alike by chance; half of that in scripts of many signs."""

_WORD = re.compile(r"[^\W_]+")
_QUOTED = re.compile(r"\s{0,3}>[> ]*(?:(?:User|Assistant|Somebody): )?|\s*(?:[-*+]|\d{1,3}[.)])\s+")


def told_once(
    ranked: Sequence[Ranked], chunks: Mapping[int, Chunk], finders: Mapping[int, Finder | None]
) -> list[tuple[Ranked, tuple[Chunk, ...]]]:
    """The hits in their order, each with the chunks behind it that say nothing else.

    `finders` has for each chunk what was looked for when it was found.

    That is a chunk whose every line stands in a better one; and a quotation of a conversation whose lines
    about the query repeat a line of a better one, because what stands around it there is talk.
    """
    told: list[tuple[Ranked, _Said, list[Chunk]]] = []
    for item in ranked:
        said = _Said(chunks[item.chunk_id], finders[item.chunk_id])
        # A statement repeats none that has other words: so much is quickly seen, and mostly enough.
        longest = max(said.first, key=len)
        alike = [place for place in told if longest in place[1].folded] if not said.quoted else told
        better = next((place for place in alike if _repeats(said, place[1])), None)
        if better is None:
            told.append((item, said, []))
        else:
            better[2].append(said.chunk)
    return [(item, tuple(others)) for item, _, others in told]


class _Said:
    """What a chunk says, a statement a line, read as far as it is asked."""

    def __init__(self, chunk: Chunk, finder: Finder | None) -> None:
        self.chunk = chunk
        self.folded = chunk.text.casefold()
        self._finder = finder

    @cached_property
    def statements(self) -> list[str]:
        return list(_statements(self.chunk.text.split("\n")))

    @cached_property
    def first(self) -> Sequence[str]:
        """The words of the first statement."""
        return next(_statements(self.chunk.text.split("\n")), "").split(" ")

    @cached_property
    def words(self) -> str:
        return "\n".join(f" {words} " for words in self.statements)

    @cached_property
    def telling(self) -> list[str]:
        return [words for words in self.statements if _is_telling(words)]

    @cached_property
    def quoted(self) -> list[str]:
        """What of a conversation the query is about there."""
        if self._finder is None or ">" not in self.chunk.text:
            return []
        lines = self.chunk.text.split("\n")
        about = [lines[at] for at in self._finder.look(self.chunk.text).lines]
        asked = [line for line in about if not HEADING.match(line)]
        return list(_statements(asked)) if all(line.lstrip().startswith(">") for line in asked) else []


def _repeats(said: _Said, better: _Said) -> bool:
    may_repeat = all(word in better.folded for word in said.first) and said.statements
    if may_repeat and all(f" {words} " in better.words for words in said.statements):
        return True
    return bool(said.quoted) and all(
        f" {words} " in better.words or any(f" {told} " in f" {words} " for told in better.telling)
        for words in said.quoted
    )


def _is_telling(statement: str) -> bool:
    return len(statement) >= (MIN_CHARS if statement.isascii() else MIN_CHARS // 2)


def _statements(lines: Sequence[str]) -> Iterator[str]:
    """The words of each line without its marks; headings and lines without words are none."""
    bare = (_QUOTED.sub("", line, count=1) for line in lines if not HEADING.match(line))
    return (words for line in bare if (words := " ".join(_WORD.findall(line.casefold()))))
