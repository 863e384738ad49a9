"""The messages of earlier chats, for Up and Ctrl-R: a file that only the owner can read."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable
from pathlib import Path

from prompt_toolkit.history import FileHistory

from nacre.cli.talk.keyboard.pastes import Pastes

log = logging.getLogger(__name__)


class OwnerHistory(FileHistory):
    """A history file with mode 0600, with pastes whole; one that cannot be written is done without."""

    def __init__(self, file: Path, pastes: Pastes) -> None:
        super().__init__(file)
        self._pastes = pastes
        try:
            os.close(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600))
            file.chmod(0o600)
        except OSError as error:
            log.warning("the history of the prompt cannot be kept in %s: %s", file, error)

    def load_history_strings(self) -> Iterable[str]:
        try:
            return super().load_history_strings()
        except OSError as error:
            log.warning("the history of the prompt cannot be read: %s", error)
            return []

    def append_string(self, string: str) -> None:
        super().append_string(self._pastes.whole(string))

    def store_string(self, string: str) -> None:
        try:
            super().store_string(string)
        except OSError as error:
            log.warning("the history of the prompt cannot be written: %s", error)
