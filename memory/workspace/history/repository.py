"""Nacre's own git repository of a workspace: which notes changed, commits, and copies of damaged histories.

It is a bare repository in the state folder. git never reads the workspace except for `.gitignore` files;
Nacre finds, reads and writes the notes. There is no index, so only branches have locks.
"""

from __future__ import annotations

import json
import logging
import os
import re
import shutil
import stat
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from hashlib import sha1, sha256
from pathlib import Path

from nacre.memory.contracts.notes import IGNORED_FOLDERS, MAX_NOTE_BYTES, NoteMarks, WantedNotes, is_markdown
from nacre.memory.contracts.workspace import PathOutsideRoot
from nacre.memory.files.sources.sources import SOURCES_FOLDER
from nacre.memory.workspace.folder import locked, note_bytes, note_marks, notes_in, stamped_now_ns
from nacre.memory.workspace.git import GIT_WORK_SECONDS, GitFailed, GitTimedOut, run_git
from nacre.memory.workspace.paths import open_regular
from nacre.record import Record

log = logging.getLogger(__name__)

BRANCH = "refs/heads/main"
HISTORY_FOLDER = "history"
"""The folder of the state folder with one repository for each workspace."""

NO_HISTORY = 'With git, the next turn that notes something begins it, unless memory.history.commits is "off".'
"""What to say about a workspace without a history."""

DAMAGED = ".damaged-"

_SEEN = "nacre-seen.json"
_WORKSPACE = "nacre-workspace"
"""The file of a repository with the path of its workspace."""
_STALE_SECONDS = 120.0
_FRESH_NS = 2_000_000_000
"""A file that changed this shortly before it was read may change again without another time stamp."""


class Draft(Record):
    """A commit to make: its message and the new bytes of files; `None` removes a file."""

    message: str
    files: Mapping[str, bytes | None]


class ChangedNote(Record):
    """A file that differs from the newest commit, with its bytes there and now; `None` for no file."""

    name: str
    before: bytes | None
    now: bytes | None


