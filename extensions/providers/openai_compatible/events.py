"""Server-sent events out of bytes that come in pieces. Pure.

Source: "Server-sent events" in the HTML standard. Lines end at CR, LF or both and nowhere else: JSON may hold
other line separators of Unicode as they stand. Of the fields only `data` means something here.
"""

from __future__ import annotations

import re

_LINE_END = re.compile(rb"\r\n|\n|\r")


class EventReader:
    """Takes pieces in, gives the data of the events that are complete."""

    def __init__(self) -> None:
        self._rest = b""
        self._data: list[bytes] = []

    def feed(self, piece: bytes) -> list[bytes]:
        """The data of each event that this piece completes; comments give none."""
        text = self._rest + piece
        # a CR at the end may be the first half of a line end
        held = len(text) - 1 if text.endswith(b"\r") else len(text)
        lines = _LINE_END.split(text[:held])
        self._rest = lines.pop() + text[held:]
        return [data for line in lines if (data := self._line(line)) is not None]

    def end(self) -> list[bytes]:
        """The data of an event whose empty line is missing when the stream is over."""
        found = self.feed(b"\n\n") if self._rest or self._data else []
        self._rest = b""
        return found

    def _line(self, line: bytes) -> bytes | None:
        if line.startswith(b"data:"):
            self._data.append(line[5:].removeprefix(b" "))
            return None
        if line or not self._data:
            return None
        data, self._data = b"\n".join(self._data), []
        return data
