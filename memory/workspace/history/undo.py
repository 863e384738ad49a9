"""Reads the commits of the notes, and undoes one, or what it did to one line, by a new commit that reverts
lines in the present notes."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from nacre.memory.contracts.workspace import FileBusy, PathOutsideRoot, Workspace
from nacre.memory.files.sources.rejections import lift, reject
from nacre.memory.files.sources.sources import SOURCES_FOLDER, Sources
from nacre.memory.workspace.folder import change_locked
from nacre.memory.workspace.git import GitFailed
from nacre.memory.workspace.history.commits import (
    ENTRIES,
    SESSION_ID,
    SESSION_KEY,
    TIDIED,
    UNDOES,
    commit_changes,
    hunks,
    known_sources,
    lines_of,
    message_of,
)
from nacre.memory.workspace.history.repository import BRANCH, NO_HISTORY, Draft, Repository, is_kept
from nacre.memory.workspace.paths import contained_path
from nacre.record import Record

T = TypeVar("T")


class UndoConflict(Exception):
    """Lines to be reverted have changed since, at `places`; nothing was changed."""

    def __init__(self, places: Sequence[str]) -> None:
        super().__init__(
            f"Nothing was changed: lines of the commit have changed since, in {', '.join(places)}. "
            "Edit them by hand."
        )
        self.places = tuple(places)


def last_to_undo(repository: Repository) -> Commit:
    """The newest commit by a session or by `nacre memory tidy` that was not undone.

    Raises:
        CommitUnknown: there is none.
    """
    known = commits(repository)
    undone = {each.undoes for each in known}
    for each in known:
        if (each.session_id or each.tidied) and each.commit not in undone:
            return each
    raise CommitUnknown("No commit of a session can be undone. `nacre memory log` lists all commits.")


def undo(repository: Repository, commit: str) -> tuple[str, list[str]]:
    """Reverts the changes of a commit in the notes; the new commit, and the changed files.

    All changes must have been committed in the same `opened`. Blocks.

    Raises:
        UndoConflict: nothing was changed.
        CommitUnknown: the commit is a merge, or has nothing to revert.
        GitFailed, OSError, FileBusy: git or the disk refused; the notes are as before.
    """
    head = repository.head()
    output = repository.git("rev-list", "--parents", "-n", "1", commit).decode().split()
    if len(output) > 2:
        raise CommitUnknown(f"{commit[:12]} is a merge, which cannot be undone.")
    wanted: dict[str, tuple[bytes | None, bytes | None]] = {}
    conflicts: list[str] = []
    for name, before, after in _changes(repository, commit):
        if _is_link(repository.root, name):
            conflicts.append(f"{name}, which is a link now")
            continue
        now = repository.note(name)
        lines = reverted(lines_of(before or b""), lines_of(after or b""), lines_of(now or b""))
        if isinstance(lines, Conflict):
            conflicts.append(f"{name}#L{lines.line}")
            continue
        new = "".join(lines).encode("utf-8", "surrogateescape")
        wanted[name] = (now, new if new or before is not None else None)
    if conflicts:
        raise UndoConflict(conflicts)
    changed = sorted(name for name, (now, new) in wanted.items() if now != new)
    if not changed:
        raise CommitUnknown(f"Nothing is left to undo of {commit[:12]}.")
    subset = {name: wanted[name] for name in changed}
    message = message_of(f"Undo {commit[:12]}", ((UNDOES, commit),))
    return _written(repository, head, message, subset), changed


@dataclass(frozen=True, kw_only=True, slots=True)
class LineOrigin:
    """The commit that wrote a line of a note, and the lines that it replaced.

    `before` and `after` are the text around that commit; lines `start:end` of `before` became `first:last` of
    `after`, which is the line alone where a commit added or replaced line by line.
    """

    commit: str
    before: tuple[str, ...]
    after: tuple[str, ...]
    start: int
    end: int
    first: int
    last: int

    @property
    def replaced(self) -> tuple[str, ...]:
        """The lines that were there before; empty for an added line."""
        return self.before[self.start : self.end]


def line_origins(repository: Repository, path: str) -> list[LineOrigin | None]:
    """The origin of each line of a note as it is now; `None` for a line that is not committed yet.

    Raises:
        GitFailed, OSError: git or the disk refused.
    """
    now = lines_of(repository.note(path) or b"")
    head = repository.head()
    listed = repository.git("ls-tree", "-z", head, "--", f":(top,literal){path}") if head else b""
    if not listed or not now:
        return [None] * len(now)
    blob = listed.split(b"\t")[0].split()[2].decode()
    committed = lines_of(repository.blobs([blob])[blob])
    blamed = _blamed(repository, head, path)
    if len(blamed) != len(committed):  # git does not end lines at a lone carriage return
        return [None] * len(now)
    texts = _texts_around(repository, dict.fromkeys((commit, name) for commit, name, _number in blamed))
    found: list[LineOrigin | None] = []
    for commit, name, number in blamed:
        before, after = texts.get((commit, name), ((), ()))
        place = _change_of(before, after, number)
        start, end, first, last = place or (0, 0, number, number + 1)
        found.append(
            LineOrigin(
                commit=commit, before=before, after=after, start=start, end=end, first=first, last=last
            )
            if place
            else None
        )
    for a, b, c, d in reversed(list(hunks(committed, now))):
        found[a:b] = [None] * (d - c)
    return found


def undo_line(repository: Repository, path: str, number: int, commit: str) -> str:
    """Reverts what `commit` did to the line `number` of a note, counted from 0; returns the new commit.

    Lines that the commit replaced come back. All changes must have been committed in the same `opened`.
    Blocks.

    Raises:
        CommitUnknown: the line is not from this commit any more.
        UndoConflict, GitFailed, OSError, FileBusy: as for `undo`.
    """
    head, origins = repository.head(), line_origins(repository, path)
    origin = origins[number] if 0 <= number < len(origins) else None
    if origin is None or origin.commit != commit:
        raise CommitUnknown(f"Line {number + 1} of {path} has changed since the page was loaded. Reload it.")
    if _is_link(repository.root, path):
        raise UndoConflict([f"{path}, which is a link now"])
    now = repository.note(path)
    without = (*origin.after[: origin.first], *origin.replaced, *origin.after[origin.last :])
    lines = reverted(without, origin.after, lines_of(now or b""))
    if isinstance(lines, Conflict):
        raise UndoConflict([f"{path}#L{lines.line}"])
    new = "".join(lines).encode("utf-8", "surrogateescape")
    message = message_of(f"Undo a line of {commit[:12]} in {path}", ())
    return _written(repository, head, message, {path: (now, new)})


def _blamed(repository: Repository, head: str, path: str) -> list[tuple[str, str, int]]:
    """Of each line: its commit, and its file and its number there, counted from 0."""
    output = repository.git("blame", "--no-textconv", "--line-porcelain", head, "--", path)
    found: list[tuple[str, str, int]] = []
    commit, number, name = "", 0, path
    is_new = True
    for line in output.split(b"\n"):
        if is_new and line:
            commit, at = line.decode().split()[:2]
            number, is_new = int(at) - 1, False
        elif line.startswith(b"filename "):
            name = _unquoted(line[len(b"filename ") :])
        elif line.startswith(b"\t"):
            found.append((commit, name, number))
            is_new = True
    return found


def _unquoted(name: bytes) -> str:
    """A file name as git prints it: with special characters in C's quotes."""
    if name.startswith(b'"'):
        name = name[1:-1].decode("unicode_escape").encode("latin-1")
    return os.fsdecode(name)


