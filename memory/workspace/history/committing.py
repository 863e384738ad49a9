"""What changed in a workspace becomes commits: what a hand wrote first, then a commit for each session."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from nacre.memory.files.sources.source import Source
from nacre.memory.files.sources.sources import SOURCES_FOLDER, Sources
from nacre.memory.workspace.files import whole_file
from nacre.memory.workspace.history.attributing import Change, attributed, layer
from nacre.memory.workspace.history.repository import Repository

SESSION_KEY = "Nacre-Session-Key"
SESSION_ID = "Nacre-Session-Id"
ENTRIES = "Nacre-Entries"
UNDOES = "Nacre-Undoes"
TIDIED = "Nacre-Tidied"

HistoryMode: TypeAlias = Literal["auto", "on", "off"]
"""`auto` commits to a repository that Nacre began, `on` to any that lies in the workspace."""

SourcesOf = Callable[[str, Sequence[str]], Sequence[Source | None]]
"""The sources of lines of a note."""

_MOST_NAMES = 3


@dataclass(frozen=True, kw_only=True, slots=True)
class Writer:
    """Whose a commit is; without a session it is a hand's."""

    session_key: str = ""
    session_id: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Note:
    name: str
    old: list[str] | None
    now: bytes | None
    changes: list[Change[Writer]]


HAND = Writer()


def opened(root: Path, mode: HistoryMode) -> tuple[Repository | None, str]:
    """The repository that may be committed to; or `None`, and why not as a clause that may be empty.

    Raises:
        GitFailed: git is not there, or refuses.
    """
    repository = Repository(root)
    if mode == "off" or not repository.is_there:
        return None, ""
    repository.open()
    if mode == "auto" and not repository.is_ours():
        return None, ""
    problem = repository.busy_with()
    return (None, problem) if problem else (repository, "")


def commit_changes(repository: Repository, sources_of: SourcesOf) -> list[str]:
    """Commits what changed; the new commits, the oldest first. It blocks.

    Raises:
        GitFailed, OSError: what is not committed yet will be the next time.
    """
    head = begun = repository.head()
    entry_ids: dict[Writer, dict[str, None]] = {}
    notes = [_looked_at(repository, head, name, sources_of, entry_ids) for name in repository.changed(head)]
    made: list[str] = []
    writers = [HAND, *entry_ids]
    for number, writer in enumerate(writers, start=1):
        is_last, until_now = number == len(writers), frozenset(writers[:number])
        names = [note.name for note in notes if any(each.writer == writer for each in note.changes)]
        for note in notes:
            # of sources no line is anybody's: they go with the last
            if note.name in names or (is_last and not note.changes):
                repository.put(note.name, _at(note, until_now, is_last=is_last))
        if names or is_last:
            message = _message(writer, names, tuple(entry_ids.get(writer, ())), is_first=not begun)
            commit = repository.commit(head, message)
            made += [commit] if commit != head else []
            head = commit
    return made


def commit_together(
    repository: Repository,
    is_kept: Callable[[str], bool],
    subject: str,
    trailers: Sequence[tuple[str, str]],
) -> str:
    """One commit of those changed files whose name `is_kept`, whoever wrote their lines; its name. It blocks.

    Raises:
        GitFailed, OSError: nothing was committed.
    """
    head = repository.head()
    for name in repository.changed(head):
        if is_kept(name):
            repository.put(name, whole_file(repository.root / name))
    return repository.commit(head, message_of(subject, trailers))


def known_sources(sources: Sources) -> SourcesOf:
    """What a thread without a running loop asks for sources."""

    def ask(name: str, lines: Sequence[str]) -> Sequence[Source | None]:
        return asyncio.run(sources.of_lines(name, lines))

    return ask


def message_of(subject: str, trailers: Sequence[tuple[str, str]]) -> str:
    """A commit's message: a plain subject, and trailers for programs. A blank one is left out."""
    lines = [f"{name}: {' '.join(value.split())}" for name, value in trailers if value.strip()]
    return "\n".join([subject, *([""] if lines else []), *lines]) + "\n"


def _looked_at(
    repository: Repository,
    head: str,
    name: str,
    sources_of: SourcesOf,
    entry_ids: dict[Writer, dict[str, None]],
) -> _Note:
    old, path = repository.before(head, name), repository.root / name
    now = whole_file(path)
    before, after = lines_of(old or b""), lines_of(now or b"")
    if name.startswith(f"{SOURCES_FOLDER}/"):
        return _Note(name=name, old=None if old is None else before, now=now, changes=[])
    sources = sources_of(name, after) if after else ()

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
    return _Note(name=name, old=None if old is None else before, now=now, changes=changes)


def _at(note: _Note, writers: frozenset[Writer], *, is_last: bool) -> bytes | None:
    """The note with the changes of these writers."""
    if is_last or all(change.writer in writers for change in note.changes):
        return note.now
    lines = layer(note.old or (), note.changes, writers)
    return "".join(lines).encode("utf-8", "surrogateescape") if lines or note.old is not None else None


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
