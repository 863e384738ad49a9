"""What a person sent as a message of the transcript: words, images, names of other files. Pure.

And what a transcript says of a message that comes a second time, because a program ended over it.
"""

from __future__ import annotations

import base64
from collections.abc import Collection, Sequence

from nacre.prompts import quoted as quoted_lines, render
from nacre.records.record import Record
from nacre.runtime.contracts.inbound import Attachment, Quoted, QuoteKind
from nacre.runtime.turn.inbound.image_size import image_size
from nacre.sessions.contracts.messages import (
    ATTACHMENT,
    AssistantMessage,
    Image,
    Text,
    UserMessage,
    message_text,
)
from nacre.sessions.entries.entries import Entry

IMAGE_TYPES = ("image/gif", "image/jpeg", "image/png", "image/webp")
"""The image types that the large providers have in common."""
MAX_IMAGE_BYTES = 3_750_000
"""5 MB as base64, the least that a large provider takes."""
MAX_IMAGE_PIXELS = 8_000
"""Of the longer side, the least that a large provider takes."""
MAX_FILE_CHARS = 50_000
"""So much of one file is read."""
SOMEBODY = "somebody"
"""`Text.said_by` of words whose author the message does not name."""
MOST_NAME_CHARS = 100
_KINDS: dict[QuoteKind, str] = {
    "forward": "a forwarded message",
    "quote": "quoted words",
    "attached message": "an attached message",
}


class FileText(Record):
    """What was read of a file: its text, or why there is none. `is_cut`: there is more than this.

    `is_transcript` says that a model wrote down what is said in it.
    """

    text: str = ""
    problem: str = ""
    is_cut: bool = False
    is_transcript: bool = False


class Heard(Record):
    """What a transcript says of a message that stands in it.

    `answer` is the one that it got, `None` while there is none; `said` are the texts on the way there.
    """

    answer: AssistantMessage | None
    said: tuple[str, ...]


def heard(branch: Sequence[Entry], inbound_id: str, joined_by: Collection[str] = ()) -> Heard | None:
    """Where a message stands that was handed in before; `None` when it is to be written down.

    That is so when it does not stand there, and when it has no answer and can get none in its place: its
    answer was broken off, or somebody else has spoken since. Messages of `joined_by` were said into its turn.
    """
    answer: AssistantMessage | None = None
    said: list[str] = []
    is_past = False
    for entry in reversed(branch):
        match entry.body:
            case UserMessage() as message if message.inbound_id == inbound_id:
                is_lost = answer is None and is_past
                return None if is_lost else Heard(answer=answer, said=tuple(reversed(said)))
            case UserMessage() as message if message.inbound_id in joined_by:
                pass
            case UserMessage():
                answer, is_past = None, True
                said.clear()
            case AssistantMessage() as message if message.stop_reason == "error" and not message.content:
                pass  # nothing was said: the model could not be asked
            case AssistantMessage() as message if message.stop_reason in ("error", "aborted"):
                is_past = True
            case AssistantMessage() as message if message.tool_calls:
                said.append(message_text(message))
            case AssistantMessage() as message:
                answer = message
                said.clear()
    return None


def joined(branch: Sequence[Entry], ids: Collection[str]) -> tuple[str, ...]:
    """Those of these messages that stand in a transcript."""
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
    """A person's message: images that models take as images, files with what was read of each, by name.

    Words that the sender did not write are blocks of their own, each with its author. An image that a
    provider refuses would be refused again on every later turn of the session.
    """
    pairs = list(zip(attachments, texts, strict=True))
    blocks = [Text(text=clean)] if (clean := _sendable(text)) else []
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
    """The same, of a message over whose files the turn was stopped."""
    stopped = "the turn was stopped before it was read"
    texts = [FileText(problem=file.problem or stopped) for file in attachments]
    return inbound_message(text, attachments, texts=texts, quoted=quoted, timestamp_ms=timestamp_ms)


def _quoted_text(quote: Quoted) -> Text:
    """Words of others, behind `> ` on each line, so that nothing in them looks like their end."""
    author = _author(quote.said_by)
    what = _KINDS[quote.kind]
    words = quoted_lines(_sendable(quote.text))
    where = f"{quote.label} " if quote.label else ""
    return Text(text=render("session/quoted", name=f"{where}{what} by {author}", text=words), said_by=author)


def _file_text(file: Attachment, read: FileText) -> Text | None:
    """What a model reads of a file besides its image; `None` for an image of the sender's own."""
    author = _author(file.said_by) if file.said_by else ""
    if _is_shown(file, read):
        shown = f"an image, {file.name[:MOST_NAME_CHARS]!r}, by {author}"
        return Text(text=render("session/quoted", name=shown, text=""), said_by=author) if author else None
    if author:
        words = quoted_lines(_named(file, read))
        return Text(text=render("session/quoted", name=f"a file by {author}", text=words), said_by=author)
    return Text(text=_named(file, read), said_by="" if read.is_transcript else ATTACHMENT)


def _author(name: str) -> str:
    """A name on one line; never that of a file's words."""
    found = " ".join(_sendable(name).split())[:MOST_NAME_CHARS]
    return found if found and found != ATTACHMENT else SOMEBODY


def _sendable(text: str) -> str:
    return text.encode("utf-8", "replace").decode("utf-8")


def _named(file: Attachment, read: FileText) -> str:
    """A file in words: its name, and its text or why there is none."""
    name = f"attachment {file.name!r}, {file.mime_type}"
    if not read.text:
        why = f": {read.problem}" if read.problem else ""
        return f"[{name}, {len(file.data)} bytes: not readable here{why}]"
    cut = "; the rest is left out" if read.is_cut else ""
    clean = read.text.encode("utf-8", "replace").decode("utf-8")
    what = "this is what a model heard in the recording" if read.is_transcript else "this is its text"
    head = f"[{name}, {len(file.data)} bytes; {what}{cut}:]"
    return f"{head}\n{clean}\n[end of {file.name!r}]"


def _is_shown(file: Attachment, read: FileText) -> bool:
    return is_image(file) and 0 < len(file.data) <= MAX_IMAGE_BYTES and not read.problem


def is_image(file: Attachment) -> bool:
    """Whether a file is called an image of a type that models take."""
    return file.mime_type.lower() in IMAGE_TYPES


def shown_image_problem(image: Image, *, takes_images: bool) -> str:
    """The same of an image that a tool gave."""
    try:
        data = base64.b64decode(image.data, validate=True)
    except ValueError:
        return "it is no image, although it is called so"
    file = Attachment(name="", mime_type=image.mime_type, data=data)
    if not is_image(file):
        return f"models take no {image.mime_type[:80]}"
    return image_problem(file, takes_images=takes_images)


def image_problem(file: Attachment, *, takes_images: bool) -> str:
    """Why an image is not shown to the model; empty where it is."""
    if not takes_images:
        return "the model that answers takes no images"
    if len(file.data) > MAX_IMAGE_BYTES:
        return f"an image of more than {MAX_IMAGE_BYTES} bytes is not shown to a model"
    size = image_size(file.data)
    if size is None:
        return "it is no image, although it is called so"
    if max(size) > MAX_IMAGE_PIXELS:
        return f"it has {size[0]} × {size[1]} pixels, and {MAX_IMAGE_PIXELS} a side are shown at most"
    return ""
