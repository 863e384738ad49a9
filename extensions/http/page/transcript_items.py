"""A transcript as the page shows it: who said what, tools as lines that open, marks between. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, tzinfo
from typing import Literal, TypeAlias

from nacre.extensions.http.page.live_turn import MOST_RESULT_CHARS, ToolLine, json_of
from nacre.record import Record
from nacre.runtime.commands.conversation.branch_points import moment_of
from nacre.runtime.contracts.silence import without_token
from nacre.runtime.open_sessions.open_session import FLUSH_ENTRY
from nacre.sessions.contracts.messages import (
    AssistantMessage,
    ToolResultMessage,
    UserMessage,
    message_text,
)
from nacre.sessions.entries.entries import BranchSummary, Compaction, CustomMessage, Entry

_FLUSHES = {
    "written": "Notes saved to {path}",
    "proposed": "Notes for {path} wait for you",
    "nothing": "Nothing new to note down",
    "fallback": "An extract was saved to {path}, without the model",
    "failed": "Notes could not be saved to {path}",
}
ItemKind: TypeAlias = Literal["person", "assistant", "tool", "flush", "compaction", "note"]


class TranscriptItem(Record):
    """One thing in a transcript. `text` is Markdown where it was said, and plain words in a mark."""

    entry_id: str
    kind: ItemKind
    at: datetime
    text: str = ""
    sender: str = ""
    tool: ToolLine | None = None


def items_of(branch: Sequence[Entry], zone: tzinfo | None) -> tuple[TranscriptItem, ...]:
    """Everything that is shown of a branch, in its order."""
    results = {
        entry.body.tool_call_id: entry.body for entry in branch if isinstance(entry.body, ToolResultMessage)
    }
    return tuple(item for entry in branch for item in _items(entry, results, zone))


def _items(
    entry: Entry, results: dict[str, ToolResultMessage], zone: tzinfo | None
) -> Iterator[TranscriptItem]:
    at, body = moment_of(entry).astimezone(zone), entry.body

    def item(kind: ItemKind, text: str, *, sender: str = "", tool: ToolLine | None = None) -> TranscriptItem:
        return TranscriptItem(entry_id=entry.id, kind=kind, at=at, text=text, sender=sender, tool=tool)

    match body:
        case UserMessage():
            yield item("person", message_text(body), sender=body.sender)
        case AssistantMessage():
            if text := without_token(message_text(body)).strip():
                yield item("assistant", text)
            for call in body.tool_calls:
                asked = call.invalid_arguments or json_of(dict(call.arguments))
                yield item("tool", "", tool=_tool(call.name, asked, results.get(call.id)))
            if body.stop_reason in ("error", "aborted"):
                yield item("note", body.error_message or "The answer was broken off.")
        case Compaction():
            yield item("compaction", body.summary)
        case BranchSummary():
            yield item("note", body.summary)
        case CustomMessage(display=True):
            yield item("note", body.content)
        case _ if (flush := entry.custom_data(FLUSH_ENTRY)) is not None:
            status, path = str(flush.get("status", "")), str(flush.get("path") or "the notes")
            yield item("flush", _FLUSHES.get(status, "A flush: {path}").format(path=path))
        case _:
            return


def _tool(name: str, asked: str, result: ToolResultMessage | None) -> ToolLine:
    if result is None:
        return ToolLine(name=name, asked=asked, state="unfinished")
    text = message_text(result)
    first = next((line for line in text.splitlines() if line.strip()), "")
    return ToolLine(
        name=name,
        asked=asked,
        summary=first[:100],
        result=text[:MOST_RESULT_CHARS],
        state="failed" if result.is_error else "done",
    )
