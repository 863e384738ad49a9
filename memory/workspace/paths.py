"""Path containment: the one place that decides whether a path is inside a folder.

Every tool that takes a path from a model or a chat calls `contained_path` first and opens the result with
`open_regular`. Nothing here reads or writes contents.
"""

from __future__ import annotations

import errno
import os
import re
import stat
import unicodedata
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from nacre.memory.contracts.workspace import PathOutsideRoot

MAX_NAME_BYTES = 255
MAX_PATH_BYTES = 4096

_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_DRIVE = re.compile(r"[A-Za-z]:")
DEVICE_NAME = re.compile(r"(con|prn|aux|nul|conin\$|conout\$|com[0-9¹²³]|lpt[0-9¹²³])(\..*)?", re.IGNORECASE)


def contained_path(root: Path, relative: str) -> Path:
    """The real path of `relative` inside `root`; the file need not exist.

    `relative` uses forward slashes; `.` is the root. An absolute path inside the root is accepted. Error
    messages do not contain the root, which has the account's name, because strangers may read them. Symbolic
    links are followed as far as the path exists, and their targets must be inside the real root, so the
    result has no symbolic link.

    Raises:
        PathOutsideRoot: an absolute path elsewhere, `..`, a control character, a backslash, a drive letter, a
            Windows device name, a name that is too long, or a link that leads out or in a circle.
    """
    real_root = Path(os.path.realpath(root))
    _refuse_unusable_text(relative)
    posix = PurePosixPath(relative)
    if Path(relative).is_absolute() or posix.is_absolute():
        _refuse_upwards(posix, relative)
        posix = _inside(root, real_root, relative)
    _refuse_unusable_parts(posix, relative)
    real = Path(os.path.realpath(real_root / posix))
    if not real.is_relative_to(real_root):
        raise PathOutsideRoot(f"The path {relative!r} leads out of its folder through a symbolic link.")
    inside = [real, *real.parents][: len(real.parts) - len(real_root.parts)]
    if any(path.is_symlink() for path in inside):
        raise PathOutsideRoot(f"The path {relative!r} goes in a circle of symbolic links.")
    return real


def path_in_root(root: Path, path: Path) -> PurePosixPath:
    """The name of `path` relative to `root`, both as real paths, with forward slashes.

    Raises:
        PathOutsideRoot: `path` is not inside `root`.
    """
    real_root, real = Path(os.path.realpath(root)), Path(os.path.realpath(path))
    if not real.is_relative_to(real_root):
        raise PathOutsideRoot(f"The path of {path.name!r} is outside of its folder.")
    return PurePosixPath(real.relative_to(real_root).as_posix())


def plain_name(name: str) -> PurePosixPath:
    """The normalized name of a file in a workspace that is not a folder: `./a//b.md` becomes `a/b.md`.

    Raises:
        PathOutsideRoot: as `contained_path`, as far as a name shows it, and for every absolute path.
    """
    _refuse_unusable_text(name)
    posix = PurePosixPath(name)
    if posix.is_absolute():
        raise PathOutsideRoot(f"The path {name!r} is absolute. Name the file from the workspace downwards.")
    _refuse_unusable_parts(posix, name)
    return posix


def kept_inside(root: Path, kept: Sequence[Path]) -> tuple[Path, ...]:
    """The real paths of those `kept` places that are inside `root`."""
    real_root = Path(os.path.realpath(root))
    real = (Path(os.path.realpath(place)) for place in kept)
    return tuple(place for place in real if place != real_root and place.is_relative_to(real_root))


def refuse_kept(root: Path, path: Path, kept: Sequence[Path]) -> None:
    """Refuses a real path inside `root` that is one of `kept` (from `kept_inside`) or below one.

    Names are compared like on file systems that fold case and Unicode forms, and folders by identity.

    Raises:
        PathOutsideRoot: the path is kept.
    """
    if not kept:
        return
    real_root = Path(os.path.realpath(root))
    inside = [each for each in (path, *path.parents) if real_root in each.parents]
    for place in kept:
        count = len(place.parts)
        if _folded(path.parts[:count]) == _folded(place.parts) or any(
            _is_same(each, place) for each in inside
        ):
            raise PathOutsideRoot(
                f"The path {str(path.relative_to(real_root))!r} belongs to a program; it is not for tools."
            )


