"""A person's message as a transcript entry: words, quotes, images, and the text of files and voice notes.

Also finds the earlier answer to a message that arrives again because a program ended while answering it.
"""

from __future__ import annotations

import asyncio
import base64
import logging
import struct
import sys
from collections.abc import Collection, Sequence
from importlib.util import find_spec
from pathlib import PurePath

from nacre.memory.contracts.notes import encoding_of_note, text_of_note
from nacre.prompts import quoted as quoted_lines, render
from nacre.record import Record
from nacre.runtime.contracts.errors import ModelError, ModelTimedOut
from nacre.runtime.contracts.inbound import Attachment, Quoted, QuoteKind
from nacre.runtime.providers.provider import Transcriber
from nacre.runtime.settings.sections.hooks import AudioSettings
from nacre.sessions.contracts.messages import (
    ATTACHMENT,
    AssistantMessage,
    Image,
    Text,
    UserMessage,
    message_text,
    sendable,
)
from nacre.sessions.entries.entries import Entry

log = logging.getLogger(__name__)

IMAGE_TYPES = ("image/gif", "image/jpeg", "image/png", "image/webp")
"""The image types that the large providers share."""
MAX_IMAGE_BYTES = 3_750_000
"""5 MB as base64, the lowest limit of a large provider."""
MAX_IMAGE_PIXELS = 8_000
"""The most pixels of the longer side, the lowest limit of a large provider."""
MAX_FILE_CHARS = 50_000
"""How much of one file is read."""
SOMEBODY = "somebody"
"""`Text.said_by` of words without a named author."""
MOST_NAME_CHARS = 100
_KINDS: dict[QuoteKind, str] = {
    "forward": "a forwarded message",
    "quote": "quoted words",
    "attached message": "an attached message",
}

_FRAMES = frozenset({*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC})
"""JPEG's frame markers, which contain the size."""
_ALONE = frozenset({0x01, *range(0xD0, 0xD9)})
MAX_PDF_BYTES = 30_000_000
PDF_SECONDS = 30.0
_WORST_CHAR_BYTES = 4
_TEXT_TYPES = ("json", "xml", "yaml", "toml", "javascript", "x-sh", "x-python", "sql", "csv")
_TEXT_NAMES = frozenset(
    """
    .txt .md .markdown .rst .csv .tsv .json .jsonl .json5 .yaml .yml .toml .ini .cfg .conf .log .xml .html
    .css .js .ts .py .rs .go .c .h .cpp .java .kt .rb .php .sh .sql .tex .srt .vcf .ics .eml .diff .patch
    """.split()
)
_SUFFIXES = (".aac", ".flac", ".m4a", ".mp3", ".mpga", ".oga", ".ogg", ".opus", ".wav", ".weba")
_TYPE_SUFFIXES = {"mp4": ".m4a", "mpeg": ".mp3", "wave": ".wav", "webm": ".webm"}
"""Of audio types whose suffix is not their name."""
_SAME_FORMAT = {".oga": ".ogg", ".opus": ".ogg", ".weba": ".webm", ".mpga": ".mp3"}
"""Providers know each format by one suffix."""


class FileText(Record):
    """What was read from a file: its text, or why there is none. `is_cut`: the file has more text.

    `is_transcript` means that a model transcribed a recording.
    """

    text: str = ""
    problem: str = ""
    is_cut: bool = False
    is_transcript: bool = False


class EarlierAttempt(Record):
    """How far an earlier program got with a message.

    `answer` is its answer, or `None`; `texts` are those of the model before tool calls.
    """

    answer: AssistantMessage | None
    texts: tuple[str, ...]


def earlier_attempt(
    branch: Sequence[Entry], inbound_id: str, joined_by: Collection[str] = ()
) -> EarlierAttempt | None:
    """The earlier attempt at answering a message; `None` if the message must be written again.

    It must be if the transcript lacks it, or if its answer broke off and was followed by another message.
    Messages in `joined_by` joined its turn.
    """
    answer: AssistantMessage | None = None
    texts: list[str] = []
    is_past = False
    for entry in reversed(branch):
        match entry.body:
            case UserMessage() as message if message.inbound_id == inbound_id:
                is_lost = answer is None and is_past
                return None if is_lost else EarlierAttempt(answer=answer, texts=tuple(reversed(texts)))
            case UserMessage() as message if message.inbound_id in joined_by:
                pass
            case UserMessage():
                answer, is_past = None, True
                texts.clear()
            case AssistantMessage() as message if message.stop_reason == "error" and not message.content:
                pass  # nothing was said: the model could not be asked
            case AssistantMessage() as message if message.is_broken_off:
                is_past = True
            case AssistantMessage() as message if message.tool_calls:
                texts.append(message_text(message))
            case AssistantMessage() as message:
                answer = message
                texts.clear()
    return None


