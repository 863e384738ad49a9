"""An archive checked, and brought back into a folder that is empty. Edge.

Nothing is believed of an archive before all of it was read: a restore goes into a folder beside the wanted
one, which gets its name when every file is what the manifest says.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import shutil
import tarfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, BinaryIO

from nacre.cli.setup.backup.manifest import (
    FILE,
    FOLDER,
    LINK,
    MANIFEST,
    STATE,
    ArchiveUnusable,
    Entry,
    Manifest,
    compared,
    inside,
    manifest_of,
)
from nacre.cli.setup.backup.sealed import AGE_HEAD, unsealed

_PIECE_BYTES = 1 << 20
Keep = Callable[[str, tarfile.TarInfo], BinaryIO | None]


class RestoreRefused(Exception):
    """A restore that would have touched something that is there; nothing was written."""


def check_backup(archive: Path, *, identity: Path | None) -> Manifest:
    """Reads an archive from its beginning to its end and compares it with its manifest.

    Raises:
        ArchiveUnusable: it is damaged, cut off, or encrypted.
        KeyUnusable, OSError: see `unsealed`; the archive cannot be read.
    """
    return _read(archive, identity, lambda _path: None)


def restore_backup(archive: Path, to: Path, *, identity: Path | None) -> Manifest:
    """Makes the folder `to` of an archive, whole or not at all.

    The state folder of the archive is `to`; what lay outside of it comes into `to/outside`. Links are made
    last, so that nothing is written through one.

    Raises:
        RestoreRefused: something is at `to`.
        ArchiveUnusable, KeyUnusable, OSError: see `check_backup`.
    """
    if to.is_symlink() or (to.exists() and not to.is_dir()) or (to.is_dir() and any(to.iterdir())):
        raise RestoreRefused(f"There is something at {to}. Name a folder that is not there, or is empty.")
    to.parent.mkdir(parents=True, exist_ok=True)
    staging = to.with_name(f".{to.name}.restoring")
    if staging.exists():
        raise RestoreRefused(
            f"{staging} is left of a restore that did not end, or of one that is being made. "
            "Remove it if none is."
        )
    staging.mkdir(mode=0o700)
    try:
        manifest = _read(archive, identity, lambda path: _at(staging, path))
        for entry in manifest.entries:
            if entry.kind == LINK:
                _at(staging, entry.path).symlink_to(entry.link)
            elif entry.kind != FOLDER:
                _at(staging, entry.path).chmod(entry.mode)
        for entry in sorted(manifest.entries, key=lambda entry: entry.path, reverse=True):
            if entry.kind == FOLDER and entry.path != STATE:
                _at(staging, entry.path).chmod(entry.mode)
        if to.is_dir():
            to.rmdir()
        staging.rename(to)
    except BaseException:
        shutil.rmtree(staging, ignore_errors=True)
        raise
    return manifest


def _at(staging: Path, path: str) -> Path:
    return staging / (path.removeprefix(STATE).removeprefix("/") if path.split("/")[0] == STATE else path)


def _read(archive: Path, identity: Path | None, place: Callable[[str], Path | None]) -> Manifest:
    """All of an archive, each file written where `place` says; compared with its manifest."""
    found: list[Entry] = []
    manifest: Manifest | None = None
    try:
        with _opened(archive, identity) as file, tarfile.open(fileobj=file, mode="r|") as tar:
            for member in tar:
                if manifest is not None:
                    raise ArchiveUnusable("Something follows its manifest.")
                if member.name == MANIFEST:
                    data = tar.extractfile(member)
                    manifest = manifest_of(data.read() if data else b"")
                else:
                    found.append(_taken(tar, member, place(inside(member.name))))
            while file.read(_PIECE_BYTES):  # to the end, where gzip and age keep their own checks
                pass
    except (tarfile.TarError, gzip.BadGzipFile, zlib.error, EOFError) as error:
        raise ArchiveUnusable(f"It is damaged, or no backup ({error}).") from error
    if manifest is None:
        raise ArchiveUnusable("It has no manifest: it was cut off, or is no backup.")
    if problems := compared(manifest.entries, found):
        more = f" And {len(problems) - 3} more." if len(problems) > 3 else ""
        raise ArchiveUnusable(f"{' '.join(problems[:3])}{more}")
    return manifest


def _taken(tar: tarfile.TarFile, member: tarfile.TarInfo, to: Path | None) -> Entry:
    if member.isdir():
        if to is not None:
            to.mkdir(mode=0o700, parents=True, exist_ok=True)
        return Entry(path=member.name, kind=FOLDER)
    if member.issym():
        return Entry(path=member.name, kind=LINK, link=member.linkname)
    data = tar.extractfile(member) if member.isreg() else None
    if data is None:
        raise ArchiveUnusable(f"{member.name} is of a kind that no backup has.")
    if to is None:
        return _entry_of(member, data, None)
    to.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with open(to, "xb", opener=_private) as file:
        return _entry_of(member, data, file)


def _entry_of(member: tarfile.TarInfo, data: IO[bytes], file: BinaryIO | None) -> Entry:
    seen, size_bytes = hashlib.sha256(), 0
    while piece := data.read(_PIECE_BYTES):
        seen.update(piece)
        size_bytes += len(piece)
        if file is not None:
            file.write(piece)
    return Entry(path=member.name, kind=FILE, size_bytes=size_bytes, sha256=seen.hexdigest())


@contextmanager
def _opened(archive: Path, identity: Path | None) -> Iterator[BinaryIO]:
    with ExitStack() as stack:
        file: BinaryIO = stack.enter_context(archive.open("rb"))
        is_sealed = file.read(len(AGE_HEAD)) == AGE_HEAD
        file.seek(0)
        if is_sealed:
            if identity is None:
                raise ArchiveUnusable("It is encrypted. Name the file with your key: --identity FILE.")
            file = stack.enter_context(unsealed(file, identity))
        packed: BinaryIO = stack.enter_context(gzip.GzipFile(fileobj=file, mode="rb"))  # type: ignore[assignment]  # it reads as one
        yield packed


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
