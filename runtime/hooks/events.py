"""Hook events, one frozen value per name, and the answers of handlers. A public interface.

`type` is the name that a handler is registered for. `chat` says where the event happens and has the policy
that applies there: what a hook shows to a group must not include what its policy hides.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, ClassVar

from nacre.record import Record
from nacre.runtime.contracts.errors import ModelError
from nacre.runtime.contracts.events import CompactionEnded, CompactionReason, FlushEnded
from nacre.runtime.contracts.inbound import Inbound, Reply
from nacre.runtime.contracts.model import ModelRequest
from nacre.runtime.contracts.outbound import Part
from nacre.runtime.tools.function import ToolChat
from nacre.sessions.contracts.keys import EndReason
from nacre.sessions.contracts.messages import AssistantMessage, Usage
from nacre.sessions.entries.entries import Entry


@dataclasses.dataclass(frozen=True)
class Deny:
    """A handler's refusal, with a sentence that says why.

    From `before_tool`: the call does not run, and the model reads the reason as its result. From `inbound`:
    the message is refused and not stored. From `outbound`: nothing is delivered.
    """

    reason: str


@dataclasses.dataclass(frozen=True)
class Ask:
    """From `before_tool`: the owner has to approve this call and is told why."""

    why: str


class BeforeTurn(Record):
    """A turn begins: the user's message is on disk, and the model is about to be called. `before_turn`.

    `model_name` is the model that the owner chose.
    """

    type: ClassVar[str] = "before_turn"
    chat: ToolChat
    model_name: str


class AfterTurn(Record):
    """A turn has ended. `after_turn`.

    `reply` is `None` for silence and for a failed turn, whose exception is `error`. `usage` is the sum of the
    turn's model calls, or `None` if no provider reported usage.
    """

    type: ClassVar[str] = "after_turn"
    chat: ToolChat
    model_name: str
    reply: Reply | None
    error: BaseException | None
    usage: Usage | None


class BeforeModel(Record):
    """A model is about to be called; `request.purpose` says why. `before_model`.

    A handler may return a text. It is quoted to the model, with the handler's name as its source, in the part
    of the system prompt that changes with each call.
    """

    type: ClassVar[str] = "before_model"
    chat: ToolChat
    model_name: str
    request: ModelRequest


class AfterModel(Record):
    """A model returned its complete `answer`, or failed with `error`. `after_model`.

    `answer.provider` and `answer.model` name the model that answered, which may be a fallback.
    """

    type: ClassVar[str] = "after_model"
    chat: ToolChat
    model_name: str
    request: ModelRequest
    answer: AssistantMessage | None
    error: ModelError | None


class BeforeTool(Record):
    """A tool call with valid arguments is about to run. `before_tool`.

    A handler may return `Deny` or `Ask`. A handler that raises, times out or returns anything else denies.
    """

    type: ClassVar[str] = "before_tool"
    chat: ToolChat
    call_id: str
    tool_name: str
    arguments: Mapping[str, Any]


class AfterTool(Record):
    """A tool call has run or was refused; `text` is its full result, `error` what it raised. `after_tool`."""

    type: ClassVar[str] = "after_tool"
    chat: ToolChat
    call_id: str
    tool_name: str
    arguments: Mapping[str, Any]
    text: str
    is_error: bool
    error: BaseException | None = None


class BeforeFlush(Record):
    """The silent turn that writes notes begins. `before_flush`."""

    type: ClassVar[str] = "before_flush"
    chat: ToolChat


class AfterFlush(Record):
    """The silent turn that writes notes has ended. `after_flush`."""

    type: ClassVar[str] = "after_flush"
    chat: ToolChat
    ended: FlushEnded


class BeforeCompaction(Record):
    """A summary is about to replace history in the model's view. `before_compaction`.

    `tokens` is the size of the context. A due flush of notes follows this event.
    """

    type: ClassVar[str] = "before_compaction"
    chat: ToolChat
    reason: CompactionReason
    tokens: int


class AfterCompaction(Record):
    """A `summary` replaced history, or did not; `ended.problem` says why. `after_compaction`."""

    type: ClassVar[str] = "after_compaction"
    chat: ToolChat
    ended: CompactionEnded
    summary: str = ""


class SessionEnded(Record):
    """A session has ended; the action is the reason. `session_end`, `session_end:daily` and so on.

    `transcript` says where the transcript is, which is a file unless another store is used; it stays there.
    `entries` is its current branch. `is_private` means that only the owner wrote in it. `channel` is the
    channel of the message that ended it.
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
    """A message or command arrived and is not stored yet. `inbound`.

    A handler may return a text to replace it, or `Deny`.
    """

    type: ClassVar[str] = "inbound"
    chat: ToolChat
    inbound: Inbound


class ReplyLeaves(Record):
    """A reply is about to be delivered; the transcript already contains the model's own words. `outbound`.

    A handler may return a text to deliver instead, or `Deny` to deliver nothing.
    """

    type: ClassVar[str] = "outbound"
    chat: ToolChat
    reply: Reply


class BeforeAnswer(Record):
    """A gateway begins to answer messages of a chat, in one turn. `before_answer`."""

    type: ClassVar[str] = "before_answer"
    messages: tuple[Inbound, ...]


class AfterAnswer(Record):
    """The answer is on disk and about to be sent, or there is none. `after_answer`."""

    type: ClassVar[str] = "after_answer"
    messages: tuple[Inbound, ...]
    error: BaseException | None


class BeforeDelivery(Record):
    """A gateway sends a part of an answer to the channel. `before_delivery`."""

    type: ClassVar[str] = "before_delivery"
    part: Part


class AfterDelivery(Record):
    """A part is sent, or `error` says why not; it may be tried again. `after_delivery`."""

    type: ClassVar[str] = "after_delivery"
    part: Part
    error: BaseException | None
