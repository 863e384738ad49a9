"""One line of a page of facts, written and read: `- key: value (day, source)`.

A value is JSON, or plain text that JSON cannot read. Parentheses at the end of a line that begin with a day
hold its time and source.
"""

from __future__ import annotations

import json
import re
import unicodedata
from datetime import datetime, tzinfo
from typing import NoReturn

from nacre.memory.contracts.errors import FactRefused
from nacre.memory.files.facts.records import JsonValue
from nacre.record import Record

MAX_KEY_CHARS = 200
MAX_VALUE_CHARS = 8_000
MAX_SOURCE_CHARS = 300

_ITEM = re.compile(r"[-*+]\s+(?P<rest>\S.*)")
_FACT = re.compile(r"(?P<key>\S.*?)(?::\s+|：\s*)(?P<value>\S.*)")
_FORGOTTEN = re.compile(r"~~(?P<key>\S.*?)~~")
_TAIL = re.compile(
    r"(?:^|\s+)\((?P<when>\d{4}-\d{2}-\d{2}(?:[ T]\d{2}:\d{2}(?::\d{2})?(?:Z|[+-]\d{2}:?\d{2})?)?)"
    r"(?:,\s*(?P<source>[^()]*))?\)$"
)

_MARK = re.compile(r"\s+\^[0-9a-z]{6}$")


class Tail(Record):
    """The time and source of a line. `is_day` means that the line has a day without a time."""

    at: datetime
    source: str
    is_day: bool


class FactLine(Record):
    """What a line says about a key. A line without a `tail` was written by hand."""

    key: str
    value: JsonValue
    is_forgotten: bool
    tail: Tail | None


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
    text = " ".join(source.replace("(", "[").replace(")", "]").split())[:MAX_SOURCE_CHARS].strip()
    return text if _is_text(text) else text.encode("utf-8", "replace").decode("utf-8")


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
    return _TAIL.sub("", _MARK.sub("", line.rstrip()))


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
    tail = Tail(at=at, source=(found["source"] or "").strip(), is_day=len(found["when"]) == 10)
    return text[: found.start()], tail


def known_line(key: str, value: JsonValue, at: datetime, source: str) -> str:
    """A known fact as a line, with its day."""
    return f"- {key}: {value_text(value)} {_tail(f'{at:%Y-%m-%d}', source)}"


def history_line(key: str, value: JsonValue, at: datetime, source: str, *, is_forgotten: bool) -> str:
    """A fact as a line of the history, with its time to the second."""
    said = f"~~{key}~~" if is_forgotten else f"{key}: {value_text(value)}"
    return f"- {said} {_tail(at.isoformat(' ', 'seconds'), source)}"


def note_tail(at: datetime, source: str) -> str:
    """The time and source that follow a note."""
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
    """Whether a line of a UTF-8 file can hold the text."""
    return not any(unicodedata.category(char) in ("Cc", "Cs", "Zl", "Zp") for char in text)


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


_JSON = json.JSONDecoder(parse_constant=_no_constant)