def _texts_around(
    repository: Repository, wanted: Iterable[tuple[str, str]]
) -> dict[tuple[str, str], tuple[tuple[str, ...], tuple[str, ...]]]:
    """The lines of files before and after commits, by commit and name."""
    pairs = list(wanted)
    how = ("--stdin", "--root", "-r", "-z", "--no-renames")
    names = [f":(top,literal){name}" for name in dict.fromkeys(name for _commit, name in pairs)]
    given = "".join(f"{commit}\n" for commit in dict.fromkeys(commit for commit, _name in pairs)).encode()
    fields = iter(repository.git("diff-tree", *how, "--", *names, stdin=given).split(b"\0"))
    blobs: dict[tuple[str, str], tuple[str, str]] = {}
    commit = ""
    for field in fields:
        if field.startswith(b":"):
            facts = field.decode().split()
            blobs[(commit, os.fsdecode(next(fields)))] = facts[2], facts[3]
        elif field.strip():
            commit = field.decode().strip()
    texts = repository.blobs(blob for both in blobs.values() for blob in both if blob.strip("0"))
    return {
        pair: (tuple(lines_of(texts.get(before, b""))), tuple(lines_of(texts.get(after, b""))))
        for pair, (before, after) in blobs.items()
    }


def _change_of(before: Sequence[str], after: Sequence[str], number: int) -> tuple[int, int, int, int] | None:
    """The change of one line of `after`: alone, if lines were only added, or replaced one by one."""
    for a, b, c, d in hunks(before, after):
        if c <= number < d:
            if a == b:
                return a, a, number, number + 1
            if b - a == d - c:
                return a + number - c, a + number - c + 1, number, number + 1
            return a, b, c, d
    return None


