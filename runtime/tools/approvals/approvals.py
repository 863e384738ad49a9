"""Calls that wait for the owner: asked, waited for, answered, claimed. Runs nothing itself.

An approval is on disk before anybody is asked. Whoever runs an approved call claims it first, and the claim
is on disk before the call runs: it is run once, or, where a kill came in between, not again.
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

from nacre.runtime.contracts.errors import ApprovalNotFound
from nacre.runtime.contracts.ids import NewId
from nacre.runtime.tools.approvals.store import Approval, ApprovalState, ApprovalStore, from_bytes, to_bytes
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


POLL_SECONDS = 0.5
"""How often a turn that waits looks whether another process has the answer."""
ID_CHARS = 8
"""Short enough to be typed: how much of a new id names an approval."""


class Approvals:
    """The approvals of one agent. `wait_seconds` is how long a turn waits for an answer.

    `expire_ms` is how long one may be answered, in milliseconds.
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
        self._store = store
        self._now_ms = now_ms
        self._new_id = new_id
        self._wait_seconds = wait_seconds
        self._expire_ms = expire_ms
        self._waiting: dict[str, asyncio.Event] = {}

    async def ask(self, asked: Callable[[str, int, int], Approval]) -> Approval:
        """Writes down what `asked` makes of an id, the present moment and the last one for an answer."""
        now_ms = self._now_ms()
        while True:
            approval_id = _plain(self._new_id())[-ID_CHARS:]
            approval = asked(approval_id, now_ms, now_ms + self._expire_ms)
            if await self._store.put(approval):
                break
        log.info("%s of %s waits for approval as %s", approval.tool_name, approval.session_key, approval.id)
        return approval

    async def wait(self, approval: Approval) -> Approval | None:
        """The approval when it was answered, in this process or another; as it is when the time is up.

        `None` when it is gone.
        """
        answered = self._waiting.setdefault(approval.id, asyncio.Event())
        found: Approval | None = approval
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._wait_seconds):
                    while (found := await self._store.get(approval.id)) and found.state == "asked":
                        with suppress(TimeoutError):
                            await asyncio.wait_for(answered.wait(), POLL_SECONDS)
        finally:
            del self._waiting[approval.id]
        # An answer may have come with the last moment: whoever gave it believed that somebody waits.
        return await self._store.get(approval.id)

    def is_awaited(self, approval_id: str) -> bool:
        """Whether a turn of this process waits for the answer."""
        return approval_id in self._waiting

    async def pending(self) -> tuple[Approval, ...]:
        """The calls that may still be approved, the oldest first."""
        now_ms = self._now_ms()
        return tuple(
            found
            for found in await self._store.all()
            if found.state in ("asked", "approved") and not found.is_expired(now_ms)
        )

    async def find(self, text: str) -> Approval:
        """The call that an id, or its beginning, means.

        Raises:
            ApprovalNotFound: there is none, or there are several.
        """
        pending = await self.pending()
        wanted = _plain(text)
        found = [each for each in pending if wanted and each.id.startswith(wanted)]
        if len(found) != 1:
            waiting = ", ".join(each.id for each in pending) or "none"
            raise ApprovalNotFound(
                f"No call waits for approval as {text.strip()[:40]!r}. It was answered, its time is up, "
                f"or the id is another one. Waiting: {waiting}."
            )
        return found[0]

    async def answer(self, approval_id: str, *, approved: bool, reason: str = "") -> Approval:
        """Approves or denies a call; the answer is on disk when this returns.

        A call that was approved and has not begun may be approved again, which changes nothing.

        Raises:
            ApprovalNotFound: it does not wait any more.
        """
        state: ApprovalState = "approved" if approved else "denied"

        def answered(found: Approval) -> Approval | None:
            if found.is_expired(self._now_ms()) or found.state not in ("asked", "approved"):
                return None
            return replace(found, state=state, reason=reason.strip())

        changed = await self._store.change(approval_id, answered, by_turn=False)
        if changed is None:
            raise ApprovalNotFound(f"The call {approval_id!r} was answered already, or its time is up.")
        log.info("the call %s was %s", approval_id, state)
        if approval_id in self._waiting:
            self._waiting[approval_id].set()
        return changed

    async def claim(self, approval_id: str) -> Approval | None:
        """Marks an approved call as running, for whoever runs it now; `None` when somebody else has."""

        def running(found: Approval) -> Approval | None:
            return replace(found, state="running") if found.state == "approved" else None

        return await self._store.change(approval_id, running, by_turn=True)

    async def done(self, approval_id: str, result: str, *, is_error: bool) -> None:
        """Keeps what came of a call until the conversation holds it."""
        await self._store.change(
            approval_id,
            lambda found: replace(found, state="done", result=result, is_error=is_error),
            by_turn=True,
        )

    async def forget(self, approval_id: str) -> None:
        """Strikes a call off: the conversation holds what came of it."""
        await self._store.remove(approval_id)

    async def withdraw(self, session_key: str) -> None:
        """Strikes off what a session's turns ask and nobody has answered."""
        for each in await self.left_over(session_key):
            if each.state == "asked":
                await self.forget(each.id)
                if each.id in self._waiting:
                    self._waiting[each.id].set()

    async def left_over(self, session_key: str) -> tuple[Approval, ...]:
        """The calls of a session that are not struck off, the oldest first; for the holder of its lane."""
        return tuple(each for each in await self._store.all() if each.session_key == session_key)


def _plain(text: str) -> str:
    """What of a text can stand in an id, and so in a file's name."""
    return re.sub(r"[^a-z0-9]", "", text.strip().lower())