def joined(branch: Sequence[Entry], ids: Collection[str]) -> tuple[str, ...]:
    """The messages among `ids` that a transcript contains."""
    there = (entry.body.inbound_id for entry in branch if isinstance(entry.body, UserMessage))
    return tuple(found for found in there if found and found in ids)


def inbound_message(
    text: str,
    attachments: tuple[Attachment, ...],
    *,
    texts: Sequence[FileText],
    quoted: Sequence[Quoted] = (),
    timestamp_ms: int,
    inbound_id: str = "",
) -> UserMessage:
    """A person's message: images that models accept as images, other files as text with their name.

    Words that the sender did not write are blocks of their own with their author. An image that a provider
    would refuse is left out, because it would be refused in every later turn.
    """
    pairs = list(zip(attachments, texts, strict=True))
    blocks = [Text(text=clean)] if (clean := sendable(text)) else []
    blocks += [_quoted_text(each) for each in quoted]
    blocks += [each for file, read in pairs if (each := _file_text(file, read)) is not None]
    images = [
        Image(data=base64.b64encode(file.data).decode("ascii"), mime_type=file.mime_type.lower())
        for file, read in pairs
        if _is_shown(file, read)
    ]
    return UserMessage(content=(*blocks, *images), timestamp_ms=timestamp_ms, inbound_id=inbound_id)


def unread_message(
    text: str, attachments: tuple[Attachment, ...], *, quoted: Sequence[Quoted] = (), timestamp_ms: int
) -> UserMessage:
    """The message of a turn that was stopped before its files were read."""
    stopped = "the turn was stopped before it was read"
    texts = [FileText(problem=file.problem or stopped) for file in attachments]
    return inbound_message(text, attachments, texts=texts, quoted=quoted, timestamp_ms=timestamp_ms)


def _quoted_text(quote: Quoted) -> Text:
    """Words of others with `> ` before each line, so that no line of them looks like their end."""
    author = _author(quote.said_by)
    what = _KINDS[quote.kind]
    words = quoted_lines(sendable(quote.text))
    where = f"{quote.label} " if quote.label else ""
    return Text(text=render("session/quoted", name=f"{where}{what} by {author}", text=words), said_by=author)


def _file_text(file: Attachment, read: FileText) -> Text | None:
    """The text that a model reads for a file; `None` for an image of the sender."""
    author = _author(file.said_by) if file.said_by else ""
    if _is_shown(file, read):
        shown = f"an image, {file.name[:MOST_NAME_CHARS]!r}, by {author}"
        return Text(text=render("session/quoted", name=shown, text=""), said_by=author) if author else None
    if author:
        words = quoted_lines(_named(file, read))
        return Text(text=render("session/quoted", name=f"a file by {author}", text=words), said_by=author)
    return Text(text=_named(file, read), said_by="" if read.is_transcript else ATTACHMENT)


def _author(name: str) -> str:
    """A name on one line; never the name that marks a file's words."""
    found = " ".join(sendable(name).split())[:MOST_NAME_CHARS]
    return found if found and found != ATTACHMENT else SOMEBODY


def _named(file: Attachment, read: FileText) -> str:
    """A file in words: its name, and its text or why there is none."""
    name = f"attachment {file.name!r}, {file.mime_type}"
    if not read.text:
        why = f": {read.problem}" if read.problem else ""
        size = f", {len(file.data)} bytes" if file.data or not read.problem else ""
        return f"[{name}{size}: not readable here{why}]"
    cut = "; the rest is left out" if read.is_cut else ""
    what = "this is what a model heard in the recording" if read.is_transcript else "this is its text"
    head = f"[{name}, {len(file.data)} bytes; {what}{cut}:]"
    return f"{head}\n{sendable(read.text)}\n[end of {file.name!r}]"


