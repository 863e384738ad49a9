"""What changed in a workspace becomes commits: what a hand wrote first, then a commit for each session."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from nacre.memory.files.sources.source import Source
from nacre.memory.files.sources.sources import SOURCES_FOLDER, Sources
from nacre.memory.workspace.history.attributing import Change, attributed, layer
from nacre.memory.workspace.history.repository import ChangedNote, Draft, Repository

SESSION_KEY = "Nacre-Session-Key"
SESSION_ID = "Nacre-Session-Id"
ENTRIES = "Nacre-Entries"
UNDOES = "Nacre-Undoes"
TIDIED = "Nacre-Tidied"

SourcesOf = Callable[[Sequence[tuple[str, Sequence[str]]]], Sequence[Sequence[Source | None]]]
"""The sources of the lines of notes, each given with its name."""

_MOST_NAMES = 3


@dataclass(frozen=True, kw_only=True, slots=True)
class Writer:
    """Whose a commit is; without a session it is a hand's."""

    session_key: str = ""
    session_id: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Note:
    file: ChangedNote
    changes: list[Change[Writer]]


HAND = Writer()


def commit_changes(repository: Repository, sources_of: SourcesOf) -> list[str]:
    """Commits what changed; the new commits, the oldest first. Blocks; the repository must be opened.

    Raises:
        GitFailed, OSError: nothing was committed; the next call does it.
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
            # No line of the sources is anybody's: they go with the last commit.
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
    """One commit of those changed files whose name `is_wanted`, whoever wrote their lines; its name. Blocks.

    Raises:
        GitFailed, OSError: nothing was committed.
    """
    head = repository.head()
    files = {file.name: file.now for file in repository.changed(head) if is_wanted(file.name)}
    if not files:
        return head
    return repository.commit(head, [Draft(message=message_of(subject, trailers), files=files)])[-1]


def known_sources(sources: Sources) -> SourcesOf:
    """What a thread without a running loop asks for sources."""

    def ask(notes: Sequence[tuple[str, Sequence[str]]]) -> Sequence[Sequence[Source | None]]:
        return asyncio.run(sources.of_notes(notes)) if notes else ()

    return ask


def message_of(subject: str, trailers: Sequence[tuple[str, str]]) -> str:
    """A commit's message: a plain subject, and trailers for programs. A blank one is left out."""
    lines = [f"{name}: {' '.join(value.split())}" for name, value in trailers if value.strip()]
    return "\n".join([subject, *([""] if lines else []), *lines]) + "\n"


def _attributed(
    file: ChangedNote, sources: Sequence[Source | None], entry_ids: dict[Writer, dict[str, None]]
) -> _Note:
    """A file with the writer of each change; adds the entries that the writers' lines came from."""
    if file.name.startswith(f"{SOURCES_FOLDER}/"):
        return _Note(file=file, changes=[])
    before, after = lines_of(file.before or b""), lines_of(file.now or b"")

    def writer_of(number: int) -> Writer | None:
        source = sources[number]
        return Writer(session_key=source.session_key, session_id=source.session_id) if source else None

    changes = attributed(before, after, writer_of, hand=HAND)
    if not changes:
        changes = [Change(start=0, end=0, lines=(), writer=HAND)]  # an empty file came or went
    added = {(change.writer, line) for change in changes for line in change.lines}
    for number, line in enumerate(after):
        writer, source = writer_of(number), sources[number]
        if source is not None and writer is not None and writer != HAND and (writer, line) in added:
            entry_ids.setdefault(writer, {}).update(dict.fromkeys(source.entry_ids))
    return _Note(file=file, changes=changes)


def _layered(note: _Note, writers: frozenset[Writer], *, is_last: bool) -> bytes | None:
    """The file with the changes of these writers."""
    if is_last or all(change.writer in writers for change in note.changes):
        return note.file.now
    lines = layer(lines_of(note.file.before or b""), note.changes, writers)
    return (
        "".join(lines).encode("utf-8", "surrogateescape") if lines or note.file.before is not None else None
    )


def lines_of(data: bytes) -> list[str]:
    """The lines of a note with their ends; bytes that are no text survive."""
    # of bytes, whose lines are those of git and of an editor
    return [line.decode("utf-8", "surrogateescape") for line in data.splitlines(keepends=True)]


def _message(writer: Writer, names: Sequence[str], entry_ids: Sequence[str], *, is_first: bool) -> str:
    if writer == HAND:
        told = "The workspace as it was found" if is_first else f"Changes by hand in {_named(names)}"
        return message_of(told if names else "Sources of notes", ())
    return message_of(
        f"Notes in {_named(names)}",
        ((SESSION_KEY, writer.session_key), (SESSION_ID, writer.session_id), (ENTRIES, " ".join(entry_ids))),
    )


def _named(names: Sequence[str]) -> str:
    shown = ", ".join(names[:_MOST_NAMES])
    return f"{shown} and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else shown