def _changes(repository: Repository, commit: str) -> list[tuple[str, bytes | None, bytes | None]]:
    # Sources are left out, because one whose line is gone does no harm; so are files that are not notes.
    listed = repository.git("diff-tree", "--root", "-r", "-z", "--no-commit-id", "--no-renames", commit)
    fields = listed.split(b"\0")
    rows = [
        (os.fsdecode(name), facts.decode().split())
        for facts, name in zip(fields[::2], fields[1::2], strict=False)
    ]
    rows = [
        (name, facts) for name, facts in rows if is_kept(name) and not name.startswith(f"{SOURCES_FOLDER}/")
    ]
    blobs = repository.blobs(blob for _name, facts in rows for blob in facts[2:4] if blob.strip("0"))
    return [(name, blobs.get(facts[2]), blobs.get(facts[3])) for name, facts in rows]


def _is_link(root: Path, name: str) -> bool:
    try:
        return contained_path(root, name) != Path(os.path.realpath(root)) / name
    except PathOutsideRoot:
        return True


def _written(
    repository: Repository, head: str, message: str, wanted: dict[str, tuple[bytes | None, bytes | None]]
) -> str:
    def replace(name: str, old: bytes | None, new: bytes | None) -> None:
        def replaced(now: bytes | None) -> bytes | None:
            if now != old:
                raise UndoConflict([name])
            return new

        change_locked(contained_path(repository.root, name), replaced, repository.lock_dir)

    done: list[str] = []
    try:
        for name, (now, new) in wanted.items():
            replace(name, now, new)
            done.append(name)
        files = {name: new for name, (_now, new) in wanted.items()}
        return repository.commit(head, [Draft(message=message, files=files)])[-1]
    except (UndoConflict, GitFailed, OSError):
        for name in done:  # later changes stay, and the next try reports them
            now, new = wanted[name]
            with suppress(UndoConflict):
                replace(name, new, now)
        raise


@dataclass(frozen=True, kw_only=True, slots=True)
class Conflict:
    """The lines to be reverted have changed again, at line `line` of the present text, counted from 1."""

    line: int


def reverted(before: Sequence[str], after: Sequence[str], now: Sequence[str]) -> list[str] | Conflict:
    """`now` without the change from `before` to `after`.

    Lines added elsewhere stay, even right beside it. If lines are no longer as the change left them, the
    result is a conflict.
    """
    since = list(hunks(after, now))
    lines = list(now)
    for a, b, c, d in reversed(list(hunks(before, after))):
        shift = 0
        for start, end, now_start, now_end in since:
            touches = start < d and end > c if c < d and start < end else c < start < d or start < c < end
            if touches:
                return Conflict(line=now_start + 1)
            if end <= c and not start == end == c == d:  # reverted lines come before lines added there
                shift = now_end - end
        lines[c + shift : d + shift] = before[a:b]
    return lines


_TRAILERS = (SESSION_KEY, SESSION_ID, ENTRIES, UNDOES, TIDIED)
_FORMAT = "%x1f".join(
    ("%H", "%cI", "%s", *(f"%(trailers:key={name},valueonly,separator=%x20)" for name in _TRAILERS))
)