def open_regular(path: Path, flags: int) -> int:
    """Opens a regular file and returns its descriptor; never follows a link in the last component.

    Checking and opening are one step, so that a link placed after `contained_path` cannot lead out, and a
    pipe or a device can neither block nor be read.

    Raises:
        PathOutsideRoot: the last component is a link, or neither a regular file nor a folder.
        IsADirectoryError: it is a folder.
        OSError: as `os.open`.
    """
    safe_flags = flags | _flag("O_NOFOLLOW") | _flag("O_CLOEXEC") | _flag("O_NONBLOCK") | _flag("O_BINARY")
    try:
        descriptor = os.open(path, safe_flags, 0o666)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EMLINK):
            raise PathOutsideRoot(f"{path.name!r} became a symbolic link; it is not opened.") from error
        if error.errno in (errno.ENXIO, errno.EOPNOTSUPP):
            raise PathOutsideRoot(f"{path.name!r} is a pipe or a socket, not a file.") from error
        raise
    opened_mode = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(opened_mode):
        os.close(descriptor)
        if stat.S_ISDIR(opened_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path.name)
        raise PathOutsideRoot(f"{path.name!r} is not a regular file.")
    return descriptor


def _refuse_upwards(posix: PurePosixPath, relative: str) -> None:
    if ".." in posix.parts:
        raise PathOutsideRoot(
            f"The path {relative!r} contains '..'. Name the file from the workspace downwards."
        )


def _refuse_unusable_parts(posix: PurePosixPath, relative: str) -> None:
    _refuse_upwards(posix, relative)
    if posix.parts[:1] == ("~",):
        raise PathOutsideRoot(
            f"The path {relative!r} names a home folder. Name the file from the workspace downwards."
        )
    for part in posix.parts:
        if len(part.encode("utf-8")) > MAX_NAME_BYTES:
            raise PathOutsideRoot(
                f"A name in the path {relative[:80]!r}… is longer than {MAX_NAME_BYTES} bytes."
            )
        if DEVICE_NAME.fullmatch(part.rstrip(" .")):
            raise PathOutsideRoot(
                f"{part!r} in {relative!r} is a device name on some systems. Choose another name."
            )
        if os.name == "nt" and (":" in part or part != part.rstrip(" .")):
            raise PathOutsideRoot(f"{part!r} in {relative!r} would name another file on this system.")


def _inside(root: Path, real_root: Path, absolute: str) -> PurePosixPath:
    for start in (root, Path(os.path.abspath(root)), real_root):  # noqa: PTH100 - resolve() would follow links
        if Path(absolute).is_relative_to(start):
            return PurePosixPath(Path(absolute).relative_to(start).as_posix())
    raise PathOutsideRoot(
        f"The path {absolute!r} is outside of the folder that may be used. Only files inside it can be."
    )


def _refuse_unusable_text(relative: str) -> None:
    if not relative.strip():
        raise PathOutsideRoot("The path is empty. Name a file, for example 'MEMORY.md'.")
    if _CONTROL.search(relative):
        raise PathOutsideRoot(f"The path {relative!r} contains a control character.")
    try:
        length_bytes = len(relative.encode("utf-8"))
    except UnicodeEncodeError as error:
        raise PathOutsideRoot(f"The path {relative!r} is not valid Unicode text.") from error
    if length_bytes > MAX_PATH_BYTES:
        raise PathOutsideRoot(f"The path is {length_bytes} bytes long; {MAX_PATH_BYTES} is the most.")
    if os.name != "nt" and ("\\" in relative or _DRIVE.match(relative)):
        raise PathOutsideRoot(
            f"The path {relative!r} is written for Windows. Use forward slashes, no drive letter."
        )


def _folded(parts: Sequence[str]) -> list[str]:
    return [unicodedata.normalize("NFKC", part).casefold() for part in parts]


def _is_same(path: Path, other: Path) -> bool:
    try:
        return path.samefile(other)
    except OSError:
        return False


def _flag(name: str) -> int:
    # Each of these is missing on some system.
    return int(getattr(os, name, 0))
