"""Which files a piece of code opens, as the interpreter's audit events tell it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_watched: list[tuple[str, list[Path]]] = []
_has_hook = False


@contextmanager
def opened_files(folder: Path) -> Iterator[list[Path]]:
    """The files in a folder, and below, that are opened meanwhile on any thread, in their order."""
    global _has_hook
    if not _has_hook:
        sys.addaudithook(_on_event)
        _has_hook = True
    watched = (f"{folder}/", list[Path]())
    _watched.append(watched)
    try:
        yield watched[1]
    finally:
        _watched.remove(watched)


def _on_event(event: str, arguments: tuple[object, ...]) -> None:
    if event == "open" and _watched and isinstance(arguments[0], str | Path):
        name = str(arguments[0])
        for prefix, opened in _watched:
            if name.startswith(prefix):
                opened.append(Path(name))
