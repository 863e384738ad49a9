"""Calls that wait for the owner's approval. Runs no call itself.

An approval is on disk before the owner is asked, and the claim of an approved call is on disk before the
call runs. So a call runs once, or, after a crash, not again.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from nacre.runtime.contracts.clock import NewId
from nacre.runtime.contracts.errors import ApprovalNotFound
from nacre.runtime.tools.approvals.store import Approval, ApprovalState, ApprovalStore, from_bytes, to_bytes
from nacre.sessions.disk.durable import (
    OrderedWorker,
    locked,
    make_folder,
    read_plain,
    replace_file,
    reported,
    set_aside,
)

log = logging.getLogger(__name__)


class ApprovalFolder:
    """An `ApprovalStore` in the files `<id>.json` of a folder.

    Each method raises `SessionError` if the system refuses.
    """

    def __init__(self, directory: Path, *, now: Callable[[], datetime]) -> None:
        self._directory = directory
        self._now = now
        self._worker = OrderedWorker()

    async def put(self, approval: Approval) -> bool:
        def put_new() -> bool:
            with self._locked():
                if self._path(approval.id).exists():
                    return False
                self._put(approval)
                return True

        return await self._worker.run(put_new)

    async def get(self, approval_id: str) -> Approval | None:
        return await self._worker.run(lambda: self._read(self._path(approval_id)))

    async def all(self) -> tuple[Approval, ...]:
        """All approvals, oldest first. A file that cannot be read is set aside."""
        # Without pending approvals there is no folder, and this check is all that a turn pays.
        return await self._worker.run(self._all) if self._directory.exists() else ()

    async def change(
        self,
        approval_id: str,
        changed: Callable[[Approval], Approval | None],
        *,
        by_turn: bool,  # noqa: ARG002 - see the docstring
    ) -> Approval | None:
        """`by_turn` makes no difference: a turn keeps its lock as long as its process lives."""

        def change() -> Approval | None:
            with self._locked():
                found = self._read(self._path(approval_id))
                new = None if found is None else changed(found)
                if new is not None:
                    self._put(new)
                return new

        return await self._worker.run(change)

    async def remove(self, approval_id: str) -> None:

        def remove() -> None:
            with self._locked():
                self._unlink(approval_id)
                with suppress(OSError):  # it contains other approvals or files that were set aside
                    self._directory.rmdir()

        await self._worker.run(remove)

    def _path(self, approval_id: str) -> Path:
        return self._directory / f"{approval_id}.json"

    def _put(self, approval: Approval) -> None:
        make_folder(self._directory)
        replace_file(self._path(approval.id), to_bytes(approval))

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
            except FileNotFoundError:  # the last one was removed
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
            log.warning("%s does not contain an approval and was set aside as %s", path.name, aside.name)
            return None
        return approval


POLL_SECONDS = 0.5
"""How often a waiting turn checks for another process's answer."""
ID_CHARS = 8
"""The length of an approval's id, which people type."""


