"""Turns a model's answer into edits, or into one sentence that says what is wrong with it.

Every line that an answer names must be one that the model was given, word for word. Every removed line must
be folded in, word for word, or have a newer line that supersedes it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from nacre.memory.files.sources.sources import line_key
from nacre.memory.files.tidy.edits import Edit, EditKind, Place, has_lines_below, tidied
from nacre.memory.text.claims import is_not
from nacre.memory.text.evidence import fold
from nacre.memory.text.forms.words import stop_words_for
from nacre.memory.text.markdown_blocks import FENCE, HEADING, ITEM
from nacre.record import Record

MAX_LINE_CHARS = 600
MAX_REASON_CHARS = 200
_SHOWN_CHARS = 80
_FIELDS = frozenset(("from", "remove", "superseded_by", "write", "under", "why"))
_WORD = re.compile(r"\w+")
_NUMBER = re.compile(r"\d{3,}")
_BETWEEN = re.compile(r"(?<=\d)[\s./-]+(?=\d)")
"""Separators within one number, such as a telephone number or a date."""
_FENCED = re.compile(r"\s*```[a-z]*\n(.*?)\n?```\s*", re.DOTALL)


class AnswerBroken(Exception):
    """A model's answer cannot be used. The message says why, for the model and for the owner."""


class TidyInput(Record):
    """What a model is given: the curated note, and the lines of it and of logs that it may name.

    The note may grow to `max_chars`, or to its present length if that is more.
    """

    path: str
    text: str
    places: tuple[Place, ...]
    max_chars: int


def edits_in(answer: str, given: TidyInput) -> tuple[Edit, ...]:
    """The edits of an answer, all of them or none.

    Raises:
        AnswerBroken: the answer is not the expected JSON, names an unknown line, loses one, or makes the note
            too long.
    """
    raw = _json(answer)
    names = {place.name: place for place in given.places}
    edits = tuple(_edit(each, number, given, names) for number, each in enumerate(raw, start=1))
    gone = [place.name for edit in edits for place in edit.removed]
    if twice := next((name for name in gone if gone.count(name) > 1), ""):
        raise AnswerBroken(f"Two edits remove {twice}.")
    for number, edit in enumerate(edits, start=1):
        if lost := next((place.name for place in edit.evidence if place.name in gone and not edit.added), ""):
            raise AnswerBroken(f"Edit {number} depends on {lost}, which another edit removes.")
    made = tidied(given.path, given.text, edits)
    if len(made.after) > max(given.max_chars, len(given.text)):
        raise AnswerBroken(
            f"{given.path} would have {len(made.after):,} characters, more than its limit of "
            f"{given.max_chars:,}. Write less, or remove what is superseded."
        )
    return edits


def _json(answer: str) -> list[Mapping[str, Any]]:
    fenced = _FENCED.fullmatch(answer)
    text = (fenced[1] if fenced else answer).strip()
    try:
        raw = json.loads(text)
    except (ValueError, RecursionError):
        raise AnswerBroken(f"The answer is not JSON: {text[:_SHOWN_CHARS]!r}.") from None
    edits = raw.get("edits") if isinstance(raw, dict) else None
    if not isinstance(edits, list) or not all(isinstance(each, dict) for each in edits):
        raise AnswerBroken('The answer is not an object with a list of objects "edits".')
    return edits


def _edit(raw: Mapping[str, Any], number: int, given: TidyInput, names: Mapping[str, Place]) -> Edit:
    if unknown := sorted(raw.keys() - _FIELDS):
        raise AnswerBroken(f"Edit {number} has {unknown[0]!r}, which is not a field of an edit.")
    quoted = tuple(_quoted(raw.get("from"), number, names))
    removed = tuple(_quoted(raw.get("remove"), number, names))
    newer = tuple(_quoted(raw.get("superseded_by"), number, names))
    added = tuple(_written(raw.get("write"), number))
    if place := next((place for place in quoted if place.path == given.path), None):
        raise AnswerBroken(f'Edit {number} has {place.name} in "from", which takes lines of logs only.')
    if place := next((place for place in removed if place.path != given.path), None):
        raise AnswerBroken(f"Edit {number} removes {place.name}: only lines of {given.path} can be removed.")
    if place := next((place for place in newer if place in removed), None):
        raise AnswerBroken(f"Edit {number} removes {place.name}, which it names as the newer line.")
    if not (removed or added):
        raise AnswerBroken(f"Edit {number} neither removes nor writes a line.")
    if added and not (quoted or removed):
        raise AnswerBroken(f'Edit {number} writes a line without naming its source in "from" or "remove".')
    _check_kept(number, removed, added, newer)
    _check_numbers(number, added, (*quoted, *removed, *newer))
    _check_below(number, given, removed)
    why = raw.get("why")
    return Edit(
        kind=_kind(removed, added, newer),
        evidence=tuple(dict.fromkeys((*quoted, *newer))) or removed,
        removed=removed,
        added=added,
        under=_heading(raw.get("under"), number),
        reason=" ".join(why.split())[:MAX_REASON_CHARS] if isinstance(why, str) else "",
    )


