"""A question to the owner, as a text that another process reads. A contract: rows in a database. Pure."""

from __future__ import annotations

import json

from nacre.runtime.contracts.events import ApprovalAsked


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
