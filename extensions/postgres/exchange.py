"""`pull` and `push`: synchronize a workspace in a database with a folder.

A file is written only if it has not changed since it was read, so both commands work while the assistant
writes and while somebody edits. The common state is recorded after the write; after a kill in between, the
next run compares again.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import field
from enum import Enum, auto
from functools import partial
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory

from nacre.extensions.postgres.document_rows import Document, DocumentRows, Moment, WrittenSince
from nacre.memory.contracts.notes import IGNORED_FOLDERS
from nacre.memory.contracts.workspace import FileBusy, PathOutsideRoot
from nacre.memory.workspace.folder import change_locked, file_bytes
from nacre.memory.workspace.git import git_environment
from nacre.memory.workspace.paths import contained_path, kept_inside, refuse_kept
from nacre.record import Record

THEIRS = ".theirs"
"""The suffix of the workspace's text, stored beside a file of the folder that cannot be merged."""
KEPT_FOLDER = ".nacre"
"""The subfolder that stores the common state of the last synchronization."""
HERE_MARK, THERE_MARK = b"<<<<<<< this folder", b">>>>>>> the workspace"
_STAYS = frozenset(name.casefold() for name in IGNORED_FOLDERS)
_LEFT_BY_A_KILL = re.compile(r"\.[0-9a-f]{16}\.tmp")

Text = bytes | None


class Step(Enum):
    """The action for one file."""

    NOTHING = auto()
    MET = auto()
    """Both sides are equal: record the common state."""
    COPY = auto()
    """Only one side changed: copy the change or the removal."""
    KEEP = auto()
    """Removed in the workspace, changed in the folder: the file stays, and the next push creates it again."""
    MERGE = auto()
    """Both sides changed."""


def pulled(base: Text, there: Text, here: Text) -> Step:
    """The action of a pull, which only changes the folder."""
    if there == here:
        return Step.NOTHING if base == there else Step.MET
    if there == base:
        return Step.NOTHING
    if here in (base, None):
        return Step.COPY
    return Step.KEEP if there is None else Step.MERGE


def pushed(base: Text, there: Text, here: Text) -> Step:
    """The action of a push, which only changes the workspace. A merge requires a pull first."""
    if there == here:
        return Step.NOTHING if base == there else Step.MET
    if here == base:
        return Step.NOTHING
    return Step.COPY if there == base else Step.MERGE


def travels(name: str) -> bool:
    """Whether a file is synchronized.

    Folders of programs are not: git would run a file such as `.git/hooks/…` from a workspace.
    """
    parts = name.split("/")
    if name.endswith(THEIRS) or _LEFT_BY_A_KILL.fullmatch(parts[-1]):
        return False
    return all(part.casefold() not in _STAYS for part in parts)


def has_marks(text: bytes) -> bool:
    """Whether a text contains the conflict marks of a pull."""
    return HERE_MARK in text and THERE_MARK in text


def only_appended(base: Text, there: bytes, here: bytes) -> bool:
    """Whether both sides only appended to the base, as in a log."""
    return bool(base) and there.startswith(base or b"") and here.startswith(base or b"")


MERGE_SECONDS = 60.0
_NO_TEXT = 128
"""Exit codes of git below this one count conflicts; the others are failures."""


class MergeFailed(Exception):
    """git is not installed, or failed."""


class Merged(Record):
    """The merge of two texts. With `is_conflict`, it contains both between marks; `text` is `None` for binary
    files.
    """

    text: bytes | None
    is_conflict: bool


