"""Every test ends: one that hangs fails by its time limit instead of holding up everybody."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import SLOW_SECONDS

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
