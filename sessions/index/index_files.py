"""Reads and writes the files of an index. Blocking; `index.py` runs it on threads.

Only this module writes `sessions.json` and `sessions.json.changes`. An edit appends one line to the change
log; `checkpoint` brings `sessions.json` up to date.
"""

from __future__ import annotations

import hashlib
import os
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import TypeAlias, TypeVar

from nacre.sessions.contracts.errors import SessionVersionUnknown
from nacre.sessions.disk.durable import (
    Sync,
    append_all,
    locked,
    locked_if_free,
    no_sync,
    open_plain,
    read_plain,
    reading,
    remove_unfinished,
    reported,
    set_aside,
    sync_folder,
    unfinished_file,
)
from nacre.sessions.index.image import (
    IndexImage,
    IndexPaths,
    better_record,
    facts_fingerprint,
    fingerprint,
    index_bytes,
    log_bytes_of,
    parsed_index,
    put_in_place,
    restored,
)
from nacre.sessions.index.record import Patch, SessionRecord, edit_line, header_line, patch_of, record_to_json

T = TypeVar("T")
FoundFile: TypeAlias = tuple[bytes, os.stat_result]
Change: TypeAlias = Callable[[Mapping[str, SessionRecord]], Mapping[str, SessionRecord | None]]

LEAST_LOG_BYTES = 256_000
"""A change log longer than this, and longer than `sessions.json`, is merged into it immediately."""


