"""What the runtime needs of whatever keeps approvals. A contract."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any, Literal, Protocol, TypeAlias, get_args

from nacre.record import Record


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


ApprovalState: TypeAlias = Literal["asked", "approved", "denied", "running", "done"]
STATES: tuple[ApprovalState, ...] = get_args(ApprovalState)


class Approval(Record):
    """One call that waits for the owner, or was answered; times are milliseconds since the epoch.

    `message_id` is the transcript's entry with the call. `arguments` are what is shown, and what runs. `why`
    says who wants to know. `chat_kind`, `is_owner` and `is_private_key` are the policy of the chat in which
    it was asked, `origin` is where that is; the call runs under that policy whoever answers. `reason` is that
    of a denial; `result` and `is_error` are what came of the call.
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
"""Each field's name and kind in the file, in its order."""


def to_bytes(approval: Approval) -> bytes:
    """The approval as its file holds it."""
    values = {stored: getattr(approval, name) for name, (stored, _) in _STORED.items()}
    values |= {"arguments": dict(approval.arguments), "origin": dict(approval.origin)}
    return json.dumps({"version": 1, **values}, ensure_ascii=False, indent=1).encode("utf-8", "surrogatepass")


def from_bytes(data: bytes) -> Approval | None:
    """The approval that a file holds; `None` when it is none of this version."""
    try:
        raw = json.loads(data.decode("utf-8", "surrogatepass"))
    except (ValueError, RecursionError):
        return None
    if not isinstance(raw, dict) or raw.get("version") != 1:
        return None
    if not all(type(raw.get(stored)) is kind for stored, kind in _STORED.values()):
        return None
    if raw["state"] not in STATES or not all(isinstance(text, str) for text in raw["origin"].values()):
        return None
    return Approval(**{name: raw[stored] for name, (stored, _) in _STORED.items()})
