"""Shared by channels that read messages: untrusted JSON, files, mentions, and events to ignore."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

from nacre.bridges.contracts.errors import BridgeError
from nacre.record import Record
from nacre.runtime.contracts.inbound import Attachment, Inbound

log = logging.getLogger(__name__)

FILE_SECONDS = 60.0
"""The time limit for fetching one file."""
FIRST_LOOK_BACK = timedelta(minutes=10)
"""How far back a channel's history is read at the first start, when there is no cursor."""


class Ignored(Exception):
    """An event is not a message to answer. The text says why and contains none of its words."""


class FileTooLarge(Exception):
    """A file is over the limit, which became known while it was fetched."""

    def __init__(self, size_bytes: int) -> None:
        super().__init__(f"it has {size_bytes} bytes")


class RemoteFile(Record):
    """A file on the channel's server.

    `address` is the URL or id by which the channel's client fetches it. `size_bytes` is 0 if unknown.
    `problem` says why the file cannot be fetched. `said_by` is as in `Attachment`.
    """

    address: str
    name: str
    mime_type: str
    size_bytes: int = 0
    said_by: str = ""
    problem: str = ""

    @classmethod
    def read(
        cls,
        address: str,
        *,
        name: object,
        mime_type: object,
        size_bytes: object,
        default_type: str = "application/octet-stream",
        problem: str = "",
    ) -> RemoteFile:
        """A file as a server describes it. Values of the wrong type are replaced by defaults."""
        return cls(
            address=address,
            name=name if isinstance(name, str) and name else "file",
            mime_type=mime_type if isinstance(mime_type, str) and mime_type else default_type,
            size_bytes=size_bytes if type(size_bytes) is int and size_bytes > 0 else 0,
            problem=problem,
        )


class IncomingMessage(Record):
    """A message whose files have not been fetched yet."""

    inbound: Inbound
    files: tuple[RemoteFile, ...] = ()


async def with_files(
    message: IncomingMessage,
    fetch: Callable[[str, int], Awaitable[bytes]],
    *,
    service: str,
    limit_bytes: int,
) -> Inbound:
    """Fetches the files of a message and returns the message with them as attachments.

    `fetch` takes a file's address and the limit. It may stop reading as soon as it has more than that. A file
    that is too large or cannot be fetched becomes an attachment with a `problem`, which names the `service`.
    """
    files = [await _attachment(file, fetch, service, limit_bytes) for file in message.files]
    return replace(message.inbound, attachments=tuple(files))


def mapping(value: object) -> Mapping[str, Any]:
    """The value if it is a JSON object, else an empty one."""
    return value if isinstance(value, Mapping) else {}


def mappings(value: object) -> Iterator[Mapping[str, Any]]:
    """The JSON objects in a value that should be a list of them."""
    return (item for item in value if isinstance(item, Mapping)) if isinstance(value, list) else iter(())


def strip_mention(text: str, name: str) -> tuple[str, bool]:
    """The text without a leading mention of `name`, and whether the text contains `name` as a word.

    For channels that have no mark for mentions. Case is ignored.
    """
    if not name:
        return text, False
    word = re.escape(name)
    if found := re.match(rf"@?{word}\s*[:,]\s*", text, re.IGNORECASE):
        return text[found.end() :] or text, True
    return text, re.search(rf"(?<![\w-]){word}(?![\w-])", text, re.IGNORECASE) is not None


async def _attachment(
    file: RemoteFile, fetch: Callable[[str, int], Awaitable[bytes]], service: str, limit_bytes: int
) -> Attachment:
    data, problem = b"", file.problem
    try:
        if not problem:
            if file.size_bytes > limit_bytes:
                raise FileTooLarge(file.size_bytes)
            async with asyncio.timeout(FILE_SECONDS):
                data = await fetch(file.address, limit_bytes)
            if len(data) > limit_bytes:
                data, problem = b"", f"it has more than {limit_bytes} bytes"
    except FileTooLarge as error:
        problem = f"{error}, and the limit is {limit_bytes}"
    except TimeoutError:
        problem = f"{service} took too long to send it"
    except (BridgeError, OSError, ValueError) as error:
        log.warning("a file could not be fetched from %s: %s", service, error)
        problem = f"{service} did not send it"
    return Attachment(
        name=file.name, mime_type=file.mime_type, data=data, problem=problem, said_by=file.said_by
    )
