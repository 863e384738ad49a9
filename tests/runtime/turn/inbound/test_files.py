"""Files that come with a message: what a model reads of them, and that a bomb costs little."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import pytest

from nacre.runtime.contracts.inbound import Attachment, Inbound
from nacre.runtime.models.scripted import ScriptedModel, says
from nacre.runtime.settings.sections.hooks import AudioSettings
from nacre.runtime.turn.inbound.inbound_message import (
    MAX_FILE_CHARS,
    FileText,
    VoiceNotes,
    file_text as read_file,
)
from nacre.sessions.contracts.messages import message_text
from tests.runtime.agents import opened

needs_pypdf = pytest.mark.skipif(find_spec("pypdf") is None, reason="the extra `pdf` is not installed")


def _file(name: str, data: bytes, mime_type: str = "application/octet-stream") -> Attachment:
    return Attachment(name=name, mime_type=mime_type, data=data)


async def _text_of(file: Attachment) -> FileText:
    """What is read of it where no model hears recordings."""
    return await read_file(file, takes_images=True, voice_notes=VoiceNotes(AudioSettings()))


def pdf(content: bytes, *, times: int = 1) -> bytes:
    """A PDF of one page, with what its page draws, so many times over."""
    packer = zlib.compressobj(9, wbits=-zlib.MAX_WBITS)
    block = packer.compress(content) + packer.flush(zlib.Z_FULL_FLUSH)  # knows nothing of what stands before
    checksum = zlib.adler32(b"")
    for _ in range(times):
        checksum = zlib.adler32(content, checksum)
    stream = b"\x78\xda" + block * times + packer.flush() + checksum.to_bytes(4, "big")
    how = b"/Filter /FlateDecode "
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 300 300] /Contents 4 0 R "
        b"/Resources << /Font << /F1 5 0 R >> >> >>",
        b"<< " + how + b"/Length %d >>\nstream\n" % len(stream) + stream + b"\nendstream",
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    out, places = b"%PDF-1.4\n", []
    for number, body in enumerate(objects, 1):
        places.append(len(out))
        out += b"%d 0 obj\n" % number + body + b"\nendobj\n"
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    head = b"xref\n0 6\n0000000000 65535 f \n" + table
    return out + head + b"trailer << /Size 6 /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF" % len(out)


@pytest.mark.parametrize(
    ("file", "text"),
    [
        (_file("a.txt", b"bees", "text/plain"), "bees"),
        (_file("a.csv", "\ufeffsüß;1".encode()), "süß;1"),
        (_file("a.md", "süß".encode("utf-16")), "süß"),
        (_file("a.ini", "süß".encode("cp1252")), "süß"),
        (_file("a", b"{}", "application/ld+json"), "{}"),
    ],
)
async def test_text_is_read(file: Attachment, text: str) -> None:
    """In the encodings that files have."""
    assert (await _text_of(file)).text == text


async def test_a_long_text_is_cut() -> None:
    """A file of any size costs a bounded part of a window, and says so."""
    read = await _text_of(_file("a.log", b"\xc3\xa4" * 5_000_000, "text/plain"))
    assert (len(read.text), read.is_cut, read.text[-1]) == (MAX_FILE_CHARS, True, "ä")


@pytest.mark.parametrize(
    ("file", "problem"),
    [
        (_file("a.zip", b"PK\x03\x04", "application/zip"), ""),
        (_file("a.txt", b"MZ\0\0", "text/plain"), "not text"),
        (Attachment(name="a", mime_type="text/plain", data=b"", problem="too large"), "too large"),
    ],
)
async def test_what_is_not_read(file: Attachment, problem: str) -> None:
    """An archive is never unpacked."""
    read = await _text_of(file)
    assert read.text == ""
    assert problem in read.problem


@needs_pypdf
async def test_a_pdf_is_read() -> None:
    """Its words, without its looks."""
    read = await _text_of(_file("hive.pdf", pdf(b"BT /F1 12 Tf 20 100 Td (Seven frames) Tj ET")))
    assert read.text.strip() == "Seven frames"


@needs_pypdf
@pytest.mark.parametrize(
    "made",
    [
        lambda: b"%PDF-1.4 and then nothing of the kind",
        lambda: pdf(b" " * 1_000_000, times=1_500),
        lambda: pdf(b""),
    ],
    ids=["broken", "1.5 GB in 1.5 MB", "no text"],
)
async def test_a_pdf_that_cannot_be_read_is_told(made: Callable[[], bytes]) -> None:
    """A bomb takes down only the program that opened it."""
    read = await _text_of(_file("hive.pdf", made()))
    assert read.text == ""
    assert read.problem


async def test_a_model_reads_the_file(tmp_path: Path) -> None:
    """Through the agent, with what could not be read beside it."""
    model = ScriptedModel(says("Seven."))
    files = (_file("hive.txt", b"Seven frames", "text/plain"), _file("x.zip", b"PK", "application/zip"))
    async with opened(tmp_path, model) as agent:
        await agent.respond(Inbound(text="How many?", chat_kind="direct", is_owner=True, attachments=files))
    assert message_text(model.requests[0].messages[-1]) == (
        "How many?\n"
        "[attachment 'hive.txt', text/plain, 12 bytes; this is its text:]\n"
        "Seven frames\n"
        "[end of 'hive.txt']\n"
        "[attachment 'x.zip', application/zip, 2 bytes: not readable here]"
    )
