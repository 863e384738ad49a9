"""The whole of a workspace from a folder to a database, or back. Edge.

What is there already is not written again and never overwritten, so a copy that was killed
goes on where it was.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial
from hashlib import sha256
from pathlib import Path

from nacre.memory.contracts.workspace import PathOutsideRoot
from nacre.memory.workspace.documents.rows import DocumentRows, Moment
from nacre.memory.workspace.documents.steps import travels
from nacre.memory.workspace.documents.tree import seen_below
from nacre.memory.workspace.folder import change_locked
from nacre.memory.workspace.paths import contained_path, kept_inside, refuse_kept
from nacre.records.record import Record


class WorkspaceSum(Record):
    """What a workspace has: how many files, how long together, and one checksum over names and bytes."""

    files: int
    size_bytes: int
    checksum: str


class CopiedWorkspace(Record):
    """Both after a copy, and sentences about what was not copied."""

    source: WorkspaceSum
    target: WorkspaceSum
    problems: tuple[str, ...]


async def copy_to_rows(folder: Path, rows: DocumentRows, *, kept: Sequence[Path]) -> CopiedWorkspace:
    """Copies a folder, without what programs keep in it and the places `kept`.

    Raises:
        OSError, FileBusy: the disk or the database refused; nothing was copied.
    """
    files, left_out = await asyncio.to_thread(_folder_files, folder, kept)

    def write(moment: Moment) -> None:
        moment.begin_writing()
        there = moment.all()
        for name, body in files.items():
            if name not in there:
                moment.put(name, body, seen=None)

    await rows.write(write)
    there = {name: found.body for name, found in (await rows.files()).items()}
    return _copied(files, there, left_out)


async def copy_to_folder(
    rows: DocumentRows, folder: Path, *, kept: Sequence[Path], lock_dir: Path
) -> CopiedWorkspace:
    """Copies a database's workspace into a folder, which is made if need be.

    Raises:
        OSError, PathOutsideRoot: the disk refused, or the database did; what was copied before stays.
    """
    found = await rows.files()
    files = {name: each.body for name, each in found.items() if travels(name)}
    left_out = [f"{name} belongs to a program, and is not copied" for name in found if not travels(name)]

    def write() -> dict[str, bytes]:
        inside = kept_inside(folder, kept)
        for name, body in list(files.items()):
            try:
                path = contained_path(folder, name)
                refuse_kept(folder, path, inside)
            except PathOutsideRoot as error:
                left_out.append(str(error))
                del files[name]
            else:
                change_locked(path, partial(_unless_there, body), lock_dir)
        return _folder_files(folder, kept)[0]

    return _copied(files, await asyncio.to_thread(write), left_out)


def _copied(
    source: Mapping[str, bytes], target: Mapping[str, bytes], left_out: Sequence[str]
) -> CopiedWorkspace:
    differ = [name for name, body in source.items() if target.get(name) != body]
    problems = [*left_out]
    if differ:
        problems.append(f"These files have another text in the target, which stays: {', '.join(differ)}.")
    # What only the target has is no part of the copy.
    return CopiedWorkspace(
        source=_sum(source),
        target=_sum({name: body for name, body in target.items() if name in source}),
        problems=tuple(problems),
    )


def _sum(files: Mapping[str, bytes]) -> WorkspaceSum:
    checksum = sha256()
    for name, body in sorted(files.items()):
        checksum.update(f"{name}\n{len(body)}\n".encode() + body)
    return WorkspaceSum(
        files=len(files), size_bytes=sum(map(len, files.values())), checksum=checksum.hexdigest()
    )


def _folder_files(folder: Path, kept: Sequence[Path]) -> tuple[dict[str, bytes], list[str]]:
    if not folder.is_dir():
        return {}, []
    seen = seen_below(folder, kept=kept_inside(folder, kept))
    return seen.files, [f"{name}: {reason}" for name, reason in seen.passed_over.items()]


def _unless_there(body: bytes, old: bytes | None) -> bytes:
    return body if old is None else old
