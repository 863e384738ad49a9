"""The page of an identity: which lines are facts, history and notes, and how lines are put in.

    # Facts about anna

    ## Facts

    - city: Porto (2026-11-22, by hand)

    ## History

    - city: Lisbon (2026-01-03 10:00:00+00:00, session 4f2a)
    - city: Porto (2026-11-22 14:05:10+00:00, by hand)

    ## Notes

    - Prefers trains to planes. (2026-11-22 14:06:00+00:00, session 4f2a) ^0p8d3k

The history says what was known when, and the last line of a key in it is what is known; `## Facts` shows that
and is where people change it. Every line that is none of these stays as it is, to the byte.

A value is JSON, or plain text that JSON cannot read. Parentheses at the end of a line that begin with a day
hold its time and source.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Mapping, Sequence
from datetime import datetime, tzinfo
from itertools import pairwise
from typing import Literal, NoReturn, TypeAlias

from nacre.memory.contracts.errors import FactRefused
from nacre.memory.contracts.facts import JsonValue
from nacre.record import Record
from nacre.sessions.contracts.messages import sendable

SectionName: TypeAlias = Literal["Facts", "History", "Notes"]
SECTIONS: tuple[SectionName, ...] = ("Facts", "History", "Notes")

MAX_KEY_CHARS = 200
MAX_VALUE_CHARS = 8_000
MAX_SOURCE_CHARS = 300

_HEADING = re.compile(r"(#{1,2})\s+(.*)")
_ID = re.compile(r"(?:^|\s+)\^([0-9a-z]{6})$")
_INDENT = "  "
_ITEM = re.compile(r"[-*+]\s+(?P<rest>\S.*)")
_FACT = re.compile(r"(?P<key>\S.*?)(?::\s+|：\s*)(?P<value>\S.*)")
_FORGOTTEN = re.compile(r"~~(?P<key>\S.*?)~~")
_TAIL = re.compile(
    r"(?:^|\s+)\((?P<when>\d{4}-\d{2}-\d{2}(?:[ T]\d{2}:\d{2}(?::\d{2})?(?:Z|[+-]\d{2}:?\d{2})?)?)"
    r"(?:,\s*(?P<source>[^()]*))?\)$"
)

_DIGITS = "0123456789abcdefghjkmnpqrstvwxyz"
"""Crockford's base 32, in which no letter looks like a digit."""

NUMBERS = len(_DIGITS) ** 6
"""The highest number of notes on one page."""


def note_word(number: int) -> str:
    """A note's number as it follows its text, without the caret."""
    word = ""
    while number or not word:
        number, digit = divmod(number, len(_DIGITS))
        word = _DIGITS[digit] + word
    return word.rjust(6, "0")


def note_number(word: str) -> int | None:
    """The number that `note_word` wrote, or `None` for any other text."""
    if len(word) != 6 or not set(word) <= set(_DIGITS):
        return None
    number = 0
    for char in word:
        number = number * len(_DIGITS) + _DIGITS.index(char)
    return number


class Tail(Record):
    """The time and source of a line."""

    at: datetime
    source: str


class FactLine(Record):
    """What a line says about a key. A line without a `tail` was written by hand."""

    key: str
    value: JsonValue
    is_forgotten: bool
    tail: Tail | None


class Placed(Record):
    """A fact and its line, counted from 0."""

    at_line: int
    fact: FactLine


class PlacedNote(Record):
    """A note on the lines from `start` to before `end`. `number` is `None` if it has no id."""

    start: int
    end: int
    text: str
    number: int | None
    tail: Tail | None


class Unread(Record):
    """A line among the facts or in the history that is not a fact."""

    at_line: int
    section: SectionName
    text: str


