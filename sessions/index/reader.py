"""What `sessions.json` and the changes after it say, read again only as far as they changed. Edge.

That the files are what they were is told by a look at their inodes, sizes and times. Blocking; one call at
a time.
"""

from __future__ import annotations

import hashlib
import os
import time

from nacre.sessions.contracts.errors import SessionVersionUnknown
from nacre.sessions.disk.durable import read_plain, reading
from nacre.sessions.disk.reported import reported
from nacre.sessions.index.checkpoint import IndexPaths, facts_fingerprint, fingerprint
from nacre.sessions.index.image import Image
from nacre.sessions.index.json_file import parsed_index

SETTLED_AFTER_SECONDS = 0.05
"""A file that another program wrote is read a second time so much later: until then its time may not have
moved on, should it be written again."""
_LOADS = 10


class IndexReader:
    """The two files of an index, and their `image` as it was last read; `None` until then."""

    def __init__(self, paths: IndexPaths) -> None:
        self.image: Image | None = None
        self._paths = paths
        self._digest = b""
        self._unsettled_since: float | None = None

    @property
    def present(self) -> Image | None:
        """The image if both files are what they were, which two looks tell; `None` if they must be read."""
        image = self.image
        if image is None or self._unsettled_since is not None:
            return None
        try:
            found = fingerprint(self._paths.base), fingerprint(self._paths.log)
        except OSError:
            return None
        return image if found == (image.base, image.log) else None

    def wrote(self, image: Image) -> None:
        """Takes the image that the files have just been written from."""
        self.image, self._unsettled_since = image, None

    def follow(self) -> Image:
        """What both files say now, read as far as they changed; kept if all of it could be read.

        Raises:
            SessionVersionUnknown: a newer program wrote the changes.
            SessionCorrupt: one of the two is no plain file.
            SessionWriteFailed: the system refused.
        """
        if self.image is not None and self._goes_on(self.image):
            return self.image
        image = self._loaded()
        self.image = image if image.is_whole else None
        return image

    def _goes_on(self, image: Image) -> bool:
        paths = self._paths
        with reported("read", paths.base):
            if fingerprint(paths.base) != image.base or not self._is_settled():
                return False
            log = fingerprint(paths.log)
        if log == image.log:
            return True
        if log is None or (image.log is not None and (log[:2] != image.log[:2] or log[2] <= image.log[2])):
            return False
        with reading(paths.log, start_bytes=image.log_bytes) as file:
            facts, data = os.fstat(file.fileno()), file.read()
        image.read_on(data)
        image.log = facts_fingerprint(facts)
        return image.is_whole and fingerprint(paths.base) == image.base

    def _is_settled(self) -> bool:
        """Whether what was read of `sessions.json` is what is there although its time tells too little."""
        if self._unsettled_since is None:
            return True
        looked_at = time.monotonic()
        found = read_plain(self._paths.base)
        if found is None or _digest(found[0]) != self._digest:
            return False
        if looked_at - self._unsettled_since > SETTLED_AFTER_SECONDS:
            self._unsettled_since = None
        return True

    def _loaded(self) -> Image:
        for _ in range(_LOADS):
            found = read_plain(self._paths.base)
            lines = parsed_index(found[0]) if found is not None else None
            image = Image(lines or {}, base=facts_fingerprint(found[1]) if found is not None else None)
            log = read_plain(self._paths.log)
            if log is not None:
                image.log = facts_fingerprint(log[1])
                image.read_on(log[0])
            if image.newer_version is not None:
                raise SessionVersionUnknown(
                    f"{self._paths.log} has format version {image.newer_version}, which this program does "
                    "not know. Use a newer Nacre for this folder. It was left as it is."
                )
            has_none_yet = found is None and bool(image.edits) and not image.has_base
            image.is_base_read = lines is not None or has_none_yet
            self._digest = _digest(found[0]) if found is not None else b""
            self._unsettled_since = time.monotonic() if found is not None else None
            # Who wrote the index anew in between has put changes into it that are not read here.
            if fingerprint(self._paths.base) == image.base:
                return image
        image.is_base_read = False
        return image


def _digest(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=16).digest()
