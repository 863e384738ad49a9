"""Values as scripts get them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from nacre.cli.screen.json_text import camel_json


@dataclass(frozen=True, kw_only=True)
class Part:
    """A value inside another."""

    first_line: int


@dataclass(frozen=True, kw_only=True)
class Whole:
    """A value with everything that can stand in one."""

    a_name: str | None
    parts: tuple[Part, ...]
    own_keys: Mapping[str, int]


WHOLE = Whole(a_name=None, parts=(Part(first_line=3),), own_keys={"not_ours": 1})


def test_names_are_in_camel_case_all_the_way_down() -> None:
    """Fields in their order, dataclasses in tuples too; the keys of a mapping are not touched."""
    told = camel_json(WHOLE)

    assert told == {"aName": None, "parts": [{"firstLine": 3}], "ownKeys": {"not_ours": 1}}
    assert list(told) == ["aName", "parts", "ownKeys"]


def test_named_attributes_alone_in_the_order_asked_for() -> None:
    """What is not named is left out."""
    assert list(camel_json(WHOLE, "own_keys", "a_name")) == ["ownKeys", "aName"]
