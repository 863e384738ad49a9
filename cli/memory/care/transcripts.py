"""What was said, taken out of transcripts: the one exception to their being only ever added to. Edge.

A line keeps its place and length in bytes, with blanks behind it, so that whatever points into the file still
points there. Ids, roles and types are left alone.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from nacre.memory.files.forgetting import FORGOTTEN, Wanted
from nacre.sessions.disk.durable import read_plain, replace_file
from nacre.sessions.stores.store import SessionStore

_STRUCTURE = frozenset(
    {"type", "id", "parentId", "role", "toolCallId", "toolName", "name", "timestamp", "customType"}
    | {"stopReason", "provider", "model", "api", "cwd", "version", "firstKeptEntryId", "fromId"}
    | {"sessionId", "key", "sender", "senderId"}
)
"""Keys of which the values are no words of anybody."""


def files_with(folder: Path, wanted: Wanted) -> list[Path]:
    """Transcripts and whole results that say it, also those that were set aside."""
    return [path for path in _files(folder) if _without(path, _bytes(path), wanted) != _bytes(path)]


async def forget_in_transcripts(
    folder: Path, wanted: Wanted, store: SessionStore
) -> tuple[list[Path], list[str]]:
    """Takes it out of all that nobody is writing: the files that changed, and sentences about the others."""
    changed: list[Path] = []
    problems: list[str] = []
    busy: set[str] = set()
    async with AsyncExitStack() as stack:
        for key, record in (await store.index.all()).items():
            if not await stack.enter_async_context(store.lane(key)):
                busy.add(record.session_id)
                problems.append(f"Somebody is talking in {key}. Run it again when nobody is.")
        for path in files_with(folder, wanted):
            if any(part.startswith(tuple(busy)) for part in path.relative_to(folder).parts if busy):
                continue
            replace_file(path, _without(path, _bytes(path), wanted))
            changed.append(path)
    return changed, problems


def without_in_line(line: bytes, wanted: Wanted) -> bytes:
    """A line of a transcript without it, as long as before."""
    try:
        value = json.loads(line)
    except ValueError:
        text = line.decode("utf-8", "replace")
        return FORGOTTEN.encode().ljust(len(line))[: len(line)] if wanted.says(text) else line
    new = _without_value(value, wanted)
    if new == value:
        return line
    data = json.dumps(new, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")
    return data.ljust(len(line))


def _files(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.rglob("*")):
        is_ours = ".jsonl" in path.name or (path.suffix == ".txt" and ".results" in path.parent.name)
        if is_ours and not path.name.endswith(".lock") and path.is_file() and not path.is_symlink():
            yield path


def _bytes(path: Path) -> bytes:
    found = read_plain(path)
    return found[0] if found else b""


def _without(path: Path, data: bytes, wanted: Wanted) -> bytes:
    if path.suffix == ".txt":
        return wanted.left(data.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")
    return b"\n".join(without_in_line(line, wanted) for line in data.split(b"\n"))


def _without_value(value: Any, wanted: Wanted) -> Any:
    if isinstance(value, str):
        return wanted.left(value) if wanted.says_any(value) else value
    if isinstance(value, list):
        return [_without_value(each, wanted) for each in value]
    if not isinstance(value, dict):
        return value
    new = {name: each if name in _STRUCTURE else _without_value(each, wanted) for name, each in value.items()}
    if new != value:  # what a provider signed is not what it signed any more
        new = {name: each for name, each in new.items() if not name.endswith("Signature")}
    return new
