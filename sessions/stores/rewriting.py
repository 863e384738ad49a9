"""Removes forgotten text from transcripts, which otherwise only grow."""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path
from typing import Protocol

from nacre.record import Record
from nacre.sessions.disk.durable import read_plain, replace_file
from nacre.sessions.stores.store import SessionStore


class Rewrite(Record):
    """Functions that return the new content of a transcript line (without line feed) and of a full result.

    A line keeps its length in bytes, so that offsets into a transcript stay valid.
    """

    line: Callable[[bytes], bytes]
    result: Callable[[bytes], bytes]


class RewritableStore(SessionStore, Protocol):
    """A store that can change transcripts. The caller holds the turn locks of their sessions."""

    async def rewritten(
        self, change: Rewrite, *, but: Collection[str] = (), dry_run: bool
    ) -> tuple[str, ...]:
        """Changes all transcripts and full results, including those set aside, except those of the sessions
        `but`. Returns where the changed ones are, or would be with `dry_run`.

        Raises:
            SessionError: the disk or the database refused; earlier changes stay.
        """


def rewritten_files(folder: Path, change: Rewrite, *, but: Collection[str], dry_run: bool) -> tuple[str, ...]:
    changed: list[str] = []
    for path in sorted(folder.rglob("*")):
        is_ours = ".jsonl" in path.name or (path.suffix == ".txt" and ".results" in path.parent.name)
        if not is_ours or path.name.endswith(".lock") or not path.is_file() or path.is_symlink():
            continue
        if any(part.startswith(tuple(but)) for part in path.relative_to(folder).parts if but):
            continue
        found = read_plain(path)
        data = found[0] if found else b""
        is_result = path.suffix == ".txt"
        new = change.result(data) if is_result else b"\n".join(map(change.line, data.split(b"\n")))
        if new == data:
            continue
        if not dry_run:
            replace_file(path, new)
        changed.append(str(path))
    return tuple(changed)
