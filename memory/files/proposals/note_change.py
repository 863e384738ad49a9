"""Changes of notes that the owner sees first: read, shown as a diff, and written once they are approved."""

from __future__ import annotations

import difflib
import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from datetime import date
from typing import overload

from nacre.memory.contracts.notes import is_markdown
from nacre.memory.contracts.workspace import FileBusy, FileBytes, PathOutsideRoot, ReadFailed, Workspace
from nacre.memory.files.sources.source import PRIVATE, Source
from nacre.memory.files.sources.sourced_workspace import SourcedWorkspace
from nacre.memory.files.sources.sources import SourceOf, Sources
from nacre.memory.text.chunker import day_in_path
from nacre.memory.workspace.history.commits import lines_of
from nacre.memory.workspace.history.undo import Conflict, reverted
from nacre.memory.workspace.workspace import MEMORY_FOLDER
from nacre.record import Record

_SURROGATE = re.compile("[\ud800-\udfff]")
_WORD = re.compile(r"\w+")
FORGOTTEN = "[forgotten]"
"""What replaces forgotten lines in a transcript."""
_MIN_WORDS = 3
"""A shorter text, such as `- ok`, only matches lines that consist of it."""


class ProposalFailed(Exception):
    """A proposal cannot be made or written. The message is a sentence for the owner."""


class ProposalUnknown(ProposalFailed):
    """No proposal has this id."""


class ProposalConflict(ProposalFailed):
    """A proposal and a later change are about the same lines; nothing was written."""

    def __init__(self, path: str, line: int) -> None:
        super().__init__(
            f"Nothing was written: {path} has changed since at line {line}, which this proposal changes too. "
            "Edit the proposal, or reject it."
        )


class NoteChange(Record):
    """A note before and after a change. `before` is `None` if the note does not exist.

    Bytes that are not UTF-8 are surrogates in the texts, as with `errors="surrogateescape"`.
    """

    path: str
    before: str | None
    after: str

    @property
    def diff(self) -> str:
        """The change as a unified diff that `git apply` accepts; empty if nothing changes."""
        before, after = (_SURROGATE.sub("\ufffd", text) for text in (self.before or "", self.after))
        lines = difflib.unified_diff(
            before.splitlines(keepends=True),
            after.splitlines(keepends=True),
            fromfile="/dev/null" if self.before is None else f"a/{self.path}",
            tofile=f"b/{self.path}",
        )
        ended = (line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)
        return "".join(ended)

    def merged_into(self, now: bytes | None) -> bytes:
        """The present note `now` with this change; other changes made since `before` are kept.

        Raises:
            ProposalConflict: the same lines have changed since `before`.
        """
        before, after = note_bytes(self.before), note_bytes(self.after)
        if now in (before, after):
            return after
        if before is None or now is None:
            raise ProposalConflict(self.path, 1)
        lines = reverted(lines_of(after), lines_of(before), lines_of(now))
        if isinstance(lines, Conflict):
            raise ProposalConflict(self.path, lines.line)
        return note_bytes("".join(lines))

    def replacing(self, now: bytes | None) -> bytes:
        """The bytes after the change.

        Raises:
            ProposalFailed: `now` is not the note that the change was proposed for.
        """
        if now != note_bytes(self.before):
            raise ProposalFailed(
                f"Nothing was written to {self.path}: it has changed since the proposal was made. "
                "Run the command again."
            )
        return note_bytes(self.after)


@overload
def note_bytes(text: str) -> bytes: ...
@overload
def note_bytes(text: None) -> None: ...
def note_bytes(text: str | None) -> bytes | None:
    """A note's text as it is stored; surrogates become the bytes that they stand for."""
    return None if text is None else text.encode("utf-8", "surrogateescape")


async def write_changes(
    workspace: Workspace,
    changes: Iterable[NoteChange],
    *,
    at: str,
    redacts_secrets: bool,
    is_typed: Callable[[str], bool] = lambda _line: False,
) -> None:
    """Writes each change to its note if the note has not changed since the proposal was made.

    `at` is an ISO time. New lines of Markdown notes get a source: the owner's hand for lines that `is_typed`
    accepts, a reflection for all others.

    Raises:
        ProposalFailed: a note has changed or cannot be written; the changes before it are written.
    """
    reflected = Source(written_by="reflection", audience=PRIVATE, said_by=("owner", "assistant"), at=at)
    typed = Source(written_by="hand", audience=PRIVATE, said_by=("owner",), at=at)

    async def begin() -> SourceOf:
        return lambda line: typed if is_typed(line) else reflected

    sources = Sources(workspace, secrets="redact" if redacts_secrets else "off")
    sourced = SourcedWorkspace(workspace, sources, begin)
    for change in changes:
        try:
            await (sourced if is_markdown(change.path) else workspace).change(change.path, change.replacing)
        except (OSError, FileBusy, PathOutsideRoot) as error:
            raise ProposalFailed(
                f"Nothing was written to {change.path}: {str(error).rstrip('.')}. Run the command again."
            ) from error


