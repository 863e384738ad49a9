"""Every test ends: one that hangs fails by its time limit instead of holding up everybody."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import SLOW_SECONDS, has_none_chosen

HANGS = """
import asyncio, threading

async def test_waits_for_nobody():
    await asyncio.Event().wait()

def test_waits_for_a_thread():
    threading.Event().wait()
"""


def _limit(item: pytest.Item) -> float:
    own = item.get_closest_marker("timeout")
    return float(own.args[0] if own else str(item.config.getini("timeout") or 0))


def test_every_test_has_a_time_limit(request: pytest.FixtureRequest) -> None:
    """Each collected test has a limit, and slow ones have the longer one."""
    items = request.session.items
    slow = [item for item in items if item.get_closest_marker("slow")]

    assert [item.nodeid for item in items if not 0 < _limit(item) <= SLOW_SECONDS] == []
    assert [item.nodeid for item in slow if _limit(item) < SLOW_SECONDS] == []


def test_no_file_with_a_chosen_test_is_left_out() -> None:
    """By its source alone: a marker may be its own, of all its tests, or of a module that it imports."""
    plain, slow = "def test_a(): pass", "@pytest.mark.slow\ndef test_a(): pass"
    all_slow = "pytestmark = [pytest.mark.postgres, pytest.mark.slow]\n"
    inherits = "from tests.faults.apart.poisoned_home import COUNTS"

    def chosen(expression: str) -> list[bool]:
        return [not has_none_chosen(source, expression) for source in (plain, slow, all_slow, inherits)]

    assert chosen("") == chosen("slow or postgres") == [True] * 4
    assert chosen("not slow and not postgres") == [True, True, False, True]
    assert chosen("slow and not postgres") == [False, True, False, True]
    assert chosen("postgres") == [False, False, True, False]


def test_a_test_that_hangs_fails(tmp_path: Path) -> None:
    """What waits for ever, in the event loop or in a thread, is ended and told as a failure."""
    (tmp_path / "test_hanging.py").write_text(HANGS, encoding="utf-8")

    settings = ["asyncio_mode=auto", "timeout=1", "cache_dir=cache"]

    run = subprocess.run(
        [sys.executable, "-m", "pytest", *(f"--override-ini={setting}" for setting in settings)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
    )

    assert run.returncode == pytest.ExitCode.TESTS_FAILED, run.stdout
    assert "2 failed" in run.stdout
