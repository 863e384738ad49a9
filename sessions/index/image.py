"""The index in memory: what `sessions.json` and the changes after it say together. Knows no file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

from nacre.sessions.disk.lines import split_lines
from nacre.sessions.index.patches import CHANGES_VERSION, Patch, apply_patch, patches_of
from nacre.sessions.index.record import SessionRecord, record_from_json

Fingerprint: TypeAlias = tuple[int, int, int, int]
"""By which a file is known again: device, inode, size, time of its last change."""


class Image(Mapping[str, SessionRecord]):
    """The lines of an index; as a mapping, those that are records, each read when it is asked for.

    `base` and `log` are the two files as they were when they were looked at, `None` for none. A line that
    changes becomes another object, so that what was taken from here stays what it was.
    """

    def __init__(self, lines: dict[str, Any], *, base: Fingerprint | None) -> None:
        self.lines = lines
        self.base = base
        self.log: Fingerprint | None = None
        self.log_bytes = 0
        """How far the changes have been read, up to the end of a line."""
        self.edits: list[bytes] = []
        """Their lines, one an edit, without line feeds."""
        self.has_base = True
        """Whether the changes go on from a `sessions.json`; the very first ones do not."""
        self.is_base_read = True
        """Whether `sessions.json` could be read, or there is none because there are only changes yet."""
        self.broken_lines = 0
        """How many lines of the changes could not be read."""
        self.newer_version: int | None = None
        """The version of the changes when a newer program wrote them."""
        self._records: dict[str, tuple[object, SessionRecord | None]] = {}

    @property
    def is_whole(self) -> bool:
        """Whether all of it could be read."""
        return self.is_base_read and not self.broken_lines and self.newer_version is None

    @property
    def is_torn(self) -> bool:
        """Whether something stands behind the last whole line of the changes."""
        return self.log is not None and self.log[2] > self.log_bytes

    def read_on(self, data: bytes) -> None:
        """Takes what stands behind `log_bytes` in the file of changes; a line without its end is left."""
        whole = data[: data.rfind(b"\n") + 1]
        for line in split_lines(whole):
            self._take(line.data, line.value)
        self.log_bytes += len(whole)

    def apply(self, patches: list[Patch], line: bytes, after: Mapping[str, SessionRecord | None]) -> None:
        """Takes an edit that has been put on disk as `line`; `after` are the records that it made."""
        for patch in patches:
            apply_patch(self.lines, patch)
            record = after[patch.key]
            if record is not None:
                self._records[patch.key] = (self.lines[patch.key], record)
        self.edits.append(line.rstrip(b"\n"))
        self.log_bytes += len(line)

    def copy_of_lines(self) -> dict[str, Any]:
        """The lines as they are now, in a dictionary that does not change with them."""
        return dict(self.lines)

    def __getitem__(self, key: str) -> SessionRecord:
        raw = self.lines[key]
        kept = self._records.get(key)
        if kept is None or kept[0] is not raw:
            kept = self._records[key] = (raw, record_from_json(raw))
        if kept[1] is None:
            raise KeyError(key)
        return kept[1]

    def __iter__(self) -> Iterator[str]:
        return (key for key in list(self.lines) if self.get(key) is not None)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def _take(self, data: bytes, value: Mapping[str, Any] | None) -> None:
        if value is not None and value["type"] == "header":
            version = value.get("version")
            if version == CHANGES_VERSION:
                self.has_base = value.get("base") is not False
            elif isinstance(version, int) and version > CHANGES_VERSION:
                self.newer_version = version
            else:
                self.broken_lines += 1
            return
        patches = patches_of(value) if value is not None else None
        if patches is None:
            self.broken_lines += 1
            return
        for patch in patches:
            apply_patch(self.lines, patch)
        self.edits.append(data)
