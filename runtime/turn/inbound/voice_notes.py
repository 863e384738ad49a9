"""Voice notes: recordings that a model writes down, so that the model that answers can read them.

The models are asked in the order of the settings, within limits of size and time. Without one, or when none
of them can, the file stays unreadable and says why; what failed in full stands in the log.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from pathlib import PurePath
from typing import Protocol

from nacre.runtime.contracts.errors import ModelError, ModelTimedOut
from nacre.runtime.contracts.inbound import Attachment
from nacre.runtime.settings.sections.hooks import AudioSettings
from nacre.runtime.turn.inbound.inbound_message import MAX_FILE_CHARS, FileText

log = logging.getLogger(__name__)

_SUFFIXES = (".aac", ".flac", ".m4a", ".mp3", ".mpga", ".oga", ".ogg", ".opus", ".wav", ".weba")
_TYPE_SUFFIXES = {
    "aac": ".aac",
    "flac": ".flac",
    "x-flac": ".flac",
    "mp4": ".m4a",
    "m4a": ".m4a",
    "x-m4a": ".m4a",
    "mpeg": ".mp3",
    "mp3": ".mp3",
    "wav": ".wav",
    "wave": ".wav",
    "x-wav": ".wav",
    "webm": ".webm",
}
_SAME_FORMAT = {".oga": ".ogg", ".opus": ".ogg", ".weba": ".webm", ".mpga": ".mp3"}
"""Providers know a format by one ending."""


class Transcriber(Protocol):
    """A model that writes down what is said."""

    @property
    def name(self) -> str:
        """`provider/model`, for the log."""

    async def transcribe(self, file_name: str, data: bytes, *, timeout_seconds: float) -> str:
        """The words of a recording; raises `ModelError` where there are none."""


class VoiceNotes:
    """What writes down the recordings of an agent's messages, within the limits of `settings`."""

    def __init__(self, settings: AudioSettings, transcribers: Sequence[Transcriber] = ()) -> None:
        self._settings = settings
        self._transcribers = tuple(transcribers)

    async def text_of(self, file: Attachment) -> FileText:
        """The words of a recording that has bytes, or why there are none."""
        settings = self._settings
        if not self._transcribers:
            return FileText(problem="no model that writes recordings down is set in tools.media.audio.models")
        if len(file.data) > settings.max_bytes:
            return FileText(
                problem=f"recordings of more than {settings.max_bytes} bytes are not written down"
            )
        problem = ""
        for transcriber in self._transcribers:
            try:
                async with asyncio.timeout(settings.timeout_seconds):
                    text = await transcriber.transcribe(
                        sent_name(file), file.data, timeout_seconds=settings.timeout_seconds
                    )
            except (ModelTimedOut, TimeoutError):
                problem = f"it was not written down within {settings.timeout_seconds:.15g} s"
                log.warning("a recording: %s has not answered within its time", transcriber.name)
            except ModelError as error:
                problem = "the model that writes recordings down could not be had"
                log.warning("a recording: %s", error)
            else:
                return _read(text)
        return FileText(problem=problem)


def _read(text: str) -> FileText:
    if not text.strip():
        return FileText(problem="no words were heard in it")
    is_cut = len(text) > MAX_FILE_CHARS
    return FileText(text=text.strip()[:MAX_FILE_CHARS], is_cut=is_cut, is_transcript=True)


def is_audio(file: Attachment) -> bool:
    """Whether a file is called a recording, by its type, or by its name where the type says nothing."""
    mime_type = _plain_type(file)
    is_vague = mime_type in ("", "application/octet-stream", "application/ogg")
    return mime_type.startswith("audio/") or (is_vague and _suffix(file) in _SUFFIXES)


def sent_name(file: Attachment) -> str:
    """The name under which a recording is sent: ours, with the ending of its format.

    >>> sent_name(Attachment(name="Ann and I.opus", mime_type="audio/*", data=b""))
    'recording.ogg'
    """
    of_type = _TYPE_SUFFIXES.get(_plain_type(file).removeprefix("audio/"), ".ogg")
    suffix = _suffix(file) if _suffix(file) in _SUFFIXES else of_type
    return f"recording{_SAME_FORMAT.get(suffix, suffix)}"


def _plain_type(file: Attachment) -> str:
    return file.mime_type.lower().partition(";")[0].strip()


def _suffix(file: Attachment) -> str:
    return PurePath(file.name).suffix.lower()
