"""Which sentences of a conversation are worth keeping, and as many of them as fit, under headings.

Extraction by patterns: every note is a sentence that was really said. Quotations, code, recalled
notes, summaries, commands and answered questions are never notes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, zip_longest

from nacre.runtime.models.offline.answers import is_quoting, leaves_open
from nacre.runtime.models.offline.intent import SENTENCE_CHARS, is_question, kind_of, without_request
from nacre.runtime.models.offline.reading import Said
from nacre.runtime.models.offline.sentences import clipped, folded, unmarked
from nacre.sessions.compaction.identifiers import identifiers

MAX_NOTE_CHARS = 400
NOTHING = "(none)"

_HEADING = re.compile(r"^\s{0,3}#{1,6}\s+(.+?)\s*#*\s*$")
_NO_ITEM = re.compile(r"\W*(?:none|nothing|n/a)?\W*|---.*|\*\*Turn Context.*", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True)
class Item:
    """A line to keep; `order` is its place in the conversation, from 0, and negative for what was before."""

    text: str
    order: int
    kind: str = ""


@dataclass(frozen=True, kw_only=True)
class Section:
    """One heading; `under` is a heading above it without own lines, `{}` in `marker` a line's number."""

    title: str
    marker: str = "- "
    under: str = ""


class Known:
    """What is written down already, to be asked whether a sentence is in it; ignores case and marks."""

    def __init__(self, texts: Iterable[str]) -> None:
        self._text = " \n ".join(f" {folded(text)} " for text in texts)

    def has(self, sentence: str) -> bool:
        """Whether the whole sentence stands there."""
        key = folded(sentence)
        return not key or f" {key} " in self._text


def notes_of(said: Sequence[Said], known: Known) -> list[Item]:
    """The notes of a conversation, newest first, each once.

    What a person said counts in every kind; of an assistant's words only decisions are taken, and
    none of what this responder wrote itself.
    """
    notes: dict[str, Item] = {}
    for order, part in enumerate(said):
        if part.speaker == "user" or (part.speaker == "assistant" and not is_quoting(part.text)):
            for sentence in part.sentences:
                kind, text = _kind(sentence, part, said[order + 1 :]), without_request(sentence)
                if kind and folded(text) not in notes and not known.has(text) and not known.has(sentence):
                    notes[folded(text)] = Item(kind=kind, text=clipped(sentence, MAX_NOTE_CHARS), order=order)
    return sorted(notes.values(), key=lambda note: -note.order)


def is_answered(later: Sequence[Said]) -> bool:
    """Whether an assistant answered before the person spoke again; "found nothing" is no answer."""
    for contribution in later:
        if contribution.speaker == "user":
            return False
        if contribution.speaker == "assistant":
            return not leaves_open(contribution.text)
    return False


def outline(
    candidates: Mapping[Section, Sequence[Item]],
    *,
    most_tokens: int,
    count_tokens: Callable[[str], int],
    nothing: str = NOTHING,
) -> str:
    """The headings with as many candidates as fit `most_tokens`, taken from each section in turn.

    Candidates of a section come most important first and are written in their order. What does not fit
    is passed over for something shorter. Each statement stands once; only the first section, which says
    what was asked, may repeat others. `nothing` stands under a heading without lines; without it such
    headings are left out. Longer than `most_tokens` when the bare headings are.
    """
    chosen: list[tuple[Section, Item]] = []
    seen = set[tuple[bool, str]]()
    left_tokens = most_tokens - count_tokens(_written(candidates, chosen, nothing))
    first = next(iter(candidates))
    in_turn = zip_longest(*([(section, item) for item in items] for section, items in candidates.items()))
    for section, item in filter(None, chain.from_iterable(in_turn)):
        statement = (section is first, folded(item.text))
        tokens = count_tokens(f"{section.marker}{item.text}\n") + 1
        if tokens <= left_tokens and statement not in seen:
            seen.add(statement)
            chosen.append((section, item))
            left_tokens -= tokens
    while chosen and count_tokens(_written(candidates, chosen, nothing)) > most_tokens:
        chosen.pop()
    return _written(candidates, chosen, nothing)


def read_outline(text: str) -> dict[str, list[str]]:
    """The lines of a summary under their headings, without markers; lines before any heading under `""`."""
    found: dict[str, list[str]] = {}
    title = ""
    for line in text.splitlines():
        heading = _HEADING.match(line)
        words = unmarked(line)
        if heading:
            title = heading[1].strip("*: ")
        elif not _NO_ITEM.fullmatch(words):
            found.setdefault(title, []).append(clipped(words, MAX_NOTE_CHARS))
    return found


def _kind(sentence: str, contribution: Said, later: Sequence[Said]) -> str:
    asks, kind = is_question(sentence), kind_of(sentence)
    if contribution.speaker == "assistant":
        return kind if kind == "decision" and not asks else ""
    is_told = without_request(sentence) != sentence
    if asks or (kind == "request" and not is_told):
        return "" if is_answered(later) else "open"
    if kind in ("", "request"):
        return "fact" if is_told or identifiers([sentence[:SENTENCE_CHARS]], most=1) else ""
    return kind


def _written(sections: Iterable[Section], chosen: Sequence[tuple[Section, Item]], nothing: str) -> str:
    parts: list[str] = []
    for section in sections:
        items = sorted((item for of, item in chosen if of is section), key=lambda item: item.order)
        lines = [section.marker.format(number) + item.text for number, item in enumerate(items, start=1)]
        above = f"## {section.under}" if section.under else ""
        if lines or nothing:
            parts += [above] if above and above not in parts else []
            parts.append("\n".join([f"{'###' if above else '##'} {section.title}", *(lines or [nothing])]))
    return "\n\n".join(parts)
