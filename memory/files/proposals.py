"""Changes of notes that the owner approves, and the review queue: writes that wait for the owner's answer.

The queue has one JSON file for each write, in the state folder. A proposal is on disk before its writer is
told that it waits. Accepting writes the note before it removes the proposal: after a kill in between, the
proposal still waits, and accepting it again changes nothing. The file `rejected` has the digests of rejected
lines, which are not proposed again, whichever note or tool they are for. The files are a contract:
`FORMAT_VERSION`.
"""

from __future__ import annotations

import asyncio
import difflib
import hashlib
import json
import logging
import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import overload

from nacre.memory.contracts.notes import MAX_NOTE_BYTES, encoding_of_note, is_markdown, text_of_note
from nacre.memory.contracts.workspace import FileBusy, PathOutsideRoot, Workspace
from nacre.memory.files.sources.proposed_write import ProposedWrite, added_lines
from nacre.memory.files.sources.rejections import lift, reject
from nacre.memory.files.sources.source import PRIVATE, Source
from nacre.memory.files.sources.sourced_workspace import SourcedWorkspace
from nacre.memory.files.sources.sources import SourceOf, Sources, line_key, source_from_json, source_json
from nacre.memory.text.repeats import addition
from nacre.memory.workspace.folder import change_locked, whole_file
from nacre.memory.workspace.history.commits import TIDIED, HistoryBusy, as_one_commit, lines_of
from nacre.memory.workspace.history.undo import Conflict, reverted
from nacre.record import Record

FORMAT_VERSION = 1
ID_CHARS = 8
REJECTED = "rejected"
"""The file with the digests of rejected lines, one a line."""

_SURROGATE = re.compile("[\ud800-\udfff]")
_WORD = re.compile(r"\w+")
FORGOTTEN = "[forgotten]"
"""What replaces forgotten lines in a transcript."""
_MIN_WORDS = 3
"""A shorter text, such as `- ok`, only matches lines that consist of it."""
log = logging.getLogger(__name__)


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
    encoding, raw_lines = encoding_of_note(data), data.splitlines(keepends=True)
    kept: list[bytes] = []
    removed: list[str] = []
    if encoding != "utf-8":
        kept = [data[:2]]
        raw_lines = [line.encode(encoding) for line in text_of_note(data).splitlines(keepends=True)]
    for number, raw in enumerate(raw_lines, start=1):
        line = (text_of_note(raw) if encoding == "utf-8" else raw.decode(encoding)).rstrip("\r\n")
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


@dataclass(frozen=True, kw_only=True, slots=True)
class Proposal:
    """A write that waits. Its `id` is a digest of the write, so that equal writes are one proposal."""

    id: str
    write: ProposedWrite

    def applied(self, now: bytes | None) -> bytes | None:
        """The present note `now` with this write; `None` stands for no note.

        Other changes made since are kept.

        Raises:
            ProposalConflict: the same lines have changed since.
        """
        write = self.write
        if write.is_append:
            present = (now or b"").decode("utf-8", "surrogateescape")
            added, _ = addition(
                present,
                write.text or "",
                skip_repeats=write.skip_repeats,
                heading=write.heading,
                below=write.below,
            )
            return note_bytes(present + added) if added else now
        if write.text is not None:
            return NoteChange(path=write.path, before=write.before, after=write.text).merged_into(now)
        if now is not None and now != note_bytes(write.before):
            raise ProposalConflict(write.path, 1)
        return None