class Repository:
    """The history of the workspace `root`. Its methods block.

    `within_seconds` limits all git commands of one `opened` together. Every method raises `GitFailed` if git
    is missing, refuses or times out, and `OSError` if the disk refuses.
    """

    def __init__(self, root: Path, *, state_dir: Path, within_seconds: float = GIT_WORK_SECONDS) -> None:
        self.root = root.absolute()
        self.lock_dir = state_dir / "locks"
        self.git_dir = state_dir.absolute() / HISTORY_FOLDER / f"{_key(root, state_dir)}.git"
        self._within_seconds = within_seconds
        self._until: float | None = None

    @property
    def is_there(self) -> bool:
        """Whether the workspace has a history."""
        return self.git_dir.exists()

    @contextmanager
    def opened(self) -> Iterator[None]:
        """Locks the repository for this process, and creates it if it does not exist.

        Removes locks that a killed git left, because only the holder runs a git that writes.

        Raises:
            FileBusy: another process held it for too long.
        """
        self._until = None
        with locked(self.git_dir, self.lock_dir):
            self._until = time.monotonic() + self._within_seconds
            try:
                if self.git_dir.exists() or self._adopted():
                    self.remove_locks(older_than_seconds=_STALE_SECONDS)
                else:
                    new = self.git_dir.with_suffix(".new")
                    new_repository(new, until=self._until)
                    new.rename(self.git_dir)
                if _text(self.git_dir / _WORKSPACE).strip() != str(self.root):
                    (self.git_dir / _WORKSPACE).write_text(f"{self.root}\n", encoding="utf-8")
                yield
            finally:
                self._until = None

    def head(self) -> str:
        """The newest commit; `""` if there is none."""
        # The failure of a command would not be proof, because it may have other reasons.
        head = self.git("for-each-ref", "--format=%(objectname)", BRANCH).decode().strip()
        log = self.git_dir / "logs" / BRANCH
        if not head and ((self.git_dir / BRANCH).exists() or (log.exists() and log.stat().st_size)):
            raise GitFailed("the history is damaged: its branch names no commit")
        return head

    def changed(self, head: str) -> list[ChangedNote]:
        """The notes and files of sources that differ from the commit `head`, by name."""
        there = _entries(self.git("ls-tree", "-r", "-z", head) if head else b"")
        present, may_be_gone = self._present(there)
        differing = {name: there.get(name, "") for name, blob in present.items() if there.get(name) != blob}
        differing |= {name: there[name] for name in may_be_gone if _is_gone(self.root / name)}
        before = self.blobs(blob for blob in differing.values() if blob)
        return [
            ChangedNote(
                name=name,
                before=before[blob] if blob else None,
                now=self.note(name) if name in present else None,
            )
            for name, blob in sorted(differing.items())
        ]

    def note(self, name: str) -> bytes | None:
        """The bytes of a file of the workspace; `None` if it does not exist. Links are not followed."""
        try:
            return note_bytes(self.root / name).data
        except FileNotFoundError:
            return None
        except PathOutsideRoot as error:  # it has just become a link
            raise GitFailed(str(error).rstrip(".")) from error

    def blobs(
        self, names: Iterable[str], *, environment: Mapping[str, str] | None = None
    ) -> dict[str, bytes]:
        wanted = list(dict.fromkeys(names))
        if not wanted:
            return {}
        output = self.git(
            "cat-file", "--batch", stdin="\n".join([*wanted, ""]).encode(), environment=environment
        )
        found, at = {}, 0
        for name in wanted:
            end = output.index(b"\n", at)
            _name, kind, *size = output[at:end].split()
            if kind != b"blob" or not size:
                raise GitFailed(f"the history is damaged: {name} is {kind.decode()}")
            at = end + 1 + int(size[0])
            found[name] = output[end + 1 : at]
            at += 1
        return found

    def commit(self, head: str, drafts: Sequence[Draft]) -> list[str]:
        """Commits drafts on top of `head`, all or none; the names of the commits, oldest first.

        Raises:
            GitFailed: git refused, or another process has committed in between.
        """
        if not drafts:
            return []
        stream: list[bytes] = []
        for number, draft in enumerate(drafts, start=1):
            message = draft.message.encode("utf-8", "replace")
            stream.append(b"commit %s\nmark :%d\n" % (BRANCH.encode(), number))
            stream.append(b"committer Nacre <nacre@localhost> now\ndata %d\n%s\n" % (len(message), message))
            if number == 1 and head:
                stream.append(b"from %s\n" % head.encode())
            for name, data in draft.files.items():
                if data is None:
                    stream.append(b"D %s\n" % _quoted(name))
                else:
                    stream.append(b"M 100644 inline %s\ndata %d\n" % (_quoted(name), len(data)))
                    stream += [data, b"\n"]
            stream.append(b"\nget-mark :%d\n" % number)
        stream.append(b"done\n")
        made = self.git("fast-import", "--quiet", "--done", "--date-format=now", stdin=b"".join(stream))
        return made.decode().split()

    def git(self, *arguments: str, stdin: bytes = b"", environment: Mapping[str, str] | None = None) -> bytes:
        try:
            return run_git(self.git_dir, *arguments, stdin=stdin, environment=environment, until=self._until)
        except GitTimedOut:
            if self._until is not None:  # git and its children were killed, and no other process writes
                self.remove_locks(older_than_seconds=0)
            raise

    def remove_locks(self, *, older_than_seconds: float) -> int:
        """Removes lock files and reports of killed git commands; their number.

        Only call this while no git writes here.
        """
        before_ns = stamped_now_ns(self.lock_dir) - int(older_than_seconds * 1e9)
        removed = 0
        for pattern in ("*.lock", "refs/**/*.lock", "gc.pid", "fast_import_crash_*"):
            for path in self.git_dir.glob(pattern):
                with suppress(FileNotFoundError):
                    if not older_than_seconds or path.lstat().st_mtime_ns <= before_ns:
                        path.unlink()
                        removed += 1
        return removed

    def set_aside(self) -> list[Path]:
        """The damaged repositories that repairs moved away."""
        return sorted(self.git_dir.parent.glob(f"{self.git_dir.stem}{DAMAGED}*"))

    def forget_seen(self) -> None:
        """Drops the cached names and hashes of files."""
        (self.git_dir / _SEEN).unlink(missing_ok=True)

    def _adopted(self) -> bool:
        # A workspace was moved if its old folder is gone and its notes are here.
        for other in sorted(self.git_dir.parent.glob("*.git")):
            was = _text(other / _WORKSPACE).strip()
            if not was or Path(was).exists():
                continue
            try:
                listed = run_git(other, "ls-tree", "-r", "-z", BRANCH, until=self._until)
            except GitTimedOut:
                raise
            except GitFailed:  # it is empty or damaged
                continue
            there = {name: blob for name, blob in _entries(listed).items() if is_kept(name)}
            if sum(self._is_here(name, blob) for name, blob in there.items()) * 2 > len(there):
                other.rename(self.git_dir)
                return True
        return False

    def _is_here(self, name: str, blob: str) -> bool:
        try:
            data = self.note(name)
        except (OSError, GitFailed):
            return False
        return data is not None and _blob_name(data) == blob

    def _present(self, there: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
        listing = notes_in(self.root, [WantedNotes(name=".", is_required=True)])
        marks = {note.name: note.marks for note in listing.notes}
        folder = self.root / SOURCES_FOLDER
        sources = () if folder.is_symlink() else sorted(folder.glob("*.jsonl"))
        for path in (self.root / ".gitignore", *sources):
            with suppress(FileNotFoundError):
                marks[path.relative_to(self.root).as_posix()] = note_marks(path.lstat())
        marks = {name: each for name, each in marks.items() if each.size_bytes <= MAX_NOTE_BYTES}
        for name in self._ignored([name for name in marks if name not in there]):
            marks.pop(name, None)
        if "" in listing.unreadable:
            return self._hashed(marks), []
        unread = tuple(f"{name}/" for name in listing.unreadable)
        gone = [name for name in there if name not in marks and is_kept(name) and not name.startswith(unread)]
        return self._hashed(marks), gone

    def _hashed(self, marks: Mapping[str, NoteMarks]) -> dict[str, str]:
        now_ns = stamped_now_ns(self.lock_dir)
        seen = _seen(self.git_dir / _SEEN)
        blobs: dict[str, str] = {}
        keep: dict[str, tuple[list[int], str]] = {}
        for name, each in marks.items():
            known = seen.get(name)
            if known is not None and known[0] == list(each):
                blobs[name], keep[name] = known[1], known
                continue
            try:
                read = note_bytes(self.root / name)
            except (OSError, PathOutsideRoot):  # it was removed or cannot be read, which is not a change
                continue
            blobs[name] = _blob_name(read.data)
            if max(read.marks.modified_ns, read.marks.changed_ns) < now_ns - _FRESH_NS:
                keep[name] = (list(read.marks), blobs[name])
        if keep != seen:
            with suppress(OSError):
                temporary = self.git_dir / f"{_SEEN}.tmp"
                temporary.write_text(json.dumps(keep), encoding="utf-8")
                temporary.replace(self.git_dir / _SEEN)
        return blobs

    def _ignored(self, names: Sequence[str]) -> list[str]:
        rules = [self._is_rules(name) for name in _gitignores(names)]
        if not names or not any(rules):
            return []
        stdin = b"".join(os.fsencode(name) + b"\0" for name in names)
        request = ("-C", str(self.root), "check-ignore", "--no-index", "-z", "--stdin")
        output = run_git(
            self.git_dir,
            *request,
            stdin=stdin,
            environment={"GIT_WORK_TREE": str(self.root)},
            until=self._until,
            good_codes=(0, 1),  # 1: none is ignored
        )
        return [os.fsdecode(name) for name in output.split(b"\0") if name]

    def _is_rules(self, name: str) -> bool:
        # git would wait for a pipe.
        try:
            mode = (self.root / name).lstat().st_mode
        except OSError:
            return False
        if not (stat.S_ISREG(mode) or stat.S_ISLNK(mode) or stat.S_ISDIR(mode)):
            raise GitFailed(f"{name} of the workspace is not a regular file")
        return stat.S_ISREG(mode)


def is_kept(name: str) -> bool:
    """Whether a file of this name belongs to the history: a note, a file of sources, `.gitignore`."""
    if name == ".gitignore":
        return True
    folder, _slash, _file = name.rpartition("/")
    if folder == SOURCES_FOLDER:
        return name.endswith(".jsonl")
    # A history from elsewhere may name files of programs, which are not read.
    return is_markdown(name) and not ({"..", *IGNORED_FOLDERS} & set(folder.casefold().split("/")))


def _key(root: Path, state_dir: Path) -> str:
    # The name stays if the state folder moves with the workspace in it.
    real, state = Path(os.path.realpath(root)), Path(os.path.realpath(state_dir))
    place = real.relative_to(state).as_posix() if real.is_relative_to(state) else str(real)
    name = re.sub(r"[^\w-]", "-", real.name) or "workspace"
    return f"{name}-{sha256(os.fsencode(place)).hexdigest()[:12]}"


def _entries(listed: bytes) -> dict[str, str]:
    rows = (row.partition(b"\t") for row in listed.split(b"\0") if row)
    return {os.fsdecode(name): facts.split()[2].decode() for facts, _tab, name in rows}


def _blob_name(data: bytes) -> str:
    return sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()


def _seen(path: Path) -> dict[str, tuple[list[int], str]]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        return {name: (marks, blob) for name, (marks, blob) in found.items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}


def _gitignores(names: Iterable[str]) -> set[str]:
    folders = {""}
    for name in names:
        while (name := name.rpartition("/")[0]) and name not in folders:
            folders.add(name)
    return {f"{folder}/.gitignore".lstrip("/") for folder in folders}


def _is_gone(path: Path) -> bool:
    try:
        path.lstat()
    except OSError as error:
        return isinstance(error, FileNotFoundError | NotADirectoryError)
    return False


def _quoted(name: str) -> bytes:
    escaped = os.fsencode(name).replace(b"\\", b"\\\\").replace(b'"', b'\\"').replace(b"\n", b"\\n")
    return b'"%s"' % escaped


_MOST_BYTES = 8 << 20
_MOST_CANDIDATES = 50
_COMMIT = re.compile(r"[0-9a-f]{40}")


def new_repository(git_dir: Path, *, until: float | None) -> None:
    """Makes an empty repository in place of an unfinished one. Raises `GitFailed`, `OSError`."""
    shutil.rmtree(git_dir, ignore_errors=True)
    git_dir.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    git_dir.mkdir(mode=0o700)
    run_git(git_dir, "init", "--bare", "--quiet", "--template=", until=until)


def copy_history(source: Path, git_dir: Path) -> bool:
    """Copies the newest complete commit of a damaged repository with its ancestors; `False` if there is none.

    Raises:
        GitTimedOut: it took too long.
    """
    # Colons separate a list of object folders; quoting allows any character.
    folder = os.fsdecode(_quoted(str((source / "objects").absolute())))
    borrowed = {"GIT_ALTERNATE_OBJECT_DIRECTORIES": folder}
    for commit in _candidates(source):
        request = f"{commit}\n".encode()
        try:
            pack = run_git(
                git_dir, "pack-objects", "--revs", "--stdout", "-q", stdin=request, environment=borrowed
            )
            run_git(git_dir, "index-pack", "--stdin", stdin=pack)
            run_git(git_dir, "update-ref", "-m", "nacre: copied", BRANCH, commit)
        except GitTimedOut:
            raise
        except GitFailed as error:
            log.info("commit %s of %s is not whole: %s", commit, source, error)
        else:
            return True
    return False


def _candidates(source: Path) -> list[str]:
    packed = (line.split() for line in _text(source / "packed-refs").splitlines())
    logged = (line.split() for line in reversed(_text(source / "logs" / BRANCH).splitlines()))
    found = [_text(source / BRANCH).strip(), *(row[0] for row in packed if row[1:] == [BRANCH])]
    found += [commit for row in logged if len(row) > 1 for commit in (row[1], row[0])]
    whole = [name for name in dict.fromkeys(found) if _COMMIT.fullmatch(name) and name.strip("0")]
    return whole[:_MOST_CANDIDATES]


def _text(path: Path) -> str:
    try:
        with os.fdopen(open_regular(path, os.O_RDONLY), "rb") as file:
            return file.read(_MOST_BYTES).decode("utf-8", "replace")
    except (OSError, PathOutsideRoot):
        return ""
