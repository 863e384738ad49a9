"""docs/coverage.md is whole and true: every acceptance line has a row, every named test exists."""

from __future__ import annotations

import ast
import re
from collections import Counter
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
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
MARKS = ("held", "otherwise", "not here", "later", "open")
"""Held: a test says so. Otherwise: decided differently. The rest have no test, and say why."""

_ROW = re.compile(r"^\| ([A-Z]+\d*)-(\d+) \| ([^|]+) \| ([^|]+) \| (.+) \|$", re.MULTILINE)
_TEST = re.compile(r"`(tests/[\w./-]+\.py)::(\w+)`")


@dataclass(frozen=True, kw_only=True)
class Row:
    group: str
    number: int
    asked: str
    mark: str
    answer: str

    def __str__(self) -> str:
        return f"{self.group}-{self.number}"


def _rows() -> list[Row]:
    text = (ROOT / "docs" / "coverage.md").read_text(encoding="utf-8")
    return [
        Row(group=group, number=int(number), asked=asked.strip(), mark=mark.strip(), answer=answer.strip())
        for group, number, asked, mark, answer in _ROW.findall(text)
    ]


@cache
def _functions(path: str) -> frozenset[str]:
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    return frozenset(
        node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    )


@pytest.mark.parametrize("group", GROUPS)
def test_every_line_has_one_row(group: str) -> None:
    """The rows of a group are numbered from 1 without a gap."""
    numbers = Counter(row.number for row in _rows() if row.group == group)

    assert numbers == Counter(range(1, GROUPS[group] + 1))


def test_every_named_test_exists() -> None:
    """A test that was renamed or removed is noticed here."""
    named = [(str(row), path, test) for row in _rows() for path, test in _TEST.findall(row.answer)]

    assert named
    assert [
        item for item in named if not (ROOT / item[1]).is_file() or item[2] not in _functions(item[1])
    ] == []


def test_every_fault_that_was_tried_names_its_test() -> None:
    """Each row of a table of faults in docs/reliability.md names a file of tests, or a test, that exists."""
    text = (ROOT / "docs" / "reliability.md").read_text(encoding="utf-8")
    tables = re.findall(r"^\| Fault \|.*\n\|[-|]+\|\n((?:\|.*\n)+)", text, re.MULTILINE)
    rows = [row for table in tables for row in table.splitlines()]
    named = {row: re.findall(r"`(tests/[\w./-]+\.py)(?:::(\w+))?`", row) for row in rows}

    assert len(rows) > 20
    assert [row for row, tests in named.items() if not tests] == []
    missing = [
        (path, test)
        for tests in named.values()
        for path, test in tests
        if not (ROOT / path).is_file() or (test and test not in _functions(path))
    ]
    assert missing == []


def test_every_row_is_held_by_a_test_or_says_why_not() -> None:
    """A row without a test has a known mark and a reason; no group is unknown."""
    rows = _rows()

    assert [str(row) for row in rows if row.mark not in MARKS or row.group not in GROUPS] == []
    assert [str(row) for row in rows if row.mark == "held" and not _TEST.search(row.answer)] == []
    assert [str(row) for row in rows if len(_TEST.sub("", row.answer)) < 20 and row.mark != "held"] == []