class ReviewQueue:
    """The proposals in a folder, which any number of processes may share.

    The methods raise `OSError` if the disk refuses and `FileBusy` if another process holds a file.
    """

    def __init__(self, folder: Path, *, lock_dir: Path, history_dir: Path | None = None) -> None:
        """`history_dir` is the state folder whose history gets an accepted reflection as one commit."""
        self._folder = folder
        self._lock_dir = lock_dir
        self._history_dir = history_dir

    async def propose(self, write: ProposedWrite) -> str:
        """Stores a write that waits for the owner; see `Reviewing.propose`."""
        named = json.dumps([write.path, write.text, write.before, write.is_append, write.heading])
        proposal = Proposal(id=hashlib.sha256(named.encode()).hexdigest()[:ID_CHARS], write=write)
        if _digests(proposal) <= await asyncio.to_thread(self._rejected):
            return ""
        data = _to_bytes(proposal)
        await asyncio.to_thread(self._change, proposal.id, lambda old: old or data)
        return proposal.id

    async def waiting(self) -> tuple[Proposal, ...]:
        """The waiting proposals, oldest first. Files that cannot be read are renamed `*.unreadable`."""
        return await asyncio.to_thread(self._all)

    async def find(self, name: str) -> Proposal:
        """The proposal with an id, or with an id that begins with `name`.

        Raises:
            ProposalUnknown: no proposal has this id, or several begin with it.
        """
        found = [each for each in await self.waiting() if name and each.id.startswith(name.strip().lower())]
        if len(found) == 1:
            return found[0]
        why = "several ids begin with it" if found else "it may have been answered already"
        raise ProposalUnknown(f"No proposal {name!r} waits: {why}.")

    async def diff(self, proposal: Proposal, workspace: Workspace) -> str:
        """What accepting would change now, as a unified diff; after a conflict, what was proposed.

        Raises the same errors as `Workspace.read`.
        """
        write = proposal.write
        try:
            now: bytes | None = (await workspace.read(write.path, max_bytes=MAX_NOTE_BYTES)).data
        except FileNotFoundError:
            now = None
        try:
            after = proposal.applied(now)
        except ProposalConflict:
            return NoteChange(path=write.path, before=write.before, after=write.text or "").diff
        before = None if now is None else now.decode("utf-8", "surrogateescape")
        return NoteChange(
            path=write.path, before=before, after=(after or b"").decode("utf-8", "surrogateescape")
        ).diff

    async def accept(self, proposal: Proposal, workspace: Workspace, *, edited: str | None = None) -> None:
        """Writes the proposal to its note, with the text `edited` instead of its own if that is given.

        Raises:
            ProposalConflict: the note has changed in the same place; the proposal still waits.
            PathOutsideRoot: the note may not be written.
            OSError: the note or the history cannot be written.
        """
        if edited is not None:
            proposal = replace(proposal, write=replace(proposal.write, text=edited))
        write = proposal.write

        async def accepted() -> None:
            await workspace.change(write.path, proposal.applied)
            await Sources(workspace).approve(write.path, added_lines(write), write.source)
            await lift(workspace, write.path, write.text or "", added_lines(write))

        if self._history_dir is not None and write.source.written_by == "reflection":
            try:
                await as_one_commit(
                    workspace,
                    accepted,
                    paths=[write.path],
                    commits=True,
                    state_dir=self._history_dir,
                    subject=f"Tidied {write.path}",
                    trailers=((TIDIED, write.path),),
                )
            except HistoryBusy as error:
                raise OSError(f"Nothing was written: {error}. Accept it again.") from error
        else:
            await accepted()
        await asyncio.to_thread(self._answered, proposal, is_rejected=False)

    async def reject(self, proposal: Proposal, workspace: Workspace) -> None:
        """Removes a proposal; its lines are neither proposed nor written again. Raises `PathOutsideRoot`."""
        write = proposal.write
        await reject(workspace, write.path, write.text or "", added_lines(write))
        await asyncio.to_thread(self._answered, proposal, is_rejected=True)

    def _answered(self, proposal: Proposal, *, is_rejected: bool) -> None:
        digests = _digests(proposal)

        def change(old: bytes | None) -> bytes | None:
            known = (old or b"").decode("ascii", "replace").split()
            left = [digest for digest in known if digest not in digests]
            return "".join(f"{digest}\n" for digest in (*left, *(sorted(digests) * is_rejected))).encode()

        if is_rejected or (self._folder / REJECTED).exists():
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            change_locked(self._folder / REJECTED, change, self._lock_dir)
        self._change(proposal.id, lambda _old: None)

    def _rejected(self) -> frozenset[str]:
        return frozenset((whole_file(self._folder / REJECTED) or b"").decode("ascii", "replace").split())

    def _change(self, proposal_id: str, change: Callable[[bytes | None], bytes | None]) -> None:
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        change_locked(self._folder / f"{proposal_id}.json", change, self._lock_dir)

    def _all(self) -> tuple[Proposal, ...]:
        try:
            paths = sorted(self._folder.glob("*.json"), key=lambda path: (path.stat().st_mtime_ns, path.name))
        except FileNotFoundError:  # one was answered while they were listed
            paths = sorted(self._folder.glob("*.json"))
        return tuple(found for path in paths if (found := _read(path)) is not None)


def _digests(proposal: Proposal) -> frozenset[str]:
    """The keys of the lines that a proposal adds, whichever note they go to; its id if it adds none."""
    keys = frozenset(key for line in added_lines(proposal.write) if (key := line_key(line)))
    return keys or frozenset((proposal.id,))


def _read(path: Path) -> Proposal | None:
    data = whole_file(path)
    if data is None:
        return None
    proposal = _from_bytes(data)
    if proposal is None or proposal.id != path.stem:
        aside = path.with_suffix(".unreadable")
        path.rename(aside)
        log.warning("%s is not a proposal and was renamed %s", path.name, aside.name)
        return None
    return proposal


def _to_bytes(proposal: Proposal) -> bytes:
    write = proposal.write
    raw = {
        "version": FORMAT_VERSION,
        "id": proposal.id,
        "path": write.path,
        "isAppend": write.is_append,
        "text": write.text,
        "before": write.before,
        "skipRepeats": write.skip_repeats,
        "heading": write.heading,
        "below": write.below,
        "source": source_json(write.source),
    }
    return json.dumps(raw, indent=1).encode("ascii") + b"\n"


def _from_bytes(data: bytes) -> Proposal | None:
    try:
        raw = json.loads(data)
    except (ValueError, RecursionError):
        return None
    if not isinstance(raw, dict) or raw.get("version") != FORMAT_VERSION:
        return None
    names = ("id", "path", "heading", "below")
    texts = (raw.get("text"), raw.get("before"))
    is_whole = all(isinstance(raw.get(name), str) for name in names) and all(
        text is None or isinstance(text, str) for text in texts
    )
    if not is_whole or not isinstance(raw.get("source"), Mapping):
        return None
    write = ProposedWrite(
        path=raw["path"],
        text=raw.get("text"),
        before=raw.get("before"),
        is_append=raw.get("isAppend") is True,
        skip_repeats=raw.get("skipRepeats") is not False,
        heading=raw["heading"],
        below=raw["below"],
        source=source_from_json(raw["source"]),
    )
    return Proposal(id=raw["id"], write=write)