class IndexFiles:
    """The files of one index; thread-safe. `notices` are sentences about set-aside and rebuilt files."""

    def __init__(self, path: Path, *, now: Callable[[], datetime], sync: Sync) -> None:
        self.paths = IndexPaths(base=path)
        self.notices: tuple[str, ...] = ()
        self._now = now
        self._sync = sync
        self._is_swept = False
        self.is_flush_due = False
        """Whether a written change may be neither on disk nor in a transcript."""
        self._reader = IndexReader(self.paths)
        # The locks are taken in this order. The first is held while waiting for other processes and for the
        # disk, the second only while the image and the files are compared.
        self._edit_lock = threading.Lock()
        self._image_lock = threading.RLock()

    @property
    def is_log_long(self) -> bool:
        """Whether the change log is long enough to rewrite `sessions.json` now."""
        image = self._reader.image
        if image is None or image.base is None:
            return False
        return image.log_bytes > max(LEAST_LOG_BYTES, image.base[2])

    def peek(self, key: str) -> tuple[SessionRecord | None, bool] | None:
        """A key's record, and whether the key has a line, if nothing on disk changed since the last read.

        Never waits. `None` means that the caller has to `read`.
        """
        if not self._image_lock.acquire(blocking=False):
            return None
        try:
            image = self._reader.present
            return None if image is None else (image.get(key), key in image.lines)
        finally:
            self._image_lock.release()

    def read(self, take: Callable[[IndexImage], T]) -> T:
        """Applies `take` to the index as it is on disk now. Locks only if something must be repaired."""
        with self._image_lock:
            image = self._reader.follow()
            if image.is_whole:
                return take(image)
        if not self.paths.base.parent.exists():
            return take(IndexImage({}, base=None))
        with self._edit_lock, locked(self.paths.base):
            return take(self._intact())

    def edit(self, change: Change) -> Mapping[str, SessionRecord | None]:
        """Implements `SessionIndex.edit`."""
        with self._edit_lock, locked(self.paths.base):
            if not self._is_swept:
                # Under the lock: removes what killed writers left.
                remove_unfinished(self.paths.base, self.paths.log)
                self._is_swept = True
            image = self._intact()
            after = change(image)
            patches = _patches(image, after)
            if patches:
                self._append(image, patches, after)
            return after

    def try_edit(self, change: Change, *, durable: bool = True) -> Mapping[str, SessionRecord | None] | None:
        """Like `edit`, but waits neither for another writer nor for the disk.

        `None` means that it had to wait, so it wrote nothing; `change` may have been called. A change that is
        not `durable` reaches the disk with the next durable one, or by `flush`.

        Raises:
            SessionWriteFailed: the system refused; the index is unchanged.
        """
        if not self._is_swept or not self._edit_lock.acquire(blocking=False):
            return None
        try:
            if not self._image_lock.acquire(blocking=False):
                return None
            try:
                with locked_if_free(self.paths.base) as is_ours:
                    return self._edit_present(change, durable=durable) if is_ours else None
            finally:
                self._image_lock.release()
        finally:
            self._edit_lock.release()

    def flush(self) -> None:
        """Flushes the change log to disk. Raises `SessionWriteFailed`."""
        # A concurrent rewrite that replaces the log has flushed its content.
        self.is_flush_due = False
        try:
            with reported("write", self.paths.log), suppress(FileNotFoundError):
                descriptor = open_plain(self.paths.log, os.O_RDWR)
                try:
                    self._sync(descriptor)
                finally:
                    os.close(descriptor)
        except BaseException:
            self.is_flush_due = True
            raise

    def recover(self, key: str, has_transcript: Callable[[SessionRecord], bool]) -> SessionRecord | None:
        """Implements `SessionIndex.recover`."""
        with self._edit_lock, locked(self.paths.base):
            image = self._intact()
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
            self.notices += (_recovery_notice(self.paths.base.name, key, raw, better, aside.name),)
            image.lines.pop(key)
            if better is not None:
                image.lines[key] = record_to_json(better)
            self._rewrite(image)
            return better

    def checkpoint(self) -> None:
        """Brings `sessions.json` up to date. Others may edit during most of the work.

        Raises:
            SessionWriteFailed: the system refused; no data was lost.
        """
        paths = self.paths
        log_facts = fingerprint(paths.log)
        if log_facts is None or log_facts[2] <= len(header_line(has_base=True)):
            return
        with self._edit_lock, locked(paths.base):
            image = self._intact()
            lines, contained = dict(image.lines), len(image.edits)
            base, log = image.base, image.log
        if not contained or log is None:
            return
        with (
            reported("write", paths.base),
            unfinished_file(paths.base, index_bytes(lines), sync=self._sync) as unfinished,
            self._edit_lock,
            locked(paths.base),
        ):
            image = self._intact()
            is_same = image.base == base and image.log is not None and image.log[:2] == log[:2]
            if is_same and unfinished.exists():
                self._put_in_place(unfinished, image, contained=contained)

    def _edit_present(self, change: Change, *, durable: bool) -> Mapping[str, SessionRecord | None] | None:
        """Edits under all locks if the index is as it was read and needs no flush to disk."""
        image = self._reader.present
        if image is None or image.base is None or image.log is None or image.is_torn:
            return None
        after = change(image)
        patches = _patches(image, after)
        is_mirrored = all(patch.is_mirrored for patch in patches)
        if durable and not is_mirrored:
            return None
        if patches:
            self._append(image, patches, after, durable=durable)
            self.is_flush_due = self.is_flush_due or not is_mirrored
        return after

    def _append(
        self,
        image: IndexImage,
        patches: list[Patch],
        after: Mapping[str, SessionRecord | None],
        *,
        durable: bool = True,
    ) -> None:
        """Writes an edit whose result is the records `after`.

        It is flushed to disk unless transcripts record it too, or it need not be `durable`.
        """
        paths, is_first = self.paths, image.log is None
        line = edit_line(patches)
        header = header_line(has_base=image.base is not None) if is_first else b""
        must_last = is_first or (durable and not all(patch.is_mirrored for patch in patches))
        try:
            facts = append_all(
                paths.log,
                header + line,
                at_bytes=image.log_bytes,
                sync=self._sync if must_last else no_sync,
            )
        except Exception:
            self._reader.image = None
            if is_first:
                paths.log.unlink(missing_ok=True)
            raise
        if is_first:
            with reported("write", paths.log):
                sync_folder(paths.log.parent, sync=self._sync)
        with self._image_lock:
            at_bytes = facts.st_size - len(line)
            if image.log_bytes + len(header) == at_bytes:
                image.log_bytes = at_bytes
                image.apply(patches, line, after)
                image.log = facts_fingerprint(facts)
        if image.base is None:
            self._rewrite(image)

    def _intact(self) -> IndexImage:
        """Under the lock: reads the index, and repairs and rewrites it if parts are unreadable."""
        with self._image_lock:
            image = self._reader.follow()
            return image if image.is_whole and not image.is_torn else self._repaired(image)

    def _repaired(self, image: IndexImage) -> IndexImage:
        """Under both locks: sets aside unreadable files, and rewrites the index from the rest."""
        paths = self.paths
        log = read_plain(paths.log)
        if log is not None and (image.broken_lines or image.is_torn):
            aside = set_aside(paths.log, log[0], now=self._now, sync=self._sync)
            self.notices += (
                f"Not every line of {paths.log.name} could be read. A copy was set aside as {aside.name}, "
                f"and the {len(image.edits)} changes that could be read were kept.",
            )
        if image.is_base_read:
            self._rewrite(image)
            return image
        return self._restored(read_plain(paths.base), log)

    def _restored(self, found: FoundFile | None, log: FoundFile | None) -> IndexImage:
        """Writes the index restored from other files, or returns an empty one if there are none."""
        base = self.paths.base
        left = restored(self.paths, log[0] if log is not None else b"")
        if left is None and found is None:
            return IndexImage({}, base=None)
        lines, edits, source = left or ({}, [], "the transcripts")
        aside = set_aside(base, found[0], now=self._now, sync=self._sync) if found is not None else None
        problem = f"could not be read and was set aside as {aside.name}" if aside else "was missing"
        were = "1 session was" if len(lines) == 1 else f"{len(lines)} sessions were"
        self.notices += (f"{base.name} {problem}; {were} restored from {source}.",)
        image = IndexImage(lines, base=None)
        self._rewrite(image, earlier=log_bytes_of(edits))
        return image

    def _rewrite(self, image: IndexImage, *, earlier: bytes | None = None) -> None:
        base = self.paths.base
        data = index_bytes(image.lines)
        with reported("write", base), unfinished_file(base, data, sync=self._sync) as unfinished:
            self._put_in_place(unfinished, image, contained=len(image.edits), earlier=earlier)

    def _put_in_place(
        self, unfinished: Path, image: IndexImage, *, contained: int, earlier: bytes | None = None
    ) -> None:
        with self._image_lock:
            # If this fails halfway, everything is read again.
            self._reader.image = None
            put_in_place(self.paths, unfinished, image, contained=contained, earlier=earlier, sync=self._sync)
            self._reader.wrote(image)


