"""`memory_get`: lines of a memory file, and the rule which files that may be. Reads, never writes.

Allowed are MEMORY.md, memory.md, `memory/**/*.md`, `chats/**/*.md` and Markdown files in the extra paths; no
path with a symbolic link in it, wherever that leads. Transcripts are never read here.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from nacre.memory.contracts.errors import ReadRefused
from nacre.memory.contracts.records import Excerpt
from nacre.memory.contracts.workspace import PathOutsideRoot
from nacre.memory.files.discovery import NOTE_FOLDERS, ROOT_FILES, is_markdown, stored_path
from nacre.memory.files.extra_paths import resolved_extra_paths
from nacre.memory.files.file_reader import read_regular
from nacre.memory.text.chunker import decode_markdown
from nacre.memory.workspace.paths import contained_path

MAX_EXCERPT_CHARS = 12_000
"""More than this is cut at a line end when the caller did not say how many lines; `truncated` tells."""


def read_excerpt(
    workspace: Path,
    extra_paths: Sequence[str],
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
    root = Path(os.path.realpath(workspace))
    target = allowed_path(root, extra_paths, path)
    shown = stored_path(root, target)
    if below and not shown.startswith(f"{below}/"):
        raise ReadRefused(
            f"path required: {path.strip()!r} is not a note of this chat. They are in {below}/."
        )
    try:
        raw, _ = read_regular(target)
    except (FileNotFoundError, NotADirectoryError):
        return Excerpt(path=shown, text="", start_line=0, end_line=0, total_lines=0, missing=True)
    except (OSError, PathOutsideRoot) as error:
        raise ReadRefused(f"{shown} cannot be read: {str(error).removesuffix('.')}.") from error
    return _excerpt(shown, _content_lines(raw), from_line or 1, lines or None)


def allowed_path(root: Path, extra_paths: Sequence[str], path: str) -> Path:
    """The absolute path of a memory file that may be shown; it need not exist.

    Raises:
        ReadRefused: with a sentence that says what may be read.
    """
    text = path.strip()
    if not text:
        raise ReadRefused(
            "path required: name a memory file, for example 'MEMORY.md' or 'memory/2026-02-10.md'."
        )
    if text.startswith("sessions/"):
        raise ReadRefused(f"{text!r} is a transcript. Transcripts can be searched, not read.")
    lexical = Path(os.path.normpath(root / text)) if "\x00" not in text else Path()
    if not is_markdown(lexical.name):
        raise _refusal(text)
    for folder, relative in _candidates(root, extra_paths, lexical):
        try:
            real = contained_path(folder, relative)
        except PathOutsideRoot as error:
            raise ReadRefused(f"{text!r} is refused: {error}") from error
        is_link = os.path.islink(folder)  # noqa: PTH114 - the method raises where a folder cannot be looked into
        if is_link or real != Path(os.path.realpath(folder)) / relative:
            raise ReadRefused(f"{text!r} is refused: it goes through a symbolic link.")
        return real
    raise _refusal(text)


def _candidates(root: Path, extra_paths: Sequence[str], target: Path) -> list[tuple[Path, str]]:
    """The allowed folder that holds `target`, and its name from there; at most one."""
    if target.parent == root and target.name in ROOT_FILES:
        return [(root, target.name)]
    for folder in (root / name for name in NOTE_FOLDERS):
        if target.is_relative_to(folder):
            return [(folder, target.relative_to(folder).as_posix())]
    for extra in resolved_extra_paths(root, extra_paths):
        if target == extra.folder:
            return [(target.parent, target.name)]
        if extra.covers(target):
            return [(extra.folder, target.relative_to(extra.folder).as_posix())]
    return []


def _refusal(text: str) -> ReadRefused:
    return ReadRefused(
        f"path required: {text!r} is not a memory file. Allowed are MEMORY.md, Markdown files in memory/ "
        "and chats/, and the configured extra paths."
    )


def _content_lines(raw: bytes) -> list[str]:
    lines = decode_markdown(raw)
    # The end of the last line is not a line of its own.
    return lines[:-1] if lines and not lines[-1] else lines


def _excerpt(path: str, lines: Sequence[str], from_line: int, count: int | None) -> Excerpt:
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