async def daily_logs(
    workspace: Workspace, *, after: date | None = None, before: date | None = None
) -> list[str]:
    """The names of the daily logs from `after` to `before`, both included, oldest first.

    Raises:
        ProposalFailed: the folder of the logs cannot be read.
    """
    days = ((name, day_in_path(name)) for name in await note_names(workspace, MEMORY_FOLDER))
    return sorted(name for name, day in days if day and (after or day) <= day <= (before or day))


async def note_names(workspace: Workspace, folder: str) -> list[str]:
    """The names of the Markdown notes directly in `folder`; none if the folder does not exist.

    Raises:
        ProposalFailed: the folder cannot be read.
    """
    try:
        entries = await workspace.list_folder(folder)
    except FileNotFoundError:
        return []
    except (OSError, PathOutsideRoot) as error:
        raise ProposalFailed(f"The folder {folder} cannot be read: {error}.") from error
    return [f"{folder}/{each.name}" for each in entries if not each.is_folder and is_markdown(each.name)]


async def note_texts(workspace: Workspace, names: Sequence[str]) -> dict[str, str]:
    """The texts of those of these notes that exist.

    Raises:
        ProposalFailed: a note cannot be read, is too long, is a link, or is not UTF-8.
    """
    found = await workspace.read_many(names)
    return {
        name: _text(name, read) for name, read in found.items() if not isinstance(read, FileNotFoundError)
    }


def _text(name: str, found: FileBytes | ReadFailed) -> str:
    if isinstance(found, Exception):
        raise ProposalFailed(f"{name} cannot be read: {found}.")
    if found.is_cut:
        raise ProposalFailed(f"{name} cannot be used: {found.size_bytes} bytes are too long.")
    if str(found.relative) != name:
        raise ProposalFailed(f"{name} cannot be used: it is a link to {found.relative}.")
    try:
        return found.data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ProposalFailed(f"{name} is not UTF-8 text: {error}. Save it as UTF-8.") from error


class Target(Record):
    """What is to be forgotten: lines with all these `words`, or lines that contain one of these `texts`."""

    words: frozenset[str] = frozenset()
    texts: tuple[str, ...] = ()

    def matches(self, line: str) -> bool:
        """Whether a line is to be forgotten."""
        found = _words(line)
        if self.words:
            return self.words <= set(found)
        padded = f" {' '.join(found)} "
        return any(
            f" {text} " in padded if text.count(" ") + 1 >= _MIN_WORDS else f" {text} " == padded
            for text in self.texts
        )

    def matches_any(self, text: str) -> bool:
        """Whether a line of a text is to be forgotten."""
        return any(map(self.matches, text.splitlines()))

    def removed_from(self, text: str) -> str:
        """A text with `FORGOTTEN` in place of each matching line."""
        lines = text.splitlines(keepends=True)
        return "".join(
            FORGOTTEN + line[len(line.rstrip("\r\n")) :] if self.matches(line) else line for line in lines
        )


def target_of_query(query: str) -> Target:
    """The lines that have all words of a query; none if it has no words."""
    return Target(words=frozenset(_words(query)))


def target_of_lines(lines: Iterable[str]) -> Target:
    """The texts of these lines, wherever they occur."""
    return Target(texts=tuple(dict.fromkeys(filter(None, (" ".join(_words(line)) for line in lines)))))


class NoteCut(NoteChange):
    """The removal of some `lines` from a note."""

    lines: tuple[str, ...]


def cut_note(path: str, data: bytes, removes: Callable[[int, str], bool]) -> NoteCut | None:
    """A note without the lines for which `removes(number, text)` is true; `None` if there are none.

    Numbers count from 1.
    """
    kept: list[bytes] = []
    removed: list[str] = []
    for number, raw in enumerate(data.splitlines(keepends=True), start=1):
        line = raw.decode("utf-8", "replace").rstrip("\r\n")
        if removes(number, line):
            removed.append(line)
        else:
            kept.append(raw)
    if not removed:
        return None
    before, after = (each.decode("utf-8", "surrogateescape") for each in (data, b"".join(kept)))
    return NoteCut(path=path, before=before, after=after, lines=tuple(removed))


def _words(text: str) -> list[str]:
    return _WORD.findall(unicodedata.normalize("NFKC", text).casefold())
