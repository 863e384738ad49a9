"""What a model can read of the files that came with a message: text, PDFs and recordings as text, or why not.

Edge: a PDF is opened by a program of its own with a limit of memory and time, because a small file can ask
for any amount of both. Everything else is looked at and never unpacked.
"""

from __future__ import annotations

import asyncio
import codecs
import sys
from collections.abc import Sequence
from pathlib import PurePath

from nacre.runtime.contracts.inbound import Attachment, Quoted
from nacre.runtime.turn.inbound.inbound_message import (
    MAX_FILE_CHARS,
    FileText,
    image_problem,
    inbound_message,
    is_image,
)
from nacre.runtime.turn.inbound.voice_notes import VoiceNotes, is_audio
from nacre.sessions.contracts.messages import UserMessage

MAX_PDF_BYTES = 30_000_000
PDF_SECONDS = 30.0
_PDF_PROGRAM = "nacre.runtime.turn.inbound.pdf_text"
_NO_LIBRARY = 3
_WORST_CHAR_BYTES = 4
_TEXT_TYPES = ("json", "xml", "yaml", "toml", "javascript", "x-sh", "x-python", "sql", "csv")
_TEXT_NAMES = [
    ".txt",
    ".md",
    ".markdown",
    ".rst",
    ".csv",
    ".tsv",
    ".json",
    ".jsonl",
    ".json5",
    ".yaml",
    ".yml",
    ".toml",
    ".ini",
    ".cfg",
    ".conf",
    ".log",
    ".xml",
    ".html",
    ".css",
    ".js",
    ".ts",
    ".py",
    ".rs",
    ".go",
    ".c",
    ".h",
    ".cpp",
    ".java",
    ".kt",
    ".rb",
    ".php",
    ".sh",
    ".sql",
    ".tex",
    ".srt",
    ".vcf",
    ".ics",
    ".eml",
    ".diff",
    ".patch",
]


async def message_of(
    text: str,
    attachments: Sequence[Attachment],
    *,
    quoted: Sequence[Quoted] = (),
    takes_images: bool,
    voice_notes: VoiceNotes,
    timestamp_ms: int,
    inbound_id: str = "",
) -> UserMessage:
    """A person's message, with what can be read of its files; images where the model `takes_images`."""
    texts = [
        await file_text(file, takes_images=takes_images, voice_notes=voice_notes) for file in attachments
    ]
    return inbound_message(
        text,
        tuple(attachments),
        texts=texts,
        quoted=quoted,
        timestamp_ms=timestamp_ms,
        inbound_id=inbound_id,
    )


async def file_text(file: Attachment, *, takes_images: bool, voice_notes: VoiceNotes) -> FileText:
    """What can be read of one file; neither text nor a problem for what has no text to begin with."""
    if file.problem or not file.data:
        return FileText(problem=file.problem)
    if is_image(file):
        return FileText(problem=image_problem(file, takes_images=takes_images))
    if is_audio(file):
        return await voice_notes.text_of(file)
    if _is_pdf(file):
        return await _pdf_text(file.data)
    if not _is_text(file):
        return FileText()
    text = _decoded(file.data[: MAX_FILE_CHARS * _WORST_CHAR_BYTES])
    if text is None:
        return FileText(problem="it is not text, although it is called so")
    return FileText(text=text[:MAX_FILE_CHARS], is_cut=len(text) > MAX_FILE_CHARS)


def _is_pdf(file: Attachment) -> bool:
    return file.data.startswith(b"%PDF-") or file.mime_type.lower() == "application/pdf"


def _is_text(file: Attachment) -> bool:
    kind, _, rest = file.mime_type.lower().partition(";")[0].partition("/")
    is_named = PurePath(file.name).suffix.lower() in _TEXT_NAMES
    return kind == "text" or (kind == "application" and rest.rpartition("+")[2] in _TEXT_TYPES) or is_named


def _decoded(data: bytes) -> str | None:
    """The text of bytes, `None` when they are none. Of the last character the end may be missing."""
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return data.decode("utf-16", "ignore")
    if b"\0" in data:
        return None
    try:
        return codecs.getincrementaldecoder("utf-8-sig")().decode(data)
    except UnicodeDecodeError:
        return data.decode("cp1252", "replace")  # what is left are old files of western languages


async def _pdf_text(data: bytes) -> FileText:
    if len(data) > MAX_PDF_BYTES:
        return FileText(problem=f"a PDF of more than {MAX_PDF_BYTES} bytes is not opened")
    program = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        _PDF_PROGRAM,
        str(MAX_FILE_CHARS),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        async with asyncio.timeout(PDF_SECONDS):
            out, _ = await program.communicate(data)
    except TimeoutError:
        return FileText(problem=f"its text was not found within {PDF_SECONDS:.0f} s")
    finally:
        if program.returncode is None:
            program.kill()
            await program.wait()
    if program.returncode == _NO_LIBRARY:
        return FileText(problem="reading PDFs needs nacre[pdf], which is not installed")
    if program.returncode:
        return FileText(problem="it is no PDF that can be read, or a larger one than is read")
    text = out.decode("utf-8", "replace")
    if not text.strip():
        return FileText(problem="it has no text; perhaps its pages are pictures")
    return FileText(text=text[:MAX_FILE_CHARS], is_cut=len(text) > MAX_FILE_CHARS)