def _is_shown(file: Attachment, read: FileText) -> bool:
    return is_image(file) and 0 < len(file.data) <= MAX_IMAGE_BYTES and not read.problem


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
    """A person's message with the text of its files; images only if the model `takes_images`."""
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
    """The text of one file, or the problem; neither for an image and for a file without text."""
    if file.problem or not file.data:
        return FileText(problem=file.problem)
    if is_image(file):
        return FileText(problem=image_problem(file, takes_images=takes_images))
    if is_audio(file):
        return await voice_notes.text_of(file)
    if file.data.startswith(b"%PDF-") or file.mime_type.lower() == "application/pdf":
        return await _pdf_text(file.data)
    kind, _, rest = file.mime_type.lower().partition(";")[0].partition("/")
    is_text = kind == "text" or (kind == "application" and rest.rpartition("+")[2] in _TEXT_TYPES)
    if not is_text and PurePath(file.name).suffix.lower() not in _TEXT_NAMES:
        return FileText()
    data = file.data[: MAX_FILE_CHARS * _WORST_CHAR_BYTES]
    if b"\0" in data and encoding_of_note(data) == "utf-8":
        return FileText(problem="its type is text, but its content is not")
    text = text_of_note(data)
    return FileText(text=text[:MAX_FILE_CHARS], is_cut=len(text) > MAX_FILE_CHARS)


async def _pdf_text(data: bytes) -> FileText:
    if len(data) > MAX_PDF_BYTES:
        return FileText(problem=f"a PDF of more than {MAX_PDF_BYTES} bytes is not opened")
    if find_spec("pypdf") is None:
        return FileText(problem="reading PDFs needs nacre[pdf], which is not installed")
    program = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-P", "-m"),  # a pypdf.py in the working folder is not run
        "nacre.runtime.turn.pdf_text",
        str(MAX_FILE_CHARS),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        async with asyncio.timeout(PDF_SECONDS):
            out, _ = await program.communicate(data)
    except TimeoutError:
        return FileText(problem=f"its text could not be extracted within {PDF_SECONDS:.0f} s")
    finally:
        if program.returncode is None:
            program.kill()
            await program.wait()
    if program.returncode:
        return FileText(problem="it is damaged, encrypted or too large to be read")
    text = out.decode("utf-8", "replace")
    if not text.strip():
        return FileText(problem="it has no text; its pages may be images")
    return FileText(text=text[:MAX_FILE_CHARS], is_cut=len(text) > MAX_FILE_CHARS)


def is_image(file: Attachment) -> bool:
    """Whether a file's type is an image type that models accept."""
    return file.mime_type.lower() in IMAGE_TYPES


def shown_image_problem(image: Image, *, takes_images: bool) -> str:
    """Why an image from a tool is not shown to the model, or an empty string."""
    try:
        data = base64.b64decode(image.data, validate=True)
    except ValueError:
        return "its type is an image type, but its content is not an image"
    file = Attachment(name="", mime_type=image.mime_type, data=data)
    if not is_image(file):
        return f"models do not accept {image.mime_type[:80]}"
    return image_problem(file, takes_images=takes_images)


def image_problem(file: Attachment, *, takes_images: bool) -> str:
    """Why an image is not shown to the model, or an empty string."""
    if not takes_images:
        return "the model does not accept images"
    if len(file.data) > MAX_IMAGE_BYTES:
        return f"it is larger than {MAX_IMAGE_BYTES} bytes"
    size = image_size(file.data)
    if size is None:
        return "its type is an image type, but its content is not an image"
    if max(size) > MAX_IMAGE_PIXELS:
        return f"it has {size[0]} × {size[1]} pixels; the most is {MAX_IMAGE_PIXELS} a side"
    return ""


def image_size(data: bytes) -> tuple[int, int] | None:
    """Width and height; `None` if the bytes are not a known image format or lack a complete header."""
    try:
        if data.startswith(b"\x89PNG\r\n\x1a\n") and data[12:16] == b"IHDR":
            return _sound(*struct.unpack_from(">II", data, 16))
        if data.startswith((b"GIF87a", b"GIF89a")):
            return _sound(*struct.unpack_from("<HH", data, 6))
        if data.startswith(b"\xff\xd8"):
            return _of_jpeg(data)
        if data.startswith(b"RIFF") and data[8:12] == b"WEBP":
            return _of_webp(data)
    except struct.error:
        return None
    return None


