"""The interface of approval stores, and the stored form of an approval."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any, Literal, Protocol, TypeAlias, get_args

from nacre.record import Record
from nacre.sessions.contracts.keys import stored_values


class CopiedApprovals(Record):
    """The number of approvals in a source, and of the identical ones in its target after a copy."""

    source: int
    target: int


class ApprovalStore(Protocol):
    """The approvals of one agent. Any number of processes may change them.

    Each method raises `SessionError` if the disk or the database refuses.
    """

    async def put(self, approval: Approval) -> bool:
        """Stores a new approval for the asking turn; `False` if its id is in use.

        Raises:
            SessionTakenOver: another process has taken over the turn's session.
        """

    async def get(self, approval_id: str) -> Approval | None: ...

    async def all(self) -> tuple[Approval, ...]:
        """All readable approvals, oldest first."""

    async def change(
        self, approval_id: str, changed: Callable[[Approval], Approval | None], *, by_turn: bool
    ) -> Approval | None:
        """Replaces an approval with the result of `changed` and returns it.

        Returns `None` if there is no such approval, or if `changed` returns `None` and thus changes nothing.
        `by_turn` means that a turn of its session makes the change, not whoever answers.

        Raises:
            SessionTakenOver: another process has taken over that session; nothing was changed.
        """

    async def remove(self, approval_id: str) -> None:
        """Removes an approval, if it exists."""


async def copy_approvals(source: ApprovalStore, target: ApprovalStore) -> CopiedApprovals:
    """Copies the approvals that the target does not have; existing ones stay unchanged.

    Raises:
        SessionError: a store refused; another call continues the copy.
    """
    approvals = await source.all()
    for approval in approvals:
        await target.put(approval)
    now = {approval.id: approval for approval in await target.all()}
    return CopiedApprovals(source=len(approvals), target=sum(now.get(each.id) == each for each in approvals))


ApprovalState: TypeAlias = Literal["asked", "approved", "denied", "running", "done"]
STATES: tuple[ApprovalState, ...] = get_args(ApprovalState)


class Approval(Record):
    """A call that waits for the owner, or was answered. Times are milliseconds since the epoch.

    `message_id` is the transcript entry with the call. The call runs with the shown `arguments`. `why` is the
    reason to ask. `chat_kind`, `is_owner` and `is_private_key` are the policy of the chat that asked, and
    `origin` is that chat; the call runs under that policy, whoever answers. `reason` is the reason for a
    denial; `result` and `is_error` are the call's result.
    """

    id: str
    session_key: str
    session_id: str
    message_id: str
    call_id: str
    tool_name: str
    arguments: Mapping[str, Any] = field(repr=False)
    why: str
    asked_at_ms: int
    expires_at_ms: int
    chat_kind: str
    is_owner: bool
    is_private_key: bool
    origin: Mapping[str, str]
    state: ApprovalState = "asked"
    reason: str = ""
    result: str = field(default="", repr=False)
    is_error: bool = False

    def is_expired(self, now_ms: int) -> bool:
        """Whether nobody answered in time."""
        return self.state == "asked" and now_ms >= self.expires_at_ms


_STORED: Mapping[str, tuple[str, type]] = {
    "id": ("id", str),
    "session_key": ("sessionKey", str),
    "session_id": ("sessionId", str),
    "message_id": ("messageId", str),
    "call_id": ("callId", str),
    "tool_name": ("toolName", str),
    "arguments": ("arguments", dict),
    "why": ("why", str),
    "asked_at_ms": ("askedAt", int),
    "expires_at_ms": ("expiresAt", int),
    "chat_kind": ("chatKind", str),
    "is_owner": ("isOwner", bool),
    "is_private_key": ("isPrivateKey", bool),
    "origin": ("origin", dict),
    "state": ("state", str),
    "reason": ("reason", str),
    "result": ("result", str),
    "is_error": ("isError", bool),
}
"""Each field's name and type in the file, in order."""


def to_bytes(approval: Approval) -> bytes:
    values = {stored: getattr(approval, name) for name, (stored, _) in _STORED.items()}
    values |= {"arguments": dict(approval.arguments), "origin": dict(approval.origin)}
    return json.dumps({"version": 1, **values}, ensure_ascii=False, indent=1).encode("utf-8", "surrogatepass")


def from_bytes(data: bytes) -> Approval | None:
    """The approval in a stored file; `None` if it is not one of this version."""
    values = stored_values(data, _STORED)
    if values is None or values["state"] not in STATES:
        return None
    return Approval(**values) if all(isinstance(text, str) for text in values["origin"].values()) else None
