"""The events of a running turn, in order. Frozen values; a public contract.

A turn yields any number of other events and then exactly one of `ReplyReady`, `Silence` or `TurnFailed`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any, Literal, TypeAlias

from nacre.record import Record
from nacre.runtime.contracts.errors import AgentError
from nacre.runtime.contracts.inbound import Reply
from nacre.sessions.contracts.keys import ResetCause
from nacre.sessions.contracts.messages import Usage

CompactionReason: TypeAlias = Literal["threshold", "overflow", "manual"]
FlushStatus: TypeAlias = Literal["written", "proposed", "nothing", "fallback", "failed"]


class TextStreamed(Record):
    """The next characters of the answer. No part of a silent reply appears here."""

    text: str


class ToolStarted(Record):
    call_id: str
    tool_name: str
    arguments: Mapping[str, Any]


class ToolProgressed(Record):
    """A running tool reports its progress in one line."""

    call_id: str
    tool_name: str
    text: str


class ToolEnded(Record):
    """A tool call ended; `summary` is one short line for people, `result` the whole text for the model.
    `error` is the tool's exception, such as a `ToolFailed` with a `detail`.
    """

    call_id: str
    tool_name: str
    is_error: bool
    summary: str
    result: str = field(default="", repr=False, compare=False)
    error: BaseException | None = field(default=None, repr=False, compare=False)


class MessageJoined(Record):
    """The turn has read a message that arrived during it; see `Agent.join`."""

    inbound_id: str


class ApprovalAsked(Record):
    """A tool call waits for the owner, and the turn waits with it for a while; see `Agent.approvals`.

    The call runs with these `arguments` if it is approved. `why` is a sentence for the owner.
    """

    approval_id: str
    call_id: str
    tool_name: str
    arguments: Mapping[str, Any]
    why: str

    @property
    def call(self) -> str:
        """The tool and all arguments as text, in which characters that hide or reorder text are escaped."""
        text = f"{self.tool_name} {json.dumps(dict(self.arguments), ensure_ascii=False)}"
        return "".join(char if char.isprintable() else json.dumps(char)[1:-1] for char in text)


class FlushEnded(Record):
    """The silent turn before a compaction is over.

    `written`: the model appended notes to `path`. `proposed`: they wait for the owner, see `memory.writes`.
    `nothing`: there was nothing to note. `fallback`: the model could not be asked, and an extract was written
    instead. `failed`: there is no note, because no model could be asked or the file could not be written.
    `problem` is the error, even if a fallback helped. `notes` is the Markdown that was added to the file.
    """

    status: FlushStatus
    path: str
    problem: str = ""
    notes: str = field(default="", repr=False, compare=False)


class CompactionEnded(Record):
    """In the model's view, a summary replaced old history, or the compaction failed.

    `tokens_after` is an estimate. `transcript` names the file, which keeps every word. `problem` is empty on
    success; otherwise the history is unchanged. `has_failed` distinguishes a failed summary from a history
    that is too short for one.
    """

    reason: CompactionReason
    tokens_before: int
    tokens_after: int
    transcript: str
    problem: str = ""
    has_failed: bool = False


class SessionReset(Record):
    """The previous session expired before this message, which is the first of a new one.

    `previous_session_id` is the expired session, whose transcript stays and which can be resumed.
    """

    reason: ResetCause
    session_id: str
    previous_session_id: str


class ModelSlow(Record):
    """A model has sent nothing for `silent_seconds`; the turn continues to wait.

    `has_begun` means that the answer has begun, so that the model may be thinking. `is_reading` means that a
    local server still reads the prompt. `next_model_name` is asked if this model fails; it may be empty.
    """

    model_name: str
    silent_seconds: float
    has_begun: bool
    next_model_name: str = ""
    is_reading: bool = False


class PromptRead(Record):
    """A local server reports how much of the prompt it has read, before the first word of the answer."""

    model_name: str
    read_tokens: int
    prompt_tokens: int


class ModelRetried(Record):
    """A model call failed temporarily; it is repeated after `delay_seconds`."""

    attempt: int
    delay_seconds: float
    problem: str


class AnswerDiscarded(Record):
    """The text streamed since the last tool call is void: the answer broke off and is requested again."""

    problem: str


class FallbackAnswered(Record):
    """Another model than the first answered; `problem` says why the first did not."""

    model_name: str
    first_model_name: str
    problem: str


class Warned(Record):
    """One sentence for the owner about something that did not stop the turn."""

    message: str


class ReplyReady(Record):
    """The turn's whole answer, with its cost in `reply.usage`."""

    reply: Reply


class Silence(Record):
    """The turn ended and nothing is delivered. `usage` is as in `Reply`.

    `session_id` is empty if no session was opened, as for a heartbeat without a task. `problem` says that the
    model returned no answer; it is empty if the model chose silence.
    """

    session_key: str
    session_id: str
    usage: Usage | None = None
    problem: str = ""


class TurnFailed(Record):
    """The turn failed; everything said so far is on disk."""

    error: AgentError


Event: TypeAlias = (
    TextStreamed
    | ToolStarted
    | ToolProgressed
    | ToolEnded
    | MessageJoined
    | ApprovalAsked
    | FlushEnded
    | CompactionEnded
    | SessionReset
    | ModelSlow
    | PromptRead
    | ModelRetried
    | AnswerDiscarded
    | FallbackAnswered
    | Warned
    | ReplyReady
    | Silence
    | TurnFailed
)

Emit: TypeAlias = Callable[[Event], None]