def merged(base: Text, there: bytes, here: bytes) -> Merged:
    """Merges the changes of both sides; appended parts follow one another.

    Raises:
        MergeFailed: git cannot be started, or does not exit.
    """
    how = ["--union"] if only_appended(base, there, here) else []
    labels = [mark.split(b" ", 1)[1].decode() for mark in (HERE_MARK, THERE_MARK)]
    with TemporaryDirectory(prefix="nacre-merge-") as folder:
        names = ("here", "base", "there")
        for name, text in zip(names, (here, base or b"", there), strict=True):
            Path(folder, name).write_bytes(text)
        marks = ["-L", labels[0], "-L", "before", "-L", labels[1]]
        try:
            done = subprocess.run(
                ["git", "merge-file", "-p", "-q", *how, *marks, *names],
                cwd=folder,
                env={**git_environment(), "GIT_CEILING_DIRECTORIES": str(Path(folder).parent)},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=MERGE_SECONDS,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise MergeFailed(f"git, which merges files, cannot be used ({error}). Install git.") from error
    if 0 <= done.returncode < _NO_TEXT:
        return Merged(text=done.stdout, is_conflict=done.returncode > 0)
    return Merged(text=None, is_conflict=True)


MOST_BYTES = 1 << 30
"""The maximum size of a database field."""


class FolderUnusable(Exception):
    """The folder belongs to another workspace, or its state cannot be read."""


class Seen(Record):
    """Files by name, and the skipped names with their reasons."""

    files: dict[str, bytes]
    skipped: dict[str, str]

    def is_skipped(self, name: str) -> bool:
        """Whether this name, or one of its folders, was skipped, so that its content is unknown."""
        return any(name == each or name.startswith(f"{each}/") for each in self.skipped)


class FolderTree:
    """The folder `root`. Methods block and raise `OSError`."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._kept = root / KEPT_FOLDER
        self._met = self._kept / "met"
        self._locks = self._kept / "locks"

    @property
    def place(self) -> str:
        """The path, for people."""
        return str(self._root)

    def belong_to(self, workspace: str) -> None:
        """Binds a new folder to this workspace.

        Raises:
            FolderUnusable: the folder belongs to another workspace.
        """
        note = self._kept / "workspace.json"
        try:
            known = json.loads(note.read_bytes())["workspace"]
        except FileNotFoundError:
            self._locks.mkdir(parents=True, exist_ok=True, mode=0o700)
            change_locked(self._kept / ".gitignore", lambda _: b"*\n", self._locks)
            text = json.dumps({"version": 1, "workspace": workspace}, indent=2) + "\n"
            change_locked(note, lambda _: text.encode(), self._locks)
            return
        except (ValueError, KeyError, TypeError) as error:
            raise FolderUnusable(f"{note} cannot be read. Choose a new folder.") from error
        if known != workspace:
            raise FolderUnusable(
                f"The folder {self._root} belongs to another workspace ({known}), not to {workspace}. "
                "Choose another folder."
            )

    def here(self) -> Seen:
        """The files of the folder that are synchronized."""
        return files_below(self._root)

    def base(self) -> dict[str, bytes]:
        """The common state of the last synchronization."""
        return files_below(self._met).files if self._met.is_dir() else {}

    def unresolved(self, here: dict[str, bytes], met: dict[str, bytes]) -> list[str]:
        """The names of files with an unresolved conflict."""
        marked = (name for name, text in here.items() if has_marks(text) and met.get(name) != text)
        beside = (name for name in here if (self._root / (name + THEIRS)).exists())
        return sorted({*marked, *beside})

    def put(self, name: str, text: Text, *, seen: Text) -> None:
        """Replaces a file that has not changed since it was read. `text=None` removes it, `seen=None` creates
        it.

        Raises:
            FileBusy: somebody changed the file in the meantime; their version stays.
            PathOutsideRoot: a link leads out of the folder.
        """
        path = contained_path(self._root, name)
        if text is None:
            with suppress(FileNotFoundError):
                if file_bytes(self._root, name, max_bytes=MOST_BYTES).data != seen:
                    raise _changed(name)
                path.unlink()
            folder, root = path.parent, Path(os.path.realpath(self._root))
            with suppress(OSError):  # stops at the first folder that is not empty
                while folder != root:
                    folder.rmdir()
                    folder = folder.parent
            return

        def change(old: bytes | None) -> bytes:
            if old != seen:
                raise _changed(name)
            return text

        change_locked(path, change, self._locks)

    def put_beside(self, name: str, theirs: bytes) -> None:
        """Stores the workspace's text beside a file that cannot be merged."""
        change_locked(contained_path(self._root, name + THEIRS), lambda _: theirs, self._locks)

    def record_base(self, name: str, text: Text) -> None:
        """Records the common state of a file."""
        path = contained_path(self._met, name)
        if text is None:
            path.unlink(missing_ok=True)
        else:
            change_locked(path, lambda _: text, self._locks)


def _changed(name: str) -> FileBusy:
    return FileBusy(f"{name!r} has changed in the folder in the meantime. Run the command again.")


def files_below(root: Path, *, kept: Sequence[Path] = ()) -> Seen:
    """The files of a folder that are synchronized. `kept` are real paths inside it to skip.

    Raises:
        OSError: a folder cannot be listed, or a file cannot be read.
    """
    seen = Seen(files={}, skipped={})
    real = Path(os.path.realpath(root))
    passed = [place.relative_to(real).as_posix() for place in kept]
    for path in _walk(root, passed):
        name = path.relative_to(root).as_posix()
        try:
            name.encode()
            if path.is_symlink():
                seen.skipped[name] = "a link, which is not followed"
            elif path.is_file():
                seen.files[name] = file_bytes(root, name, max_bytes=MOST_BYTES).data
        except (PathOutsideRoot, UnicodeEncodeError) as error:
            seen.skipped[os.fsencode(name).decode("utf-8", "backslashreplace")] = str(error)
    return seen


def _walk(root: Path, passed: Sequence[str]) -> Iterator[Path]:
    """The files and links to synchronize, sorted by name, without the names `passed` and their contents."""

    def refuse(error: OSError) -> None:
        raise error  # files that cannot be seen would count as removed

    for folder, folders, names in os.walk(root, onerror=refuse):
        inside = Path(folder)
        prefix = "" if inside == root else f"{inside.relative_to(root).as_posix()}/"
        links = [each for each in folders if (inside / each).is_symlink()]
        goes = {each for each in (*folders, *names) if travels(prefix + each) and prefix + each not in passed}
        folders[:] = sorted(each for each in folders if each in goes and each not in links)
        yield from (inside / each for each in sorted((*names, *links)) if each in goes)


class PushRefused(Exception):
    """Nothing was pushed, because files have conflicts or have changed in the workspace as well."""


class Exchanged(Record):
    """The sorted names of the files that were changed.

    `conflicts` now have marks, or the workspace's text beside them. `kept` were removed in the workspace and
    changed in the folder. `left_out` are sentences.
    """

    written: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    merged: list[str] = field(default_factory=list)
    conflicts: list[str] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)


