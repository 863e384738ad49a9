"""What the system refuses, told as a sentence. Edge."""

from __future__ import annotations

from pathlib import Path

from nacre.sessions.contracts.errors import SessionWriteFailed

FOLDER_MODE = 0o700


class reported:  # noqa: N801 - called like a function
    """Turns the system's errors into `SessionWriteFailed` with a sentence.

    A class, because a turn enters it eight times, and a generator costs three times as much.
    """

    def __init__(self, verb: str, path: Path | str) -> None:
        self._verb = verb
        self._path = path

    def __enter__(self) -> None:
        """Watches from here on."""

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if isinstance(error, OSError):
            reason = error.strerror or str(error)
            raise SessionWriteFailed(
                f"Could not {self._verb} {self._path}: {reason}. What was on disk before still is; "
                "check the disk's space and the folder's permissions, then try again.",
                path=Path(self._path),
            ) from error


def make_folder(path: Path) -> None:
    """Creates a folder, and those above it, for its owner only; an existing one is left as it is."""
    if path.is_dir():
        return
    with reported("create the folder", path):
        missing = [folder for folder in (path, *path.parents) if not folder.exists()]
        for folder in reversed(missing):
            folder.mkdir(mode=FOLDER_MODE, exist_ok=True)
