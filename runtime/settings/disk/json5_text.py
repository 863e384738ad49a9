"""JSON5 as its owner wrote it: where each value stands in the text. Pure.

`pyjson5` reads values and throws comments and layout away. Of the libraries that keep them, `json-five` takes
the module name of another well-known package, and `json5kit` knows no `/* */`; so places are found here, and
`pyjson5` checks what is made of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import pyjson5

Path: TypeAlias = Sequence[str | int]
"""Where a value stands: names of members and places in lists, from the outermost on."""

_TOKEN = re.compile(
    r"""(?P<blank>(?:\s|\ufeff|//[^\n\r\u2028\u2029]*|/\*.*?\*/)+)
    |(?P<mark>[{}\[\]:,])
    |(?P<text>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
    |(?P<word>[^\s{}\[\]:,"'/]+)""",
    re.DOTALL | re.VERBOSE,
)


@dataclass(kw_only=True)
class Value:
    """One value: `text[start:end]`. An object or a list also has what is in it."""

    start: int
    end: int = 0
    opens_with: str = ""
    members: list[Member] = field(default_factory=list)

    def at(self, path: Path) -> Value | None:
        """The value at a path below this one; `None` where nothing stands there."""
        found: Value | None = self
        for step in path:
            found = found.child(step) if found else None
        return found

    def child(self, step: str | int) -> Value | None:
        """The member of that name, the last of several as every reader takes it; the item at that place."""
        if isinstance(step, int):
            is_there = self.opens_with == "[" and 0 <= step < len(self.members)
            return self.members[step].value if is_there else None
        member = self.member(step)
        return member.value if member else None

    def member(self, name: str) -> Member | None:
        """The member of that name in an object, with its name."""
        return next((each for each in reversed(self.members) if each.name == name), None)


@dataclass(kw_only=True)
class Member:
    """Something in an object or a list: `start` is where its name begins, `comma` the place behind its comma,
    0 without one."""

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
    """The value that a valid JSON5 text holds.

    Raises:
        ValueError: the text is not JSON5, as far as its marks tell.
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
