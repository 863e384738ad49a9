"""A tool call that the owner has to approve, and how it stands in its file. A contract: bytes on disk.

asked ─► approved ─► running ─► done        and the file goes when the conversation has been told
  └────► denied
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import field
from typing import Any, Literal, TypeAlias, get_args

from nacre.records.record import Record

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
