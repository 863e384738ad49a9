"""One line of a transcript file, in pi's session format v3: its header and its entries, read and written.

A contract: bytes on disk. Reading loses nothing: whatever is not understood is a `RawBody` with its
JSON as it was. Files are only ever appended to, so keys that are unknown here stay in the file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from nacre.sessions.contracts.messages import (
    AssistantMessage,
    Message,
    ToolResultMessage,
    UserMessage,
    message_from_json,
)

FORMAT_VERSION = 3

KNOWN_TYPES = ("message", "compaction", "custom", "custom_message", "branch_summary", "label")
FOREIGN_ROLES = ("custom", "bashExecution", "branchSummary", "compactionSummary")
"""Roles of pi's own that a `message` entry may carry; they are read as `RawBody`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SessionHeader:
    """The first line: which session this is. `timestamp` is ISO 8601, `cwd` where it was begun."""

    id: str
    timestamp: str
    cwd: str
    version: int = FORMAT_VERSION
    parent_session: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Compaction:
    """A summary that stands, in the model's view, for everything before `first_kept_entry_id`.

    `from_hook` says that an extension of another program wrote it, so `details` may mean anything.
    """

    summary: str
    first_kept_entry_id: str
    tokens_before: int
    details: Mapping[str, Any] | None = None
    from_hook: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class CustomRecord:
    """A program's own record; never in the model's view."""

    custom_type: str
    data: Any = None


@dataclass(frozen=True, kw_only=True, slots=True)
class CustomMessage:
    """Text that a program put into the conversation; the model sees it as a user message."""

    custom_type: str
    content: str
    display: bool = False
    details: Mapping[str, Any] | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class BranchSummary:
    """What happened behind `from_id` on a branch that was left there; `root` is the very beginning.

    `from_hook` as in `Compaction`.
    """

    from_id: str
    summary: str
    details: Mapping[str, Any] | None = None
    from_hook: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Label:
    """A name that a person gave to the entry `target_id`; without a `label` it takes the name away."""

    target_id: str
    label: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class RawBody:
    """An entry of any other type, as it stands in the file: settings, names, unknown things."""

    raw: Mapping[str, Any]


KnownBody: TypeAlias = Message | Compaction | CustomRecord | CustomMessage | BranchSummary | Label
Body: TypeAlias = KnownBody | RawBody
"""What an entry says. A message of the conversation is its entry's body itself."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """One line behind the header: its place in the session's tree, when it was written, what it says."""

    id: str
    parent_id: str | None
    timestamp: str
    body: Body

    def custom_data(self, custom_type: str) -> Mapping[str, Any] | None:
        """What a program's own record of this type holds, nothing if that is no object.

        `None` when the entry is something else.
        """
        if not isinstance(self.body, CustomRecord) or self.body.custom_type != custom_type:
            return None
        return self.body.data if isinstance(self.body.data, Mapping) else {}


def header_from_json(raw: Mapping[str, Any]) -> SessionHeader | None:
    """Reads a header; `None` when `raw` is none. A missing version is version 1."""
    version = raw.get("version", 1)
    if raw.get("type") != "session" or not isinstance(raw.get("id"), str) or not raw["id"]:
        return None
    if isinstance(version, bool) or not isinstance(version, int) or version < 1:
        return None
    parent = raw.get("parentSession")
    return SessionHeader(
        id=raw["id"],
        timestamp=str(raw.get("timestamp") or ""),
        cwd=str(raw.get("cwd") or ""),
        version=version,
        parent_session=parent if isinstance(parent, str) else None,
    )


def header_to_json(header: SessionHeader) -> dict[str, Any]:
    """The header as pi stores it."""
    raw: dict[str, Any] = {
        "type": "session",
        "version": header.version,
        "id": header.id,
        "timestamp": header.timestamp,
        "cwd": header.cwd,
    }
    return raw if header.parent_session is None else {**raw, "parentSession": header.parent_session}


def entry_from_json(raw: Mapping[str, Any]) -> Entry:
    """Reads one entry; one of an unknown type or with an unreadable shape has a `RawBody`.

    Expects a string `id`; `parentId` may be missing.
    """
    parent = raw.get("parentId")
    return placed_entry(
        raw, entry_id=str(raw.get("id") or ""), parent_id=parent if isinstance(parent, str) else None
    )


