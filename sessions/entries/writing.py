"""Headers and entries as the JSON objects that pi's session format v3 has for them.

A contract: bytes on disk. `entries.py` reads what this writes.
"""

from __future__ import annotations

from typing import Any

from nacre.sessions.entries.entries import (
    BranchSummaryEntry,
    CompactionEntry,
    CustomEntry,
    CustomMessageEntry,
    Entry,
    KnownEntry,
    LabelEntry,
    MessageEntry,
    OtherEntry,
    SessionHeader,
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


def entry_to_json(entry: Entry) -> dict[str, Any]:
    """The entry as pi stores it."""
    if isinstance(entry, OtherEntry):
        return {**entry.raw, "id": entry.id, "parentId": entry.parent_id}
    kind, fields = _own_fields(entry)
    return {
        "type": kind,
        "id": entry.id,
        "parentId": entry.parent_id,
        "timestamp": entry.timestamp,
        **{key: value for key, value in fields.items() if value is not None},
    }


def _own_fields(entry: KnownEntry) -> tuple[str, dict[str, Any]]:
    match entry:
        case MessageEntry():
            return "message", {"message": entry.message.to_json()}
        case CompactionEntry():
            return "compaction", {
                "summary": entry.summary,
                "firstKeptEntryId": entry.first_kept_entry_id,
                "tokensBefore": entry.tokens_before,
                "details": entry.details,
                "fromHook": entry.from_hook or None,
            }
        case CustomEntry():
            return "custom", {"customType": entry.custom_type, "data": entry.data}
        case CustomMessageEntry():
            return "custom_message", {
                "customType": entry.custom_type,
                "content": entry.content,
                "display": entry.display,
                "details": entry.details,
            }
        case BranchSummaryEntry():
            return "branch_summary", {
                "fromId": entry.from_id,
                "summary": entry.summary,
                "details": entry.details,
                "fromHook": entry.from_hook or None,
            }
        case LabelEntry():
            return "label", {"targetId": entry.target_id, "label": entry.label}