class Page:
    """The lines of one page, parsed on demand and changed in place."""

    def __init__(self, data: bytes | None, *, identity: str, zone: tzinfo | None) -> None:
        self._zone = zone
        # Bytes that are not UTF-8 are written as they were read.
        text = data.decode("utf-8", "surrogateescape") if data else _new_page(identity)
        self._end = "\r\n" if "\r\n" in text else "\n"
        self._lines = text.split("\n")
        if self._end == "\r\n":
            self._lines = [line.removesuffix("\r") for line in self._lines]
        self._read: dict[SectionName, Sequence[Placed]] = {}

    def data(self) -> bytes:
        return self._end.join(self._lines).encode("utf-8", "surrogateescape")

    def has(self, section: SectionName) -> bool:
        """Whether a section has its heading."""
        return self._span(section) is not None

    def facts(self) -> list[Placed]:
        """The facts in `## Facts`, from top to bottom."""
        return [placed for placed in self._placed("Facts") if not placed.fact.is_forgotten]

    def history(self) -> list[Placed]:
        """The facts with a time in `## History`, from top to bottom."""
        return [placed for placed in self._placed("History") if placed.fact.tail is not None]

    def unread(self) -> list[Unread]:
        """The lines among the facts and in the history that are not facts."""
        read = {placed.at_line for placed in (*self.facts(), *self.history())}
        return [
            Unread(at_line=number, section=section, text=self._lines[number].strip())
            for section in ("Facts", "History")
            for number in self._numbers(section)
            if number not in read and self._lines[number].strip()
        ]

    def edit(self, changed: Mapping[int, str | None], before: Mapping[int, Sequence[str]]) -> None:
        """Replaces lines by number, removes those mapped to `None`, and inserts lines `before` others.

        All numbers are those before the change, so that a thousand edits cost as much as one.
        """
        lines: list[str] = []
        for number, line in enumerate(self._lines):
            lines.extend(before.get(number, ()))
            new = changed.get(number, line)
            if new is not None:
                lines.append(new)
        self._set(lines)

    def add(self, section: SectionName, *lines: str) -> None:
        """Adds lines at the end of a section, which is added if it is missing."""
        start, end = self._section(section)
        while end > start and not self._lines[end - 1].strip():
            end -= 1
        added = ["", *lines] if end == start else [*lines]
        behind = self._lines[end:]
        if not behind or behind[0].strip():
            added.append("")
        self._set([*self._lines[:end], *added, *behind])

    def add_note(self, text: str, number: int, at: datetime, source: str) -> None:
        first, *others = f"{text} {note_tail(at, source)} ^{note_word(number)}".split("\n")
        self.add("Notes", f"- {first}", *(f"{_INDENT}{line}".rstrip() for line in others))

    def mark_note(self, note: PlacedNote, number: int, at: datetime, source: str) -> None:
        """Gives a note that somebody wrote by hand its time, source and id."""
        last = self._lines[note.end - 1].rstrip()
        last = _ID.sub("", last)
        if note.tail is None:
            last = f"{last} {note_tail(at, source)}"
        self._lines[note.end - 1] = f"{last} ^{note_word(number)}"
        self._read.clear()

    def remove_note(self, note: PlacedNote) -> None:
        self._set([*self._lines[: note.start], *self._lines[note.end :]])

    def _set(self, lines: list[str]) -> None:
        self._lines = lines
        self._read.clear()

    def _placed(self, section: SectionName) -> Sequence[Placed]:
        if section not in self._read:
            self._read[section] = [
                Placed(at_line=number, fact=fact)
                for number in self._numbers(section)
                if (fact := fact_line(self._lines[number], self._zone)) is not None
            ]
        return self._read[section]

    def notes(self) -> list[PlacedNote]:
        """The notes in `## Notes`, from top to bottom."""
        found: list[PlacedNote] = []
        numbers = self._numbers("Notes")
        starts = [number for number in numbers if self._lines[number].startswith(("- ", "* ", "+ "))]
        for start, following in pairwise([*starts, numbers.stop]):
            end = start + 1
            for number in range(start + 1, following):
                line = self._lines[number]
                if line.strip() and not line.startswith((_INDENT, "\t")):
                    break
                end = number + 1 if line.strip() else end
            found.append(self._note(start, end))
        return found

    def _note(self, start: int, end: int) -> PlacedNote:
        others = self._lines[start + 1 : end]
        lines = [line.removeprefix(_INDENT) if line.startswith(_INDENT) else line.strip() for line in others]
        lines = [self._lines[start][2:], *lines]
        last = lines[-1].rstrip()
        found = _ID.search(last)
        number = note_number(found[1]) if found is not None else None
        if found is not None and number is not None:
            last = last[: found.start()]
        lines[-1], tail = without_tail(last, self._zone)
        return PlacedNote(start=start, end=end, text="\n".join(lines).strip(), number=number, tail=tail)

    def _section(self, section: SectionName) -> tuple[int, int]:
        span = self._span(section)
        if span is not None:
            return span
        while self._lines and not self._lines[-1].strip():
            self._lines.pop()
        self._set([*self._lines, "", f"## {section}", ""])
        return len(self._lines) - 1, len(self._lines)

    def _numbers(self, section: SectionName) -> range:
        return range(*(self._span(section) or (0, 0)))

    def _span(self, section: SectionName) -> tuple[int, int] | None:
        start: int | None = None
        for number, line in enumerate(self._lines):
            heading = _HEADING.fullmatch(line) if line.startswith("#") else None
            if heading is None:
                continue
            if start is not None:
                return start, number
            if len(heading[1]) == 2 and heading[2].rstrip("# \t").casefold() == section.casefold():
                start = number + 1
        return None if start is None else (start, len(self._lines))


def _new_page(identity: str) -> str:
    lines: Sequence[str] = (
        f"# Facts about {identity}",
        "",
        "One line is one fact: `- key: value (day, source)`. Change a value, add a line or delete one: that",
        "is known from then on. The history keeps what was known before, until it is deleted there, too.",
        "",
        *(line for section in SECTIONS for line in (f"## {section}", "")),
    )
    return "\n".join(lines)


