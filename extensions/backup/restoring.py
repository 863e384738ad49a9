"""Checks an archive and restores it into an empty folder. Edge.

An archive is read twice. The first pass writes nothing: it checks names, kinds, sizes, the free space of the
disk, and every byte against the manifest. The second pass writes into a folder beside the wanted one, which
gets its name at the end.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import shutil
import tarfile
import unicodedata
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path, PurePosixPath
from typing import IO, BinaryIO

from nacre.extensions.backup.manifest import (
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
from nacre.extensions.backup.sealed import AGE_HEAD, unsealed
from nacre.locks import try_lock

_PIECE_BYTES = 1 << 20
_MOST_HEADER_BYTES = 1 << 20
"""A name in an archive may take this much memory."""
_MOST_MANIFEST_BYTES = 1 << 30
_MOST_MEMBERS = 5_000_000
_LOCK, _FILES = "lock", "files"
_HEADERS = (
    tarfile.XHDTYPE,
    tarfile.XGLTYPE,
    tarfile.SOLARIS_XHDTYPE,
    tarfile.GNUTYPE_LONGNAME,
    tarfile.GNUTYPE_LONGLINK,
)
_Take = Callable[[tarfile.TarInfo, IO[bytes] | None], None]


class RestoreRefused(Exception):
    """A restore that would have touched something that is there; nothing was written."""


def check_backup(archive: Path, *, identity: Path | None, most_bytes: int | None = None) -> Manifest:
    """Reads an archive from its beginning to its end and compares it with its manifest. It writes nothing.

    `most_bytes` bounds what its files may take when they are unpacked.

    Raises:
        ArchiveUnusable: it is damaged, cut off, encrypted, or larger than `most_bytes`.
        KeyUnusable, OSError: see `unsealed`; the archive cannot be read.
    """
    found: dict[str, Entry] = {}
    seen_bytes = 0

    def take(member: tarfile.TarInfo, data: IO[bytes] | None) -> None:
        nonlocal seen_bytes
        path = _checked_name(member.name)
        if path in found:
            raise ArchiveUnusable(f"{path} stands in it twice.")
        if len(found) >= _MOST_MEMBERS:
            raise ArchiveUnusable(f"It has more than {_MOST_MEMBERS} members.")
        seen_bytes += member.size
        if most_bytes is not None and seen_bytes > most_bytes:
            raise ArchiveUnusable(
                f"With {path} its files take more than the {most_bytes} bytes that are free on the disk."
            )
        found[path] = _entry_of(member, data, None)

    manifest = _read(archive, identity, take)
    if problems := compared(manifest.entries, list(found.values())):
        more = f" And {len(problems) - 3} more." if len(problems) > 3 else ""
        raise ArchiveUnusable(f"{' '.join(problems[:3])}{more}")
    for path in found:
        for above in PurePosixPath(path).parents:
            entry = found.get(str(above))
            if entry is not None and entry.kind != FOLDER:
                raise ArchiveUnusable(f"{path} lies below {above}, which is no folder.")
    return manifest


def restore_backup(archive: Path, to: Path, *, identity: Path | None) -> Manifest:
    """Makes the folder `to` of an archive, whole or not at all.

    The state folder of the archive is `to`; what lay outside of it comes into `to/outside`. Links are made
    last, so that nothing is written through one. What a killed restore left beside `to` is removed.

    Raises:
        RestoreRefused: something is at `to`, or another restore to it runs.
        ArchiveUnusable, KeyUnusable, OSError: see `check_backup`.
    """
    if to.is_symlink() or (to.exists() and not to.is_dir()) or (to.is_dir() and any(to.iterdir())):
        raise RestoreRefused(f"There is something at {to}. Name a folder that is not there, or is empty.")
    remove_leftovers(to.parent)
    manifest = check_backup(archive, identity=identity, most_bytes=_free_bytes(to))
    to.parent.mkdir(parents=True, exist_ok=True)
    with _staging(to) as staging:
        if _folds_case(staging) and (same := one_name_twice(manifest.entries)):
            raise ArchiveUnusable(
                f"{' and '.join(same)} differ in case alone, and the disk at {to.parent} cannot keep both. "
                "Restore to a disk that can."
            )
        _write(archive, identity, manifest, staging)
        if to.is_dir():
            to.rmdir()
        staging.rename(to)
    return manifest


def one_name_twice(entries: Sequence[Entry]) -> tuple[str, str] | None:
    """Two paths that are one on a disk that ignores case, or the form of accents."""
    seen: dict[str, str] = {}
    for entry in entries:
        folded = unicodedata.normalize("NFC", unicodedata.normalize("NFC", entry.path).casefold())
        if folded in seen:
            return seen[folded], entry.path
        seen[folded] = entry.path
    return None


def _write(archive: Path, identity: Path | None, manifest: Manifest, staging: Path) -> None:
    """The second pass. The archive may have changed since the first, so each member is checked again."""
    said: dict[str, Entry] = {entry.path: entry for entry in manifest.entries}

    def take(member: tarfile.TarInfo, data: IO[bytes] | None) -> None:
        entry = said.pop(_checked_name(member.name), None)
        if entry is None or member.size != entry.size_bytes:
            raise ArchiveUnusable(f"{member.name} changed while it was read.")
        to = _at(staging, member.name)
        if data is None:
            if member.isdir():
                to.mkdir(mode=0o700, parents=True, exist_ok=True)
            return
        to.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with open(to, "xb", opener=_private) as file:
            written = _entry_of(member, data, file)
        if (written.size_bytes, written.sha256) != (entry.size_bytes, entry.sha256):
            raise ArchiveUnusable(f"{member.name} changed while it was read.")

    _read(archive, identity, take)
    if said:
        raise ArchiveUnusable(f"{next(iter(said))} went away while it was read.")
    for entry in manifest.entries:
        if entry.kind == LINK:
            _at(staging, entry.path).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            _at(staging, entry.path).symlink_to(entry.link)
        elif entry.kind != FOLDER:
            _at(staging, entry.path).chmod(entry.mode)
    for entry in sorted(manifest.entries, key=lambda entry: entry.path, reverse=True):
        if entry.kind == FOLDER and entry.path != STATE:
            _at(staging, entry.path).chmod(entry.mode)


def _at(staging: Path, path: str) -> Path:
    return staging / (path.removeprefix(STATE).removeprefix("/") if path.split("/")[0] == STATE else path)


def _checked_name(name: str) -> str:
    """The path, if it is written as a backup writes it.

    Raises:
        ArchiveUnusable: it leads out of the archive, or one file could have several such names.
    """
    if str(PurePosixPath(inside(name))) != name:
        raise ArchiveUnusable(f"It names the path {name!r}, which no backup has.")
    return name


def _free_bytes(to: Path) -> int:
    above = next(folder for folder in to.parents if folder.exists())
    return shutil.disk_usage(above).free


@contextmanager
def _staging(to: Path) -> Iterator[Path]:
    """A folder beside `to` that is gone afterwards, unless it was renamed; a lock shows that it is in use."""
    outer = to.with_name(f".{to.name}.restoring")
    try:
        outer.mkdir(mode=0o700)
    except FileExistsError as error:
        raise RestoreRefused(
            f"{outer} is there: another restore to {to} runs, or an older program left it. "
            "Wait for its end, or remove it."
        ) from error
    release = try_lock(outer / _LOCK)
    try:
        (outer / _FILES).mkdir(mode=0o700)
        yield outer / _FILES
    finally:
        _remove(outer)
        if release is not None:
            release()


def remove_leftovers(parent: Path) -> None:
    """Removes the folders of restores to folders of `parent` that were killed: nobody holds their lock."""
    for outer in parent.glob(".*.restoring"):
        if outer.is_symlink() or not (outer / _LOCK).is_file():
            continue
        release = try_lock(outer / _LOCK)
        if release is not None:
            _remove(outer)
            release()


def _remove(outer: Path) -> None:
    """Removes the files first and the lock last, so that a kill in between leaves what can be told again."""
    for folder, _, _ in os.walk(outer / _FILES):
        Path(folder).chmod(0o700)  # folders that were restored as read-only
    shutil.rmtree(outer / _FILES, ignore_errors=True)
    shutil.rmtree(outer, ignore_errors=True)


def _folds_case(folder: Path) -> bool:
    return folder.with_name(folder.name.upper()).exists()


def _read(archive: Path, identity: Path | None, take: _Take) -> Manifest:
    """Reads all of an archive. `take` gets each member with its data, which is `None` but for files."""
    manifest: Manifest | None = None
    try:
        with (
            _opened(archive, identity) as file,
            tarfile.open(fileobj=file, mode="r|", tarinfo=_Member) as tar,
        ):
            for member in tar:
                if manifest is not None:
                    raise ArchiveUnusable("Something follows its manifest.")
                tar.members = []  # type: ignore[attr-defined]  # the library would keep them all
                if member.name == MANIFEST:
                    manifest = manifest_of(_manifest_data(tar, member))
                elif member.isdir() or member.issym():
                    take(member, None)
                elif member.type in (tarfile.REGTYPE, tarfile.AREGTYPE) and not member.issparse():
                    take(member, tar.extractfile(member))
                else:
                    raise ArchiveUnusable(f"{member.name} is of a kind that no backup has.")
            while file.read(_PIECE_BYTES):  # to the end, where gzip and age keep their own checks
                pass
    except (tarfile.TarError, gzip.BadGzipFile, zlib.error, EOFError) as error:
        raise ArchiveUnusable(f"It is damaged, or no backup ({error}).") from error
    if manifest is None:
        raise ArchiveUnusable("It has no manifest: it was cut off, or is no backup.")
    return manifest


class _Member(tarfile.TarInfo):
    """A member whose name is not longer than a name can be: the library reads it into memory as a whole."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> _Member:
        member = super().frombuf(buf, encoding, errors)
        if member.type in _HEADERS and member.size > _MOST_HEADER_BYTES:
            raise ArchiveUnusable(f"It has a name of {member.size} bytes, which no backup has.")
        return member


def _manifest_data(tar: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    if member.size > _MOST_MANIFEST_BYTES:
        raise ArchiveUnusable(f"Its manifest has {member.size} bytes, more than any backup.")
    data = tar.extractfile(member) if member.isreg() and not member.issparse() else None
    return data.read() if data else b""


def _entry_of(member: tarfile.TarInfo, data: IO[bytes] | None, file: BinaryIO | None) -> Entry:
    """What a member is; its data goes into `file` where there is one."""
    if data is None:
        if member.isdir():
            return Entry(path=member.name, kind=FOLDER)
        return Entry(path=member.name, kind=LINK, link=member.linkname)
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
