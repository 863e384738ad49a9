"""Which notes were brought over before, so that none comes twice after somebody changed it. Edge. A contract.

A file of JSON lines beside what else is the agent's: `source`, `name` there, `sha256` of what it said, `path`
here, `at`. A line that cannot be read is passed over: at worst a note comes again, beside what is here.
"""

from __future__ import annotations

from datetime import datetime
from hashlib import sha256
from pathlib import Path

from nacre.extensions.importers.sources.contents import Note, Origin
from nacre.sessions.disk.durable import locked, make_folder, read_plain, replace_file
from nacre.sessions.disk.json_text import split_lines, to_line

FILE_NAME = "imports.jsonl"
_TYPE = "note"


class ImportLedger:
    """The notes that were imported for one agent."""

    def __init__(self, file: Path, origin: Origin) -> None:
        self._file = file
        self._origin = origin
        found = read_plain(file) if file.exists() else None
        lines = split_lines(found[0]) if found else []
        values = [line.value for line in lines if line.value is not None]
        self._known = {
            (value.get("source"), value.get("name"), value.get("sha256"))
            for value in values
            if value["type"] == _TYPE
        }

    def knows(self, note: Note) -> bool:
        """Whether just this was imported before."""
        return (self._origin, note.path, sha256(note.data).hexdigest()) in self._known

    def keep(self, notes: list[tuple[Note, str]], *, at: datetime) -> None:
        """Adds notes, each with its path here. Raises `OSError` or a `SessionError` if the disk refuses."""
        made = [
            {
                "type": _TYPE,
                "source": self._origin,
                "name": note.path,
                "sha256": sha256(note.data).hexdigest(),
                "path": path,
                "at": at.isoformat(timespec="seconds"),
            }
            for note, path in notes
        ]
        if not made:
            return
        make_folder(self._file.parent)
        with locked(self._file):
            found = read_plain(self._file) if self._file.exists() else None
            replace_file(self._file, (found[0] if found else b"") + b"".join(map(to_line, made)))
