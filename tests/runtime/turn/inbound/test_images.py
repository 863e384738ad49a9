"""Images: shown to a model that takes them, within what providers take; else the model reads why not."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

import pytest

from nacre.extensions.providers.completions.provider_model import KnownModel
from nacre.runtime.contracts.inbound import Attachment, Inbound
from nacre.runtime.contracts.model import takes_images
from nacre.runtime.models.scripted import ScriptedModel, says
from nacre.runtime.turn.inbound.inbound_message import image_size
from nacre.sessions.contracts.messages import Image, message_text
from tests.runtime.agents import opened


def png(width: int, height: int) -> bytes:
    """A black PNG, whole."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 1, 0, 0, 0, 0)
    rows = zlib.compress((b"\0" + bytes((width + 7) // 8)) * height)
    body = chunk(b"IHDR", header) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + body


JPEG = b"\xff\xd8\xff\xe0\x00\x04ab\xff\xff\xc2\x00\x11\x08\x00\x3c\x00\x5a\x03"
WEBP = b"RIFF\0\0\0\0WEBP"


@pytest.mark.parametrize(
    ("data", "size"),
    [
        (png(90, 60), (90, 60)),
        (b"GIF89a" + struct.pack("<HH", 90, 60), (90, 60)),
        (JPEG, (90, 60)),
        (WEBP + b"VP8 \0\0\0\0\0\0\0\x9d\x01\x2a" + struct.pack("<HH", 90, 60), (90, 60)),
        (WEBP + b"VP8L\0\0\0\0\x2f" + struct.pack("<I", 89 | 59 << 14), (90, 60)),
        (WEBP + b"VP8X\0\0\0\0\0\0\0\0\x59\0\0\x3b\0\0", (90, 60)),
        (JPEG[:12], None),
        (png(0, 60), None),
        (b"\xff\xd8\xff\xd8\xff\xd8", None),
        (b"GIF89a", None),
        (b"", None),
        (b"<svg/>", None),
    ],
)
def test_the_size_stands_in_the_header(data: bytes, size: tuple[int, int] | None) -> None:
    """Of the four kinds that models take; half a header is none."""
    assert image_size(data) == size


def test_a_header_that_lies_ends() -> None:
    """Whatever bytes: an answer, and no endless walk from mark to mark."""
    for at in range(len(JPEG)):
        for value in (0, 1, 0xFF):
            image_size(JPEG[:at] + bytes([value]) + JPEG[at + 1 :])


class _Sightless(ScriptedModel):
    """A model that is known to take no images."""

    takes_images = False


@pytest.mark.parametrize(
    ("model", "data", "why"),
    [
        (ScriptedModel(says("I see.")), png(90, 60), ""),
        (ScriptedModel(says("Too wide.")), png(8_001, 1), "it has 8001 × 1 pixels, and 8000 a side"),
        (ScriptedModel(says("None.")), b"not at all", "it is no image, although it is called so"),
        (_Sightless(says("I cannot see.")), png(90, 60), "the model that answers takes no images"),
    ],
)
async def test_what_a_model_is_shown(tmp_path: Path, model: ScriptedModel, data: bytes, why: str) -> None:
    """The image, or a sentence with the reason, which it can tell on."""
    photo = Attachment(name="hive.png", mime_type="image/png", data=data)
    async with opened(tmp_path, model) as agent:
        said = Inbound(text="What is this?", chat_kind="direct", is_owner=True, attachments=(photo,))
        assert [event async for event in agent.stream(said)]
    message = model.requests[0].messages[-1]
    assert any(isinstance(block, Image) for block in message.content) is not bool(why)
    assert why in message_text(message)
    assert ("hive.png" in message_text(message)) is bool(why)


def test_what_is_known_of_models() -> None:
    """By litellm's price map; of models that it does not know, and at own servers, nobody knows."""
    known = [
        KnownModel(name, configured_window_tokens=None) for name in ("openai/gpt-4o", "openai/gpt-3.5-turbo")
    ]
    assert [model.takes_images for model in known] == [True, False]
    assert KnownModel("openai/nobody-knows", configured_window_tokens=None).takes_images is None
    assert takes_images(ScriptedModel())