def placed_entry(raw: Mapping[str, Any], *, entry_id: str, parent_id: str | None) -> Entry:
    """Reads one entry like `entry_from_json`, with the id and parent that its place in the file gives it."""
    try:
        body = _known_body(raw) or RawBody(raw=raw)
    except ValueError:
        body = RawBody(raw=raw)
    return Entry(id=entry_id, parent_id=parent_id, timestamp=str(raw.get("timestamp") or ""), body=body)


def entry_to_json(entry: Entry) -> dict[str, Any]:
    """The entry as pi stores it."""
    if isinstance(entry.body, RawBody):
        return {**entry.body.raw, "id": entry.id, "parentId": entry.parent_id}
    kind, fields = _own_fields(entry.body)
    return {
        "type": kind,
        "id": entry.id,
        "parentId": entry.parent_id,
        "timestamp": entry.timestamp,
        **{key: value for key, value in fields.items() if value is not None},
    }


def is_misshapen(entry: Entry) -> bool:
    """Whether an entry of a known type could not be read as such, so that the model does not see it."""
    if not isinstance(entry.body, RawBody) or entry.body.raw.get("type") not in KNOWN_TYPES:
        return False
    message = entry.body.raw.get("message")
    return not (isinstance(message, dict) and message.get("role") in FOREIGN_ROLES)


def blocks_text(content: object) -> str:
    """The text of a content that is a string or a list of blocks.

    Raises:
        ValueError: it is neither.
    """
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        kind = "null" if content is None else type(content).__name__
        raise ValueError(f"content is {kind}, not text or blocks")
    blocks = (block for block in content if isinstance(block, dict) and block.get("type") == "text")
    return "\n".join(str(block.get("text") or "") for block in blocks)


def _known_body(raw: Mapping[str, Any]) -> KnownBody | None:
    """The body of one of `KNOWN_TYPES`; `None` and `ValueError` are of another type or shape."""
    kind, message = raw.get("type"), raw.get("message")
    if kind == "message":
        return message_from_json(message) if isinstance(message, dict) else None
    custom_type, summary = str(raw.get("customType") or ""), raw.get("summary")
    details = raw["details"] if isinstance(raw.get("details"), dict) else None
    match kind:
        case "compaction" if isinstance(summary, str):
            before = raw.get("tokensBefore")
            return Compaction(
                summary=summary,
                first_kept_entry_id=str(raw.get("firstKeptEntryId") or ""),
                tokens_before=before if isinstance(before, int) and not isinstance(before, bool) else 0,
                details=details,
                from_hook=raw.get("fromHook") is True,
            )
        case "custom":
            return CustomRecord(custom_type=custom_type, data=raw.get("data"))
        case "custom_message":
            return CustomMessage(
                custom_type=custom_type,
                content=blocks_text(raw.get("content")),
                display=raw.get("display") is True,
                details=details,
            )
        case "branch_summary" if isinstance(summary, str):
            return BranchSummary(
                from_id=str(raw.get("fromId") or "root"),
                summary=summary,
                details=details,
                from_hook=raw.get("fromHook") is True,
            )
        case "label" if isinstance(raw.get("targetId"), str):
            label = raw.get("label")
            named = isinstance(label, str) and label.strip()
            return Label(target_id=raw["targetId"], label=label if named else None)
    return None


def _own_fields(body: KnownBody) -> tuple[str, dict[str, Any]]:
    """The type of an entry with this body, and the keys that the type has; `None` is left out."""
    match body:
        case UserMessage() | AssistantMessage() | ToolResultMessage():
            return "message", {"message": body.to_json()}
        case Compaction():
            return "compaction", {
                "summary": body.summary,
                "firstKeptEntryId": body.first_kept_entry_id,
                "tokensBefore": body.tokens_before,
                "details": body.details,
                "fromHook": body.from_hook or None,
            }
        case CustomRecord():
            return "custom", {"customType": body.custom_type, "data": body.data}
        case CustomMessage():
            return "custom_message", {
                "customType": body.custom_type,
                "content": body.content,
                "display": body.display,
                "details": body.details,
            }
        case BranchSummary():
            return "branch_summary", {
                "fromId": body.from_id,
                "summary": body.summary,
                "details": body.details,
                "fromHook": body.from_hook or None,
            }
        case Label():
            return "label", {"targetId": body.target_id, "label": body.label}
