"""The requests of OpenAI's protocol. Parsing is lenient: unknown fields are ignored.

The shapes follow OpenAI's API reference for chat completions, responses and embeddings.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
from collections.abc import Sequence
from typing import Any, ClassVar, Literal, TypeVar
from urllib.parse import unquote_to_bytes

from pydantic import BaseModel, ConfigDict, ValidationError, field_validator
from starlette.requests import Request

from nacre.record import Record
from nacre.runtime.contracts.inbound import Attachment
from nacre.runtime.extensions.installed.settings_schema import schema_problem, settings_problems
from nacre.runtime.tools.toolbox import ToolArguments
from nacre.runtime.turn.output import Output

MOST_QUICK_BYTES = 64 * 1024
"""A larger body is parsed on a thread, so that other requests are not delayed."""
MOST_SCHEMA_CHARS = 50_000
NOT_FETCHED = "it is given by a URL, and URLs are not fetched for clients"


T = TypeVar("T", bound=BaseModel)


class BadRequest(Exception):
    """The request cannot be served; `parameter` names the field."""

    def __init__(self, message: str, parameter: str | None = None, *, status: int = 400) -> None:
        super().__init__(message)
        self.parameter, self.status = parameter, status


class _Lenient(BaseModel):
    model_config = ConfigDict(extra="ignore")


class ChatMessage(_Lenient):
    role: str
    content: str | list[dict[str, Any]] | None = None


class StreamOptions(_Lenient):
    include_usage: bool = False


class ChatRequest(_Lenient):
    model: str = ""
    messages: list[ChatMessage]
    stream: bool = False
    stream_options: StreamOptions | None = None
    user: str | None = None
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    response_format: dict[str, Any] | None = None
    n: Literal[1] | None = None


class ResponsesRequest(_Lenient):
    model: str = ""
    input: str | list[dict[str, Any]]
    instructions: str | None = None
    stream: bool = False
    previous_response_id: str | None = None
    conversation: str | dict[str, Any] | None = None
    user: str | None = None
    max_output_tokens: int | None = None
    text: dict[str, Any] | None = None


class EmbeddingsRequest(_Lenient):
    model: str = ""
    input: str | list[str]
    encoding_format: Literal["float", "base64"] = "float"
    dimensions: int | None = None


class ClientMessage(Record):
    """A message of a client's history: its role, `user` or `assistant`, its text and its files."""

    role: str
    text: str
    attachments: tuple[Attachment, ...] = ()


async def body_of(request: Request, model: type[T]) -> T:
    """Parses the body.

    Raises:
        BadRequest: it is not valid JSON, or a field has the wrong type; the message names the first.
    """
    body = await request.body()
    try:
        if len(body) <= MOST_QUICK_BYTES:
            return model.model_validate_json(body)
        return await asyncio.to_thread(model.model_validate_json, body)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise BadRequest(f"{place or 'The body'}: {first['msg']}.", place or None) from error


def parse_messages(messages: Sequence[ChatMessage]) -> tuple[str, tuple[ClientMessage, ...]]:
    """The rules of the program, and the messages of user and assistant; tool results are ignored.

    Raises:
        BadRequest: the last message is not the user's, or is empty.
    """
    rules: list[str] = []
    spoken: list[ClientMessage] = []
    for message in messages:
        text, attachments = _content(message.content)
        if message.role in ("system", "developer"):
            rules.append(text)
        elif message.role == "user":
            spoken.append(ClientMessage(role="user", text=text, attachments=attachments))
        elif message.role == "assistant" and text:
            spoken.append(ClientMessage(role="assistant", text=text))
    if not spoken or spoken[-1].role != "user" or not (spoken[-1].text.strip() or spoken[-1].attachments):
        raise BadRequest("The last message must be the user's and contain text or a file.", "messages")
    return "\n\n".join(filter(None, rules)), tuple(spoken)


