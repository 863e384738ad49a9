"""Finds where each value of a JSON5 text is.

`pyjson5` discards comments and layout. Of the libraries that keep them, `json-five` uses the module name of
another well-known package, and `json5kit` does not support `/* */`. So positions are found here, and
`pyjson5` checks the edits that are based on them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import pyjson5

Path: TypeAlias = Sequence[str | int]
"""The position of a value: names of members and indexes of items, from the outermost on."""

_TOKEN = re.compile(
    r"""(?P<blank>(?:\s|\ufeff|//[^\n\r\u2028\u2029]*|/\*.*?\*/)+)
    |(?P<mark>[{}\[\]:,])
    |(?P<text>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
    |(?P<word>[^\s{}\[\]:,"'/]+)""",
    re.DOTALL | re.VERBOSE,
)


@dataclass(kw_only=True)
class Value:
    """One value: `text[start:end]`. An object or a list also has its members."""

    start: int
    end: int = 0
    opens_with: str = ""
    members: list[Member] = field(default_factory=list)

    def at(self, path: Path) -> Value | None:
        """The value at a path below this one, or `None`."""
        found: Value | None = self
        for step in path:
            found = found.child(step) if found else None
        return found

    def child(self, step: str | int) -> Value | None:
        """The member with this name, the last of several, or the item at this index."""
        if isinstance(step, int):
            is_there = self.opens_with == "[" and 0 <= step < len(self.members)
            return self.members[step].value if is_there else None
        member = self.member(step)
        return member.value if member else None

    def member(self, name: str) -> Member | None:
        return next((each for each in reversed(self.members) if each.name == name), None)


@dataclass(kw_only=True)
class Member:
    """A member of an object or an item of a list: `start` is where its name begins, `comma` the position
    after its comma, or 0.
    """

    start: int
    name: str | None
    value: Value
    comma: int = 0


@dataclass(frozen=True)
class _Token:
    kind: str
    text: str
    start: int

    @property
    def end(self) -> int:
        return self.start + len(self.text)


def outermost(text: str) -> Value:
    """The value of a valid JSON5 text.

    Raises:
        ValueError: the text is not JSON5.
    """
    tokens = [token for token in _tokens(text) if token.kind != "blank"]
    value, rest = _value(tokens, 0)
    if rest != len(tokens):
        raise ValueError(f"something stands behind the end, at character {tokens[rest].start}")
    return value


def _tokens(text: str) -> Iterator[_Token]:
    place = 0
    while place < len(text):
        match = _TOKEN.match(text, place)
        if match is None:
            raise ValueError(f"character {place} begins nothing")
        yield _Token(str(match.lastgroup), match[0], place)
        place = match.end()


def _value(tokens: Sequence[_Token], at: int) -> tuple[Value, int]:
    token = _token(tokens, at)
    if token.text not in ("{", "["):
        if token.kind == "mark":
            raise ValueError(f"{token.text!r} stands where a value belongs, at character {token.start}")
        return Value(start=token.start, end=token.end), at + 1
    value, at = Value(start=token.start, opens_with=token.text), at + 1
    closing = "}" if token.text == "{" else "]"
    while _token(tokens, at).text != closing:
        first, name = _token(tokens, at), None
        if closing == "}":
            if first.kind == "mark" or _token(tokens, at + 1).text != ":":
                raise ValueError(f"no name and colon at character {first.start}")
            name, at = _name(first), at + 2
        below, at = _value(tokens, at)
        member = Member(start=first.start, name=name, value=below)
        value.members.append(member)
        if _token(tokens, at).text == ",":
            member.comma, at = tokens[at].end, at + 1
        elif _token(tokens, at).text != closing:
            raise ValueError(f"no comma at character {tokens[at].start}")
    value.end = tokens[at].end
    return value, at + 1


def _token(tokens: Sequence[_Token], at: int) -> _Token:
    if at >= len(tokens):
        raise ValueError("the text ends in the middle of a value")
    return tokens[at]


def _name(token: _Token) -> str:
    if token.kind == "text" or "\\" in token.text:
        [name] = pyjson5.decode(f"{{{token.text}: 0}}")
        return str(name)
    return token.text
