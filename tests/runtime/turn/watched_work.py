"""What a piece of code makes the machine do, counted: waits for the disk, work on threads, files, calls."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from concurrent.futures.thread import _WorkItem  # pyright: ignore[reportPrivateUsage]
from contextlib import contextmanager
from dataclasses import dataclass, replace
from types import FrameType

SYNCS = (os.fsync, getattr(os, "fdatasync", os.fsync))
OPENINGS = (os.open, open)
HOP = _WorkItem.run.__code__


@dataclass
class Work:
    """How often the disk was waited for, a thread given work, a file opened, a function called."""

    syncs: int = 0
    hops: int = 0
    opened: int = 0
    calls: int = 0

    def __sub__(self, earlier: Work) -> Work:
        return Work(
            syncs=self.syncs - earlier.syncs,
            hops=self.hops - earlier.hops,
            opened=self.opened - earlier.opened,
            calls=self.calls - earlier.calls,
        )

    def so_far(self) -> Work:
        """The counts of now, which no longer grow."""
        return replace(self)


@contextmanager
def watched_work() -> Iterator[Work]:
    """Counts until it is left, on this thread and on all that begin meanwhile."""
    work = Work()
    counting = threading.Lock()  # two threads that add at once would count one of them

    def watch(frame: FrameType, event: str, called: object) -> None:
        if event == "c_call":
            with counting:
                work.calls += 1
                work.syncs += called in SYNCS
                work.opened += called in OPENINGS
        elif event == "call":
            with counting:
                work.calls += 1
                work.hops += frame.f_code is HOP

    before = sys.getprofile()
    threading.setprofile(watch)
    sys.setprofile(watch)
    try:
        yield work
    finally:
        sys.setprofile(before)
        threading.setprofile(None)  # type: ignore[arg-type]  # what it takes to end it
