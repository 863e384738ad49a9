"""What the runtime needs of whatever keeps approvals. A contract."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from nacre.records.record import Record
from nacre.runtime.tools.approvals.approval import Approval


class CopiedApprovals(Record):
    """How many approvals a source has, and how many of them its target has behind a copy, just so."""

    source: int
    target: int


class ApprovalStore(Protocol):
    """The approvals of one agent, which any number of processes may change.

    What a call returns from outlives the process. Each method raises `SessionError` when the disk or the
    database refuses.
    """

    async def put(self, approval: Approval) -> bool:
        """Keeps a new approval, for the turn that asks; `False` when another one has its id.

        Raises:
            SessionTakenOver: another process has the turn's session by now.
        """
        ...

    async def get(self, approval_id: str) -> Approval | None:
        """The approval of that id."""
        ...

    async def all(self) -> tuple[Approval, ...]:
        """All approvals that can be read, the oldest first."""
        ...

    async def change(
        self, approval_id: str, changed: Callable[[Approval], Approval | None], *, by_turn: bool
    ) -> Approval | None:
        """Puts what `changed` gives in an approval's place, and gives it back.

        `None` when there is no such approval, or when `changed` leaves it as it is by giving none. `by_turn`
        says that a turn of its session asks for this, and not whoever answers.

        Raises:
            SessionTakenOver: another process has that session by now; nothing is changed.
        """
        ...

    async def remove(self, approval_id: str) -> None:
        """Strikes an approval off; it may be gone already."""
        ...


async def copy_approvals(source: ApprovalStore, target: ApprovalStore) -> CopiedApprovals:
    """Copies what the target does not have; what is there stays as it is.

    Raises:
        SessionError: a store refused; what was copied stays, and another call goes on.
    """
    there = await source.all()
    for approval in there:
        await target.put(approval)
    now = {approval.id: approval for approval in await target.all()}
    return CopiedApprovals(source=len(there), target=sum(now.get(each.id) == each for each in there))
