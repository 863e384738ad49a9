"""A backup made: copies of all files, one after the other, into one archive. Edge.

The archive is written under another name and gets its own when it is whole.
"""

from __future__ import annotations

import gzip
import io
import os
import shutil
import stat
import tarfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import BinaryIO

from nacre import __version__
from nacre.extensions.backup.copying import CopyFailed, copied
from nacre.extensions.backup.manifest import FOLDER, LINK, MANIFEST, Entry, Manifest, manifest_bytes
from nacre.extensions.backup.places import WORK_FOLDER, Root, left_out_of, roots_of, walked
from nacre.extensions.backup.sealed import sealed
from nacre.locks.kernel_lock import try_lock
from nacre.runtime.settings.config import Config
from nacre.sessions.disk.locks import locked

COMPRESSION = 6


class BackupRefused(Exception):
    """A backup that was not begun; nothing was written."""


def write_backup(
    configs: Sequence[Config], archive: Path, *, recipients: Sequence[str], now: datetime
) -> Manifest:
    """Writes the archive of a state folder with all its agents, and says what is in it. It blocks.

    Raises:
        BackupRefused: the archive is there already, or another backup runs.
        KeyUnusable: see `sealed`.
        OSError: the disk refused; no archive was made.
    """
    if archive.exists() or archive.is_symlink():
        raise BackupRefused(f"{archive} is there already. Name another file.")
    roots, places = roots_of(configs)
    state = configs[0].state_dir
    if not state.is_dir():
        raise BackupRefused(f"There is no {state} to back up.")
    unfinished = archive.with_name(f".{archive.name}.unfinished")
    indexes = {config.folders.sessions_file for config in configs if config.is_in_files}
    with _work_folder(state) as work:
        writer = _Writer(work, without=frozenset({archive, unfinished, work}), indexes=indexes)
        try:
            with ExitStack() as stack:
                file: BinaryIO = stack.enter_context(open(unfinished, "wb", opener=_private))
                if recipients:
                    file = stack.enter_context(sealed(file, recipients))
                packed = stack.enter_context(
                    gzip.GzipFile("", "wb", compresslevel=COMPRESSION, fileobj=file, mtime=0)
                )
                with tarfile.open(fileobj=packed, mode="w|", format=tarfile.PAX_FORMAT) as tar:
                    writer.write(tar, roots)
                    manifest = Manifest(
                        made_at=now.isoformat(timespec="seconds"),
                        program=f"nacre {__version__}",
                        entries=tuple(writer.entries.values()),
                        places=tuple(places),
                        left_out=(*left_out_of(configs), *writer.problems),
                    )
                    data = manifest_bytes(manifest)
                    tar.addfile(_member(MANIFEST, len(data)), io.BytesIO(data))
            with unfinished.open("rb") as whole:
                os.fsync(whole.fileno())
            if archive.exists():
                raise BackupRefused(f"{archive} came to be there meanwhile. Name another file.")
            unfinished.rename(archive)
        finally:
            unfinished.unlink(missing_ok=True)
    return manifest


class _Writer:
    def __init__(self, work: Path, *, without: frozenset[Path], indexes: set[Path]) -> None:
        self.entries: dict[str, Entry] = {}
        self.problems: list[str] = []
        self._work = work
        self._without = without
        self._indexes = indexes

    def write(self, tar: tarfile.TarFile, roots: Sequence[Root]) -> None:
        for root in roots:
            # The indexes of sessions come first: a transcript that one names is on disk before.
            for index in sorted(self._indexes):
                if index.parent.is_dir() and index.is_relative_to(root.source):
                    self._put_index(tar, index, f"{root.path}/{index.relative_to(root.source).as_posix()}")
            # Twice: what was made meanwhile may be named by what was copied.
            for _ in range(2):
                for source, path in walked(root, without=self._without):
                    if path not in self.entries:
                        self._put(tar, source, path)

    def _put_index(self, tar: tarfile.TarFile, index: Path, path: str) -> None:
        """`sessions.json` and its changes, of the same moment."""
        with locked(index):
            for suffix in ("", ".changes", ".bak", ".changes.bak"):
                source = index.with_name(index.name + suffix)
                if source.exists():
                    self._put(tar, source, path + suffix)

    def _put(self, tar: tarfile.TarFile, source: Path, path: str) -> None:
        try:
            facts = source.lstat()
            if stat.S_ISDIR(facts.st_mode) or stat.S_ISLNK(facts.st_mode):
                self._put_plain(tar, source, path, facts)
                return
            copy = self._work / "copy"
            entry = copied(source, path, copy)
        except FileNotFoundError:
            return
        except (CopyFailed, PermissionError) as error:
            self.problems.append(f"Not copied: {error}")
            return
        if entry is None:
            if not stat.S_ISREG(facts.st_mode):
                self.problems.append(f"Not copied: {source} is no regular file.")
            return
        member = _member(path, entry.size_bytes)
        member.mode, member.mtime = entry.mode, int(facts.st_mtime)
        with copy.open("rb") as data:
            tar.addfile(member, data)
        copy.unlink()
        self.entries[path] = entry

    def _put_plain(self, tar: tarfile.TarFile, source: Path, path: str, facts: os.stat_result) -> None:
        is_link = stat.S_ISLNK(facts.st_mode)
        member = _member(path, 0)
        member.type = tarfile.SYMTYPE if is_link else tarfile.DIRTYPE
        member.mode, member.mtime = stat.S_IMODE(facts.st_mode) & 0o777, int(facts.st_mtime)
        member.linkname = str(source.readlink()) if is_link else ""
        tar.addfile(member)
        kind = LINK if is_link else FOLDER
        self.entries[path] = Entry(path=path, kind=kind, mode=member.mode, link=member.linkname)


@contextmanager
def _work_folder(state: Path) -> Iterator[Path]:
    """A folder for copies, the owner's alone, which is gone afterwards."""
    locks = state / "locks"
    locks.mkdir(mode=0o700, exist_ok=True)
    release: Callable[[], None] | None = try_lock(locks / "backup")
    if release is None:
        raise BackupRefused("Another backup of this state folder is being made. Wait for its end.")
    work = state / WORK_FOLDER
    try:
        with suppress(FileNotFoundError):
            shutil.rmtree(work)  # what a killed one left
        work.mkdir(mode=0o700)
        yield work
    finally:
        shutil.rmtree(work, ignore_errors=True)
        release()


def _member(path: str, size_bytes: int) -> tarfile.TarInfo:
    member = tarfile.TarInfo(path)
    member.size, member.mode = size_bytes, 0o600
    return member


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW, 0o600)
