"""Checks an archive and restores it into an empty folder.

An archive is read twice. The first pass writes nothing: it checks names, kinds, sizes, the free disk space,
and every byte against the manifest. The second pass writes to a folder beside the target, which is renamed at
the end.
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
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import IO, BinaryIO

from nacre.extensions.backup.encryption import AGE_HEAD, decrypted
from nacre.extensions.backup.manifest import (
    FILE,
    FOLDER,
    LINK,
    MANIFEST,
    STATE,
    ArchiveUnusable,
    Entry,
    Manifest,
    checked_path,
    differences,
    parse_manifest,
)
from nacre.locks import try_lock

_PIECE_BYTES = 1 << 20
_MOST_HEADER_BYTES = 1 << 20
"""The largest header of a member name. The library reads a name into memory as a whole."""
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
    """The restore would have changed existing files; nothing was written."""


def check_backup(archive: Path, *, identity: Path | None, most_bytes: int | None = None) -> Manifest:
    """Reads an archive from beginning to end and compares it with its manifest. Writes nothing.

    `most_bytes` limits the unpacked size of its files.

    Raises:
        ArchiveUnusable: it is damaged, truncated, encrypted, or larger than `most_bytes`.
        KeyUnusable: see `decrypted`.
        OSError: the archive cannot be read.
    """
    found: dict[str, Entry] = {}
    total_bytes = 0

    def take(member: tarfile.TarInfo, data: IO[bytes] | None) -> None:
        nonlocal total_bytes
        path = _checked_name(member.name)
        if path in found:
            raise ArchiveUnusable(f"{path} occurs twice.")
        if len(found) >= _MOST_MEMBERS:
            raise ArchiveUnusable(f"It has more than {_MOST_MEMBERS} members.")
        total_bytes += member.size
        if most_bytes is not None and total_bytes > most_bytes:
            raise ArchiveUnusable(
                f"With {path}, its files need more than the {most_bytes} bytes of free disk space."
            )
        found[path] = _entry_of(member, data, None)

    manifest = _read(archive, identity, take)
    if problems := differences(manifest.entries, list(found.values())):
        more = f" And {len(problems) - 3} more." if len(problems) > 3 else ""
        raise ArchiveUnusable(f"{' '.join(problems[:3])}{more}")
    for path in found:
        for above in PurePosixPath(path).parents:
            entry = found.get(str(above))
            if entry is not None and entry.kind != FOLDER:
                raise ArchiveUnusable(f"{path} is below {above}, which is not a folder.")
    return manifest


def restore_backup(
    archive: Path, target: Path, *, identity: Path | None, aside: Path | None = None
) -> Manifest:
    """Restores an archive to the folder `target`, completely or not at all.

    The state folder of the archive becomes `target`; what lay outside it goes to `target/outside`. Links are
    created last, so that nothing is written through a link. Leftovers of killed restores beside `target` are
    removed. At the end, a folder at `target` is renamed to `aside`, if that is given. If the folder cannot be
    renamed, such as a mount, its contents move to `aside`.

    Raises:
        RestoreRefused: something exists at `target`, or another restore to it is running.
        ArchiveUnusable, KeyUnusable, OSError: see `check_backup`.
    """
    if (
        target.is_symlink()
        or (target.exists() and not target.is_dir())
        or (aside is None and target.is_dir() and any(target.iterdir()))
    ):
        raise RestoreRefused(f"{target} is not empty. Name a new or an empty folder.")
    remove_leftovers(folder_beside(target))
    above = next(folder for folder in (target, *target.parents) if folder.exists())
    manifest = check_backup(archive, identity=identity, most_bytes=shutil.disk_usage(above).free)
    target.parent.mkdir(parents=True, exist_ok=True)
    with _staging(target) as staging:
        folds_case = staging.with_name(staging.name.upper()).exists()
        if folds_case and (collision := one_name_twice(manifest.entries)):
            raise ArchiveUnusable(
                f"{' and '.join(collision)} differ only in case, and the disk at {target.parent} "
                "cannot store both. Restore to a disk that distinguishes case."
            )
        _write(archive, identity, manifest, staging)
        if target.is_dir() and folder_beside(target) == target:
            if aside is not None:
                _move_all(target, aside, but=staging.parent)
            _move_all(staging, target, but=target)
            return manifest
        if target.is_dir() and aside is not None:
            target.rename(aside)
        elif target.is_dir():
            target.rmdir()
        try:
            staging.rename(target)
        except OSError:
            if aside is not None and aside.exists():
                aside.rename(target)
            raise
    return manifest


def folder_beside(target: Path) -> Path:
    """The folder for files beside `target`: `target` itself if it cannot be renamed, such as a mount."""
    is_fixed = target.is_mount() or not os.access(target.parent, os.W_OK)
    return target if target.is_dir() and is_fixed else target.parent


def _move_all(source: Path, target: Path, *, but: Path) -> None:
    target.mkdir(mode=0o700, exist_ok=True)
    for path in source.iterdir():
        if path not in (target, but):
            path.rename(target / path.name)


def one_name_twice(entries: Sequence[Entry]) -> tuple[str, str] | None:
    """Two paths that are the same on a disk that ignores case or Unicode normalization."""
    seen: dict[str, str] = {}
    for entry in entries:
        folded = unicodedata.normalize("NFC", unicodedata.normalize("NFC", entry.path).casefold())
        if folded in seen:
            return seen[folded], entry.path
        seen[folded] = entry.path
    return None


def _write(archive: Path, identity: Path | None, manifest: Manifest, staging: Path) -> None:
    """Runs the second pass. The archive may have changed since the first, so each member is checked again."""
    expected: dict[str, Entry] = {entry.path: entry for entry in manifest.entries}

    def take(member: tarfile.TarInfo, data: IO[bytes] | None) -> None:
        entry = expected.pop(_checked_name(member.name), None)
        if entry is None or member.size != entry.size_bytes:
            raise ArchiveUnusable(f"{member.name} changed while it was read.")
        target = _at(staging, member.name)
        if data is None:
            if member.isdir():
                target.mkdir(mode=0o700, parents=True, exist_ok=True)
            return
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with open(target, "xb", opener=_private) as file:
            written = _entry_of(member, data, file)
        if (written.size_bytes, written.sha256) != (entry.size_bytes, entry.sha256):
            raise ArchiveUnusable(f"{member.name} changed while it was read.")
        with suppress(OSError, OverflowError, ValueError):  # the archive may have any number
            os.utime(target, (member.mtime, member.mtime))  # lists of sessions show days

    _read(archive, identity, take)
    if expected:
        raise ArchiveUnusable(f"{next(iter(expected))} disappeared while the archive was read.")
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
    """Returns the path if it is written the way a backup writes it.

    Raises:
        ArchiveUnusable: it leads out of the archive, or is not in its normal form.
    """
    if str(PurePosixPath(checked_path(name))) != name:
        raise ArchiveUnusable(f"It contains the path {name!r}, which no backup contains.")
    return name


@contextmanager
def _staging(target: Path) -> Iterator[Path]:
    """Makes a folder beside `target`, which is removed unless it was renamed. A lock marks it as in use."""
    outer = folder_beside(target) / f".{target.name}.restoring"
    try:
        outer.mkdir(mode=0o700)
    except FileExistsError as error:
        raise RestoreRefused(
            f"{outer} exists: another restore to {target} is running, or an older program left it. "
            "Wait until it ends, or remove the folder."
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
    """Removes the folders that killed restores left in `parent`, whose lock nobody holds."""
    for outer in parent.glob(".*.restoring"):
        if outer.is_symlink() or not (outer / _LOCK).is_file():
            continue
        release = try_lock(outer / _LOCK)
        if release is not None:
            _remove(outer)
            release()


def _remove(outer: Path) -> None:
    """Removes the files first and the lock last, so that a kill in between leaves a recognizable folder."""
    for folder, _, _ in os.walk(outer / _FILES):
        Path(folder).chmod(0o700)  # some folders may have been restored as read-only
    shutil.rmtree(outer / _FILES, ignore_errors=True)
    shutil.rmtree(outer, ignore_errors=True)


def _read(archive: Path, identity: Path | None, take: _Take) -> Manifest:
    """Reads a whole archive. `take` gets each member with its data, or `None` if the member is not a file."""
    manifest: Manifest | None = None
    try:
        with (
            _opened(archive, identity) as file,
            tarfile.open(fileobj=file, mode="r|", tarinfo=_Member) as tar,
        ):
            for member in tar:
                if manifest is not None:
                    raise ArchiveUnusable("Data follows its manifest.")
                tar.members = []  # type: ignore[attr-defined]  # otherwise the library keeps every member
                if member.name == MANIFEST:
                    manifest = parse_manifest(_manifest_data(tar, member))
                elif member.isdir() or member.issym():
                    take(member, None)
                elif member.type in (tarfile.REGTYPE, tarfile.AREGTYPE) and not member.issparse():
                    take(member, tar.extractfile(member))
                else:
                    raise ArchiveUnusable(f"{member.name} is of a kind that no backup contains.")
            while file.read(_PIECE_BYTES):  # read to the end: gzip and age store their checksums there
                pass
    except (tarfile.TarError, gzip.BadGzipFile, zlib.error, EOFError) as error:
        raise ArchiveUnusable(f"It is damaged or not a backup ({error}).") from error
    if manifest is None:
        raise ArchiveUnusable("It has no manifest: it is truncated or not a backup.")
    return manifest


class _Member(tarfile.TarInfo):
    """A member with a limited name length: the library reads the name into memory as a whole."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> _Member:
        member = super().frombuf(buf, encoding, errors)
        if member.type in _HEADERS and member.size > _MOST_HEADER_BYTES:
            raise ArchiveUnusable(f"It contains a name of {member.size} bytes, which no backup contains.")
        return member


