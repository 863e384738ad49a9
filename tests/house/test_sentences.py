"""What sentences for people are made of, as far as a machine can see."""

from __future__ import annotations

import ast

from tests.house.tree import HOUSE


def test_numbers_are_written_out() -> None:
    """`:g` alone writes a large setting as `1e+09 seconds`."""
    short = [
        f"{source.path}:{node.lineno}"
        for source in HOUSE
        for node in ast.walk(source.tree)
        if isinstance(node, ast.FormattedValue)
        and isinstance(node.format_spec, ast.JoinedStr)
        and [getattr(part, "value", "") for part in node.format_spec.values] == ["g"]
    ]
    assert short == []
