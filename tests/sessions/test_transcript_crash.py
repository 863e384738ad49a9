"""Kill -9 between any two writes to transcripts: migrated, mended, appended to, forked or gone back in."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

DRIVER = Path(__file__).with_name("transcript_crash_driver.py")


@pytest.mark.slow
def test_a_kill_between_any_two_writes_loses_no_line(tmp_path: Path) -> None:
    """Wherever it strikes, all files open and go on, every old line stands somewhere, a fork is whole."""
    run = subprocess.run(
        [sys.executable, str(DRIVER), str(tmp_path)],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert run.returncode == 0, run.stderr[-2000:]
    attempts = [json.loads(line) for line in run.stdout.splitlines()]
    assert len([attempt for attempt in attempts if attempt["killed"]]) >= 30
    assert attempts[-1] == {"killed": False, "status": 0, "problem": ""}
    assert [attempt for attempt in attempts if attempt["problem"]] == []