def _manifest_data(tar: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    if member.size > _MOST_MANIFEST_BYTES:
        raise ArchiveUnusable(f"Its manifest has {member.size} bytes; the limit is {_MOST_MANIFEST_BYTES}.")
    data = tar.extractfile(member) if member.isreg() and not member.issparse() else None
    return data.read() if data else b""


def _entry_of(member: tarfile.TarInfo, data: IO[bytes] | None, file: BinaryIO | None) -> Entry:
    """Describes a member and copies its data to `file` if there is one."""
    if data is None:
        if member.isdir():
            return Entry(path=member.name, kind=FOLDER)
        return Entry(path=member.name, kind=LINK, link=member.linkname)
    hasher, size_bytes = hashlib.sha256(), 0
    while piece := data.read(_PIECE_BYTES):
        hasher.update(piece)
        size_bytes += len(piece)
        if file is not None:
            file.write(piece)
    return Entry(path=member.name, kind=FILE, size_bytes=size_bytes, sha256=hasher.hexdigest())


def is_encrypted(archive: Path) -> bool:
    """Whether an archive is encrypted with age. Raises `OSError`."""
    with archive.open("rb") as file:
        return file.read(len(AGE_HEAD)) == AGE_HEAD


@contextmanager
def _opened(archive: Path, identity: Path | None) -> Iterator[BinaryIO]:
    with ExitStack() as stack:
        file: BinaryIO = stack.enter_context(archive.open("rb"))
        if is_encrypted(archive):
            if identity is None:
                raise ArchiveUnusable("It is encrypted. Name the file that holds your key: --identity FILE.")
            file = stack.enter_context(decrypted(file, identity))
        packed: BinaryIO = stack.enter_context(gzip.GzipFile(fileobj=file, mode="rb"))  # type: ignore[assignment]  # it is readable like one
        yield packed


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