async def pull(rows: DocumentRows, tree: FolderTree) -> Exchanged:
    """Copies changes of the workspace to the folder; changes of the folder stay.

    Files with an unresolved conflict are skipped.

    Raises:
        OSError, FileBusy, PathOutsideRoot: a file could not be written; the files before it are complete.
        FolderUnusable: the folder belongs to another workspace.
        MergeFailed: git is needed and cannot be used.
    """
    files = await rows.files()
    return await asyncio.to_thread(_pull, {name: each.body for name, each in files.items()}, rows.place, tree)


async def push(rows: DocumentRows, tree: FolderTree) -> Exchanged:
    """Copies all changes of the folder to the workspace, or none.

    Raises:
        PushRefused: the message names the files.
        OSError, FileBusy: the disk or the database failed; nothing was pushed.
        FolderUnusable: the folder belongs to another workspace.
    """
    files = await rows.files()
    plan = await asyncio.to_thread(_planned, files, rows.place, tree)

    def write(moment: Moment) -> None:
        # Removals go first: a folder may take the name of a file.
        for name in (*plan.done.removed, *plan.done.written):
            seen = files.get(name)
            moment.put(name, plan.here.get(name), seen=seen.revision if seen else None)

    if plan.done.removed or plan.done.written:
        try:
            await rows.write(write)
        except WrittenSince as error:
            raise PushRefused(f"Nothing was pushed: {error} Pull first, then push again.") from error

    def note() -> None:
        for name in (*plan.met, *plan.done.removed, *plan.done.written):
            tree.record_base(name, plan.here.get(name))

    await asyncio.to_thread(note)
    return plan.done


def _pull(there: Mapping[str, bytes], workspace: str, tree: FolderTree) -> Exchanged:
    tree.belong_to(workspace)
    met, seen, done = tree.base(), tree.here(), Exchanged()
    done.left_out.extend(_reasons(seen))
    unresolved = set(tree.unresolved(seen.files, met))
    for name in sorted({*met, *there, *seen.files}):
        if not travels(name):
            done.left_out.append(f"{name}: a name that belongs to a program")
        elif seen.is_skipped(name):
            continue
        elif name in unresolved:
            done.conflicts.append(name)
        else:
            _pull_one(name, met.get(name), there.get(name), seen.files.get(name), tree, done)
    return done


def _pull_one(name: str, base: Text, there: Text, here: Text, tree: FolderTree, done: Exchanged) -> None:
    step = pulled(base, there, here)
    if step is Step.COPY:
        tree.put(name, there, seen=here)
        (done.removed if there is None else done.written).append(name)
    elif step is Step.KEEP:
        done.kept.append(name)
    elif step is Step.MERGE:
        assert there is not None
        assert here is not None
        found = merged(base, there, here)
        if found.text is None:
            tree.put_beside(name, there)
        else:
            tree.put(name, found.text, seen=here)
        (done.conflicts if found.is_conflict else done.merged).append(name)
    if step is not Step.NOTHING:
        tree.record_base(name, there)


class _Plan(Record):
    """The changes of a push, and the files that only need to be recorded as equal."""

    here: Mapping[str, bytes]
    met: list[str]
    done: Exchanged


