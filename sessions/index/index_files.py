"""The files of an index and what was read of them, kept in step. Blocking; `index.py` runs it on threads.

Edge: the only code that writes `sessions.json` and `sessions.json.changes`. An edit is one line
appended to the changes; `checkpoint` brings `sessions.json` up to them. What was read is kept (`reader.py`).
"""

from __future__ import annotations

import hashlib
import os
import threading
import time
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import TypeAlias, TypeVar

from nacre.sessions.contracts.errors import SessionVersionUnknown
from nacre.sessions.disk.durable import (
    Sync,
    append_all,
    read_plain,
    reading,
    remove_unfinished,
    reported,
    set_aside,
    sync_folder,
    unfinished_file,
)
from nacre.sessions.disk.locks import locked, locked_if_free
from nacre.sessions.index.image import (
    Image,
    IndexPaths,
    facts_fingerprint,
    fingerprint,
    index_bytes,
    log_bytes_of,
    parsed_index,
    put_in_place,
)
from nacre.sessions.index.record import (
    Patch,
    SessionRecord,
    edit_line,
    header_line,
    patch_of,
    record_to_json,
)
from nacre.sessions.index.recovery import better_record, restored

T = TypeVar("T")
FoundFile: TypeAlias = tuple[bytes, os.stat_result]
Change: TypeAlias = Callable[[Mapping[str, SessionRecord]], Mapping[str, SessionRecord | None]]

LEAST_LOG_BYTES = 256_000
"""From this length on, and from that of `sessions.json`, changes are put into it at once."""


