"""Kill -9 between any two writes of a change of the index: it was made or it was not, and nothing is lost."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

DRIVER = Path(__file__).with_name("index_crash_driver.py")


@pytest.mark.slow
def test_a_kill_between_any_two_writes_leaves_a_whole_index(tmp_path: Path) -> None:
    """A fresh session, going back, and a deletion are killed before their first write, their second, …"""
    run = subprocess.run(
        [sys.executable, str(DRIVER), str(tmp_path)],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert run.returncode == 0, run.stderr[-2000:]
    attempts = [json.loads(line) for line in run.stdout.splitlines()]
    assert len([attempt for attempt in attempts if attempt["killed"]]) >= 15
    assert attempts[-1] == {"killed": False, "status": 0, "problem": ""}
    assert [attempt for attempt in attempts if attempt["problem"]] == []
