"""Tab completion: commands, earlier sessions after `/resume`, files after `@`."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

_MOST_FILES = 200
_RESUME = "/resume "
_FILE = re.compile(r'(?:^|(?<=\s))@(?:"([^"\n]*)|([^\s"]*))$')


@dataclass(kw_only=True)
class Known:
    """The commands and earlier sessions to complete, each with its description."""

    commands: Mapping[str, str]
    sessions: Mapping[str, str] = field(default_factory=dict)


class MessageCompleter(Completer):
    """Completes the text before the cursor. Relative paths begin in `folder`."""

    def __init__(self, known: Known, folder: Path) -> None:
        self._known = known
        self._folder = folder

    def get_completions(
        self, document: Document, _complete_event: CompleteEvent | None = None
    ) -> list[Completion]:
        """The completions of the text before the cursor."""
        typed = document.text_before_cursor
        if file := _FILE.search(typed):
            return _files(file[1] if file[1] is not None else file[2], self._folder, len(file[0]) - 1)
        if typed.startswith(_RESUME):
            return _beginning_with(typed.removeprefix(_RESUME), self._known.sessions)
        return _beginning_with(typed, self._known.commands) if typed.startswith("/") else []


def _beginning_with(typed: str, words: Mapping[str, str]) -> list[Completion]:
    return [
        Completion(word, start_position=-len(typed), display_meta=meaning)
        for word, meaning in words.items()
        if word.startswith(typed) and word != typed
    ]


def _files(typed: str, folder: Path, typed_chars: int) -> list[Completion]:
    """The files and folders whose path begins with `typed`; hidden ones only if it has their dot."""
    above, name = os.path.split(typed)
    try:
        with os.scandir(folder / Path(above).expanduser()) as entries:
            found = sorted(
                entry.name + "/" * entry.is_dir()
                for entry in entries
                if entry.name.startswith(name) and (name.startswith(".") or not entry.name.startswith("."))
            )
    except (OSError, RuntimeError, ValueError):
        return []
    start = typed.removesuffix(name)
    paths = [start + entry for entry in found[:_MOST_FILES] if '"' not in entry]
    return [
        Completion(
            f'"{path}' + '"' * (not path.endswith("/")) if any(map(str.isspace, path)) else path,
            start_position=-typed_chars,
            display=entry,
        )
        for path, entry in zip(paths, found, strict=False)
    ]
