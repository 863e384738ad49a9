from .compaction.cut import (
    CompactionPlan as CompactionPlan,
    NothingToCompact as NothingToCompact,
    plan_compaction as plan_compaction,
)
from .contracts.errors import (
    SessionCorrupt as SessionCorrupt,
    SessionError as SessionError,
    SessionKeyInvalid as SessionKeyInvalid,
    SessionVersionUnknown as SessionVersionUnknown,
    SessionWriteFailed as SessionWriteFailed,
)
from .contracts.keys import (
    DmScope as DmScope,
    KeyKind as KeyKind,
    SessionRoute as SessionRoute,
    SessionScope as SessionScope,
    canonical_key as canonical_key,
    is_private_key as is_private_key,
    key_kind as key_kind,
    normalize_agent_id as normalize_agent_id,
    route_key as route_key,
)
from .contracts.messages import (
    AssistantMessage as AssistantMessage,
    Image as Image,
    Message as Message,
    StopReason as StopReason,
    Text as Text,
    Thinking as Thinking,
    ToolCall as ToolCall,
    ToolResultMessage as ToolResultMessage,
    Usage as Usage,
    UserMessage as UserMessage,
    message_from_json as message_from_json,
    message_text as message_text,
    serialize_for_summary as serialize_for_summary,
    usage_from_json as usage_from_json,
    user_message as user_message,
)
from .entries.entries import (
    BranchSummary as BranchSummary,
    Compaction as Compaction,
    CustomMessage as CustomMessage,
    CustomRecord as CustomRecord,
    Entry as Entry,
    Label as Label,
    RawBody as RawBody,
    SessionHeader as SessionHeader,
    entry_from_json as entry_from_json,
    entry_to_json as entry_to_json,
)
from .index.index import SessionIndex as SessionIndex
from .index.record import SessionRecord as SessionRecord
from .journal.journal import Journal as Journal
from .view.sent_view import (
    ContextMeasure as ContextMeasure,
    estimate_message_tokens as estimate_message_tokens,
    measure_context as measure_context,
)
from .view.transcript import (
    TranscriptItem as TranscriptItem,
    build_transcript as build_transcript,
    last_compaction as last_compaction,
    summary_item as summary_item,
)