class Approvals:
    """The approvals of one agent. `wait_seconds` limits how long a turn waits for an answer.

    `expire_ms` is how long an approval may be answered, in milliseconds.
    """

    def __init__(
        self,
        store: ApprovalStore,
        *,
        now_ms: Callable[[], int],
        new_id: NewId,
        wait_seconds: float,
        expire_ms: int,
    ) -> None:
        self.store = store
        self._now_ms = now_ms
        self._new_id = new_id
        self._wait_seconds = wait_seconds
        self._expire_ms = expire_ms
        self._waiting: dict[str, asyncio.Event] = {}

    async def ask(self, make: Callable[[str, int, int], Approval]) -> Approval:
        """Stores the approval that `make` returns for an id, the current time and the expiry time."""
        now_ms = self._now_ms()
        while True:
            approval_id = _plain(self._new_id())[-ID_CHARS:]
            approval = make(approval_id, now_ms, now_ms + self._expire_ms)
            if await self.store.put(approval):
                break
        log.info("%s of %s waits for approval as %s", approval.tool_name, approval.session_key, approval.id)
        return approval

    async def wait(self, approval: Approval) -> Approval | None:
        """Waits for an answer in this process or another. Returns the approval; `None` if it was removed."""
        answered = self._waiting.setdefault(approval.id, asyncio.Event())
        found: Approval | None = approval
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._wait_seconds):
                    while (found := await self.store.get(approval.id)) and found.state == "asked":
                        with suppress(TimeoutError):
                            await asyncio.wait_for(answered.wait(), POLL_SECONDS)
        finally:
            del self._waiting[approval.id]
        # An answer may have arrived at the last moment.
        return await self.store.get(approval.id)

    def is_awaited(self, approval_id: str) -> bool:
        """Whether a turn of this process waits for the answer."""
        return approval_id in self._waiting

    async def pending(self) -> tuple[Approval, ...]:
        """The calls that may still be approved, oldest first."""
        now_ms = self._now_ms()
        return tuple(
            found
            for found in await self.store.all()
            if found.state in ("asked", "approved") and not found.is_expired(now_ms)
        )

    async def find(self, text: str) -> Approval:
        """Finds a pending call by its id or the beginning of its id.

        Raises:
            ApprovalNotFound: there is none, or there are several.
        """
        pending = await self.pending()
        wanted = _plain(text)
        found = [each for each in pending if wanted and each.id.startswith(wanted)]
        if len(found) != 1:
            waiting = ", ".join(each.id for each in pending) or "none"
            raise ApprovalNotFound(
                f"No call waits for approval as {text.strip()[:40]!r}. It was answered, it expired, "
                f"or the id is wrong. Waiting: {waiting}."
            )
        return found[0]

    async def answer(self, approval_id: str, *, approved: bool, reason: str = "") -> Approval:
        """Approves or denies a call; the answer is on disk on return.

        Approving an approved call again before it has started changes nothing.

        Raises:
            ApprovalNotFound: it is not pending any more.
        """
        state: ApprovalState = "approved" if approved else "denied"

        def answered(found: Approval) -> Approval | None:
            if found.is_expired(self._now_ms()) or found.state not in ("asked", "approved"):
                return None
            return replace(found, state=state, reason=reason.strip())

        changed = await self.store.change(approval_id, answered, by_turn=False)
        if changed is None:
            raise ApprovalNotFound(f"The call {approval_id!r} was answered already or has expired.")
        log.info("the call %s was %s", approval_id, state)
        if approval_id in self._waiting:
            self._waiting[approval_id].set()
        return changed

    async def claim(self, approval_id: str) -> Approval | None:
        """Marks an approved call as running; `None` if it is running already."""

        def running(found: Approval) -> Approval | None:
            return replace(found, state="running") if found.state == "approved" else None

        return await self.store.change(approval_id, running, by_turn=True)

    async def done(self, approval_id: str, result: str, *, is_error: bool) -> None:
        """Stores the result of a call until the conversation contains it."""
        await self.store.change(
            approval_id,
            lambda found: replace(found, state="done", result=result, is_error=is_error),
            by_turn=True,
        )

    async def withdraw(self, session_key: str) -> None:
        """Removes a session's calls that nobody has answered."""
        for each in await self.of_session(session_key):
            if each.state == "asked":
                await self.store.remove(each.id)
                if each.id in self._waiting:
                    self._waiting[each.id].set()

    async def of_session(self, session_key: str) -> tuple[Approval, ...]:
        """The calls of a session, oldest first. The caller holds the session's lock."""
        return tuple(each for each in await self.store.all() if each.session_key == session_key)


def _plain(text: str) -> str:
    """The characters of a text that may occur in an id and thus in a file name."""
    return re.sub(r"[^a-z0-9]", "", text.strip().lower())