def input_messages(body: ResponsesRequest) -> list[ChatMessage]:
    """The input of a responses request as messages; other items are ignored."""
    rules = [ChatMessage(role="system", content=body.instructions)] if body.instructions else []
    if isinstance(body.input, str):
        return [*rules, ChatMessage(role="user", content=body.input)]
    items = [item for item in body.input if item.get("type", "message") == "message"]
    return [*rules, *(ChatMessage.model_validate(item) for item in items)]


def answer_type(form: Any, parameter: str) -> Any:
    """The type that `{"type": "json_object"}` or a schema asks for; `None` for plain text.

    Raises:
        BadRequest: `form` is invalid, or its schema cannot be used.
    """
    given = form if isinstance(form, dict) else {"type": "text" if form is None else form}
    inner = given.get("json_schema")  # a field of its own for completions, and none for responses
    schema = (inner if isinstance(inner, dict) else given).get("schema")
    if given.get("type") == "text":
        return None
    if given.get("type") == "json_object":
        return dict[str, Any]
    if given.get("type") != "json_schema" or not isinstance(schema, dict):
        raise BadRequest(
            f"{parameter} is {given!r}. Its type is 'text', 'json_object', or 'json_schema' with a schema.",
            parameter,
        )
    if (chars := len(json.dumps(schema))) > MOST_SCHEMA_CHARS:
        problem = f"The schema of {parameter} has {chars} characters; the limit is {MOST_SCHEMA_CHARS}."
        raise BadRequest(problem, parameter)
    if problem := schema_problem(schema, what=f"The schema of {parameter}"):
        raise BadRequest(problem, parameter)
    name = str((inner if isinstance(inner, dict) else given).get("name") or "answer")
    return Output(name=name, arguments=type("output", (_AsAsked,), {"asked": schema, "__module__": __name__}))


class _AsAsked(ToolArguments):
    """An answer that fits a client's schema, `asked`."""

    asked: ClassVar[dict[str, Any]] = {}
    answer: Any

    @field_validator("answer")
    @classmethod
    def _fits(cls, value: object) -> object:
        if problems := settings_problems(value, cls.asked, key="answer", what="The schema"):
            raise ValueError(" ".join(problems))
        return value

    @classmethod
    def model_json_schema(cls, *_asked: Any, **_options: Any) -> dict[str, Any]:
        return {
            "type": "object",
            "properties": {"answer": _below_answer(cls.asked)},
            "required": ["answer"],
            "additionalProperties": False,
        }


def _below_answer(schema: Any) -> Any:
    """The schema with references that are valid below the field `answer`."""
    if isinstance(schema, list):
        return [_below_answer(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        name: f"#/properties/answer{each[1:]}"
        if name == "$ref" and isinstance(each, str) and each.startswith("#")
        else _below_answer(each)
        for name, each in schema.items()
    }


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
            url = part.get("image_url")
            url = url.get("url") if isinstance(url, dict) else url
            attachments.append(_attachment(str(url or ""), "image", "image/*"))
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


def _attachment(url: str, name: str, mime_type: str) -> Attachment:
    """The file of a `data:` URL (RFC 2397); for another URL only its name.

    Raises:
        BadRequest: the data cannot be decoded.
    """
    if not url.startswith("data:"):
        return Attachment(name=name, mime_type=mime_type, data=b"", problem=NOT_FETCHED)
    head, comma, body = url.removeprefix("data:").partition(",")
    kind, *options = head.split(";")
    try:
        data = base64.b64decode(body, validate=True) if "base64" in options else unquote_to_bytes(body)
    except (binascii.Error, ValueError) as error:
        raise BadRequest(f"The file {name!r} is not valid base64: {error}.", "messages") from error
    if not comma:
        raise BadRequest(f"The file {name!r} is not a valid data URL.", "messages")
    actual_type = kind or mime_type
    if name == "image" and "/" in actual_type:
        name = f"image.{actual_type.partition('/')[2]}"
    return Attachment(name=name, mime_type=actual_type, data=data)
