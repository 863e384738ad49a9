"""Tool results too long for a transcript, whole, in a folder beside it: `<sessionId>.results/<name>.txt`.

Edge. What `keep` returns from is on disk. Files are never changed; the folder goes where its transcript
goes, and nothing but the session's own tools reads it.
"""

from __future__ import annotations

import asyncio
from functools import cached_property
from pathlib import Path

from nacre.sessions.contracts.messages import MAX_KEPT_CHARS, is_result_name
from nacre.sessions.disk.durable import make_folder, read_plain, replace_file

FOLDER_SUFFIX = ".results"


def results_folder(transcript: Path) -> Path:
    """Where the results of a transcript lie; the folder exists once there is one."""
    return transcript.with_suffix(FOLDER_SUFFIX)


class ResultFiles:
    """The `WholeResults` of the session with this transcript."""

    def __init__(self, transcript: Path) -> None:
        self._transcript = transcript

    @cached_property
    def _folder(self) -> Path:
        return results_folder(self._transcript)

    async def keep(self, name: str, text: str) -> None:
        """Stores a result under a new name of letters, digits, `-` and `_`.

        Raises:
            SessionWriteFailed: the system refused; nothing is left behind.
            ValueError: that is no name.
        """
        path = self._path(name)
        if path is None:
            raise ValueError(f"{name!r} is no name for a result")
        data = text[:MAX_KEPT_CHARS].encode("utf-8", "replace")

        def write() -> None:
            make_folder(self._folder)
            replace_file(path, data)

        await asyncio.to_thread(write)

    async def read(self, name: str) -> str | None:
        """A stored result, or `None` when there is none of that name.

        Raises:
            SessionCorrupt: there is something else than a plain file.
            SessionWriteFailed: the system refused to read it.
        """
        path = self._path(name)
        found = await asyncio.to_thread(read_plain, path) if path is not None else None
        return None if found is None else found[0].decode("utf-8", "replace")

    async def copy_to(self, transcript: Path) -> None:
        """Gives another transcript, such as a fork of this one, the results that there are so far.

        Raises:
            SessionCorrupt: there is something else than a plain file.
            SessionWriteFailed: the system refused.
        """
        target = results_folder(transcript)

        def copy() -> None:
            names = sorted(path.name for path in self._folder.glob("*.txt")) if self._folder.is_dir() else []
            for name in names:
                found = read_plain(self._folder / name)
                if found is not None:
                    make_folder(target)
                    replace_file(target / name, found[0])

        await asyncio.to_thread(copy)

    def _path(self, name: str) -> Path | None:
        return self._folder / f"{name}.txt" if is_result_name(name) else None
