"""The manifest of an archive: its last member, `manifest.json`.

Format `nacre-backup`, version 1. `files` lists path, kind, size in bytes, SHA-256 and mode of each file;
`counts` counts them; `places` lists folders and files from outside the state folder; `leftOut` has reasons.
An archive without a manifest was truncated.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import Any

from nacre.record import Record

MANIFEST = "manifest.json"
FORMAT = "nacre-backup"
VERSION = 1
STATE = "state"
"""The folder of an archive that holds the state folder."""
OUTSIDE = "outside"
"""The folder for files from outside the state folder, under each agent's ID."""

FILE, LINES, DATABASE, FOLDER, LINK = "file", "lines", "database", "folder", "link"
"""Kinds of entries; `lines` are whole lines of a file that only grows."""
_KINDS = (FILE, LINES, DATABASE, FOLDER, LINK)


class ArchiveUnusable(Exception):
    """The archive is damaged, truncated, encrypted for others, or not a backup; the message says which."""


class Entry(Record):
    """A member of an archive. `sha256` is empty for folders and links."""

    path: str
    kind: str
    size_bytes: int = 0
    sha256: str = ""
    mode: int = 0o600
    link: str = ""


class Place(Record):
    """A folder or file from outside the state folder: its agent, kind, former path and archive path."""

    agent_id: str
    what: str
    was: str
    path: str

    def to_json(self) -> dict[str, str]:
        return {"agentId": self.agent_id, "what": self.what, "was": self.was, "path": self.path}


class Manifest(Record):
    """The manifest of an archive. `left_out` holds sentences."""

    made_at: str
    program: str
    entries: tuple[Entry, ...]
    places: tuple[Place, ...] = ()
    left_out: tuple[str, ...] = ()

    @property
    def counts(self) -> dict[str, int]:
        kinds = Counter(entry.kind for entry in self.entries)
        return {kind: kinds[kind] for kind in _KINDS} | {
            "bytes": sum(entry.size_bytes for entry in self.entries)
        }


def manifest_bytes(manifest: Manifest) -> bytes:
    return json.dumps(
        {
            "format": FORMAT,
            "version": VERSION,
            "madeAt": manifest.made_at,
            "program": manifest.program,
            "counts": manifest.counts,
            "places": [place.to_json() for place in manifest.places],
            "leftOut": list(manifest.left_out),
            "files": [_entry_json(entry) for entry in manifest.entries],
        },
        ensure_ascii=True,  # a name that is not UTF-8 survives as escaped surrogates
        indent=1,
    ).encode("ascii")


def parse_manifest(data: bytes) -> Manifest:
    """Parses a manifest.

    Raises:
        ArchiveUnusable: `data` is not a manifest, or is one of a newer version.
    """
    try:
        raw = json.loads(data)
        if raw["format"] != FORMAT:
            raise ArchiveUnusable(f"Its manifest has the format {raw['format']!r}, not {FORMAT!r}.")
        if raw["version"] > VERSION:
            raise ArchiveUnusable(
                f"It is a backup of version {raw['version']}, and this program supports version {VERSION}. "
                "Use the newer program that wrote it."
            )
        return Manifest(
            made_at=raw["madeAt"],
            program=raw["program"],
            entries=tuple(_entry(each) for each in raw["files"]),
            places=tuple(
                Place(
                    agent_id=each["agentId"],
                    what=each["what"],
                    was=each["was"],
                    path=checked_path(each["path"]),
                )
                for each in raw["places"]
            ),
            left_out=tuple(raw["leftOut"]),
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ArchiveUnusable(f"Its manifest cannot be read ({type(error).__name__}: {error}).") from error


def differences(listed: Sequence[Entry], found: Sequence[Entry]) -> list[str]:
    """Sentences about the differences between the `listed` entries of a manifest and the entries `found`."""
    by_path = {entry.path: entry for entry in found}
    problems = []
    if len(by_path) != len(found):
        problems.append("A path occurs twice.")
    for entry in listed:
        present = by_path.pop(entry.path, None)
        if present is None:
            problems.append(f"{entry.path} is missing.")
        elif (present.kind, present.size_bytes, present.sha256, present.link) != (
            entry.kind if entry.kind in (FOLDER, LINK) else FILE,
            entry.size_bytes,
            entry.sha256,
            entry.link,
        ):
            problems.append(f"{entry.path} differs from the file that was backed up.")
    problems += [f"{path} is not in the manifest." for path in by_path]
    return problems


def _entry_json(entry: Entry) -> dict[str, Any]:
    value: dict[str, Any] = {"path": entry.path, "kind": entry.kind}
    if entry.kind == LINK:
        return value | {"link": entry.link}
    value |= {"mode": f"{entry.mode:04o}"}
    return value if entry.kind == FOLDER else value | {"size": entry.size_bytes, "sha256": entry.sha256}


def _entry(raw: dict[str, Any]) -> Entry:
    if raw["kind"] not in _KINDS:
        raise ArchiveUnusable(f"Its manifest contains the kind {raw['kind']!r}, which no backup contains.")
    return Entry(
        path=checked_path(raw["path"]),
        kind=raw["kind"],
        size_bytes=int(raw.get("size", 0)),
        sha256=raw.get("sha256", ""),
        mode=int(raw.get("mode", "0600"), 8) & 0o777,
        link=raw.get("link", ""),
    )


def checked_path(path: str) -> str:
    """Returns the path if it stays inside one of the two folders of an archive.

    Raises:
        ArchiveUnusable: it does not.
    """
    parts = PurePosixPath(path).parts
    if not parts or parts[0] not in (STATE, OUTSIDE) or ".." in parts or "\\" in path or "\0" in path:
        raise ArchiveUnusable(f"It contains the path {path!r}, which no backup contains.")
    return path
