"""What was said, for ever: keys, index, transcripts, token arithmetic, cut points."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nacre import names_on_first_use

if TYPE_CHECKING:
    from nacre.sessions.cut import CompactionPlan, NothingToCompact, plan_compaction
    from nacre.sessions.entries import (
        BranchSummaryEntry,
        CompactionEntry,
        CustomEntry,
        CustomMessageEntry,
        Entry,
        LabelEntry,
        MessageEntry,
        OtherEntry,
        SessionHeader,
        entry_from_json,
    )
    from nacre.sessions.entry_writing import entry_to_json
    from nacre.sessions.errors import (
        SessionCorrupt,
        SessionError,
        SessionKeyInvalid,
        SessionVersionUnknown,
        SessionWriteFailed,
    )
    from nacre.sessions.index import SessionIndex
    from nacre.sessions.journal import Journal
    from nacre.sessions.keys import (
        DmScope,
        KeyKind,
        SessionRoute,
        SessionScope,
        canonical_key,
        is_private_key,
        key_kind,
        normalise_agent_id,
        route_key,
    )
    from nacre.sessions.messages import (
        AssistantMessage,
        Image,
        Message,
        StopReason,
        Text,
        Thinking,
        ToolCall,
        ToolResultMessage,
        UserMessage,
        message_from_json,
        message_text,
        user_message,
    )
    from nacre.sessions.record import SessionRecord
    from nacre.sessions.serialise import serialise_for_summary
    from nacre.sessions.tokens import ContextMeasure, estimate_message_tokens, measure_context
    from nacre.sessions.transcript import TranscriptItem, last_compaction, summary_entry
    from nacre.sessions.transcript_view import build_transcript
    from nacre.sessions.usage import Usage, usage_from_json

__all__ = [
    "AssistantMessage",
    "BranchSummaryEntry",
    "CompactionEntry",
    "CompactionPlan",
    "ContextMeasure",
    "CustomEntry",
    "CustomMessageEntry",
    "DmScope",
    "Entry",
    "Image",
    "Journal",
    "KeyKind",
    "LabelEntry",
    "Message",
    "MessageEntry",
    "NothingToCompact",
    "OtherEntry",
    "SessionCorrupt",
    "SessionError",
    "SessionHeader",
    "SessionIndex",
    "SessionKeyInvalid",
    "SessionRecord",
    "SessionRoute",
    "SessionScope",
    "SessionVersionUnknown",
    "SessionWriteFailed",
    "StopReason",
    "Text",
    "Thinking",
    "ToolCall",
    "ToolResultMessage",
    "TranscriptItem",
    "Usage",
    "UserMessage",
    "build_transcript",
    "canonical_key",
    "entry_from_json",
    "entry_to_json",
    "estimate_message_tokens",
    "is_private_key",
    "key_kind",
    "last_compaction",
    "measure_context",
    "message_from_json",
    "message_text",
    "normalise_agent_id",
    "plan_compaction",
    "route_key",
    "serialise_for_summary",
    "summary_entry",
    "usage_from_json",
    "user_message",
]

__getattr__ = names_on_first_use(
    __name__,
    {
        "cut": ("CompactionPlan", "NothingToCompact", "plan_compaction"),
        "entries": (
            "BranchSummaryEntry",
            "CompactionEntry",
            "CustomEntry",
            "CustomMessageEntry",
            "Entry",
            "LabelEntry",
            "MessageEntry",
            "OtherEntry",
            "SessionHeader",
            "entry_from_json",
        ),
        "entry_writing": ("entry_to_json",),
        "errors": (
            "SessionCorrupt",
            "SessionError",
            "SessionKeyInvalid",
            "SessionVersionUnknown",
            "SessionWriteFailed",
        ),
        "index": ("SessionIndex",),
        "journal": ("Journal",),
        "keys": (
            "DmScope",
            "KeyKind",
            "SessionRoute",
            "SessionScope",
            "canonical_key",
            "is_private_key",
            "key_kind",
            "normalise_agent_id",
            "route_key",
        ),
        "messages": (
            "AssistantMessage",
            "Image",
            "Message",
            "StopReason",
            "Text",
            "Thinking",
            "ToolCall",
            "ToolResultMessage",
            "UserMessage",
            "message_from_json",
            "message_text",
            "user_message",
        ),
        "record": ("SessionRecord",),
        "serialise": ("serialise_for_summary",),
        "tokens": ("ContextMeasure", "estimate_message_tokens", "measure_context"),
        "transcript": ("TranscriptItem", "last_compaction", "summary_entry"),
        "transcript_view": ("build_transcript",),
        "usage": ("Usage", "usage_from_json"),
    },
)