class IndexFiles:
    """One index; safe to call from any thread. `notices` tells what was set aside or rebuilt."""

    def __init__(self, path: Path, *, now: Callable[[], datetime], sync: Sync) -> None:
        self.paths = IndexPaths(base=path)
        self.notices: tuple[str, ...] = ()
        self._now = now
        self._sync = sync
        self._is_swept = False
        self._reader = IndexReader(self.paths)
        # Taken in this order. The first is held while waiting for other processes and for the disk, the
        # second only while the image and the files are compared.
        self._editing = threading.Lock()
        self._looking = threading.RLock()

    @property
    def is_log_long(self) -> bool:
        """Whether there are more changes than `sessions.json` should go without."""
        image = self._reader.image
        if image is None or image.base is None:
            return False
        return image.log_bytes > max(LEAST_LOG_BYTES, image.base[2])

    def glance(self, key: str) -> tuple[SessionRecord | None, bool] | None:
        """A key's record, and whether it has a line, if nothing on disk changed since the last look.

        Never waits for anything; `None` says that somebody has to look (`read`).
        """
        if not self._looking.acquire(blocking=False):
            return None
        try:
            image = self._reader.present
            return None if image is None else (image.get(key), key in image.lines)
        finally:
            self._looking.release()

    def read(self, take: Callable[[Image], T]) -> T:
        """What `take` takes of the index as it is on disk now; no lock unless something must be repaired."""
        with self._looking:
            image = self._reader.follow()
            if image.is_whole:
                return take(image)
        if not self.paths.base.parent.exists():
            return take(Image({}, base=None))
        with self._editing, locked(self.paths.base):
            return take(self._sound())

    def edit(self, change: Change) -> Mapping[str, SessionRecord | None]:
        """Does what `SessionIndex.edit` promises."""
        with self._editing, locked(self.paths.base):
            if not self._is_swept:
                # Under the lock: what writers left that were killed.
                remove_unfinished(self.paths.base, self.paths.log)
                self._is_swept = True
            image = self._sound()
            after = change(image)
            patches = _patches(image, after)
            if patches:
                self._append(image, patches, after)
            return after

    def edit_at_once(self, change: Change) -> Mapping[str, SessionRecord | None] | None:
        """`edit` that waits for nothing: neither for another writer nor for the disk.

        `None` says that it would have had to, and nothing was written; `change` may have been called.

        Raises:
            SessionWriteFailed: the system refused; the index is as it was.
        """
        if not self._is_swept or not self._editing.acquire(blocking=False):
            return None
        try:
            if not self._looking.acquire(blocking=False):
                return None
            try:
                with locked_if_free(self.paths.base) as is_ours:
                    return self._edit_present(change) if is_ours else None
            finally:
                self._looking.release()
        finally:
            self._editing.release()

    def found_again(self, key: str, has_transcript: Callable[[SessionRecord], bool]) -> SessionRecord | None:
        """Does what `SessionIndex.found_again` promises."""
        with self._editing, locked(self.paths.base):
            image = self._sound()
            raw, present = image.lines.get(key), image.get(key)
            if key not in image.lines or (present is not None and has_transcript(present)):
                return present
            better = better_record(self.paths, key, present)
            if better is not None and not has_transcript(better):
                better = None
            if present is not None and better is None:
                return present
            found = read_plain(self.paths.base)
            aside = set_aside(self.paths.base, found[0] if found else b"", now=self._now, sync=self._sync)
            self.notices += (_told_of_line(self.paths.base.name, key, raw, better, aside.name),)
            image.lines.pop(key)
            if better is not None:
                image.lines[key] = record_to_json(better)
            self._write_anew(image)
            return better

    def checkpoint(self) -> None:
        """Brings `sessions.json` up to the changes. Most of the work is done while others may edit.

        Raises:
            SessionWriteFailed: the system refused; everything that was known still is.
        """
        paths = self.paths
        log_facts = fingerprint(paths.log)
        if log_facts is None or log_facts[2] <= len(header_line(has_base=True)):
            return
        with self._editing, locked(paths.base):
            image = self._sound()
            lines, contained = image.copy_of_lines(), len(image.edits)
            base, log = image.base, image.log
        if not contained or log is None:
            return
        with (
            reported("write", paths.base),
            unfinished_file(paths.base, index_bytes(lines), sync=self._sync) as unfinished,
            self._editing,
            locked(paths.base),
        ):
            image = self._sound()
            is_same = image.base == base and image.log is not None and image.log[:2] == log[:2]
            if is_same and unfinished.exists():
                self._put_in_place(unfinished, image, contained=contained)

    def _edit_present(self, change: Change) -> Mapping[str, SessionRecord | None] | None:
        """Under all locks: the edit, if the index is as it was read and the disk need not be waited for."""
        image = self._reader.present
        if image is None or image.base is None or image.log is None or image.is_torn:
            return None
        after = change(image)
        patches = _patches(image, after)
        if not all(patch.is_told_elsewhere for patch in patches):
            return None
        if patches:
            self._append(image, patches, after)
        return after

    def _append(self, image: Image, patches: list[Patch], after: Mapping[str, SessionRecord | None]) -> None:
        """Puts an edit on disk, which makes the records `after`.

        Waits for the disk if the edit tells what nothing else does.
        """
        paths, is_first = self.paths, image.log is None
        line = edit_line(patches)
        header = header_line(has_base=image.base is not None) if is_first else b""
        must_last = is_first or not all(patch.is_told_elsewhere for patch in patches)
        try:
            facts = append_all(
                paths.log,
                header + line,
                at_bytes=image.log_bytes,
                sync=self._sync if must_last else _leave_to_the_system,
            )
        except Exception:
            self._reader.image = None
            if is_first:
                paths.log.unlink(missing_ok=True)
            raise
        if is_first:
            with reported("write", paths.log):
                sync_folder(paths.log.parent, sync=self._sync)
        with self._looking:
            at_bytes = facts.st_size - len(line)
            if image.log_bytes + len(header) == at_bytes:
                image.log_bytes = at_bytes
                image.apply(patches, line, after)
                image.log = facts_fingerprint(facts)
        if image.base is None:
            self._write_anew(image)

    def _sound(self) -> Image:
        """Under the lock: the index on disk, repaired and written anew when some of it cannot be read."""
        with self._looking:
            image = self._reader.follow()
            return image if image.is_whole and not image.is_torn else self._repaired(image)

    def _repaired(self, image: Image) -> Image:
        """Under both locks: sets aside what cannot be read, and writes the index anew from all that can."""
        paths = self.paths
        log = read_plain(paths.log)
        if log is not None and (image.broken_lines or image.is_torn):
            aside = set_aside(paths.log, log[0], now=self._now, sync=self._sync)
            self.notices += (
                f"Of {paths.log.name} not every line could be read; a copy was set aside as {aside.name}, "
                f"and the {len(image.edits)} changes that could be read were kept.",
            )
        if image.is_base_read:
            self._write_anew(image)
            return image
        return self._restored(read_plain(paths.base), log)

    def _restored(self, found: FoundFile | None, log: FoundFile | None) -> Image:
        """Writes the index that `recovery.py` makes of what is left; an empty one where nothing is."""
        base = self.paths.base
        left = restored(self.paths, log[0] if log is not None else b"")
        if left is None and found is None:
            return Image({}, base=None)
        lines, edits, source = left or ({}, [], "the transcripts")
        aside = set_aside(base, found[0], now=self._now, sync=self._sync) if found is not None else None
        problem = f"could not be read and was set aside as {aside.name}" if aside else "was missing"
        were = "1 session was" if len(lines) == 1 else f"{len(lines)} sessions were"
        self.notices += (f"{base.name} {problem}; {were} restored from {source}.",)
        image = Image(lines, base=None)
        self._write_anew(image, earlier=log_bytes_of(edits))
        return image

    def _write_anew(self, image: Image, *, earlier: bytes | None = None) -> None:
        base = self.paths.base
        data = index_bytes(image.lines)
        with reported("write", base), unfinished_file(base, data, sync=self._sync) as unfinished:
            self._put_in_place(unfinished, image, contained=len(image.edits), earlier=earlier)

    def _put_in_place(
        self, unfinished: Path, image: Image, *, contained: int, earlier: bytes | None = None
    ) -> None:
        with self._looking:
            # Should it fail half-way, everything is read anew.
            self._reader.image = None
            put_in_place(self.paths, unfinished, image, contained=contained, earlier=earlier, sync=self._sync)
            self._reader.wrote(image)


def _patches(image: Image, after: Mapping[str, SessionRecord | None]) -> list[Patch]:
    """What makes the records of an index those of `after`."""
    return [
        patch_of(key, image.lines, record_to_json(record) if record is not None else None)
        for key, record in after.items()
        if record != image.get(key)
    ]


def _told_of_line(name: str, key: str, raw: object, better: SessionRecord | None, aside: str) -> str:
    told = repr(raw.get("sessionId") if isinstance(raw, dict) else raw)[:80]
    problem = f"For {key} {name} had {told}, which names no transcript; the file was set aside as {aside}."
    if better is None:
        return (
            f"{problem} Neither its backup nor a transcript names another, so the conversation begins anew."
        )
    return (
        f"{problem} The conversation goes on in {better.session_id}, as its backup or the transcripts tell."
    )


def _leave_to_the_system(_descriptor: int) -> None:
    """Of what a transcript tells as well, a crash of the whole machine may take the last seconds."""


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
