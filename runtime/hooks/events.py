"""What hooks are told, a frozen value for each name, and what a handler may answer. A public contract.

`type` is the name that a handler is registered for. `chat` says where it happens, with the policy that holds
there: what a hook does for a group must not show what its policy hides.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, ClassVar, TypeAlias

from nacre.record import Record
from nacre.runtime.contracts.errors import ModelError
from nacre.runtime.contracts.events import CompactionEnded, CompactionReason, FlushEnded
from nacre.runtime.contracts.inbound import Inbound, Reply
from nacre.runtime.contracts.model import ModelRequest
from nacre.runtime.tools.function import ToolChat
from nacre.sessions.contracts.keys import EndReason
from nacre.sessions.contracts.messages import AssistantMessage, Usage
from nacre.sessions.entries.entries import Entry


@dataclasses.dataclass(frozen=True)
class Deny:
    """A handler's no, with a sentence that says why.

    From `before_tool`: the call is not run, and the model reads the reason as its result. From `inbound`: the
    message is refused and not written down. From `outbound`: nothing is delivered.
    """

    reason: str


@dataclasses.dataclass(frozen=True)
class Ask:
    """From `before_tool`: the owner has to approve this call, and is told why they are asked."""

    why: str


class BeforeTurn(Record):
    """A turn begins: the person's words are on disk, and a model is about to be asked. `before_turn`.

    `model_name` is that of the model that the owner chose.
    """

    type: ClassVar[str] = "before_turn"
    chat: ToolChat
    model_name: str


class AfterTurn(Record):
    """A turn is over. `after_turn`.

    `reply` is `None` for silence and for a turn that failed; then `error` says how. `usage` sums the turn's
    model calls, `None` where no provider reported any.
    """

    type: ClassVar[str] = "after_turn"
    chat: ToolChat
    model_name: str
    reply: Reply | None
    error: BaseException | None
    usage: Usage | None


class BeforeModel(Record):
    """A model is about to be asked; `request.purpose` says what for. `before_model`.

    A handler may return a text: it is quoted to the model, with the handler's name as its source, in the part
    of the system prompt that changes from call to call.
    """

    type: ClassVar[str] = "before_model"
    chat: ToolChat
    model_name: str
    request: ModelRequest


class AfterModel(Record):
    """A model gave its whole `answer`, or failed with `error`. `after_model`.

    `answer.provider` and `answer.model` name who answered, which may be a fallback.
    """

    type: ClassVar[str] = "after_model"
    chat: ToolChat
    model_name: str
    request: ModelRequest
    answer: AssistantMessage | None
    error: ModelError | None


class BeforeTool(Record):
    """A tool call is about to run; its arguments fit the tool. `before_tool`.

    A handler may return `Deny` or `Ask`. One that raises, takes too long or answers anything else denies.
    """

    type: ClassVar[str] = "before_tool"
    chat: ToolChat
    call_id: str
    tool_name: str
    arguments: Mapping[str, Any]


class AfterTool(Record):
    """A tool call is over, whether it ran or was refused; `text` is its result, whole. `after_tool`."""

    type: ClassVar[str] = "after_tool"
    chat: ToolChat
    call_id: str
    tool_name: str
    arguments: Mapping[str, Any]
    text: str
    is_error: bool


class BeforeFlush(Record):
    """The silent turn that writes notes begins. `before_flush`."""

    type: ClassVar[str] = "before_flush"
    chat: ToolChat


class AfterFlush(Record):
    """The silent turn that writes notes is over. `after_flush`."""

    type: ClassVar[str] = "after_flush"
    chat: ToolChat
    ended: FlushEnded


class BeforeCompaction(Record):
    """History is about to be replaced, in the model's view, by a summary. `before_compaction`.

    `tokens` is how full the window is; notes are flushed behind this, where that is due.
    """

    type: ClassVar[str] = "before_compaction"
    chat: ToolChat
    reason: CompactionReason
    tokens: int


class AfterCompaction(Record):
    """History was replaced by a `summary`, or was not; `ended.problem` says why. `after_compaction`."""

    type: ClassVar[str] = "after_compaction"
    chat: ToolChat
    ended: CompactionEnded
    summary: str = ""


class SessionEnded(Record):
    """A session has ended; the action is the reason. `session_end`, `session_end:daily` and so on.

    `transcript` says where what was said lies, a file unless sessions are kept otherwise; it stays there.
    `entries` is its present branch. `is_private` says that nobody but the owner wrote in it. `channel` is
    where the message came from that ended it.
    """

    type: ClassVar[str] = "session_end"
    reason: EndReason
    session_key: str
    session_id: str
    transcript: str
    entries: Sequence[Entry]
    is_private: bool
    channel: str
    ended_at: datetime

    @property
    def action(self) -> str:
        return self.reason


class MessageArrived(Record):
    """A message arrived, be it words or a command, and nothing of it is written down yet. `inbound`.

    A handler may return the text to take in its place, or `Deny`.
    """

    type: ClassVar[str] = "inbound"
    chat: ToolChat
    inbound: Inbound


class ReplyLeaves(Record):
    """A reply is about to be delivered; the transcript holds the model's own words already. `outbound`.

    A handler may return the text to deliver in its place, or `Deny`: then nothing is delivered.
    """

    type: ClassVar[str] = "outbound"
    chat: ToolChat
    reply: Reply


HookEvent: TypeAlias = (
    BeforeTurn
    | AfterTurn
    | BeforeModel
    | AfterModel
    | BeforeTool
    | AfterTool
    | BeforeFlush
    | AfterFlush
    | BeforeCompaction
    | AfterCompaction
    | SessionEnded
    | MessageArrived
    | ReplyLeaves
)
