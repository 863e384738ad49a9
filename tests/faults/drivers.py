"""Runs programs that meet a fault in processes of their own and tell, line by line, how each attempt went."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]


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


def forked(work: Callable[[Callable[[object], None]], Coroutine[Any, Any, None]]) -> tuple[list[Any], int]:
    """Runs `work` in a process of its own: what it told until its end, and its status of `os.waitpid`."""
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read_end)
        asyncio.run(work(lambda value: _tell(write_end, value)))
        os._exit(0)
    os.close(write_end)
    with os.fdopen(read_end) as pipe:
        told = [json.loads(line) for line in pipe]
    _, status = os.waitpid(child, 0)
    return told, status


def _tell(descriptor: int, value: object) -> None:
    os.write(descriptor, json.dumps(value).encode() + b"\n")


class SteppedLoop(asyncio.SelectorEventLoop):
    """An event loop whose clock a test can put forward."""

    ahead_seconds = 0.0

    def time(self) -> float:
        """The loop's clock."""
        return super().time() + self.ahead_seconds
