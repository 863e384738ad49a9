"""Runs programs that meet a fault in processes of their own and tell, line by line, how each attempt went."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]


def driven(driver: Path, *arguments: str | Path, seconds: float = 170) -> list[Any]:
    """What a driver prints, a JSON value a line; it has to end well within `seconds`."""
    run = subprocess.run(
        [sys.executable, str(driver), *map(str, arguments)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )
    assert run.returncode == 0, run.stderr[-2000:]
    return [json.loads(line) for line in run.stdout.splitlines()]


class SteppedLoop(asyncio.SelectorEventLoop):
    """An event loop whose clock a test can put forward."""

    ahead_seconds = 0.0

    def time(self) -> float:
        """The loop's clock."""
        return super().time() + self.ahead_seconds
