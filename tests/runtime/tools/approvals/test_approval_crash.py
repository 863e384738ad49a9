"""Kill -9 between any two writes around an approval: no call runs twice, none is left without an answer."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.drivers import driven

DRIVER = Path(__file__).with_name("approval_crash_driver.py")


@pytest.mark.slow
def test_a_kill_around_an_approval_runs_no_call_twice(tmp_path: Path) -> None:
    """The process dies before its first write, its second, …; another goes on with what is on disk.

    Each payment is made once at most; what was approved before its call began is made after all; the model
    is told what became of each, and no call stands in a request without a result.
    """
    outcomes = driven(DRIVER, tmp_path, seconds=600)
    assert len([outcome for outcome in outcomes if outcome["killed"]]) > 30
    assert not outcomes[-1]["killed"]
    assert outcomes[-1]["paid"] == ["5 to Ann", "7 to Bob"]
    assert [outcome for outcome in outcomes if outcome["problem"]] == []
