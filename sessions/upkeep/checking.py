"""Finds damaged, orphaned and unfinished files in a folder of sessions. Reads files line by line."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from nacre.locks import try_lock
from nacre.record import Record
from nacre.sessions.contracts.errors import SessionError
from nacre.sessions.disk.durable import reading, reported
from nacre.sessions.disk.json_text import read_lines
from nacre.sessions.entries.entries import FORMAT_VERSION, header_from_json
from nacre.sessions.journal.journal import FOLDER_SUFFIX

_UNFINISHED = re.compile(r"\.(?P<process>\d+)-\d+\.tmp$")


class TranscriptProblem(Record):
    """What is wrong with one transcript.

    `unreadable_lines` are numbered from 1 and exclude an incomplete last line (`is_torn`). `problem` is a
    sentence if the file as a whole cannot be read.
    """

    path: Path
    unreadable_lines: tuple[int, ...] = ()
    is_torn: bool = False
    problem: str = ""


def transcript_problems(directory: Path) -> Iterator[TranscriptProblem]:
    """The damaged transcripts of a folder by name. Raises `SessionWriteFailed`."""
    for path in _listed(directory):
        if path.suffix == ".jsonl" and path.is_file():
            found = _looked_at(path)
            if found.unreadable_lines or found.is_torn or found.problem:
                yield found


def orphaned_results(directory: Path) -> list[Path]:
    """Folders of full tool results without a transcript. Raises `SessionWriteFailed`."""
    names = {path.name for path in _listed(directory)}
    return [
        directory / name
        for name in sorted(names)
        if name.endswith(FOLDER_SUFFIX) and not _has_transcript(name.removesuffix(FOLDER_SUFFIX), names)
    ]


def unfinished_files(directories: Iterable[Path]) -> list[Path]:
    """Temporary files of killed processes; those of running processes are left out."""
    return sorted(
        path
        for directory in directories
        for path in _listed(directory)
        if (found := _UNFINISHED.search(path.name)) and not _is_running(int(found["process"]))
    )


def running_turns(folder: Path) -> int:
    """The number of running turns. The kernel frees a lock when its holder dies, so none is stale."""
    held = 0
    for path in folder.glob("*.lane"):
        release = try_lock(path)
        if release is None:
            held += 1
        else:
            release()
    return held


def _listed(directory: Path) -> list[Path]:
    with reported("list", directory):
        return sorted(directory.iterdir()) if directory.is_dir() else []


def _looked_at(path: Path) -> TranscriptProblem:
    unreadable: list[int] = []
    is_torn, is_first = False, True
    try:
        with reading(path) as file:
            for number, line in enumerate(read_lines(file), start=1):
                if line.value is None:
                    is_torn = not line.is_ended
                    unreadable += [] if is_torn else [number]
                elif is_first:
                    is_first = False
                    header = header_from_json(line.value)
                    if header is not None and header.version > FORMAT_VERSION:
                        return TranscriptProblem(path=path, problem=f"has the newer format {header.version}")
    except (SessionError, FileNotFoundError) as error:
        return TranscriptProblem(path=path, problem=str(error))
    return TranscriptProblem(path=path, unreadable_lines=tuple(unreadable), is_torn=is_torn)


def _has_transcript(stem: str, names: set[str]) -> bool:
    return any(name.startswith(f"{stem}.jsonl") for name in names)


def _is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:  # the process belongs to another user
        return True
    return True
