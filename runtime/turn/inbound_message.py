"""What a person sent as a message of the transcript: words, images, names of other files. Pure."""

from __future__ import annotations

import base64

from nacre.runtime.contracts.inbound import Attachment
from nacre.sessions.contracts.messages import Image, Text, UserMessage

IMAGE_TYPES = ("image/gif", "image/jpeg", "image/png", "image/webp")
"""The image types that the large providers have in common."""
MAX_IMAGE_BYTES = 3_750_000
"""5 MB as base64, the least that a large provider takes."""


def inbound_message(text: str, attachments: tuple[Attachment, ...], *, timestamp_ms: int) -> UserMessage:
    """A person's message: images that models take as images, other files by name.

    An image that a provider refuses would be refused again on every later turn of the session.
    """
    clean = text.encode("utf-8", "replace").decode("utf-8")
    named = [
        f"[attachment {file.name!r}, {file.mime_type}, {len(file.data)} bytes: not readable here]"
        for file in attachments
        if not _is_readable_image(file)
    ]
    images = [
        Image(data=base64.b64encode(file.data).decode("ascii"), mime_type=file.mime_type.lower())
        for file in attachments
        if _is_readable_image(file)
    ]
    words = "\n".join(part for part in (clean, *named) if part)
    return UserMessage(content=(*((Text(text=words),) if words else ()), *images), timestamp_ms=timestamp_ms)


def _is_readable_image(file: Attachment) -> bool:
    return file.mime_type.lower() in IMAGE_TYPES and 0 < len(file.data) <= MAX_IMAGE_BYTES
