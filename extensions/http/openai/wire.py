"""What clients of OpenAI's protocol send, read leniently: fields that are not known are passed over.

Source of the shapes: OpenAI's API reference for chat completions, responses and embeddings.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import Sequence
from typing import Any, Literal, TypeVar
from urllib.parse import unquote_to_bytes

from pydantic import BaseModel, ConfigDict, ValidationError
from starlette.requests import Request

from nacre.record import Record
from nacre.runtime.contracts.inbound import Attachment

MOST_QUICK_BYTES = 64 * 1024
"""A larger body is read on a thread, and others are answered meanwhile."""
NOT_FETCHED = "it is only named by an address, and nothing is fetched for a client"


T = TypeVar("T", bound=BaseModel)


class BadRequest(Exception):
    """The request cannot be served as it is; `parameter` says which field is meant."""

    def __init__(self, sentence: str, parameter: str | None = None, *, status: int = 400) -> None:
        super().__init__(sentence)
        self.parameter, self.status = parameter, status


class _Lenient(BaseModel):
    model_config = ConfigDict(extra="ignore")


class ChatMessage(_Lenient):
    """One message of a client's history."""

    role: str
    content: str | list[dict[str, Any]] | None = None


class StreamOptions(_Lenient):
    """What a stream holds beside the answer."""

    include_usage: bool = False


class ChatRequest(_Lenient):
    """A request to `/v1/chat/completions`."""

    model: str = ""
    messages: list[ChatMessage]
    stream: bool = False
    stream_options: StreamOptions | None = None
    user: str | None = None
    max_tokens: int | None = None
    max_completion_tokens: int | None = None


class ResponsesRequest(_Lenient):
    """A request to `/v1/responses`."""

    model: str = ""
    input: str | list[dict[str, Any]]
    instructions: str | None = None
    stream: bool = False
    previous_response_id: str | None = None
    conversation: str | dict[str, Any] | None = None
    user: str | None = None
    max_output_tokens: int | None = None


class EmbeddingsRequest(_Lenient):
    """A request to `/v1/embeddings`."""

    model: str = ""
    input: str | list[str]
    encoding_format: Literal["float", "base64"] = "float"
    dimensions: int | None = None


class Said(Record):
    """One thing that was said in a client's history: by `user` or `assistant`, with its files."""

    role: str
    text: str
    attachments: tuple[Attachment, ...] = ()


async def body_of(request: Request, kind: type[T]) -> T:
    """The body as such a value.

    Raises:
        BadRequest: it is no JSON, or a field has the wrong kind; the first is named.
    """
    body = await request.body()
    try:
        if len(body) <= MOST_QUICK_BYTES:
            return kind.model_validate_json(body)
        return await asyncio.to_thread(kind.model_validate_json, body)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise BadRequest(f"{place or 'The body'}: {first['msg']}.", place or None) from error


def conversation_of(messages: Sequence[ChatMessage]) -> tuple[str, tuple[Said, ...]]:
    """What the program says of the conversation, and what was said in it; results of tools are neither.

    Raises:
        BadRequest: nobody says anything last.
    """
    rules: list[str] = []
    said: list[Said] = []
    for message in messages:
        text, attachments = _content(message.content)
        if message.role in ("system", "developer"):
            rules.append(text)
        elif message.role == "user":
            said.append(Said(role="user", text=text, attachments=attachments))
        elif message.role == "assistant" and text:
            said.append(Said(role="assistant", text=text))
    if not said or said[-1].role != "user" or not (said[-1].text.strip() or said[-1].attachments):
        raise BadRequest("The last message must be the user's, with a text or a file.", "messages")
    return "\n\n".join(filter(None, rules)), tuple(said)


def messages_of(asked: ResponsesRequest) -> list[ChatMessage]:
    """The input of a responses request as messages; what is neither said nor a rule is left out."""
    rules = [ChatMessage(role="system", content=asked.instructions)] if asked.instructions else []
    if isinstance(asked.input, str):
        return [*rules, ChatMessage(role="user", content=asked.input)]
    items = [item for item in asked.input if item.get("type", "message") == "message"]
    return [*rules, *(ChatMessage.model_validate(item) for item in items)]


def _content(content: str | list[dict[str, Any]] | None) -> tuple[str, tuple[Attachment, ...]]:
    if content is None or isinstance(content, str):
        return content or "", ()
    texts: list[str] = []
    attachments: list[Attachment] = []
    for part in content:
        kind = part.get("type")
        if kind in ("text", "input_text", "output_text"):
            texts.append(str(part.get("text", "")))
        elif kind in ("image_url", "input_image"):
            address = part.get("image_url")
            address = address.get("url") if isinstance(address, dict) else address
            attachments.append(_attachment(str(address or ""), "image", "image/*"))
        elif kind in ("file", "input_file"):
            inner = part.get("file")
            file = inner if isinstance(inner, dict) else part
            name = str(file.get("filename") or "file")
            attachments.append(
                _attachment(str(file.get("file_data") or ""), name, "application/octet-stream")
            )
        elif kind == "input_audio":
            sound = part.get("input_audio") or {}
            form = str(sound.get("format") or "wav")
            data = f"data:audio/{form};base64,{sound.get('data') or ''}"
            attachments.append(_attachment(data, f"voice.{form}", f"audio/{form}"))
    return "\n".join(texts), tuple(attachments)


def _attachment(address: str, name: str, mime_type: str) -> Attachment:
    """A file that came as a `data:` address (RFC 2397); of another address only the name.

    Raises:
        BadRequest: the address holds data that cannot be read.
    """
    if not address.startswith("data:"):
        return Attachment(name=name, mime_type=mime_type, data=b"", problem=NOT_FETCHED)
    head, comma, body = address.removeprefix("data:").partition(",")
    kind, *options = head.split(";")
    try:
        data = base64.b64decode(body, validate=True) if "base64" in options else unquote_to_bytes(body)
    except (binascii.Error, ValueError) as error:
        raise BadRequest(f"The file {name!r} is no valid base64: {error}.", "messages") from error
    if not comma:
        raise BadRequest(f"The file {name!r} is no valid data address.", "messages")
    known = kind or mime_type
    if name == "image" and "/" in known:
        name = f"image.{known.partition('/')[2]}"
    return Attachment(name=name, mime_type=known, data=data)
