"""The time zone of the owner's days."""

from __future__ import annotations

import subprocess
import sys

import pytest

_PROGRAM = """
from datetime import UTC, datetime
from nacre.runtime.contracts.clock import owner_zone
for month in (1, 7):
    print(datetime(2026, month, 1, tzinfo=UTC).astimezone(owner_zone(None)).strftime("%z"), end=" ")
"""


@pytest.mark.parametrize(
    ("variable", "offsets"),
    [
        ("CET-1CEST,M3.5.0,M10.5.0/3", "+0100 +0200 "),
        (":<+0545>-5:45", "+0545 +0545 "),
        ("NZST-12NZDT,M9.5.0,M4.1.0/3", "+1300 +1200 "),
        ("Pacific/Chatham", "+1345 +1245 "),
        ("Nowhere/Else", "+0000 +0000 "),
    ],
)
def test_a_zone_of_the_environment_may_be_a_rule(variable: str, offsets: str) -> None:
    """`TZ` names a zone or has the rule of one, with its summer time, as in C; what it has not is UTC."""
    environment = {"TZ": variable, "PYTHONPATH": ":".join(sys.path)}

    ended = subprocess.run(
        [sys.executable, "-c", _PROGRAM], env=environment, capture_output=True, text=True, check=False
    )

    assert ended.stdout == offsets, ended.stderr