class CommitUnknown(Exception):
    """The history has no such commit, or none of the required kind. The message is a sentence."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Commit:
    """A commit. `at` is an ISO time; `undoes` is the commit that it reverts, `tidied` the note that `nacre
    memory tidy` changed. A commit of changes by hand has none of these."""

    commit: str
    at: str
    subject: str
    session_key: str
    session_id: str
    entry_ids: tuple[str, ...]
    undoes: str
    tidied: str


def commits(repository: Repository, path: str = "") -> list[Commit]:
    """All commits, or those that changed `path`, newest first. Raises `GitFailed` if git refused."""
    if not repository.git_dir.exists() or not repository.head():
        return []
    where = ("--", f":(top,literal){path}") if path else ()
    output = repository.git("log", "-z", f"--format={_FORMAT}", BRANCH, *where)
    return [_commit(row) for row in output.decode("utf-8", "replace").split("\0") if row]


def named(repository: Repository, name: str) -> str:
    """The full name of a commit in the present history.

    Raises:
        CommitUnknown: there is none of this name.
    """
    try:
        output = repository.git("rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
        commit = output.decode().strip().splitlines()[-1]
        repository.git("merge-base", "--is-ancestor", commit, BRANCH)
    except (GitFailed, IndexError) as error:
        raise CommitUnknown(
            f"There is no commit {name!r} in this history. `nacre memory log` lists them."
        ) from error
    return commit


def shown(repository: Repository, commit: str) -> str:
    """The changes of a commit in the notes as a unified diff, without sources. Raises `GitFailed`."""
    notes = (":(top)", f":(top,exclude){SOURCES_FOLDER}")
    # Always as text; no driver or signature program of the repository runs.
    how = ("-p", "-r", "--root", "--no-commit-id", "--text", "--no-color", "--no-ext-diff", "--no-textconv")
    output = repository.git("diff-tree", *how, commit, "--", *notes)
    return output.decode("utf-8", "replace")


def _commit(row: str) -> Commit:
    commit, at, subject, session_key, session_id, entries, undoes, tidied = row.split("\x1f")
    return Commit(
        commit=commit.strip(),
        at=at,
        subject=subject,
        session_key=session_key.strip(),
        session_id=session_id.strip(),
        entry_ids=tuple(entries.split()),
        undoes=undoes.strip(),
        tidied=tidied.strip(),
    )


class HistoryUnusable(Exception):
    """The notes have no history, or git refused. The message is a sentence."""


class Undone(Record):
    """An undone commit, the new commit that holds the change, the changed notes, and a unified diff."""

    undone: str
    made: str
    paths: tuple[str, ...]
    diff: str


def with_history(
    workspace: Workspace, state_dir: Path, work: Callable[[Repository], T], *, commits: bool = False
) -> T:
    """Runs `work` on the git history of the notes. Blocks.

    With `commits`, commits waiting changes first; lines that the commit of `work` removes are then rejected.

    Raises:
        HistoryUnusable: there is no history, or it cannot be read or changed.
    """
    if workspace.folder is None:
        raise HistoryUnusable(f"{workspace.place} has the notes; a git history needs files.")
    repository = Repository(workspace.folder, state_dir=state_dir)
    if not repository.is_there:
        raise HistoryUnusable(f"{workspace.place} has no history yet. {NO_HISTORY}")
    try:
        if not commits:
            return work(repository)
        with repository.opened():
            commit_changes(repository, known_sources(Sources(workspace)))
            done = work(repository)
            asyncio.run(_reject_undone(workspace, _changes(repository, repository.head())))
            return done
    except (GitFailed, FileBusy, PathOutsideRoot, CommitUnknown, UndoConflict) as error:
        raise HistoryUnusable(str(error)) from error
    except OSError as error:
        raise HistoryUnusable(f"{workspace.place} cannot be used: {error.strerror or error}.") from error


async def _reject_undone(
    workspace: Workspace, changes: Sequence[tuple[str, bytes | None, bytes | None]]
) -> None:
    for name, *both in changes:
        before, after = ((data or b"").decode("utf-8", "surrogateescape") for data in both)
        await reject(workspace, name, before, set(before.splitlines()).difference(after.splitlines()))
        await lift(workspace, name, after, set(after.splitlines()).difference(before.splitlines()))


def undo_in(repository: Repository, commit: str = "") -> Undone:
    """Undoes a commit by a new one; by default the last one that a session made.

    Raises the errors of `undo`.
    """
    name = named(repository, commit) if commit else last_to_undo(repository).commit
    made, paths = undo(repository, name)
    return Undone(undone=name, made=made, paths=tuple(paths), diff=shown(repository, made))
