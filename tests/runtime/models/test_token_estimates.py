"""How far the estimate, which stands in where no table is, lies from tiktoken's two tables.

The texts are of the sorts that fill a conversation. The bounds are what was measured, rounded up; a
report (`--junit-xml`) holds the numbers of a run.
"""

from __future__ import annotations

import inspect
import json
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from nacre.runtime.models.tokenizer import count_tokens_for, estimate_tokens

TEXTS = Path(__file__).parents[2] / "fixtures" / "tokens"
NEWER, OLDER = "openai/gpt-4o", "openai/gpt-4-turbo"
"""`o200k_base`, which all unknown models are counted with, and `cl100k_base`."""


def text(name: str) -> str:
    return (TEXTS / f"{name}.txt").read_text(encoding="utf-8")


def code() -> str:
    """A module of the standard library: comments, long strings, nested blocks."""
    return inspect.getsource(tomllib._parser)  # type: ignore[attr-defined]  # for its length and its style


def records() -> str:
    """JSON as tools answer it: ids, numbers, paths, flags, nested objects."""
    return json.dumps(
        [
            {
                "id": f"{number * 2_654_435_761 % 2**32:08x}",
                "path": f"src/module_{number}/handlers.py",
                "status": ["open", "closed", "merged"][number % 3],
                "score": round(number * 0.37, 3),
                "labels": [f"area/{name}" for name in ("index", "search", "cli")[: number % 4]],
                "author": {"login": f"user{number}", "active": number % 2 == 0, "since": None},
            }
            for number in range(60)
        ],
        indent=2,
    )


SORTS: dict[str, Callable[[], str]] = {
    "prose": lambda: text("prose"),
    "code": code,
    "json": records,
    "chinese": lambda: text("chinese"),
    "japanese": lambda: text("japanese"),
    "korean": lambda: text("korean"),
}


@pytest.mark.parametrize(
    ("sort", "newer_percent", "older_percent"),
    [
        ("prose", 5, 5),
        ("code", 5, 5),
        ("json", 11, 12),
        ("chinese", 10, 30),
        ("japanese", 10, 35),
        ("korean", 10, 46),
    ],
)
def test_the_error_of_the_estimate_by_sort_of_text(
    sort: str, newer_percent: float, older_percent: float, record_property: Callable[[str, object], None]
) -> None:
    """Against the table of newer models the estimate is near; older models need more for other scripts."""
    sample = SORTS[sort]()
    estimated = estimate_tokens(sample)
    errors = {}
    for name, model in (("o200k_base", NEWER), ("cl100k_base", OLDER)):
        exact = count_tokens_for(model)(sample)
        errors[name] = 100 * (estimated - exact) / exact
        record_property(f"{name}_tokens", exact)
        record_property(f"{name}_error_percent", round(errors[name], 1))

    assert abs(errors["o200k_base"]) <= newer_percent, errors
    assert abs(errors["cl100k_base"]) <= older_percent, errors
