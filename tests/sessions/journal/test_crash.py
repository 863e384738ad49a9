"""Kill -9 between any two writes to transcripts: migrated, mended, appended to, forked or gone back in."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.drivers import driven

DRIVER = Path(__file__).with_name("crash_driver.py")


@pytest.mark.slow
def test_a_kill_between_any_two_writes_loses_no_line(tmp_path: Path) -> None:
    """Wherever it strikes, all files open and go on, every old line stands somewhere, a fork is whole."""
    attempts = driven(DRIVER, tmp_path, seconds=240)
    assert len([attempt for attempt in attempts if attempt["killed"]]) >= 30
    assert attempts[-1] == {"killed": False, "status": 0, "problem": ""}
    assert [attempt for attempt in attempts if attempt["problem"]] == []
