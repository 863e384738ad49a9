"""Kill -9 between any two writes while a session ends: notes and hooks are done, and only once."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

DRIVER = Path(__file__).with_name("ending_crash_driver.py")


@pytest.mark.slow
def test_a_kill_while_a_session_ends_costs_no_note_and_writes_none_twice(tmp_path: Path) -> None:
    """Each session that is over has its flush and exactly one note, wherever its process was killed."""
    run = subprocess.run(
        [sys.executable, str(DRIVER), str(tmp_path)],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=170,
        check=False,
    )

    assert run.returncode == 0, run.stderr[-2000:]
    outcomes = [json.loads(line) for line in run.stdout.splitlines()]
    assert len([outcome for outcome in outcomes if outcome["killed"]]) > 40
    assert not outcomes[-1]["killed"]
    assert [outcome for outcome in outcomes if outcome["problem"]] == []
