"""What is wrong with a settings file: line, column, what stands there and what belongs there.

pyjson5 counts characters and words its errors for programs ("Expected b'comma' or U+007d near 12").
"""

from __future__ import annotations

import re

_PLACE = re.compile(r"(.*?),? (?:starting )?near (\d+)(?:, (found .*))?", re.DOTALL)
_NAMES = {
    "JSON5Value": "a value",
    "IdentifierStart": "a name",
    "array": "The array […]",
    "colon": "a colon",
    "comma": "a comma",
    "comment": "The comment",
    "hexadecimal character": "a hexadecimal digit",
    "object": "The object {…}",
    "string": "The string",
}


def json5_problem(text: str, message: str) -> str:
    """A sentence for pyjson5's `message` about `text`; its own words where they are not known."""
    match = _PLACE.fullmatch(message)
    if match is None:
        return f"{message}."
    what, near, found = _readable(match[1]), int(match[2]), _readable(match[3] or "").removeprefix("found ")
    if what.startswith("Unclosed "):
        # the place of a comment is that of its second character
        place = _place(text, near - (2 if what.endswith("comment") else 1))
        return f"{what.removeprefix('Unclosed ')} that begins in {place} is never closed."
    if what.startswith("Extra data "):
        extra = what.removeprefix("Extra data ")
        return f"In {_place(text, _at(text, extra, near + 1))}, {extra} stands behind the end."
    if what.startswith("Stray "):
        return f"In {_place(text, near - 1)}, there is {what.removeprefix('Stray ')} too many."
    if what.startswith("Expected ") and found:
        wanted = what.removeprefix("Expected ")
        return f"In {_place(text, _at(text, found, near))}, {found} stands where {wanted} belongs."
    return f"{what}, in {_place(text, near - 1)}."


def _readable(words: str) -> str:
    words = re.sub(r"b'([^']*)'", lambda name: _NAMES.get(name[1], name[1]), words)
    return re.sub(r"U\+([0-9A-Fa-f]{4,6})", lambda code: f"{chr(int(code[1], 16))!r}", words)


def _at(text: str, quoted: str, near: int) -> int:
    """Where the character stands that an error names: at the place, or behind it after a word."""
    found = text.find(quoted[1:-1], max(0, near - 1))
    return found if found >= 0 else near - 1


def _place(text: str, at: int) -> str:
    before = text[: max(0, at)]
    return f"line {before.count(chr(10)) + 1}, column {len(before) - before.rfind(chr(10))}"
