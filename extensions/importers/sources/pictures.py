"""The pictures of an export, found by the ids that messages name them by. Pure, given the files."""

from __future__ import annotations

import re
from base64 import b64encode

from nacre.extensions.importers.sources.contents import Files
from nacre.sessions.contracts.messages import Image

MOST_PICTURE_BYTES = 5_000_000
"""A larger one no provider takes; it stays in the export."""
_BEGINNINGS = ((b"\x89PNG\r\n", "image/png"), (b"\xff\xd8\xff", "image/jpeg"), (b"GIF8", "image/gif"))


def mime_type(data: bytes) -> str:
    """What kind of picture bytes are, empty when none that a model can see."""
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for beginning, kind in _BEGINNINGS if data.startswith(beginning)), "")


class Pictures:
    """The pictures among the files of an export."""

    def __init__(self, files: Files, names: tuple[str, ...]) -> None:
        self._files = files
        self._names = names
        self._used: set[str] = set()

    def of(self, identity: str) -> tuple[str, Image] | str:
        """The file whose name begins with an id, and the picture in it, or why there is none."""
        begins = re.compile(rf"(?:^|/){re.escape(identity)}(?![A-Za-z0-9])[^/]*$")
        found = [name for name in self._names if identity and begins.search(name)]
        if not found:
            return "the export does not hold it"
        self._used.add(found[0])
        if self._files.size_bytes(found[0]) > MOST_PICTURE_BYTES:
            return f"it has more than {MOST_PICTURE_BYTES} bytes"
        with self._files.opened(found[0]) as file:
            data = file.read()
        kind = mime_type(data)
        if not kind:
            return "it is no picture that a model can see"
        return found[0], Image(data=b64encode(data).decode("ascii"), mime_type=kind)

    def unused(self) -> tuple[str, ...]:
        """The pictures that nobody asked for."""
        return tuple(name for name in self._names if name not in self._used)
