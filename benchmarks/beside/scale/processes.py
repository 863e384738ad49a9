"""How long processes computed, as Linux counts it. Edge: /proc."""

from __future__ import annotations

import os
import time
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")


def computed_seconds(pid: int) -> float:
    """Of one process with its threads, and of its children that have ended and were waited for."""
    return sum(_stat(pid)[11:15]) / _TICKS


def server_seconds(backend: int) -> float:
    """Of a PostgreSQL server on this machine, all its processes, by one of them."""
    postmaster = _stat(backend)[1]
    seconds = computed_seconds(postmaster)
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            try:
                if _stat(int(folder.name))[1] == postmaster:
                    seconds += computed_seconds(int(folder.name))
            except OSError:
                continue  # it ended meanwhile, and its server counts it
    return seconds


def resident_bytes(pid: int | str = "self") -> int:
    """Of memory that a process has; what it shares with others counts too."""
    pages = Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


class Busy:
    """How many of the machine's cores all processes together used since it was made."""

    def __init__(self) -> None:
        self._began, self._used = time.perf_counter(), _busy_seconds()

    def cores(self) -> float:
        """On average."""
        return (_busy_seconds() - self._used) / (time.perf_counter() - self._began)


def _stat(pid: int) -> list[int]:
    """The numbers behind the state: parent first, user and system time at 11 to 14."""
    text = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    return [0, *map(int, text[text.rindex(")") + 4 :].split()[:20])]


def _busy_seconds() -> float:
    user, nice, system, _idle, _wait, interrupts, soft, *_ = map(
        int, Path("/proc/stat").read_text(encoding="ascii").split("\n", 1)[0].split()[1:]
    )
    return (user + nice + system + interrupts + soft) / _TICKS
