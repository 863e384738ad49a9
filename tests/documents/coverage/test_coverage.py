"""Every acceptance line has a row that cannot be false: a test covers it, or what is absent is in no file."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache

import pytest

from tests.documents.coverage import coverage_page
from tests.documents.coverage.coverage_page import ROOT, Line, covered_by, lines, page
from tests.house.tree import HOUSE

FAULTS = ("docs/engineering/faults.md",)
COUNT = 580
"""How many lines there are. One that is dropped is noticed here."""


@cache
def held() -> tuple[Line, ...]:
    return tuple(lines(coverage_page.LINES.read_text(encoding="utf-8")))


@cache
def covering() -> Mapping[str, Sequence[str]]:
    return coverage_page.covered_here()


def test_every_line_has_one_row() -> None:
    """The lines of each group are numbered from 1 without a gap."""
    numbers: dict[str, list[int]] = {}
    for line in held():
        numbers.setdefault(line.group, []).append(line.number)

    assert numbers == {group: list(range(1, len(found) + 1)) for group, found in numbers.items()}
    assert len(held()) == COUNT


def test_every_marker_names_a_line_and_every_line_has_a_test() -> None:
    """A test that is removed leaves no line without one, unless no source file has what it asks."""
    assert sorted(covering().keys() - {str(line) for line in held()}) == []
    assert [str(line) for line in held() if str(line) not in covering() and not line.absent] == []


def test_a_marker_that_would_be_overlooked_is_refused() -> None:
    """It is read from the source, so it stands directly above its test."""
    marked = '    @pytest.mark.covers("A-1", "B-2")\n    async def test_a(self) -> None:\n'

    assert covered_by([marked, marked.replace("test_a", "test_b")]) == {
        "A-1": ["test_a", "test_b"],
        "B-2": ["test_a", "test_b"],
    }
    with pytest.raises(ValueError, match="directly above"):
        covered_by([marked.replace("    async", "    @pytest.mark.slow\n    async")])


def test_every_difference_is_one_sentence() -> None:
    """What is absent is a difference too."""
    assert [str(line) for line in held() if line.absent and not line.instead] == []
    assert [
        str(line) for line in held() if line.instead and not re.fullmatch(r"[^\n]{1,140}\.", line.instead)
    ] == []


def test_what_is_called_absent_is_in_no_source_file() -> None:
    """A row that says that something does not exist fails when somebody builds it."""
    found = []
    for line in held():
        folder, _, expression = line.absent.rpartition(":")
        if expression:
            found += [
                (str(line), source.path)
                for source in HOUSE
                if source.path.startswith(folder) and re.search(expression, source.text)
            ]

    assert found == []


def test_the_page_is_the_one_of_the_lines() -> None:
    """docs/engineering/coverage.md says what lines.toml and the markers say."""
    assert coverage_page.PAGE.read_text(encoding="utf-8") == page(held(), covering()), (
        "draw it anew with `make fix`"
    )


def test_every_fault_that_was_tried_names_its_test() -> None:
    """Each row of a table of faults in the documents names a file of tests, or a test, that exists."""
    text = "".join((ROOT / name).read_text(encoding="utf-8") for name in FAULTS)
    tables = re.findall(r"^\| Fault \|.*\n\|[-|]+\|\n((?:\|.*\n)+)", text, re.MULTILINE)
    rows = [row for table in tables for row in table.splitlines()]
    named = {row: re.findall(r"`(tests/[\w./-]+\.py)(?:::(\w+))?`", row) for row in rows}

    assert len(rows) > 20
    assert [row for row, found in named.items() if not found] == []
    missing = [
        (path, test)
        for found in named.values()
        for path, test in found
        if not (ROOT / path).is_file() or (test and f"def {test}(" not in (ROOT / path).read_text("utf-8"))
    ]
    assert missing == []