def _patches(image: IndexImage, after: Mapping[str, SessionRecord | None]) -> list[Patch]:
    return [
        patch_of(key, image.lines, record_to_json(record) if record is not None else None)
        for key, record in after.items()
        if record != image.get(key)
    ]


def _recovery_notice(name: str, key: str, raw: object, better: SessionRecord | None, aside: str) -> str:
    stored = repr(raw.get("sessionId") if isinstance(raw, dict) else raw)[:80]
    problem = f"{name} had {stored} for {key}, which has no transcript. The file was set aside as {aside}."
    if better is None:
        return f"{problem} No other session of it was found, so the conversation starts again."
    return f"{problem} The conversation continues in {better.session_id}, from its backup or the transcripts."


SETTLED_AFTER_SECONDS = 0.05
"""A file that another program wrote is read a second time after this time, because a second write within
it may leave the modification time unchanged."""
_LOADS = 10


class IndexReader:
    """The two files of an index and their `image` as last read, `None` before that."""

    def __init__(self, paths: IndexPaths) -> None:
        self.image: IndexImage | None = None
        self._paths = paths
        self._digest = b""
        self._unsettled_since: float | None = None

    @property
    def present(self) -> IndexImage | None:
        """The image if both files are unchanged and settled; `None` if they must be read."""
        image = self.image
        if image is None or self._unsettled_since is not None:
            return None
        try:
            found = fingerprint(self._paths.base), fingerprint(self._paths.log)
        except OSError:
            return None
        return image if found == (image.base, image.log) else None

    def wrote(self, image: IndexImage) -> None:
        """Stores the image from which the files have just been written."""
        self.image, self._unsettled_since = image, None

    def follow(self) -> IndexImage:
        """Reads what changed in both files and returns the image, which is cached if it is whole.

        Raises:
            SessionVersionUnknown: a newer program wrote the change log.
            SessionCorrupt: one of the files is not a regular file.
            SessionWriteFailed: the system refused.
        """
        if self.image is not None and self._goes_on(self.image):
            return self.image
        image = self._loaded()
        self.image = image if image.is_whole else None
        return image

    def _goes_on(self, image: IndexImage) -> bool:
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
        """Whether `sessions.json` still has the content that was read, even if its time cannot show a
        change."""
        if self._unsettled_since is None:
            return True
        looked_at = time.monotonic()
        found = read_plain(self._paths.base)
        if found is None or _digest(found[0]) != self._digest:
            return False
        if looked_at - self._unsettled_since > SETTLED_AFTER_SECONDS:
            self._unsettled_since = None
        return True

    def _loaded(self) -> IndexImage:
        for _ in range(_LOADS):
            found = read_plain(self._paths.base)
            lines = parsed_index(found[0]) if found is not None else None
            image = IndexImage(lines or {}, base=facts_fingerprint(found[1]) if found is not None else None)
            log = read_plain(self._paths.log)
            if log is not None:
                image.log = facts_fingerprint(log[1])
                image.read_on(log[0])
            if image.newer_version is not None:
                raise SessionVersionUnknown(
                    f"{self._paths.log} has format version {image.newer_version}, which this program does "
                    "not know. Use a newer Nacre for this folder. The file is unchanged."
                )
            has_none_yet = found is None and bool(image.edits) and not image.has_base
            image.is_base_read = lines is not None or has_none_yet
            self._digest = _digest(found[0]) if found is not None else b""
            self._unsettled_since = time.monotonic() if found is not None else None
            # A program that rewrote the index in the meantime merged changes into it that were not read.
            if fingerprint(self._paths.base) == image.base:
                return image
        image.is_base_read = False
        return image


def _digest(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=16).digest()
