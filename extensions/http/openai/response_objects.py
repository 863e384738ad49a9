"""The objects of `/v1/responses`. Pure. Source of the shapes: OpenAI's API reference.

A tool that the assistant ran is an item `mcp_call`, which is done: a `function_call` would be for the client.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from nacre.extensions.http.openai.answers import usage_json
from nacre.runtime.contracts.events import ToolEnded
from nacre.sessions.contracts.messages import Usage

_ID = re.compile(r"resp_(\d{1,9})_([A-Za-z0-9_-]+)")


def response_id(turns: int, name: str) -> str:
    """The id of the response behind so many turns of a session."""
    return f"resp_{turns}_{base64.urlsafe_b64encode(name.encode()).decode().rstrip('=')}"


def place_of(shown: str) -> tuple[int, str] | None:
    """Turns and session's name of a response's id; `None` for what is none."""
    found = _ID.fullmatch(shown)
    if found is None:
        return None
    try:
        return int(found[1]), base64.urlsafe_b64decode(found[2] + "=" * (-len(found[2]) % 4)).decode()
    except (binascii.Error, UnicodeDecodeError):
        return None


@dataclass
class ResponseObject:
    """One response while it comes."""

    id: str
    created_seconds: int
    model: str
    previous: str | None = None
    conversation: str | None = None
    output: list[dict[str, Any]] = field(default_factory=list)

    def as_json(
        self, status: str, usage: Usage | None = None, error: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        """The object with what it has so far."""
        counted = usage_json(usage)
        return {
            "id": self.id,
            "object": "response",
            "created_at": self.created_seconds,
            "status": status,
            "error": error,
            "incomplete_details": None,
            "instructions": None,
            "metadata": {},
            "model": self.model,
            "output": list(self.output),
            "parallel_tool_calls": True,
            "previous_response_id": self.previous,
            "conversation": {"id": self.conversation} if self.conversation else None,
            "tool_choice": "auto",
            "tools": [],
            "usage": {
                "input_tokens": counted["prompt_tokens"],
                "input_tokens_details": counted["prompt_tokens_details"],
                "output_tokens": counted["completion_tokens"],
                "output_tokens_details": {"reasoning_tokens": 0},
                "total_tokens": counted["total_tokens"],
            }
            if usage is not None
            else None,
        }


def call_item(ended: ToolEnded, arguments: str) -> dict[str, Any]:
    """A tool that ran."""
    return {
        "id": f"mcp_{ended.call_id}",
        "type": "mcp_call",
        "server_label": "nacre",
        "name": ended.tool_name,
        "arguments": arguments,
        "output": None if ended.is_error else ended.summary,
        "error": ended.summary if ended.is_error else None,
        "status": "failed" if ended.is_error else "completed",
    }


def message_item(text: str, number: int, status: str = "completed") -> dict[str, Any]:
    """What the assistant said."""
    content = [text_part(text)] if status == "completed" else []
    return {
        "id": f"msg_{number}",
        "type": "message",
        "role": "assistant",
        "status": status,
        "content": content,
    }


def text_part(text: str) -> dict[str, Any]:
    """The text of a message."""
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def begun_message(number: int) -> Iterator[dict[str, Any]]:
    """The events before the first characters of a message, which is the item `number` of the output."""
    yield {
        "type": "response.output_item.added",
        "output_index": number,
        "item": message_item("", number, "in_progress"),
    }
    yield {
        "type": "response.content_part.added",
        "item_id": f"msg_{number}",
        "output_index": number,
        "content_index": 0,
        "part": text_part(""),
    }


def text_delta(text: str, number: int) -> dict[str, Any]:
    """The next characters."""
    return {
        "type": "response.output_text.delta",
        "item_id": f"msg_{number}",
        "output_index": number,
        "content_index": 0,
        "delta": text,
        "logprobs": [],
    }


def ended_message(text: str, number: int) -> Sequence[dict[str, Any]]:
    """The events behind the last characters of a message."""
    place = {"item_id": f"msg_{number}", "output_index": number, "content_index": 0}
    return (
        {"type": "response.output_text.done", **place, "text": text, "logprobs": []},
        {"type": "response.content_part.done", **place, "part": text_part(text)},
        {"type": "response.output_item.done", "output_index": number, "item": message_item(text, number)},
    )
