"""What every section of `nacre.json5` is, and numbers as other programs write them. Pure."""

from __future__ import annotations

import math
from typing import TypeGuard

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

BYTES = TypeAdapter(ByteSize, config=ConfigDict(defer_build=True))
"""Reads a number of bytes, also as `"2mb"`."""


class SettingsSection(BaseModel):
    """Frozen, under camel-case names; keys that it does not know stand in `model_extra`."""

    model_config = ConfigDict(
        frozen=True,
        extra="allow",
        hide_input_in_errors=True,  # a key in the wrong place must not stand in a trace
        populate_by_name=True,
        alias_generator=AliasGenerator(validation_alias=to_camel),
        defer_build=True,  # a validator is made when there is something to validate
    )


def count_or(default: int, *, least: int = 0, most: float = math.inf) -> BeforeValidator:
    """A non-negative finite number, floored and put within the limits; anything else becomes the default
    (spec sessions §9.1)."""

    def read(value: object) -> object:
        if not _is_number(value) or not 0 <= value < math.inf:
            return default
        return min(most, max(least, int(value)))

    return BeforeValidator(read)


def clamped(kind: type[int] | type[float], least: float, most: float = math.inf) -> BeforeValidator:
    """A number, put within the limits; its type refuses what is none, and what is not finite."""

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


def _is_number(value: object) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and value == value
