"""Edits of a JSON5 text that leave every other character unchanged.

`pyjson5` discards comments and layout. Of the libraries that keep them, `json-five` uses the module name of
another well-known package, and `json5kit` does not support `/* */`. So positions are found here, and
`pyjson5` checks the edits that are based on them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, TypeAlias

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
    """A member of an object or a list: where its name begins, and the place after its comma, or 0."""

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
    """The value of a valid JSON5 text. Raises `ValueError` if the text is not JSON5."""
    tokens: list[_Token] = []
    place = 0
    while place < len(text):
        match = _TOKEN.match(text, place)
        if match is None:
            raise ValueError(f"unexpected character {place}")
        if match.lastgroup != "blank":
            tokens.append(_Token(str(match.lastgroup), match[0], place))
        place = match.end()
    value, rest = _value(tokens, 0)
    if rest != len(tokens):
        raise ValueError(f"there is text after the end, at character {tokens[rest].start}")
    return value


def _value(tokens: Sequence[_Token], at: int) -> tuple[Value, int]:
    token = _token(tokens, at)
    if token.text not in ("{", "["):
        if token.kind == "mark":
            raise ValueError(f"{token.text!r} in place of a value, at character {token.start}")
        return Value(start=token.start, end=token.end), at + 1
    value, at = Value(start=token.start, opens_with=token.text), at + 1
    closing = "}" if token.text == "{" else "]"
    while _token(tokens, at).text != closing:
        first, name = _token(tokens, at), None
        if closing == "}":
            if first.kind == "mark" or _token(tokens, at + 1).text != ":":
                raise ValueError(f"no name and colon at character {first.start}")
            is_bare = first.kind != "text" and "\\" not in first.text
            name, at = first.text if is_bare else str(*pyjson5.decode(f"{{{first.text}: 0}}")), at + 2
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


_PLAIN_NAME = re.compile(r"[A-Za-z_$][A-Za-z0-9_$]*")
_INDENT = "  "
_Span: TypeAlias = tuple[int, int, str]


def with_value(text: str, path: Path, value: Any) -> str:
    """The text with `value` (plain JSON values) at a path. Missing parents are created as objects.

    A new member follows the last one, a new item is appended to its list. Comments stay, also those in a
    value that is replaced member by member.

    Raises:
        ValueError: the text is not JSON5, or the path leads through a plain value.
    """

    def put(holder: Any, step: str | int) -> None:
        if isinstance(holder, list) and step == len(holder):
            holder.append(value)
        else:
            holder[step] = value

    return _changed(text, path, lambda whole, root: _put(whole, root, path, value), put)


def without(text: str, path: Path) -> str:
    """The text without the member or item at a path, and without its line if it had one to itself.

    Raises:
        ValueError: the text is not JSON5, or nothing is there.
    """

    def take(holder: Any, step: str | int) -> None:
        del holder[step]

    return _changed(text, path, lambda whole, root: _taken(whole, root, path), take)


def readings(written: str) -> list[Any]:
    """What a typed value may mean: JSON5, and plain text; the likelier first."""
    try:
        value = pyjson5.decode(written)
    except pyjson5.Json5Exception:
        return [written]
    return [value] if isinstance(value, dict | list | bool | None) else [value, written]


def _changed(
    text: str,
    path: Path,
    span_of: Callable[[str, Value], _Span],
    apply: Callable[[Any, str | int], None],
) -> str:
    whole, is_bare = _with_braces(text)
    root = outermost(whole)
    start, end, new = span_of(whole, root)
    made = whole[:start] + new + whole[end:]
    wanted = holder = pyjson5.decode(whole)
    for step, below in pairwise(path):
        empty: Any = [] if isinstance(below, int) else {}
        if isinstance(holder, list) and step == len(holder):
            holder.append(empty)
        holder = holder.setdefault(step, empty) if isinstance(holder, dict) else holder[step]
    apply(holder, path[-1])
    if pyjson5.decode(made) != wanted:
        raise ValueError("the text has a form in which this change cannot be made")
    return made[1:-2] if is_bare else made


def _with_braces(text: str) -> tuple[str, bool]:
    if not text.strip():
        return "{\n}\n", False
    try:
        pyjson5.decode(text)
    except pyjson5.Json5Exception:
        return f"{{{text}\n}}", True
    return text, False


def _put(text: str, root: Value, path: Path, value: Any) -> _Span:
    if there := root.at(path):
        return there.start, there.end, _written(value, _indent_at(text, there.start), _is_quoting(text, root))
    known = next(length for length in range(len(path) - 1, -1, -1) if root.at(path[:length]))
    holder = root.at(path[:known])
    assert holder is not None, "the root is there"
    for step in reversed(path[known + 1 :]):
        if isinstance(step, int) and step != 0:
            raise ValueError("a new list begins with the item 0")
        value = [value] if isinstance(step, int) else {step: value}
    step = path[known]
    is_fit = holder.opens_with == ("[" if isinstance(step, int) else "{")
    if not is_fit or (isinstance(step, int) and step != len(holder.members)):
        needed = "list of that length" if isinstance(step, int) else "object"
        raise ValueError(f"the parent of {step!r} is not a{'n' * (needed == 'object')} {needed}")
    return _added(text, root, holder, step, value)


def _added(text: str, root: Value, holder: Value, step: str | int, value: Any) -> _Span:
    quotes = _is_quoting(text, holder if holder.members and holder.opens_with == "{" else root)
    name = "" if isinstance(step, int) else f"{_name(step, quotes)}: "
    if not holder.members:
        outer = _indent_at(text, holder.start)
        inner = outer + _INDENT
        held = text[holder.start + 1 : holder.end - 1].rstrip()
        new = f"{held}\n{inner}{name}{_written(value, inner, quotes)}{'' if quotes else ','}\n{outer}"
        return holder.start + 1, holder.end - 1, new
    last = holder.members[-1]
    behind, comma = (last.comma, "") if last.comma else (last.value.end, ",")
    line_start = text.rfind("\n", 0, last.start) + 1
    if text[line_start : last.start].strip():  # several members are on one line
        written = _written(value, _indent_at(text, last.start), quotes)
        return behind, behind, f"{comma} {name}{written}"
    indent = text[line_start : last.start]
    place = _line_end(text, behind, holder.end - 1)
    end = "," if last.comma else ""
    new = f"{comma}{text[behind:place]}\n{indent}{name}{_written(value, indent, quotes)}{end}"
    return behind, place, new


def _taken(text: str, root: Value, path: Path) -> _Span:
    holder, step = root.at(path[:-1]), path[-1]
    member: Member | None = None
    if holder and isinstance(step, str):
        member = holder.member(step)
    elif holder and isinstance(step, int) and holder.opens_with == "[" and step < len(holder.members):
        member = holder.members[step]
    if member is None:
        raise ValueError("there is nothing at this place")
    start, end = member.start, member.comma or member.value.end
    line_start = text.rfind("\n", 0, start) + 1
    line_end = text.find("\n", end)
    if line_end >= 0 and not text[line_start:start].strip() and not text[end:line_end].strip():
        return line_start, line_end + 1, ""
    while end < len(text) and text[end] in " \t":
        end += 1
    return start, end, ""


def _line_end(text: str, place: int, limit: int) -> int:
    """The end of a line if only a comment precedes it, so that the comment stays with its value."""
    line_end = text.find("\n", place, limit)
    rest = text[place : line_end if line_end >= 0 else limit].strip()
    if line_end < 0 or not (
        rest == "" or rest.startswith("//") or re.fullmatch(r"/\*(?:(?!\*/).)*\*/", rest)
    ):
        return place
    return line_end


def _indent_at(text: str, place: int) -> str:
    line = text[text.rfind("\n", 0, place) + 1 : place]
    return line[: len(line) - len(line.lstrip())]


def _is_quoting(text: str, value: Value) -> bool:
    """Whether the names in an object are quoted, judging by the first one."""
    return bool(value.members) and text[value.members[0].start] in "\"'"


def _name(name: str, quotes: bool) -> str:
    return name if not quotes and _PLAIN_NAME.fullmatch(name) else json.dumps(name, ensure_ascii=False)


def _written(value: Any, indent: str, quotes: bool) -> str:
    """A value as JSON5 in several lines, with names in the owner's style."""
    inner = indent + _INDENT
    if isinstance(value, dict) and value:
        members = (f"{_name(key, quotes)}: {_written(item, inner, quotes)}" for key, item in value.items())
        return f"{{\n{inner}" + f",\n{inner}".join(members) + f"{'' if quotes else ','}\n{indent}}}"
    if isinstance(value, list) and any(isinstance(item, dict | list) for item in value):
        items = (_written(item, inner, quotes) for item in value)
        return f"[\n{inner}" + f",\n{inner}".join(items) + f"{'' if quotes else ','}\n{indent}]"
    return json.dumps(value, ensure_ascii=False)
