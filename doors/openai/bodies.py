"""The body of a request as a checked value. Edge: pydantic."""

from __future__ import annotations

from typing import TypeVar

from pydantic import BaseModel, ValidationError
from starlette.requests import Request

from nacre.doors.openai.wire import BadRequest

T = TypeVar("T", bound=BaseModel)


async def body_of(request: Request, kind: type[T]) -> T:
    """The body as such a value.

    Raises:
        BadRequest: it is no JSON, or a field has the wrong kind; the first is named.
    """
    try:
        return kind.model_validate_json(await request.body())
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise BadRequest(f"{place or 'The body'}: {first['msg']}.", place or None) from error
