"""`${NAME}` in the settings file stands for an environment variable. Pure.

As in OpenClaw: names in capitals, anywhere in a text, and `$${NAME}` for the letters themselves.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from nacre.runtime.contracts.errors import ConfigError

_VARIABLE = re.compile(r"\$(?P<literal>\$)?\{(?P<name>[A-Z_][A-Z0-9_]*)\}")


def with_variables(value: Any, environment: Mapping[str, str], *, place: str = "") -> Any:
    """The settings with every variable filled in; `place` is where `value` stands, for sentences.

    Raises:
        ConfigError: a variable is not set, or empty.
    """
    if isinstance(value, Mapping):
        return {
            key: with_variables(item, environment, place=f"{place}.{key}" if place else str(key))
            for key, item in value.items()
        }
    if isinstance(value, list):
        return [with_variables(item, environment, place=place) for item in value]
    if not isinstance(value, str) or "${" not in value:
        return value

    def filled(match: re.Match[str]) -> str:
        if match["literal"]:
            return match[0][1:]
        if text := environment.get(match["name"], "").strip():
            return text
        raise ConfigError(
            f"The setting {place} names the environment variable {match['name']}, which is not set. "
            "Set it, or write the value itself."
        )

    return _VARIABLE.sub(filled, value)
