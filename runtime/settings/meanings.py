"""The description and the kind of each setting, from the sections' docstrings; all settings as a JSON
Schema.

Parses the sections' source on demand, because pydantic would do so for every class at every start.
"""

from __future__ import annotations

import ast
import inspect
import json
import re
import textwrap
import types
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel

from nacre.runtime.settings.keys import Field, section_below
from nacre.runtime.settings.sections.section import Written, written_name
from nacre.runtime.settings.settings import Settings

_UNITS = {
    "bytes": "bytes",
    "chars": "characters",
    "days": "days",
    "hours": "hours",
    "messages": "messages",
    "minutes": "minutes",
    "ms": "milliseconds",
    "seconds": "seconds",
    "tokens": "tokens",
    "usd": "US dollars",
}
"""What a number counts, by the last word of its name."""
_PLAIN = {bool: "true or false", int: "whole number", float: "number", str: "text"}
_LINK = re.compile(r"\[([^\]]+)\]\((\w+\.md)[^)]*\)")


def meaning_of(found: Field) -> str:
    """The description of a setting; links are relative to `docs/`."""
    for kind in found.section.__mro__:
        if issubclass(kind, BaseModel) and kind is not BaseModel:
            for name in found.section.model_fields:
                if found.info is found.section.model_fields[name] and name in (told := _meanings(kind)):
                    return told[name]
    return ""


def without_links(words: str) -> str:
    """The text with each link's page after it, for places where links cannot be followed."""
    return _LINK.sub(lambda link: f"{link[1]} (docs/{link[2]})", " ".join(words.split()))


def kind_of(found: Field) -> str:
    """What may be written for a key, with its unit and limits; empty if that cannot be said."""
    if found.info is None:
        return ""
    words = _kind(found.info.annotation, found.info.metadata)
    if found.is_secret and words == "text":
        return "text, never shown"
    name, comma, limits = words.partition(", ")
    unit = _UNITS.get(_last_word(found.name), "") if name in ("whole number", "number") else ""
    return f"{name} of {unit}{comma}{limits}" if unit else words


def schema() -> dict[str, Any]:
    """All settings as a JSON Schema, for editors that complete and check `nacre.json5`."""
    sections = {kind.__name__: kind for kind in _sections(Settings, set())}
    for section in sections.values():
        # Before 2.14, pydantic cannot write a default whose class waits to be built.
        section.model_rebuild()
    made = Settings.model_json_schema(by_alias=True, mode="validation")
    for name, definition in (*made.get("$defs", {}).items(), ("Settings", made)):
        kind = sections.get(name)
        told = {_name(kind, field): text for field, text in _all_meanings(kind).items()} if kind else {}
        for written, about in definition.get("properties", {}).items():
            if text := told.get(written):
                about["description"] = without_links(text)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **made, "title": "nacre.json5"}


def _sections(kind: type[BaseModel], seen: set[type[BaseModel]]) -> set[type[BaseModel]]:
    if kind not in seen:
        seen.add(kind)
        for info in kind.model_fields.values():
            if below := section_below(info.annotation):
                _sections(below, seen)
    return seen


def _all_meanings(kind: type[BaseModel]) -> dict[str, str]:
    told: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        if issubclass(base, BaseModel) and base is not BaseModel:
            told |= _meanings(base)
    return told


@cache
def _meanings(kind: type[BaseModel]) -> Mapping[str, str]:
    """The docstrings of a class's fields; empty if its source is missing."""
    try:
        [body] = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    except (OSError, TypeError, SyntaxError):
        return {}
    assert isinstance(body, ast.ClassDef)
    told = {}
    for item, below in zip(body.body, body.body[1:], strict=False):
        match item, below:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                told[name] = inspect.cleandoc(text)
    return told


def _name(kind: type[BaseModel], field: str) -> str:
    return written_name(kind, field) if field in kind.model_fields else field


def _kind(annotation: Any, metadata: Iterable[Any]) -> str:
    limits = list(metadata)
    if told := next((each.kind for each in limits if isinstance(each, Written)), ""):
        return told
    if get_origin(annotation) is Annotated:
        inner, *more = get_args(annotation)
        return _kind(inner, [*_unpacked(more), *limits])
    parts = [part for part in get_args(annotation) if part is not type(None)]
    if get_origin(annotation) in (Union, types.UnionType):
        return " or ".join(_kind(part, limits) for part in parts)
    if get_origin(annotation) is Literal:
        return _choice(parts)
    if get_origin(annotation) is tuple:
        return f"list of {_many(_kind(parts[0], ()))}"
    if get_origin(annotation) in (Mapping, dict) or (
        isinstance(annotation, type) and issubclass(annotation, BaseModel)
    ):
        words = _kind(parts[-1], ()) if parts else ""
        return f"table of {_many(words)}" if words not in ("", "table") else "table"
    return ", ".join([_PLAIN.get(annotation, ""), *_limits(limits)]).strip(", ")


def _unpacked(metadata: Iterable[Any]) -> list[Any]:
    return [part for each in metadata for part in (getattr(each, "metadata", None) or [each])]


def _limits(metadata: Iterable[Any]) -> list[str]:
    words = {"gt": "above", "ge": "from", "le": "to"}
    found = [
        f"{word} {getattr(each, name)}"
        for each in metadata
        for name, word in words.items()
        if getattr(each, name, None) is not None
    ]
    return [" ".join(found)] if found else []


def _choice(values: Iterable[Any]) -> str:
    *first, last = [f"`{json.dumps(value)}`" for value in values if value != ""]
    return f"{', '.join(first)} or {last}" if first else last


def _many(words: str) -> str:
    return {"text": "texts", "list of texts": "lists of texts"}.get(words, words)


def _last_word(name: str) -> str:
    """The last word of a name in camel case, in lower case. A floor counts what precedes it."""
    name = name.removesuffix("Floor")
    start = max((place for place, letter in enumerate(name) if letter.isupper()), default=0)
    return name[start:].lower()
