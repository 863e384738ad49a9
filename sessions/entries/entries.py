"""One line of a transcript file, in pi's session format v3: its header and its entries.

A contract: bytes on disk. Reading loses nothing: whatever is not understood is an `OtherEntry` with
its JSON as it was. Files are only ever appended to, so keys that are unknown here stay in the file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from nacre.sessions.contracts.messages import Message, message_from_json

FORMAT_VERSION = 3

FOREIGN_ROLES = ("custom", "bashExecution", "branchSummary", "compactionSummary")
"""Roles of pi's own that a `message` entry may carry; they are read as `OtherEntry`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SessionHeader:
    """The first line: which session this is. `timestamp` is ISO 8601, `cwd` where it was begun."""

    id: str
    timestamp: str
    cwd: str
    version: int = FORMAT_VERSION
    parent_session: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class MessageEntry:
    """A message of the conversation."""

    id: str
    parent_id: str | None
    timestamp: str
    message: Message


@dataclass(frozen=True, kw_only=True, slots=True)
class CompactionEntry:
    """A summary that stands, in the model's view, for everything before `first_kept_entry_id`.

    `from_hook` says that an extension of another program wrote it, so `details` may mean anything.
    """

    id: str
    parent_id: str | None
    timestamp: str
    summary: str
    first_kept_entry_id: str
    tokens_before: int
    details: Mapping[str, Any] | None = None
    from_hook: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class CustomEntry:
    """A program's own record; never in the model's view."""

    id: str
    parent_id: str | None
    timestamp: str
    custom_type: str
    data: Any = None


@dataclass(frozen=True, kw_only=True, slots=True)
class CustomMessageEntry:
    """Text that a program put into the conversation; the model sees it as a user message."""

    id: str
    parent_id: str | None
    timestamp: str
    custom_type: str
    content: str
    display: bool = False
    details: Mapping[str, Any] | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class BranchSummaryEntry:
    """What happened behind `from_id` on a branch that was left there; `root` is the very beginning.

    `from_hook` as in `CompactionEntry`.
    """

    id: str
    parent_id: str | None
    timestamp: str
    from_id: str
    summary: str
    details: Mapping[str, Any] | None = None
    from_hook: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class LabelEntry:
    """A name that a person gave to the entry `target_id`; without a `label` it takes the name away."""

    id: str
    parent_id: str | None
    timestamp: str
    target_id: str
    label: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class OtherEntry:
    """An entry of any other type, as it stands in the file: settings, names, unknown things."""

    id: str
    parent_id: str | None
    timestamp: str
    raw: Mapping[str, Any]


KnownEntry: TypeAlias = (
    MessageEntry | CompactionEntry | CustomEntry | CustomMessageEntry | BranchSummaryEntry | LabelEntry
)
Entry: TypeAlias = KnownEntry | OtherEntry


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


def entry_from_json(raw: Mapping[str, Any]) -> Entry:
    """Reads one entry; one of an unknown type or with an unreadable shape becomes an `OtherEntry`.

    Expects a string `id`; `parentId` may be missing.
    """
    parent = raw.get("parentId")
    return placed_entry(
        raw, entry_id=str(raw.get("id") or ""), parent_id=parent if isinstance(parent, str) else None
    )


def placed_entry(raw: Mapping[str, Any], *, entry_id: str, parent_id: str | None) -> Entry:
    """Reads one entry like `entry_from_json`, with the id and parent that its place in the file gives it."""
    timestamp = str(raw.get("timestamp") or "")
    reader = _READERS.get(str(raw.get("type")))
    try:
        entry = reader(raw, (entry_id, parent_id, timestamp)) if reader else None
    except ValueError:
        entry = None
    return entry or OtherEntry(id=entry_id, parent_id=parent_id, timestamp=timestamp, raw=raw)


def is_misshapen(entry: Entry) -> bool:
    """Whether an entry of a known type could not be read as such, so that the model does not see it."""
    if not isinstance(entry, OtherEntry) or str(entry.raw.get("type")) not in _READERS:
        return False
    message = entry.raw.get("message")
    return not (isinstance(message, dict) and message.get("role") in FOREIGN_ROLES)


def blocks_text(content: object) -> str:
    """The text of a content that is a string or a list of blocks.

    Raises:
        ValueError: it is neither.
    """
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        raise ValueError(f"content is {type(content).__name__}, not text or blocks")
    return "\n".join(str(block.get("text") or "") for block in content if _is_text(block))


def _is_text(block: object) -> bool:
    return isinstance(block, dict) and block.get("type") == "text"


_Place: TypeAlias = tuple[str, str | None, str]
"""An entry's id, parent and timestamp."""


def _message(raw: Mapping[str, Any], place: _Place) -> Entry | None:
    message = raw.get("message")
    read = message_from_json(message) if isinstance(message, dict) else None
    if read is None:
        return None
    entry_id, parent_id, timestamp = place
    return MessageEntry(id=entry_id, parent_id=parent_id, timestamp=timestamp, message=read)


def _compaction(raw: Mapping[str, Any], place: _Place) -> Entry | None:
    if not isinstance(raw.get("summary"), str):
        return None
    before = raw.get("tokensBefore")
    entry_id, parent_id, timestamp = place
    return CompactionEntry(
        id=entry_id,
        parent_id=parent_id,
        timestamp=timestamp,
        summary=raw["summary"],
        first_kept_entry_id=str(raw.get("firstKeptEntryId") or ""),
        tokens_before=before if isinstance(before, int) and not isinstance(before, bool) else 0,
        details=_details(raw),
        from_hook=raw.get("fromHook") is True,
    )


def _custom(raw: Mapping[str, Any], place: _Place) -> Entry | None:
    entry_id, parent_id, timestamp = place
    return CustomEntry(
        id=entry_id,
        parent_id=parent_id,
        timestamp=timestamp,
        custom_type=str(raw.get("customType") or ""),
        data=raw.get("data"),
    )


def _custom_message(raw: Mapping[str, Any], place: _Place) -> Entry | None:
    entry_id, parent_id, timestamp = place
    return CustomMessageEntry(
        id=entry_id,
        parent_id=parent_id,
        timestamp=timestamp,
        custom_type=str(raw.get("customType") or ""),
        content=blocks_text(raw.get("content")),
        display=raw.get("display") is True,
        details=_details(raw),
    )


def _branch_summary(raw: Mapping[str, Any], place: _Place) -> Entry | None:
    if not isinstance(raw.get("summary"), str):
        return None
    entry_id, parent_id, timestamp = place
    return BranchSummaryEntry(
        id=entry_id,
        parent_id=parent_id,
        timestamp=timestamp,
        from_id=str(raw.get("fromId") or "root"),
        summary=raw["summary"],
        details=_details(raw),
        from_hook=raw.get("fromHook") is True,
    )


def _label(raw: Mapping[str, Any], place: _Place) -> Entry | None:
    target, label = raw.get("targetId"), raw.get("label")
    if not isinstance(target, str):
        return None
    entry_id, parent_id, timestamp = place
    return LabelEntry(
        id=entry_id,
        parent_id=parent_id,
        timestamp=timestamp,
        target_id=target,
        label=label if isinstance(label, str) and label.strip() else None,
    )


def _details(raw: Mapping[str, Any]) -> Mapping[str, Any] | None:
    details = raw.get("details")
    return details if isinstance(details, dict) else None


_READERS = {
    "message": _message,
    "compaction": _compaction,
    "custom": _custom,
    "custom_message": _custom_message,
    "branch_summary": _branch_summary,
    "label": _label,
}
