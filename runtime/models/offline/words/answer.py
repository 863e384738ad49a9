"""What the offline responder decided to say or to do in one step; it is streamed elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Call:
    """One tool call, without the id that it gets when it is streamed."""

    tool_name: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Answer:
    """Either text, or calls whose results the next step reads."""

    text: str = ""
    calls: tuple[Call, ...] = ()