def _quoted(raw: object, number: int, names: Mapping[str, Place]) -> Iterator[Place]:
    """The lines that a field names; a single line may stand there without a list."""
    for each in raw if isinstance(raw, list) else [raw] if raw else []:
        at, says = (each.get("at"), each.get("says")) if isinstance(each, dict) else (None, None)
        if not isinstance(at, str) or not isinstance(says, str):
            raise AnswerBroken(f'Edit {number} names a line without "at" and "says".')
        place = names.get(at)
        if place is None:
            raise AnswerBroken(f"Edit {number} names {at[:_SHOWN_CHARS]}, which it was not given.")
        if " ".join(says.split()) != " ".join(place.text.split()):
            raise AnswerBroken(
                f"Edit {number} quotes {place.name} as {says[:_SHOWN_CHARS]!r}; that line says "
                f"{place.text[:_SHOWN_CHARS]!r}."
            )
        yield place


def _written(raw: object, number: int) -> Iterator[str]:
    for line in raw if isinstance(raw, list) else [raw] if raw else []:
        if not isinstance(line, str) or not line.strip() or len(line.splitlines()) > 1:
            raise AnswerBroken(f"Edit {number} writes something that is not one line of text.")
        if len(line) > MAX_LINE_CHARS or HEADING.match(line) or FENCE.match(line):
            raise AnswerBroken(
                f"Edit {number} writes {line[:_SHOWN_CHARS]!r}: one fact in one line of {MAX_LINE_CHARS} "
                "characters at most, no heading and no code."
            )
        yield line.rstrip() if ITEM.match(line) else f"- {line.strip()}"


def _heading(raw: object, number: int) -> str:
    if raw is None:
        return ""
    if not isinstance(raw, str) or len(raw.splitlines()) > 1 or len(raw) > MAX_REASON_CHARS:
        raise AnswerBroken(f'Edit {number} has an "under" that is not a heading.')
    return raw.strip("# \t")


def _kind(removed: Sequence[Place], added: Sequence[str], newer: Sequence[Place]) -> EditKind:
    if added:
        return "fold"
    same = {line_key(place.text) for place in newer}
    return "duplicate" if all(line_key(place.text) in same for place in removed) else "superseded"


def _check_kept(number: int, removed: Sequence[Place], added: Sequence[str], newer: Sequence[Place]) -> None:
    """Checks that a newer line is named, or that each meaningful word of a removed line is written again."""
    kept = {word for line in added for word in _WORD.findall(fold(line))}
    for place in removed:
        words = _WORD.findall(fold(place.text))
        filler = stop_words_for(words)
        lost = [word for word in words if word not in kept and (word not in filler or is_not(word))]
        if lost and not newer:
            raise AnswerBroken(
                f"Edit {number} would lose {place.name}: {lost[0]!r} is not in what it writes, and "
                '"superseded_by" names no line.'
            )


def _check_numbers(number: int, added: Sequence[str], evidence: Sequence[Place]) -> None:
    """Checks that each number comes from a line that the edit names, or from the date of its log."""
    said = [_BETWEEN.sub("", text) for place in evidence for text in (place.path, place.text)]
    for line in added:
        if wrong := next(
            (found for found in _NUMBER.findall(line) if not any(found in text for text in said)), ""
        ):
            raise AnswerBroken(
                f"Edit {number} writes {wrong}, which none of the lines that it names contains."
            )


def _check_below(number: int, given: TidyInput, removed: Sequence[Place]) -> None:
    lines = given.text.split("\n")
    for place in removed:
        if has_lines_below(lines, place.number) and place.number + 1 not in [each.number for each in removed]:
            raise AnswerBroken(f"Edit {number} removes {place.name} but not the indented lines below it.")
