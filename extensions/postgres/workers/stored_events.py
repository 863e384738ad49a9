"""A question to the owner, and how a turn ended, as texts that another process reads. A contract. Pure."""

from __future__ import annotations

import json

from nacre.runtime.contracts.errors import MessageRefused, SessionInUse, TurnBroken, TurnCancelled
from nacre.runtime.contracts.events import ApprovalAsked, Event, ReplyReady, Silence, TurnFailed
from nacre.runtime.contracts.inbound import Reply
from nacre.sessions.contracts.errors import SessionStoreRefused, SessionTakenOver
from nacre.sessions.contracts.messages import Usage


def question_of(asked: ApprovalAsked) -> str:
    """The text of a question."""
    stored = {
        "callId": asked.call_id,
        "toolName": asked.tool_name,
        "arguments": dict(asked.arguments),
        "why": asked.why,
    }
    return json.dumps(stored)


def asked_by(approval_id: str, body: str) -> ApprovalAsked:
    """The question that such a text stands for. Raises `ValueError` or `KeyError` when it is none."""
    stored = json.loads(body)
    return ApprovalAsked(
        approval_id=approval_id,
        call_id=stored["callId"],
        tool_name=stored["toolName"],
        arguments=stored["arguments"],
        why=stored["why"],
    )


def stopped() -> str:
    """Of a turn that somebody in its chat stopped."""
    return json.dumps({"kind": "cancelled", "text": "The turn was stopped."})


def given_up(times: int) -> str:
    """Of a turn over which worker after worker ended."""
    text = (
        f"The program ended {times} times while it was at this message, and it is not tried again. It stands "
        "in the conversation; say it in other words, or ask what became of it."
    )
    return json.dumps({"kind": "refused", "text": text})


def over_quota() -> str:
    """Of a turn of an agent that has used up what it may use today."""
    text = "I have used up what I may use today. Send this again after midnight (UTC)."
    return json.dumps({"kind": "refused", "text": text})


def usage_of(ending: Event | None) -> Usage | None:
    """What the turn used, if it was answered."""
    if isinstance(ending, ReplyReady):
        return ending.reply.usage
    return ending.usage if isinstance(ending, Silence) else None


def unreadable() -> str:
    """Of a turn whose message this program cannot read."""
    text = (
        "This message is kept in a form that cannot be read here, perhaps of a newer version. Send it again."
    )
    return json.dumps({"kind": "refused", "text": text})


def outcome_of(ending: Event | None) -> str:
    """The text of a turn's last event; empty for what is not over: the next worker goes on with it."""
    if isinstance(ending, ReplyReady):
        reply = ending.reply
        return _text("reply", reply.text, key=reply.session_key, session_id=reply.session_id)
    if isinstance(ending, TurnFailed):
        error = ending.error
        if isinstance(error, SessionInUse | TurnCancelled) or _is_of_the_store(error):
            return ""
        return _text("refused" if isinstance(error, MessageRefused) else "failed", str(error))
    if isinstance(ending, Silence):
        return _text("silence", "", key=ending.session_key, session_id=ending.session_id)
    return ""


def event_of(outcome: str) -> Event:
    """The event that such a text stands for; a kind that a newer version has is an error with its text."""
    stored = json.loads(outcome)
    kind, text = stored["kind"], stored["text"]
    if kind == "reply":
        return ReplyReady(reply=Reply(text=text, session_key=stored["key"], session_id=stored["session_id"]))
    if kind == "silence":
        return Silence(session_key=stored["key"], session_id=stored["session_id"])
    errors = {"refused": MessageRefused, "failed": TurnBroken, "cancelled": TurnCancelled}
    return TurnFailed(error=errors.get(kind, TurnBroken)(text))


def _is_of_the_store(error: BaseException | None) -> bool:
    while error is not None:
        if isinstance(error, SessionTakenOver | SessionStoreRefused):
            return True
        error = error.__cause__
    return False


def _text(kind: str, text: str, **more: str) -> str:
    return json.dumps({"kind": kind, "text": text, **more})
