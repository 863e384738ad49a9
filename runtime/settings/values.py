"""Numbers as settings files of several programs write them; one that cannot be used becomes the default."""

from __future__ import annotations

from pydantic import BeforeValidator, ByteSize, ConfigDict, TypeAdapter, ValidationError

BYTES = TypeAdapter(ByteSize, config=ConfigDict(defer_build=True))
"""Reads a number of bytes, also as `"2mb"`."""


def count_or(default: int) -> BeforeValidator:
    """A non-negative finite number, floored; anything else becomes the default (spec sessions §9.1)."""

    def read(value: object) -> object:
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < float("inf"):
            return default
        return int(value)

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
