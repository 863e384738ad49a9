"""The approvals of one agent on disk: a file for each, which only the owner can read.

Several processes may share the folder: a state changes under a lock and is on disk when the change returns.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from datetime import datetime
from pathlib import Path

from nacre.runtime.tools.approvals.approval import Approval, from_bytes, to_bytes
from nacre.sessions.disk.durable import (
    OrderedWorker,
    make_folder,
    read_plain,
    replace_file,
    reported,
    set_aside,
)
from nacre.sessions.disk.locks import locked

log = logging.getLogger(__name__)


class ApprovalFolder:
    """A member of `ApprovalStore`: the files `<id>.json` of a folder.

    Each method raises `SessionError` when the system refuses.
    """

    def __init__(self, directory: Path, *, now: Callable[[], datetime]) -> None:
        self._directory = directory
        self._now = now
        self._worker = OrderedWorker()

    async def put(self, approval: Approval) -> bool:
        """Writes a new approval down, unless another one has its id."""
        return await self._worker.run(lambda: self._put_new(approval))

    async def get(self, approval_id: str) -> Approval | None:
        """The approval of that id."""
        return await self._worker.run(lambda: self._read(self._path(approval_id)))

    async def all(self) -> tuple[Approval, ...]:
        """All approvals, the oldest first. A file that cannot be read is set aside."""
        # Where nothing waits there is no folder, and a turn pays this one look.
        return await self._worker.run(self._all) if self._directory.exists() else ()

    async def change(
        self,
        approval_id: str,
        changed: Callable[[Approval], Approval | None],
        *,
        by_turn: bool,  # noqa: ARG002 - see below
    ) -> Approval | None:
        """Puts what `changed` gives in an approval's place, and gives it back.

        A turn has its lane as long as its process lives, so `by_turn` makes no difference here.
        """
        return await self._worker.run(lambda: self._change(approval_id, changed))

    async def remove(self, approval_id: str) -> None:
        """Strikes an approval off; it may be gone already."""
        await self._worker.run(lambda: self._remove(approval_id))

    def _path(self, approval_id: str) -> Path:
        return self._directory / f"{approval_id}.json"

    def _put_new(self, approval: Approval) -> bool:
        with self._locked():
            if self._path(approval.id).exists():
                return False
            self._put(approval)
            return True

    def _put(self, approval: Approval) -> None:
        make_folder(self._directory)
        replace_file(self._path(approval.id), to_bytes(approval))

    def _change(self, approval_id: str, changed: Callable[[Approval], Approval | None]) -> Approval | None:
        with self._locked():
            found = self._read(self._path(approval_id))
            new = None if found is None else changed(found)
            if new is not None:
                self._put(new)
            return new

    def _remove(self, approval_id: str) -> None:
        with self._locked():
            self._unlink(approval_id)
            with suppress(OSError):  # others wait, or something was set aside
                self._directory.rmdir()

    def _unlink(self, approval_id: str) -> None:
        path = self._path(approval_id)
        with reported("remove", path):
            path.unlink(missing_ok=True)

    def _locked(self) -> AbstractContextManager[None]:
        return locked(self._directory.with_suffix(".state"))

    def _all(self) -> tuple[Approval, ...]:
        with reported("list", self._directory):
            try:
                paths = sorted(path for path in self._directory.iterdir() if path.suffix == ".json")
            except FileNotFoundError:  # the last one was struck off
                return ()
        found = [approval for path in paths if (approval := self._read(path)) is not None]
        return tuple(sorted(found, key=lambda approval: (approval.asked_at_ms, approval.id)))

    def _read(self, path: Path) -> Approval | None:
        found = read_plain(path)
        if found is None:
            return None
        approval = from_bytes(found[0])
        if approval is None or approval.id != path.stem:
            aside = set_aside(path, found[0], now=self._now)
            self._unlink(path.stem)
            log.warning("%s holds no approval and was set aside as %s", path.name, aside.name)
            return None
        return approval
