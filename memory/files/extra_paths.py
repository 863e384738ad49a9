"""`extraPaths`: folders, files and patterns outside of `memory/`, as places that can be walked and asked.

Patterns are matched here and not by `glob`, which follows links to folders, in circles too, and would read
what they lead to.
"""

from __future__ import annotations

import fnmatch
import glob
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

_ANY_FOLDERS = "**"


@dataclass(frozen=True, kw_only=True)
class ExtraPath:
    """An absolute place. `folder` is the part that is meant as written, `pattern` what is matched below it.

    Without a pattern, `folder` is the whole path, and may be a file.
    """

    folder: Path
    pattern: tuple[str, ...] = ()

    def __str__(self) -> str:
        return os.fspath(self.folder.joinpath(*self.pattern))

    def covers(self, path: Path) -> bool:
        """Whether the file at this path is asked for: by itself, or because a folder above it is."""
        parts = self._below(path)
        return parts is not None and _matches(parts, self.pattern, whole=True)

    def leads_to(self, folder: Path) -> bool:
        """Whether something that is asked for may lie inside this folder."""
        parts = self._below(folder)
        return parts is not None and _matches(parts, self.pattern, whole=False)

    def _below(self, path: Path) -> tuple[str, ...] | None:
        return path.parts[len(self.folder.parts) :] if path.is_relative_to(self.folder) else None


def resolved_extra_paths(workspace: Path, extra_paths: Sequence[str]) -> tuple[ExtraPath, ...]:
    """The extra paths as absolute places: normalised, each once, in order. Looks what exists as written."""
    texts = (text.strip() for text in extra_paths)
    return tuple(dict.fromkeys(_resolved(workspace, text) for text in texts if text))


def _resolved(workspace: Path, text: str) -> ExtraPath:
    path = Path(os.path.normpath(workspace / text))
    for count, part in enumerate(path.parts, start=1):
        # A folder may be called `[old] notes`: what exists under that very name is no pattern.
        if glob.has_magic(part) and not os.path.lexists(Path(*path.parts[:count])):
            return ExtraPath(folder=Path(*path.parts[: count - 1]), pattern=path.parts[count - 1 :])
    return ExtraPath(folder=path)


def _matches(parts: Sequence[str], pattern: Sequence[str], *, whole: bool) -> bool:
    """Whether a pattern matches these parts or the first few of them; with `whole=False`, may match more."""
    if not pattern:
        return True
    if pattern[0] == _ANY_FOLDERS:
        passed = next((at for at, part in enumerate(parts) if not _visible(part, "*")), len(parts))
        return any(_matches(parts[at:], pattern[1:], whole=whole) for at in range(passed + 1))
    if not parts:
        return not whole
    return _visible(parts[0], pattern[0]) and _matches(parts[1:], pattern[1:], whole=whole)


def _visible(name: str, pattern: str) -> bool:
    """As in a shell: a wildcard does not stand for a dot at the beginning."""
    return fnmatch.fnmatch(name, pattern) and (pattern.startswith(".") or not name.startswith("."))
