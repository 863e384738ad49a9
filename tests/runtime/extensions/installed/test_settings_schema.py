"""The settings of an extension against the schema that it brings: what is checked, and at which cost."""

from __future__ import annotations

import time
from typing import Any

import pytest

from nacre.runtime.extensions.installed.settings_schema import is_cheap, settings_problems


def problems(config: dict[str, Any], schema: dict[str, Any]) -> tuple[str, ...]:
    """What does not fit."""
    return settings_problems(config, schema, key="x")


@pytest.mark.parametrize(
    "pattern",
    ["^(a+)+$", "(a|a)*b", "a*a*a*b", "^[a]+[a]+[a]+$", "(.*),(.*),(.*)!", r"(a*)\\1b", "a{0,900}a{0,900}b"],
)
@pytest.mark.parametrize("keyword", ["pattern", "patternProperties", "format"])
def test_a_costly_expression_of_an_extension_is_not_matched(pattern: str, keyword: str) -> None:
    """Neither the value of a setting nor its name, and the schema itself is not compiled."""
    text = "a" * 900 + "!"
    schemas: dict[str, dict[str, Any]] = {
        "pattern": {"properties": {"a": {"type": "string", "pattern": pattern}}},
        "patternProperties": {"patternProperties": {pattern: {"type": "integer"}}},
        "format": {"properties": {"a": {"format": "regex", "const": text}}},
    }
    began = time.process_time()
    assert problems({"a" if keyword != "patternProperties" else text: text}, schemas[keyword]) == ()
    assert time.process_time() - began < 2
    assert not is_cheap(pattern)


@pytest.mark.parametrize(
    ("pattern", "value", "fits"),
    [
        ("^sk-", "sk-1", True),
        ("^sk-", "pk-1", False),
        ("^[a-z]+@[a-z.]+$", "ann", False),
        ("b+$", "abb", True),
    ],
)
def test_a_cheap_expression_is_matched(pattern: str, value: str, fits: bool) -> None:
    """As the author of an extension expects."""
    schema = {"properties": {"key": {"type": "string", "pattern": pattern}}}
    assert (problems({"key": value}, schema) == ()) is fits


def test_references_that_double_end() -> None:
    """They cost a bounded number of steps, and the extension is left out with a sentence."""
    doubled = {f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(24)}
    schema = {"$defs": {**doubled, "d24": {"type": "string"}}, "properties": {"a": {"$ref": "#/$defs/d0"}}}
    [told] = problems({"a": "x"}, schema)
    assert "more than 5000 steps" in told
