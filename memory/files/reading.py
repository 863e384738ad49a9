"""`memory_get`: lines of a memory file, and the rule which files that may be. Reads, never writes.

Allowed are MEMORY.md, memory.md, `memory/**/*.md`, `chats/**/*.md` and Markdown files in the extra paths; no
path with a symbolic link in it, wherever that leads. Transcripts are never read here.
"""

from __future__ import annotations

from collections.abc import Sequence

from nacre.memory.contracts.errors import ReadRefused
from nacre.memory.contracts.notes import NoteBytes
from nacre.memory.contracts.records import Excerpt
from nacre.memory.files.note_files import NoteFiles
from nacre.memory.text.chunker import decode_markdown

MAX_EXCERPT_CHARS = 12_000
"""More than this is cut at a line end when the caller did not say how many lines; `truncated` tells."""


async def read_excerpt(
    notes: NoteFiles,
    path: str,
    *,
    from_line: int | None = None,
    lines: int | None = None,
    below: str = "",
) -> Excerpt:
    """Lines of one memory file, from `from_line` (from 1), `lines` of them; all of it without both.

    With `below`, a folder of the workspace such as `chats/telegram-group-7`, only files in there may be read.

    Raises:
        ReadRefused: the path is not one of memory's, or cannot be read.
    """
    text = path.strip()
    if not text:
        raise ReadRefused(
            "path required: name a memory file, for example 'MEMORY.md' or 'memory/2026-02-10.md'."
        )
    if text.startswith("sessions/"):
        raise ReadRefused(f"{text!r} is a transcript. Transcripts can be searched, not read.")
    shown = await notes.name_of(text)
    if below and not shown.startswith(f"{below}/"):
        raise ReadRefused(f"path required: {text!r} is not a note of this chat. They are in {below}/.")
    found = (await notes.read([shown]))[shown]
    if isinstance(found, NoteBytes):
        return excerpt_of(shown, content_lines(found.data), from_line or 1, lines or None)
    if isinstance(found, FileNotFoundError | NotADirectoryError):
        return Excerpt(path=shown, text="", start_line=0, end_line=0, total_lines=0, missing=True)
    raise ReadRefused(f"{shown} cannot be read: {str(found).removesuffix('.')}.") from found


def content_lines(raw: bytes) -> list[str]:
    """The lines of a note, as they are counted everywhere."""
    lines = decode_markdown(raw)
    # The end of the last line is not a line of its own.
    return lines[:-1] if lines and not lines[-1] else lines


def excerpt_of(path: str, lines: Sequence[str], from_line: int, count: int | None) -> Excerpt:
    """`count` of the lines of a file, from `from_line`; without a count, as many as an excerpt may have."""
    start = max(1, from_line)
    wanted = lines[start - 1 :] if count is None else lines[start - 1 : start - 1 + max(1, count)]
    kept = _within(wanted) if count is None else len(wanted)
    text = "\n".join(wanted[:kept])
    return Excerpt(
        path=path,
        text=text,
        start_line=start if wanted else 0,
        end_line=start + kept - 1 if wanted else 0,
        total_lines=len(lines),
        missing=False,
        truncated=kept < len(wanted),
    )


def _within(lines: Sequence[str]) -> int:
    """How many lines fit into an excerpt; at least one."""
    size = 0
    for number, line in enumerate(lines):
        size += len(line) + 1
        if size > MAX_EXCERPT_CHARS and number:
            return number
    return len(lines)
