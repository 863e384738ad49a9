"""What may stand at a key, in words: "whole number of tokens, from 1". Pure."""

from __future__ import annotations

import json
import types
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel

from nacre.runtime.settings.keys import Field
from nacre.runtime.settings.sections.section import Written

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


def kind_of(found: Field) -> str:
    """What may stand at a key, with its unit and its limits; empty where that cannot be said."""
    if found.info is None:
        return ""
    words = _kind(found.info.annotation, found.info.metadata)
    if found.is_secret and words == "text":
        return "text, never shown"
    name, comma, limits = words.partition(", ")
    unit = _UNITS.get(_last_word(found.name), "") if name in ("whole number", "number") else ""
    return f"{name} of {unit}{comma}{limits}" if unit else words


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
    """What stands beside a type, with the parts of a `Field(…)` one by one."""
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
    """The last word of a name in camel case, in small letters; a floor counts what stands before it."""
    name = name.removesuffix("Floor")
    start = max((place for place, letter in enumerate(name) if letter.isupper()), default=0)
    return name[start:].lower()
