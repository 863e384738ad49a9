"""Every acceptance line has a row that cannot be false: its tests exist, and what is absent is in no file."""

from __future__ import annotations

import re
from functools import cache

import pytest

from tests.documents.coverage import coverage_page
from tests.documents.coverage.coverage_page import ROOT, Line, file_of, files_by_test, lines, page
from tests.house.tree import HOUSE

FAULTS = ("docs/engineering/faults.md",)
GROUPS = {
    "CFG": 14,
    "DISC": 8,
    "CHUNK": 8,
    "EMB": 14,
    "BATCH": 12,
    "IDX": 17,
    "SESS": 6,
    "SRCH": 17,
    "TOOL": 8,
    "GET": 3,
    "CLI": 12,
    "A1": 21,
    "A2": 13,
    "W2": 2,
    "W3": 1,
    "A13": 8,
    "A3": 8,
    "A4": 12,
    "A9": 8,
    "A10": 13,
    "A11": 12,
    "A12": 11,
    "A16": 4,
    "W4": 4,
    "W7": 6,
    "W8": 13,
    "W9": 7,
    "W15": 2,
    "A6": 18,
    "W5": 7,
    "A7": 5,
    "A8": 8,
    "A18": 3,
    "W17": 1,
    "A5": 18,
    "A15": 5,
    "A19": 4,
    "W12": 4,
    "W13": 2,
    "W14": 1,
    "A14": 2,
    "A17": 5,
    "A20": 2,
    "W10": 2,
    "W11": 2,
    "W16": 1,
    "LDB": 12,
    "QMD": 48,
    "ASK": 25,
    "SEED": 33,
    "FACT": 12,
    "PART": 35,
    "ATT": 18,
    "Q": 43,
}
"""How many lines each group has. A line that is dropped is noticed here."""


@cache
def held() -> tuple[Line, ...]:
    return tuple(lines(coverage_page.LINES.read_text(encoding="utf-8")))


def test_every_line_has_one_row() -> None:
    """The lines of each group are numbered from 1 without a gap, and no group is unknown."""
    numbers: dict[str, list[int]] = {}
    for line in held():
        numbers.setdefault(line.group, []).append(line.number)

    assert numbers == {group: list(range(1, count + 1)) for group, count in GROUPS.items()}


def test_every_named_test_exists_once() -> None:
    """A test that was renamed, removed or copied is noticed here."""
    assert [file_of(test, files_by_test()) for line in held() for test in line.tests]


def test_a_name_that_leads_nowhere_or_to_two_files_is_refused() -> None:
    """With the names of the files, and with what to write instead."""
    files = {"test_a": ["tests/x/test_one.py"], "test_b": ["tests/x/test_one.py", "tests/y/test_one.py"]}

    assert file_of("test_a", files) == "tests/x/test_one.py"
    assert file_of("y/test_one.py::test_b", files) == "tests/y/test_one.py"
    with pytest.raises(ValueError, match="no file has a test of this name"):
        file_of("test_c", files)
    with pytest.raises(ValueError, match=r"tests/x/test_one\.py and tests/y/test_one\.py"):
        file_of("test_b", files)
    with pytest.raises(ValueError, match=r"test_one\.py has a test of this name"):
        file_of("test_two.py::test_a", files)


def test_every_row_can_fail() -> None:
    """A row names tests, or what no source file has; a difference is one sentence."""
    assert [str(line) for line in held() if not line.tests and not line.absent] == []
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
    """docs/engineering/coverage.md says what lines.toml says."""
    assert coverage_page.PAGE.read_text(encoding="utf-8") == page(held()), "draw it anew with `make fix`"


def test_every_fault_that_was_tried_names_its_test() -> None:
    """Each row of a table of faults in the documents names a file of tests, or a test, that exists."""
    text = "".join((ROOT / name).read_text(encoding="utf-8") for name in FAULTS)
    tables = re.findall(r"^\| Fault \|.*\n\|[-|]+\|\n((?:\|.*\n)+)", text, re.MULTILINE)
    rows = [row for table in tables for row in table.splitlines()]
    named = {row: re.findall(r"`(tests/[\w./-]+\.py)(?:::(\w+))?`", row) for row in rows}

    assert len(rows) > 20
    assert [row for row, tests in named.items() if not tests] == []
    missing = [
        (path, test)
        for tests in named.values()
        for path, test in tests
        if not (ROOT / path).is_file() or (test and path not in files_by_test().get(test, ()))
    ]
    assert missing == []