def _of_jpeg(data: bytes) -> tuple[int, int] | None:
    at = 2
    while True:
        mark, kind = struct.unpack_from(">BB", data, at)
        if mark != 0xFF:
            return None
        if kind == 0xFF:
            at += 1
        elif kind in _ALONE:
            at += 2
        elif kind in _FRAMES:
            height, width = struct.unpack_from(">HH", data, at + 5)
            return _sound(width, height)
        else:
            at += 2 + struct.unpack_from(">H", data, at + 2)[0]


def _of_webp(data: bytes) -> tuple[int, int] | None:
    kind = data[12:16]
    if kind == b"VP8 " and data[23:26] == b"\x9d\x01\x2a":
        width, height = struct.unpack_from("<HH", data, 26)
        return _sound(width & 0x3FFF, height & 0x3FFF)
    if kind == b"VP8L" and data[20:21] == b"\x2f":
        bits = struct.unpack_from("<I", data, 21)[0]
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    if kind == b"VP8X":
        low = struct.unpack_from("<HBHB", data, 24)
        return (low[0] | low[1] << 16) + 1, (low[2] | low[3] << 16) + 1
    return None


def _sound(width: int, height: int) -> tuple[int, int] | None:
    return (width, height) if width and height else None


class VoiceNotes:
    """Transcribes the recordings in an agent's messages, within the limits of `settings`."""

    def __init__(self, settings: AudioSettings, transcribers: Sequence[Transcriber] = ()) -> None:
        self._settings = settings
        self._transcribers = tuple(transcribers)

    async def text_of(self, file: Attachment) -> FileText:
        """The words of a recording, or the problem."""
        settings = self._settings
        if not self._transcribers:
            return FileText(problem="no model for transcription is set in tools.media.audio.models")
        if len(file.data) > settings.max_bytes:
            return FileText(problem=f"recordings of more than {settings.max_bytes} bytes are not transcribed")
        problem = ""
        for transcriber in self._transcribers:
            try:
                async with asyncio.timeout(settings.timeout_seconds):
                    text = await transcriber.transcribe(
                        sent_name(file), file.data, timeout_seconds=settings.timeout_seconds
                    )
            except (ModelTimedOut, TimeoutError):
                problem = f"it was not transcribed within {settings.timeout_seconds:.15g} s"
                log.warning("a recording: %s did not answer in time", transcriber.name)
            except ModelError as error:
                problem = "the model for transcription did not answer"
                log.warning("a recording: %s", error)
            else:
                if not text.strip():
                    return FileText(problem="no words were heard in it")
                is_cut = len(text) > MAX_FILE_CHARS
                return FileText(text=text.strip()[:MAX_FILE_CHARS], is_cut=is_cut, is_transcript=True)
        return FileText(problem=problem)


def is_audio(file: Attachment) -> bool:
    """Whether a file is a recording by its type, or by its name if its type is generic."""
    mime_type = _plain_type(file)
    is_generic = mime_type in ("", "application/octet-stream", "application/ogg")
    return mime_type.startswith("audio/") or (is_generic and _suffix(file) in _SUFFIXES)


def sent_name(file: Attachment) -> str:
    """The file name under which a recording is sent, with the suffix of its format.

    >>> sent_name(Attachment(name="Ann and I.opus", mime_type="audio/*", data=b""))
    'recording.ogg'
    """
    kind = _plain_type(file).removeprefix("audio/").removeprefix("x-")
    known = (_suffix(file), f".{kind}")
    suffix = next((each for each in known if each in _SUFFIXES), _TYPE_SUFFIXES.get(kind, ".ogg"))
    return f"recording{_SAME_FORMAT.get(suffix, suffix)}"


def _plain_type(file: Attachment) -> str:
    return file.mime_type.lower().partition(";")[0].strip()


def _suffix(file: Attachment) -> str:
    return PurePath(file.name).suffix.lower()
