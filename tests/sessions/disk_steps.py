"""In which order a piece of code gives files their names, and waits until the disk has them."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

Step = tuple[str, str]
"""`("named", file)` for a rename, a removal or a new file, `("opened", folder)`, `("synced", "")`."""

_watched: list[tuple[str, list[Step]]] = []
_has_hook = False


@contextmanager
def disk_steps(folder: Path) -> Iterator[list[Step]]:
    """The steps in a folder, on this thread and on all that begin meanwhile; names are relative to it."""
    global _has_hook
    if not _has_hook:
        sys.addaudithook(_on_event)
        _has_hook = True
    steps: list[Step] = []
    watched = (str(folder), steps)

    def watch(_frame: FrameType, event: str, called: object) -> None:
        if event == "c_call" and called is os.fsync:
            steps.append(("synced", ""))

    before = sys.getprofile()
    _watched.append(watched)
    threading.setprofile(watch)
    sys.setprofile(watch)
    try:
        yield steps
    finally:
        sys.setprofile(before)
        threading.setprofile(None)  # type: ignore[arg-type]  # what it takes to end it
        _watched.remove(watched)


def is_on_disk(steps: list[Step], file: str) -> bool:
    """Whether the folder of a file was synced after the file last got or lost its name."""
    folder = str(Path(file).parent)
    named = max(number for number, step in enumerate(steps) if step == ("named", file))
    pairs = list(zip(steps[named:], steps[named + 1 :], strict=False))
    return (("opened", folder), ("synced", "")) in pairs


def _on_event(event: str, arguments: tuple[object, ...]) -> None:
    if not _watched:
        return
    if event == "os.rename":
        _tell("named", arguments[1])
    elif event == "os.remove":
        _tell("named", arguments[0])
    elif event == "open" and isinstance(arguments[2], int):
        if isinstance(arguments[0], str | Path) and Path(arguments[0]).is_dir():
            _tell("opened", arguments[0])
        elif arguments[2] & os.O_CREAT:
            _tell("named", arguments[0])


def _tell(what: str, path: object) -> None:
    for folder, steps in _watched:
        if isinstance(path, str | Path) and Path(path).is_relative_to(folder):
            steps.append((what, str(Path(path).relative_to(folder))))