def same_key(key: str) -> str:
    """The normalized form of a key, which is equal for all its spellings."""
    return " ".join(unicodedata.normalize("NFC", key).split()).casefold()


def checked_key(key: str) -> str:
    """A key in the form in which a line can hold it.

    Raises:
        FactRefused: no line can hold it.
    """
    key = " ".join(unicodedata.normalize("NFC", key).split())
    as_line = fact_line(f"- {key}: x", None)
    if len(key) > MAX_KEY_CHARS or as_line is None or as_line.key != key or not _is_text(key):
        raise FactRefused(
            f"{key[:60]!r} cannot be the key of a fact. A key is a few words, such as city or spouse's name, "
            f"of {MAX_KEY_CHARS} characters at most and without a colon before a blank."
        )
    return key


def checked_value(value: object) -> JsonValue:
    """A value as JSON returns it.

    Raises:
        FactRefused: the value is not JSON, or too long.
    """
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False)
        known: JsonValue = json.loads(text)
    except (TypeError, ValueError, RecursionError) as error:
        raise FactRefused(
            f"The value of a fact must be JSON, and {type(value).__name__} is not one: {error}."
        ) from error
    if len(text) > MAX_VALUE_CHARS:
        raise FactRefused(
            f"A fact's value has at most {MAX_VALUE_CHARS} characters, and this one has {len(text)}. "
            "Keep a longer text as a note."
        )
    return known


def checked_source(source: str) -> str:
    """A source as one line without parentheses of its own."""
    return sendable(" ".join(source.replace("(", "[").replace(")", "]").split())[:MAX_SOURCE_CHARS].strip())


def value_text(value: JsonValue) -> str:
    """A value as text for a line: plain if it is read back as the same text, otherwise JSON."""
    if isinstance(value, str) and _is_plain(value):
        return value
    text = json.dumps(value, ensure_ascii=False)
    return text if _is_text(text) else json.dumps(value)


def value_of(text: str) -> JsonValue:
    """The value of a text in a line: JSON if possible, otherwise the text itself."""
    try:
        value: JsonValue = _JSON.decode(text)
    except (ValueError, RecursionError):
        return text
    return value


def said_in(line: str) -> str:
    """A line of a page without the time, source and id of its fact or note."""
    return _TAIL.sub("", _ID.sub("", line.rstrip()))


def fact_line(line: str, zone: tzinfo | None) -> FactLine | None:
    """The fact in a line, if any; times without a zone are in `zone`."""
    item = _ITEM.fullmatch(line.rstrip())
    if item is None:
        return None
    body, tail = without_tail(item["rest"], zone)
    if forgotten := _FORGOTTEN.fullmatch(body):
        return FactLine(key=forgotten["key"], value=None, is_forgotten=True, tail=tail)
    found = _FACT.fullmatch(body)
    if found is None:
        return None
    return FactLine(key=found["key"], value=value_of(found["value"]), is_forgotten=False, tail=tail)


def without_tail(text: str, zone: tzinfo | None) -> tuple[str, Tail | None]:
    """A text without its time and source, and these."""
    found = _TAIL.search(text)
    if found is None:
        return text, None
    try:
        at = datetime.fromisoformat(found["when"])
    except ValueError:
        return text, None
    at = at if at.tzinfo is not None else at.replace(tzinfo=zone)
    tail = Tail(at=at, source=(found["source"] or "").strip())
    return text[: found.start()], tail


def known_line(key: str, value: JsonValue, at: datetime, source: str) -> str:
    """A known fact as a line, with its day."""
    return f"- {key}: {value_text(value)} {_tail(f'{at:%Y-%m-%d}', source)}"


def history_line(key: str, value: JsonValue, at: datetime, source: str, *, is_forgotten: bool) -> str:
    """A fact as a line of the history, with its time to the second."""
    said = f"~~{key}~~" if is_forgotten else f"{key}: {value_text(value)}"
    return f"- {said} {note_tail(at, source)}"


def note_tail(at: datetime, source: str) -> str:
    """The time and source that follow a note or a fact of the history."""
    return _tail(at.isoformat(" ", "seconds"), source)


def _tail(when: str, source: str) -> str:
    return f"({when}, {source})" if source else f"({when})"


def _is_plain(text: str) -> bool:
    return (
        bool(text)
        and text == text.strip()
        and _is_text(text)
        and value_of(text) is text
        and _TAIL.search(text) is None
    )


def _is_text(text: str) -> bool:
    return not any(unicodedata.category(char) in ("Cc", "Cs", "Zl", "Zp") for char in text)


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


_JSON = json.JSONDecoder(parse_constant=_no_constant)
