"""Turns changes of a workspace into commits: changes by hand first, then one commit for each session.

The first part compares texts by lines and assigns changed lines to writers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from nacre.memory.contracts.workspace import FileBusy, Workspace
from nacre.memory.files.sources.source import Source
from nacre.memory.files.sources.sources import SOURCES_FOLDER, Sources
from nacre.memory.workspace.git import GitFailed
from nacre.memory.workspace.history.repository import ChangedNote, Draft, Repository

MOST_COMPARISONS = 25_000_000
"""The limit of a comparison, as lines times lines. Larger texts count as one change, because comparing them
would take minutes."""

W = TypeVar("W", bound=Hashable)


@dataclass(frozen=True, kw_only=True, slots=True)
class Change(Generic[W]):
    """A change by `writer`: the lines `old[start:end]` became `lines`."""

    start: int
    end: int
    lines: tuple[str, ...]
    writer: W


def hunks(old: Sequence[str], new: Sequence[str]) -> Iterator[tuple[int, int, int, int]]:
    """The differences between two texts in order, as `(a, b, c, d)`: `old[a:b]` became `new[c:d]`."""
    first, shorter = 0, min(len(old), len(new))
    while first < shorter and old[first] == new[first]:
        first += 1
    last = 0
    while last < shorter - first and old[-1 - last] == new[-1 - last]:
        last += 1
    before, after = old[first : len(old) - last], new[first : len(new) - last]
    if not before or not after or len(before) * len(after) > MOST_COMPARISONS:
        if before or after:
            yield first, first + len(before), first, first + len(after)
        return
    from difflib import SequenceMatcher  # `nacre status` compares nothing

    for tag, a, b, c, d in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if tag != "equal":
            yield first + a, first + b, first + c, first + d


def attributed(
    old: Sequence[str], new: Sequence[str], writer_of: Callable[[int], W | None], *, hand: W
) -> list[Change[W]]:
    """Every change from `old` to `new` with its writer.

    `writer_of` returns the writer of a line number in `new`, or `None` if it is unknown. A line that was also
    removed by these changes, even with another line end, was moved and belongs to `hand`, as does a change
    without known lines. Lines that cannot be known, such as those without words, belong to the lines before
    them in their change.
    """
    places = list(hunks(old, new))
    gone = {line.rstrip() for a, b, _c, _d in places for line in old[a:b]}
    changes: list[Change[W]] = []
    for a, b, c, d in places:
        runs: list[tuple[W, int]] = []
        for number in range(c, d):
            line, has_words = new[number], any(map(str.isalnum, new[number]))
            writer = None if not has_words else hand if line.rstrip() in gone else writer_of(number)
            if writer is None and has_words and not line.lstrip().startswith("#"):
                writer = hand
            if writer is not None and (not runs or runs[-1][0] != writer):
                runs.append((writer, number if runs else c))
        if not runs:
            runs = [(hand, c)]
        for at, (writer, start) in enumerate(runs):
            stop = runs[at + 1][1] if at + 1 < len(runs) else d
            lines = tuple(new[start:stop])
            # removed lines belong to the first added ones
            changes.append(Change(start=a if at == 0 else b, end=b, lines=lines, writer=writer))
    return changes


def layer(old: Sequence[str], changes: Sequence[Change[W]], writers: frozenset[W]) -> list[str]:
    """`old` with the changes of these writers only; `changes` come from `attributed`."""
    lines: list[str] = []
    done = 0
    for change in changes:
        if change.writer in writers:
            lines += old[done : change.start] if change.start > done else ()
            lines += change.lines
            done = max(done, change.end)
    return [*lines, *old[done:]]


SESSION_KEY = "Nacre-Session-Key"
SESSION_ID = "Nacre-Session-Id"
ENTRIES = "Nacre-Entries"
UNDOES = "Nacre-Undoes"
TIDIED = "Nacre-Tidied"

SourcesOf = Callable[[Sequence[tuple[str, Sequence[str]]]], Sequence[Sequence[Source | None]]]
"""Returns the sources of the lines of notes, which are given with their names."""

_MOST_NAMES = 3


@dataclass(frozen=True, kw_only=True, slots=True)
class Writer:
    """The writer of a commit; without a session, a hand."""

    session_key: str = ""
    session_id: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Note:
    file: ChangedNote
    changes: list[Change[Writer]]


HAND = Writer()


def commit_changes(repository: Repository, sources_of: SourcesOf) -> list[str]:
    """Commits all changes and returns the new commits, oldest first. Blocks; the repository must be open.

    Raises:
        GitFailed, OSError: nothing was committed; the next call commits it.
    """
    head = repository.head()
    entry_ids: dict[Writer, dict[str, None]] = {}
    changed = repository.changed(head)
    sources = sources_of([(file.name, lines_of(file.now or b"")) for file in changed])
    notes = [_attributed(file, its, entry_ids) for file, its in zip(changed, sources, strict=True)]
    at = {note.file.name: note.file.before for note in notes}
    drafts: list[Draft] = []
    writers = [HAND, *entry_ids]
    for number, writer in enumerate(writers, start=1):
        is_last, until_now = number == len(writers), frozenset(writers[:number])
        names = [note.file.name for note in notes if any(each.writer == writer for each in note.changes)]
        files: dict[str, bytes | None] = {}
        for note in notes:
            name = note.file.name
            # Lines of the sources have no writer, so they go with the last commit.
            if name in names or (is_last and not note.changes):
                data = _layered(note, until_now, is_last=is_last)
                if data != at[name]:
                    files[name] = at[name] = data
        if files:
            message = _message(writer, names, tuple(entry_ids.get(writer, ())), is_first=not (head or drafts))
            drafts.append(Draft(message=message, files=files))
    return repository.commit(head, drafts)


def commit_together(
    repository: Repository,
    is_wanted: Callable[[str], bool],
    subject: str,
    trailers: Sequence[tuple[str, str]],
) -> str:
    """Commits the changed files that `is_wanted` selects, whoever wrote their lines; its name. Blocks.

    Raises:
        GitFailed, OSError: nothing was committed.
    """
    head = repository.head()
    files = {file.name: file.now for file in repository.changed(head) if is_wanted(file.name)}
    if not files:
        return head
    return repository.commit(head, [Draft(message=message_of(subject, trailers), files=files)])[-1]


def known_sources(sources: Sources) -> SourcesOf:
    """A `SourcesOf` for threads without a running event loop."""

    def ask(notes: Sequence[tuple[str, Sequence[str]]]) -> Sequence[Sequence[Source | None]]:
        return asyncio.run(sources.of_notes(notes)) if notes else ()

    return ask


def message_of(subject: str, trailers: Sequence[tuple[str, str]]) -> str:
    """A commit message: a subject, and trailers for programs. Blank trailers are left out."""
    lines = [f"{name}: {' '.join(value.split())}" for name, value in trailers if value.strip()]
    return "\n".join([subject, *([""] if lines else []), *lines]) + "\n"


def _attributed(
    file: ChangedNote, sources: Sequence[Source | None], entry_ids: dict[Writer, dict[str, None]]
) -> _Note:
    if file.name.startswith(f"{SOURCES_FOLDER}/"):
        return _Note(file=file, changes=[])
    before, after = lines_of(file.before or b""), lines_of(file.now or b"")

    def writer_of(number: int) -> Writer | None:
        source = sources[number]
        return Writer(session_key=source.session_key, session_id=source.session_id) if source else None

    changes = attributed(before, after, writer_of, hand=HAND)
    if not changes:
        changes = [Change(start=0, end=0, lines=(), writer=HAND)]  # an empty file was added or removed
    added = {(change.writer, line) for change in changes for line in change.lines}
    for number, line in enumerate(after):
        writer, source = writer_of(number), sources[number]
        if source is not None and writer is not None and writer != HAND and (writer, line) in added:
            entry_ids.setdefault(writer, {}).update(dict.fromkeys(source.entry_ids))
    return _Note(file=file, changes=changes)


def _layered(note: _Note, writers: frozenset[Writer], *, is_last: bool) -> bytes | None:
    if is_last or all(change.writer in writers for change in note.changes):
        return note.file.now
    lines = layer(lines_of(note.file.before or b""), note.changes, writers)
    return (
        "".join(lines).encode("utf-8", "surrogateescape") if lines or note.file.before is not None else None
    )


def lines_of(data: bytes) -> list[str]:
    """The lines of a note with their ends. Bytes that are not UTF-8 become surrogates."""
    # split as bytes, as git and editors do
    return [line.decode("utf-8", "surrogateescape") for line in data.splitlines(keepends=True)]


def _message(writer: Writer, names: Sequence[str], entry_ids: Sequence[str], *, is_first: bool) -> str:
    if writer == HAND:
        subject = "The workspace as it was found" if is_first else f"Changes by hand in {_named(names)}"
        return message_of(subject if names else "Sources of notes", ())
    return message_of(
        f"Notes in {_named(names)}",
        ((SESSION_KEY, writer.session_key), (SESSION_ID, writer.session_id), (ENTRIES, " ".join(entry_ids))),
    )


def _named(names: Sequence[str]) -> str:
    shown = ", ".join(names[:_MOST_NAMES])
    return f"{shown} and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else shown


class HistoryBusy(Exception):
    """The history cannot take a commit now, so nothing was written. The message is a clause."""


async def as_one_commit(
    workspace: Workspace,
    write: Callable[[], Awaitable[None]],
    *,
    paths: Sequence[str],
    commits: bool,
    state_dir: Path,
    subject: str,
    trailers: Sequence[tuple[str, str]],
) -> tuple[str, str]:
    """Calls `write`, which changes the notes `paths`, and commits these changes alone.

    Returns the commit and `""`, or `""` and a clause that says why there is none. Waits for the history, in
    which no other commit of Nacre comes between.

    Raises:
        HistoryBusy: `write` was not called.
        Exception: any error of `write`.
    """
    if workspace.folder is None:
        await write()
        return "", f"{workspace.place} has the notes, and a git history needs files"
    if not commits:
        await write()
        return "", 'memory.history.commits is "off"'
    repository = Repository(workspace.folder, state_dir=state_dir)
    with ExitStack() as stack:
        try:
            stack.enter_context(repository.opened())
            await asyncio.to_thread(commit_changes, repository, known_sources(Sources(workspace)))
        except (FileBusy, GitFailed, OSError) as error:
            raise HistoryBusy(str(error).rstrip(".")) from error
        await write()
        return await _committed(repository, paths, subject, trailers)


async def _committed(
    repository: Repository, paths: Sequence[str], subject: str, trailers: Sequence[tuple[str, str]]
) -> tuple[str, str]:
    def is_ours(name: str) -> bool:
        return name in paths or name.startswith(f"{SOURCES_FOLDER}/")

    try:
        return await asyncio.to_thread(commit_together, repository, is_ours, subject, trailers), ""
    except (GitFailed, OSError) as error:
        return "", f"{str(error).rstrip('.')}; the next turn that notes something commits it"
