"""The base class of all sections of `nacre.json5`, and numbers as other programs write them.

The files with sections do not use `from __future__ import annotations`: pydantic would compile each of the
280 annotations at every start, a quarter of the sections' time.
"""

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, TypeGuard

from pydantic import (
    AliasGenerator,
    BaseModel,
    BeforeValidator,
    ByteSize,
    ConfigDict,
    TypeAdapter,
    ValidationError,
)
from pydantic.alias_generators import to_camel

from nacre.memory.contracts.settings import Unwritten

BYTES = TypeAdapter(ByteSize, config=ConfigDict(defer_build=True))
"""Parses a number of bytes, also as `"2mb"`."""

_UNIT_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_DURATION = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)?\s*", re.IGNORECASE)


@dataclass(frozen=True)
class Written:
    """Says in an annotation how its value is written, if the type is only `str` or `int`."""

    kind: str


DURATION = Written("duration")
SIZE = Written("number of bytes, or a size")


class SettingsSection(Unwritten):
    """A frozen section with camel-case keys; unknown keys are in `model_extra`."""

    model_config = ConfigDict(
        frozen=True,
        extra="allow",
        hide_input_in_errors=True,  # a key in the wrong place must not appear in a traceback
        populate_by_name=True,
        alias_generator=AliasGenerator(validation_alias=to_camel),
        defer_build=True,  # a validator is made when there is something to validate
    )
    others_keys: ClassVar[bool] = False
    """Whether somebody else reads its unknown keys and reports those that nobody reads."""


def unread_keys(section: BaseModel, path: str = "") -> Iterator[str]:
    """Dotted names of unread keys in a section and below, in file order, with suggestions for typos."""
    if not (isinstance(section, SettingsSection) and section.others_keys):
        for name in section.model_extra or {}:
            near = nearest_key(name, type(section))
            yield f"{path}{name} (did you mean {path}{near}?)" if near else f"{path}{name}"
    for name in type(section).model_fields:
        if name in section.model_fields_set:
            yield from _unread_below(getattr(section, name), f"{path}{written_name(type(section), name)}.")


def key_names(section: type[BaseModel]) -> list[str]:
    return [written_name(section, name) for name in section.model_fields]


def written_name(section: type[BaseModel], name: str) -> str:
    return section.model_fields[name].alias or to_camel(name)


def nearest_key(name: str, section: type[BaseModel]) -> str:
    """The key of a section that is most similar to a name, or an empty string."""
    from difflib import get_close_matches

    names = {written.lower(): written for written in key_names(section)}
    found = get_close_matches(name.lower(), names, n=1, cutoff=0.75)
    return names[found[0]] if found else ""


def count_or(default: int, *, least: int = 0, most: float = math.inf) -> BeforeValidator:
    """A finite number from 0, floored and clamped; anything else is the default (spec sessions §9.1)."""

    def read(value: object) -> object:
        if not _is_number(value) or not 0 <= value < math.inf:
            return default
        return min(most, max(least, int(value)))

    return BeforeValidator(read)


def clamped(kind: type[int] | type[float], least: float, most: float = math.inf) -> BeforeValidator:
    """A clamped number; its type rejects other values and infinite ones."""

    def read(value: object) -> object:
        within = min(most, max(least, value)) if _is_number(value) else math.nan
        return kind(within) if within < math.inf else value

    return BeforeValidator(read)


def bytes_or(default: int) -> BeforeValidator:
    """A number of bytes, also as OpenClaw writes it (`"2mb"`); anything else becomes the default."""

    def read(value: object) -> object:
        if isinstance(value, bool) or not isinstance(value, int | float | str):
            return default
        try:
            return max(0, int(BYTES.validate_python(value)))
        except ValidationError:
            return default

    return BeforeValidator(read)


def as_duration(value: object) -> object:
    """A duration as OpenClaw writes it: `"5m"`, `"1h"`; a bare number is minutes."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return value
    if _DURATION.fullmatch(str(value)) is None:
        raise ValueError(f"{value!r} is not a duration; write it like '5m', '90s' or '1h'")
    return str(value)


def duration_seconds(text: str) -> float:
    match = _DURATION.fullmatch(text)
    assert match is not None, "it was validated"
    return float(match[1]) * _UNIT_SECONDS[(match[2] or "m").lower()]


def _is_number(value: object) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and value == value


def _unread_below(value: Any, path: str) -> Iterator[str]:
    if isinstance(value, BaseModel):
        yield from unread_keys(value, path)
    elif isinstance(value, Mapping):
        for name, item in value.items():
            yield from _unread_below(item, f"{path}{name}.")
    elif isinstance(value, tuple):
        for place, item in enumerate(value):
            yield from _unread_below(item, f"{path.removesuffix('.')}[{getattr(item, 'id', place)}].")
