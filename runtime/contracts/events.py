"""What a turn tells while it runs, in the order it happens. Frozen values; a public contract.

A turn yields any number of the kinds before `ReplyReady` and ends with exactly one of `ReplyReady`,
`Silence` or `TurnFailed`.
"""

from __future__ import annotations

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
    """The next characters of the answer; a silent reply never appears here, not even in part."""

    text: str


class ToolStarted(Record):
    """A tool call begins."""

    call_id: str
    tool_name: str
    arguments: Mapping[str, Any]


class ToolProgressed(Record):
    """A tool that is running tells, in one line, how far it is."""

    call_id: str
    tool_name: str
    text: str


class ToolEnded(Record):
    """A tool call ended; `summary` is one short line for a person, `result` the whole text for the model."""

    call_id: str
    tool_name: str
    is_error: bool
    summary: str
    result: str = field(default="", repr=False, compare=False)


class MessageJoined(Record):
    """A message that was said meanwhile stands in the turn now; see `Agent.join`."""

    inbound_id: str


class ApprovalAsked(Record):
    """A tool call waits for the owner, and the turn with it for a while; see `Agent.approvals`.

    `arguments` are what the call runs with if it is approved. `why` is a sentence for the owner.
    """

    approval_id: str
    call_id: str
    tool_name: str
    arguments: Mapping[str, Any]
    why: str


class FlushEnded(Record):
    """The silent turn before a compaction is over.

    `written`: the model appended notes to `path`. `proposed`: they wait for the owner, see `memory.writes`.
    `nothing`: nothing worth keeping was found.
    `fallback`: the model could not be asked and an extract was written instead. `failed`: there is
    no note, because nobody could be asked or the file could not be written. `problem` says what
    went wrong, also where something else helped. `notes` is the Markdown that went into the file.
    """

    status: FlushStatus
    path: str
    problem: str = ""
    notes: str = field(default="", repr=False, compare=False)


class CompactionEnded(Record):
    """Old history was replaced, in the model's view, by a summary; or it was not, and why.

    `tokens_after` is an estimate. `transcript` names the file in which every word still stands.
    `problem` is empty on success; otherwise the history stays whole. `has_failed` tells a summary
    that could not be had from a history that is too short for one.
    """

    reason: CompactionReason
    tokens_before: int
    tokens_after: int
    transcript: str
    problem: str = ""
    has_failed: bool = False


class SessionReset(Record):
    """The session was over by itself before this message, which is the first of a fresh one.

    `previous_session_id` is the one that is over: its transcript stays, and it can be gone back to.
    """

    reason: ResetCause
    session_id: str
    previous_session_id: str


class ModelSlow(Record):
    """A model that is being asked has sent nothing for `silent_seconds`; the wait goes on.

    `has_begun` tells a model whose answer has begun, and that may be thinking, from one that has not sent a
    byte. `is_reading` is an own server that still reads the prompt. `next_model_name` is who is asked should
    this one be given up, empty when there is nobody.
    """

    model_name: str
    silent_seconds: float
    has_begun: bool
    next_model_name: str = ""
    is_reading: bool = False


class PromptRead(Record):
    """An own server tells how far it has read the prompt, before the first word of the answer."""

    model_name: str
    read_tokens: int
    prompt_tokens: int


class ModelRetried(Record):
    """A model call failed in a way that passes; it is asked again after `delay_seconds`."""

    attempt: int
    delay_seconds: float
    problem: str


class AnswerDiscarded(Record):
    """The text streamed since the last tool call is void: the answer broke off and comes anew, whole."""

    problem: str


class FallbackAnswered(Record):
    """Another model than the first answered; `problem` says what is the matter with the first."""

    model_name: str
    first_model_name: str
    problem: str


class Warned(Record):
    """Something the owner should know that did not stop the turn, as one sentence."""

    message: str


class ReplyReady(Record):
    """The turn's answer, whole, with what the turn cost in `reply.usage`."""

    reply: Reply


class Silence(Record):
    """The turn ended and nothing is to be delivered. `usage` is as in `Reply`.

    `session_id` is empty where no session was opened: a heartbeat whose list asks for nothing.
    """

    session_key: str
    session_id: str
    usage: Usage | None = None


class TurnFailed(Record):
    """The turn could not be answered; everything said so far is on disk."""

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
