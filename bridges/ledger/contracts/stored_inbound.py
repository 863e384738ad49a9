"""A message as the ledger keeps it until it is answered. A contract: bytes on disk. Pure."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

from nacre.runtime.contracts.inbound import Attachment, Inbound, Quoted

_OF_THE_MOMENT = ("attachments", "quoted", "redelivered", "joined_by")
_PLAIN = tuple(field.name for field in fields(Inbound) if field.name not in _OF_THE_MOMENT)


def inbound_to_json(inbound: Inbound) -> str:
    """The message as a JSON text, its files in base64. Halves of characters become escapes."""
    stored: dict[str, Any] = {name: getattr(inbound, name) for name in _PLAIN}
    stored["attachments"] = [
        {
            "name": file.name,
            "mime_type": file.mime_type,
            "data": base64.b64encode(file.data).decode("ascii"),
            "problem": file.problem,
            "said_by": file.said_by,
        }
        for file in inbound.attachments
    ]
    stored["quoted"] = [
        {name: getattr(quote, name) for name in ("text", "kind", "said_by", "label")}
        for quote in inbound.quoted
    ]
    return json.dumps(stored)


def asker_to_json(inbound: Inbound) -> str:
    """Who said something, and where, without what was said: enough to ask again whether they may."""
    return inbound_to_json(replace(inbound, text="", attachments=(), quoted=()))


def inbound_from_json(text: str) -> Inbound:
    """The message of such a text; what an older program did not write is as if it had not been said.

    Raises:
        ValueError: it is no such text.
    """
    stored = json.loads(text)
    if not isinstance(stored, Mapping) or not isinstance(stored.get("text"), str):
        raise ValueError("this is no stored message")
    files = tuple(
        Attachment(
            name=file["name"],
            mime_type=file["mime_type"],
            data=base64.b64decode(file["data"]),
            problem=file.get("problem", ""),
            said_by=file.get("said_by", ""),
        )
        for file in stored.get("attachments", ())
    )
    quoted = tuple(Quoted(**quote) for quote in stored.get("quoted", ()))
    plain = {name: stored[name] for name in _PLAIN if name in stored}
    # Whatever is not known to be private is a group.
    return Inbound(**{"chat_kind": "group", **plain}, attachments=files, quoted=quoted)
