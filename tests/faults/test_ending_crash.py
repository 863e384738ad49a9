"""Kill -9 between any two writes while a session ends: notes and hooks are done, and only once."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.drivers import driven

DRIVER = Path(__file__).with_name("ending_crash_driver.py")


@pytest.mark.slow
def test_a_kill_while_a_session_ends_costs_no_note_and_writes_none_twice(tmp_path: Path) -> None:
    """Each session that is over has its flush and exactly one note, wherever its process was killed."""
    outcomes = driven(DRIVER, tmp_path)
    assert len([outcome for outcome in outcomes if outcome["killed"]]) > 40
    assert not outcomes[-1]["killed"]
    assert [outcome for outcome in outcomes if outcome["problem"]] == []
