"""The files that stand in the context of every request, read again only when they may have changed.

A turn asks for all of them. What was read is remembered with the file's fingerprint, so that a look at
files that nobody touched opens none of them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence

from nacre.memory.contracts.workspace import RACY_NS, Fingerprint, Workspace
from nacre.memory.workspace.workspace import MIN_USEFUL_CHARS, OLDER_NAMES, ContextFile, context_file
from nacre.records.record import Record

log = logging.getLogger(__name__)


class _Known(Record):
    """A file as it was put into the context. `name` is the one under which it was there."""

    file: ContextFile
    name: str
    max_chars: int
    fingerprint: Fingerprint | None
    looked_at_ns: int

    def is_settled(self) -> bool:
        """Whether the same fingerprint will mean the same content; a failure to read may pass by itself."""
        if self.fingerprint is None or self.file.missing:
            return self.fingerprint is None
        return self.fingerprint.changed_ns < self.looked_at_ns - RACY_NS


class _Shown(Record):
    """What was given for names, their fingerprints, and whether these will go on to mean the same."""

    seen: Mapping[str, Fingerprint | None]
    files: tuple[ContextFile, ...]
    is_settled: bool


class ContextFiles:
    """The context files of one workspace. `now_ns` is the time in nanoseconds since the epoch.

    A change is seen at the next reading, also one of the same size in the same second. Where the clock is
    behind that of the workspace, files are read each time.
    """

    def __init__(self, workspace: Workspace, *, now_ns: Callable[[], int]) -> None:
        self._workspace = workspace
        self._now_ns = now_ns
        self._known: dict[str, _Known] = {}
        self._shown: dict[tuple[object, ...], _Shown] = {}

    async def read(
        self, names: Sequence[str], *, per_file_chars: int = 20_000, total_chars: int = 60_000
    ) -> tuple[ContextFile, ...]:
        """The files in the order of their names, which is the order in which the total is spent.

        A file that the total no longer reaches comes back with an empty text, marked as truncated. One that
        did not change is the same object as before, and so is the tuple where none did. One step asks for
        the fingerprints of all, and one more reads what may have changed.
        """
        asked = (*names, per_file_chars, total_chars)
        # Before the files are looked at: what changes from here on is later than this.
        looked_at_ns = self._now_ns()
        seen = await self._workspace.fingerprints((*names, *_older(names)))
        before = self._shown.get(asked)
        if before is not None and before.is_settled and before.seen == seen:
            return before.files
        present = {name: _present(name, seen) for name in names}
        changed = [present[name] for name in names if not self._is_unchanged(name, present[name], seen)]
        read = await self._workspace.read_many(changed) if changed else {}
        shown: list[ContextFile] = []
        left_chars = total_chars
        for name in names:
            max_chars = min(per_file_chars, left_chars) if left_chars >= MIN_USEFUL_CHARS else 0
            found = present[name]
            if found not in read and not self._is_known_at(name, max_chars):
                read = {**read, **await self._workspace.read_many((found,))}
            if found in read:
                file = context_file(read[found], found, max_chars=max_chars)
                self._remember(name, file, found, max_chars, seen.get(found), looked_at_ns)
            file = self._known[name].file
            left_chars -= file.injected_chars
            shown.append(file)
        files = before.files if before is not None and before.files == tuple(shown) else tuple(shown)
        is_settled = all(self._known[name].is_settled() for name in names)
        self._shown[asked] = _Shown(seen=seen, files=files, is_settled=is_settled)
        return files

    def _is_unchanged(self, name: str, present: str, seen: Mapping[str, Fingerprint | None]) -> bool:
        known = self._known.get(name)
        return (
            known is not None
            and (known.name, known.fingerprint) == (present, seen.get(present))
            and known.is_settled()
        )

    def _is_known_at(self, name: str, max_chars: int) -> bool:
        return self._known[name].max_chars == max_chars

    def _remember(
        self,
        name: str,
        file: ContextFile,
        present: str,
        max_chars: int,
        fingerprint: Fingerprint | None,
        looked_at_ns: int,
    ) -> None:
        known = self._known.get(name)
        if known is not None and known.file == file:
            file = known.file
        elif file.truncated:
            log.warning("%s is %d characters long, %d enter the context", name, file.raw_chars, max_chars)
        self._known[name] = _Known(
            file=file,
            name=present,
            max_chars=max_chars,
            fingerprint=fingerprint,
            looked_at_ns=looked_at_ns,
        )


def _older(names: Sequence[str]) -> list[str]:
    return [OLDER_NAMES[name] for name in names if name in OLDER_NAMES]


def _present(name: str, seen: Mapping[str, Fingerprint | None]) -> str:
    """The name under which a file is there: an older one only where the first is missing."""
    older = OLDER_NAMES.get(name, name)
    return older if seen[name] is None and seen[older] is not None else name
