"""A person's message as it goes into the transcript: words, images, other files."""

from __future__ import annotations

import pytest

from nacre.runtime.contracts.inbound import Attachment
from nacre.runtime.turn.inbound.inbound_message import MAX_IMAGE_BYTES, FileText, inbound_message
from nacre.sessions.contracts.messages import Image, Text, message_text


def test_an_image_is_an_image() -> None:
    """The model gets the bytes, under the type's usual spelling."""
    photo = Attachment(name="hive.PNG", mime_type="image/PNG", data=b"\x89PNG")
    message = inbound_message("look", (photo,), texts=[FileText()], timestamp_ms=1)
    assert message.content == (Text(text="look"), Image(data="iVBORw==", mime_type="image/png"))


@pytest.mark.parametrize(
    "file",
    [
        Attachment(name="a.svg", mime_type="image/svg+xml", data=b"<svg/>"),
        Attachment(name="a.heic", mime_type="image/heic", data=b"x"),
        Attachment(name="a.png", mime_type="image/png", data=b""),
        Attachment(name="a.png", mime_type="image/png", data=bytes(MAX_IMAGE_BYTES + 1)),
        Attachment(name="a.pdf", mime_type="application/pdf", data=b"%PDF"),
    ],
)
def test_a_file_that_providers_refuse_is_named(file: Attachment) -> None:
    """Sent as an image it would break this turn and, from the transcript, every later one."""
    message = inbound_message("", (file,), texts=[FileText()], timestamp_ms=1)
    assert not any(isinstance(block, Image) for block in message.content)
    assert f"[attachment {file.name!r}, {file.mime_type}, {len(file.data)} bytes" in message_text(message)


def test_half_a_character_is_replaced() -> None:
    """A lone surrogate has no UTF-8, so no provider could be sent it."""
    assert message_text(inbound_message("a\ud800b", (), texts=[], timestamp_ms=1)) == "a?b"
