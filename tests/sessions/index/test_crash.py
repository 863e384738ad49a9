"""Kill -9 between any two writes of a change of the index: it was made or it was not, and nothing is lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.drivers import driven

DRIVER = Path(__file__).with_name("crash_driver.py")


@pytest.mark.slow
def test_a_kill_between_any_two_writes_leaves_a_whole_index(tmp_path: Path) -> None:
    """A fresh session, going back, and a deletion are killed before their first write, their second, …"""
    attempts = driven(DRIVER, tmp_path, seconds=120)
    assert len([attempt for attempt in attempts if attempt["killed"]]) >= 15
    assert attempts[-1] == {"killed": False, "status": 0, "problem": ""}
    assert [attempt for attempt in attempts if attempt["problem"]] == []
