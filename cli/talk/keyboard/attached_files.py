"""Files that are attached to a message: named by `@path` in it, or dropped on the terminal."""

from __future__ import annotations

import re
import shlex
from mimetypes import guess_type
from pathlib import Path, PurePath
from typing import BinaryIO

from nacre.runtime.contracts.inbound import Attachment

MAX_FILE_BYTES = 30_000_000

_MENTION = re.compile(r'(?:^|(?<=\s))@(?:"([^"\n]+)"|([^\s"]+))')
_SENTENCE_ENDS = ".,;:!?)"


class FileNotSent(Exception):
    """A file cannot be attached; the text is a sentence for the owner."""


def mentioned_files(text: str) -> tuple[Attachment, ...]:
    """The files that a message names by `@path` or `@"path"`, each once.

    Raises:
        FileNotSent: one of them cannot be read, or is too large.
    """
    paths = dict.fromkeys(path for quoted, word in _MENTION.findall(text) if (path := _file(quoted or word)))
    found: list[Attachment] = []
    for path in paths:
        try:
            with path.open("rb") as file:
                found.append(attachment(file))
        except OSError as error:
            raise FileNotSent(f"{path} cannot be read: {error.strerror}.") from error
    return tuple(found)


def attachment(file: BinaryIO) -> Attachment:
    """An open file as an attachment.

    Raises:
        FileNotSent: it is too large.
    """
    path, data = PurePath(file.name), file.read(MAX_FILE_BYTES + 1)
    if len(data) > MAX_FILE_BYTES:
        raise FileNotSent(f"{path} has more than {MAX_FILE_BYTES} bytes, the maximum.")
    kind = guess_type(path.name)[0] or "application/octet-stream"
    return Attachment(name=path.name, mime_type=kind, data=data)


def dropped_files(pasted: str) -> str:
    """Mentions of files whose paths a terminal pasted because they were dropped on it; empty for other text.

    Terminals paste absolute paths, quoted or escaped as for a shell.
    """
    try:
        words = shlex.split(pasted) if pasted.lstrip()[:1] in ("/", "'", '"') else []
    except ValueError:
        return ""
    paths = [Path(word) for word in words]
    if not paths or not all(path.is_absolute() and '"' not in str(path) and _is_file(path) for path in paths):
        return ""
    return "".join(f'@"{path}" ' if any(map(str.isspace, str(path))) else f"@{path} " for path in paths)


def _file(named: str) -> Path | None:
    """The file of a mention, which may end with punctuation."""
    for name in dict.fromkeys((named, named.rstrip(_SENTENCE_ENDS))):
        try:
            path = Path(name).expanduser()
        except RuntimeError:
            return None
        if _is_file(path):
            return path
    return None


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False
