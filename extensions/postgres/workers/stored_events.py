"""The stored form of questions to the owner and of outcomes, which another process reads."""

from __future__ import annotations

import json
from collections.abc import Mapping

from nacre.runtime.contracts.errors import (
    AgentError,
    ContextOverflow,
    MessageRefused,
    ModelAuthError,
    PrivacyError,
    RateLimited,
    SessionInUse,
    SpendingCapReached,
    TurnBroken,
    TurnCancelled,
)
from nacre.runtime.contracts.events import (
    AnswerDiscarded,
    ApprovalAsked,
    Event,
    ReplyReady,
    Silence,
    TextStreamed,
    TurnFailed,
)
from nacre.runtime.contracts.inbound import Reply
from nacre.sessions.contracts.errors import SessionStoreRefused, SessionTakenOver
from nacre.sessions.contracts.messages import Usage, usage_from_json

QUOTA_TEXTS = {
    "day": "I have used up what I may use today. Send this again after midnight (UTC).",
    "storage": "I have no room left for conversations and notes. Ask whoever runs this service for more.",
}
TORN = "A part of the answer was lost on its way."
_ERRORS: Mapping[str, type[AgentError]] = {
    kind.__name__: kind
    for kind in (ContextOverflow, ModelAuthError, PrivacyError, RateLimited, SpendingCapReached)
}
"""Errors with their own status for clients. An unreachable model is not one: the gateway would ask again."""


def question_of(asked: ApprovalAsked) -> str:
    stored = {
        "callId": asked.call_id,
        "toolName": asked.tool_name,
        "arguments": dict(asked.arguments),
        "why": asked.why,
    }
    return json.dumps(stored)


def parse_question(approval_id: str, body: str) -> ApprovalAsked:
    """Parses a question. Raises `ValueError` or `KeyError` for an invalid text."""
    stored = json.loads(body)
    return ApprovalAsked(
        approval_id=approval_id,
        call_id=stored["callId"],
        tool_name=stored["toolName"],
        arguments=stored["arguments"],
        why=stored["why"],
    )


STOPPED = json.dumps({"kind": "cancelled", "text": "The turn was stopped."})
"""The outcome of a turn that was stopped in its chat."""
REMOVED = json.dumps({"kind": "silence", "text": "", "key": "", "session_id": "", "usage": None})
"""The outcome of a turn that was removed with its agent."""
UNREADABLE = json.dumps(
    {
        "kind": "refused",
        "text": "This message is stored in a format that cannot be read here, perhaps by a newer version. "
        "Send it again.",
    }
)
"""The outcome of a turn whose message this program cannot read."""


def given_up(times: int) -> str:
    """The outcome of a turn during which too many workers died."""
    text = (
        f"The program ended {times} times while it processed this message, so it is not tried again. The "
        "message is in the conversation: rephrase it, or ask what was done."
    )
    return json.dumps({"kind": "refused", "text": text})


def over_quota(reached: str) -> str:
    """The outcome of a turn of an agent that has reached the limit of its `day` or its `storage`."""
    return json.dumps({"kind": "refused", "text": QUOTA_TEXTS[reached]})


def usage_of(ending: Event | None) -> Usage | None:
    """The usage of a turn, if it was answered."""
    if isinstance(ending, ReplyReady):
        return ending.reply.usage
    return ending.usage if isinstance(ending, Silence) else None


def outcome_of(ending: Event | None, *, sent_chars: int = 0) -> str:
    """Serializes a turn's last event; empty if the turn is unfinished and the next worker continues it.

    `sent_chars` is the number of characters that were sent of its other events.
    """
    used = usage_of(ending)
    usage = used and used.to_json()
    if isinstance(ending, ReplyReady):
        reply = ending.reply
        of_session = {"key": reply.session_key, "session_id": reply.session_id}
        more = {"notice": reply.notice, "is_command": reply.is_command, "sent_chars": sent_chars}
        return _text("reply", reply.text, **of_session, **more, usage=usage)
    if isinstance(ending, TurnFailed):
        error = ending.error
        if isinstance(error, SessionInUse | TurnCancelled) or _is_of_the_store(error):
            return ""
        kind = "refused" if isinstance(error, MessageRefused) else "failed"
        return _text(kind, str(error), error=type(error).__name__)
    if isinstance(ending, Silence):
        ids = {"key": ending.session_key, "session_id": ending.session_id}
        return _text("silence", ending.problem, **ids, usage=usage)
    return ""


def events_of(outcome: str, *, heard_chars: int = 0) -> list[Event]:
    """Parses an outcome: the turn's last event, after the whole answer if only a part of it was received.

    An unknown kind of a newer version becomes an error with its text.
    """
    stored = json.loads(outcome)
    kind, text, usage = stored["kind"], stored["text"], usage_from_json(stored.get("usage"))
    if kind == "reply":
        reply = Reply(
            text=text,
            session_key=stored["key"],
            session_id=stored["session_id"],
            notice=stored.get("notice", ""),
            is_command=stored.get("is_command", False),
            usage=usage,
        )
        is_torn = 0 < heard_chars != stored.get("sent_chars", 0)
        again = (AnswerDiscarded(problem=TORN), TextStreamed(text=text)) if is_torn else ()
        return [*again, ReplyReady(reply=reply)]
    if kind == "silence":
        ids = {"session_key": stored["key"], "session_id": stored["session_id"]}
        return [Silence(**ids, usage=usage, problem=text)]
    errors = {"refused": MessageRefused, "failed": TurnBroken, "cancelled": TurnCancelled}
    error = _ERRORS.get(stored.get("error", "")) or errors.get(kind, TurnBroken)
    return [TurnFailed(error=error(text))]


def _is_of_the_store(error: BaseException | None) -> bool:
    while error is not None:
        if isinstance(error, SessionTakenOver | SessionStoreRefused):
            return True
        error = error.__cause__
    return False


def _text(kind: str, text: str, **more: object) -> str:
    return json.dumps({"kind": kind, "text": text, **more})
