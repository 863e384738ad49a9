"""What an archive says of itself: its last member, `manifest.json`. Pure.

Format `nacre-backup`, version 1: `files` with path, kind, size in bytes, SHA-256 and mode of each; `counts`;
`places` that lay outside of the state folder; `leftOut` with reasons. An archive without it was cut off.
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
"""The folder that holds, below an agent's id, what lay outside of the state folder."""

FILE, LINES, DATABASE, FOLDER, LINK = "file", "lines", "database", "folder", "link"
"""Kinds of entries; `lines` are whole lines of a file that only grows."""


_KINDS = (FILE, LINES, DATABASE, FOLDER, LINK)


class ArchiveUnusable(Exception):
    """An archive that is damaged, cut off, encrypted for others, or no backup; the sentence says which."""


class Entry(Record):
    """One thing in an archive, under its path there. `sha256` is empty for folders and links."""

    path: str
    kind: str
    size_bytes: int = 0
    sha256: str = ""
    mode: int = 0o600
    link: str = ""


class Place(Record):
    """What lay outside of the state folder: whose it is, what, where it was, and its path in the archive."""

    agent_id: str
    what: str
    was: str
    path: str


class Manifest(Record):
    """All of it. `left_out` are sentences."""

    made_at: str
    program: str
    entries: tuple[Entry, ...]
    places: tuple[Place, ...] = ()
    left_out: tuple[str, ...] = ()

    @property
    def counts(self) -> dict[str, int]:
        """How many there are of each kind, and how many bytes in all."""
        kinds = Counter(entry.kind for entry in self.entries)
        return {kind: kinds[kind] for kind in _KINDS} | {
            "bytes": sum(entry.size_bytes for entry in self.entries)
        }


def manifest_bytes(manifest: Manifest) -> bytes:
    """The manifest as it stands in an archive."""
    return json.dumps(
        {
            "format": FORMAT,
            "version": VERSION,
            "madeAt": manifest.made_at,
            "program": manifest.program,
            "counts": manifest.counts,
            "places": [
                {"agentId": each.agent_id, "what": each.what, "was": each.was, "path": each.path}
                for each in manifest.places
            ],
            "leftOut": list(manifest.left_out),
            "files": [_entry_json(entry) for entry in manifest.entries],
        },
        ensure_ascii=True,  # a name that is no UTF-8 survives as the escapes of its surrogates
        indent=1,
    ).encode("ascii")


def manifest_of(data: bytes) -> Manifest:
    """The manifest of an archive.

    Raises:
        ArchiveUnusable: it is none, or one of a newer program.
    """
    try:
        raw = json.loads(data)
        if raw["format"] != FORMAT:
            raise ArchiveUnusable(f"Its manifest is of the format {raw['format']!r}, and not {FORMAT!r}.")
        if raw["version"] > VERSION:
            raise ArchiveUnusable(
                f"It is a backup of version {raw['version']}, and this program knows {VERSION}. "
                "Use the newer program that wrote it."
            )
        return Manifest(
            made_at=raw["madeAt"],
            program=raw["program"],
            entries=tuple(_entry(each) for each in raw["files"]),
            places=tuple(
                Place(agent_id=each["agentId"], what=each["what"], was=each["was"], path=inside(each["path"]))
                for each in raw["places"]
            ),
            left_out=tuple(raw["leftOut"]),
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ArchiveUnusable(f"Its manifest cannot be read ({type(error).__name__}: {error}).") from error


def compared(said: Sequence[Entry], found: Sequence[Entry]) -> list[str]:
    """Sentences about what an archive holds otherwise than its manifest says; none where all is as it was."""
    by_path = {entry.path: entry for entry in found}
    problems = []
    if len(by_path) != len(found):
        problems.append("A path stands in it twice.")
    for entry in said:
        there = by_path.pop(entry.path, None)
        if there is None:
            problems.append(f"{entry.path} is missing.")
        elif (there.kind, there.size_bytes, there.sha256, there.link) != (
            _stored_kind(entry.kind),
            entry.size_bytes,
            entry.sha256,
            entry.link,
        ):
            problems.append(f"{entry.path} is not what was put in.")
    problems += [f"{path} is in no manifest." for path in by_path]
    return problems


def _stored_kind(kind: str) -> str:
    return kind if kind in (FOLDER, LINK) else FILE


def _entry_json(entry: Entry) -> dict[str, Any]:
    told: dict[str, Any] = {"path": entry.path, "kind": entry.kind}
    if entry.kind == LINK:
        return told | {"link": entry.link}
    told |= {"mode": f"{entry.mode:04o}"}
    return told if entry.kind == FOLDER else told | {"size": entry.size_bytes, "sha256": entry.sha256}


def _entry(raw: dict[str, Any]) -> Entry:
    if raw["kind"] not in _KINDS:
        raise ArchiveUnusable(f"Its manifest names the kind {raw['kind']!r}, which no backup has.")
    return Entry(
        path=inside(raw["path"]),
        kind=raw["kind"],
        size_bytes=int(raw.get("size", 0)),
        sha256=raw.get("sha256", ""),
        mode=int(raw.get("mode", "0600"), 8) & 0o777,
        link=raw.get("link", ""),
    )


def inside(path: str) -> str:
    """The path, if it leads to one of the two folders of an archive and not out of it again.

    Raises:
        ArchiveUnusable: it does not.
    """
    parts = PurePosixPath(path).parts
    if not parts or parts[0] not in (STATE, OUTSIDE) or ".." in parts or "\\" in path or "\0" in path:
        raise ArchiveUnusable(f"It names the path {path!r}, which no backup has.")
    return path