def _planned(files: Mapping[str, Document], workspace: str, tree: FolderTree) -> _Plan:
    tree.belong_to(workspace)
    met, seen = tree.base(), tree.here()
    if unresolved := tree.unresolved(seen.files, met):
        raise PushRefused(
            f"Nothing was pushed: {', '.join(unresolved)} still "
            f"{'has a conflict' if len(unresolved) == 1 else 'have conflicts'}. Choose one version between "
            "the marks <<<<<<< and >>>>>>>, or one of the two files, remove the other, and push again."
        )
    plan = _Plan(here=seen.files, met=[], done=Exchanged(left_out=_reasons(seen)))
    behind = []
    for name in sorted({*met, *filter(travels, files), *seen.files}):
        there, here = files[name].body if name in files else None, seen.files.get(name)
        if seen.is_skipped(name):
            continue
        step = pushed(met.get(name), there, here)
        if step is Step.COPY:
            (plan.done.removed if here is None else plan.done.written).append(name)
        elif step is Step.MET:
            plan.met.append(name)
        elif step is Step.MERGE:
            behind.append(name)
    if plan.done.removed and not seen.files:
        raise PushRefused(
            f"Nothing was pushed: {tree.place} is empty, which would remove every note. If you want that, "
            "leave one file in it."
        )
    if behind:
        raise PushRefused(
            f"Nothing was pushed: {', '.join(behind)} changed in the workspace as well. "
            f"`nacre admin workspace pull {tree.place}` merges, then push again."
        )
    return plan


def _reasons(seen: Seen) -> list[str]:
    return [f"{name}: {reason}" for name, reason in seen.skipped.items()]


class WorkspaceSum(Record):
    """The number of files of a workspace, their total size, and a checksum over names and contents."""

    files: int
    size_bytes: int
    checksum: str


class CopiedWorkspace(Record):
    """Both workspaces after a copy, and sentences about files that were not copied."""

    source: WorkspaceSum
    target: WorkspaceSum
    problems: tuple[str, ...]


async def copy_to_rows(folder: Path, rows: DocumentRows, *, kept: Sequence[Path]) -> CopiedWorkspace:
    """Copies a folder, without folders of programs and the paths `kept`.

    Raises:
        OSError, FileBusy: the disk or the database failed; nothing was copied.
    """
    files, left_out = await asyncio.to_thread(_folder_files, folder, kept)

    def write(moment: Moment) -> None:
        moment.begin_writing()
        there = moment.all()
        for name, body in files.items():
            if name not in there:
                moment.put(name, body, seen=None)

    await rows.write(write)
    there = {name: found.body for name, found in (await rows.files()).items()}
    return _copied(files, there, left_out)


async def copy_to_folder(
    rows: DocumentRows, folder: Path, *, kept: Sequence[Path], lock_dir: Path
) -> CopiedWorkspace:
    """Copies a workspace from a database to a folder, which is created if necessary.

    Raises:
        OSError, PathOutsideRoot: the disk or the database failed; files copied before stay.
    """
    found = await rows.files()
    files = {name: each.body for name, each in found.items() if travels(name)}
    left_out = [f"{name} belongs to a program and is not copied" for name in found if not travels(name)]

    def write() -> dict[str, bytes]:
        inside = kept_inside(folder, kept)
        for name, body in list(files.items()):
            try:
                path = contained_path(folder, name)
                refuse_kept(folder, path, inside)
            except PathOutsideRoot as error:
                left_out.append(str(error))
                del files[name]
            else:
                change_locked(path, partial(_unless_there, body), lock_dir)
        return _folder_files(folder, kept)[0]

    return _copied(files, await asyncio.to_thread(write), left_out)


def _copied(
    source: Mapping[str, bytes], target: Mapping[str, bytes], left_out: Sequence[str]
) -> CopiedWorkspace:
    differ = [name for name, body in source.items() if target.get(name) != body]
    problems = [*left_out]
    if differ:
        problems.append(f"These files have another text in the target, which stays: {', '.join(differ)}.")
    return CopiedWorkspace(
        source=_sum(source),
        target=_sum({name: body for name, body in target.items() if name in source}),
        problems=tuple(problems),
    )


def _sum(files: Mapping[str, bytes]) -> WorkspaceSum:
    checksum = sha256()
    for name, body in sorted(files.items()):
        checksum.update(f"{name}\n{len(body)}\n".encode() + body)
    return WorkspaceSum(
        files=len(files), size_bytes=sum(map(len, files.values())), checksum=checksum.hexdigest()
    )


def _folder_files(folder: Path, kept: Sequence[Path]) -> tuple[dict[str, bytes], list[str]]:
    if not folder.is_dir():
        return {}, []
    seen = files_below(folder, kept=kept_inside(folder, kept))
    return seen.files, _reasons(seen)


def _unless_there(body: bytes, old: bytes | None) -> bytes:
    return body if old is None else old
