"""The proposals of one agent on disk: kept before the writer is told, gone when the owner has answered. Edge.

Each is a file of its own in the state folder, which a kill leaves whole. Accepting writes the note first:
killed in between, the proposal still waits, and accepting it again changes nothing. `rejected` has digests of
the lines that the owner rejected: they are not proposed again, whatever file or tool they come by.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from nacre.memory.contracts.notes import MAX_NOTE_BYTES
from nacre.memory.contracts.workspace import Workspace
from nacre.memory.files.review.proposal import Proposal, applied, diff, from_bytes, proposal_of, to_bytes
from nacre.memory.files.sources.proposed import ProposedWrite, added_lines
from nacre.memory.files.sources.sources import Sources
from nacre.memory.files.sources.stored import line_key
from nacre.memory.workspace.folder import change_locked, whole_file
from nacre.memory.workspace.history.undo import Conflict

log = logging.getLogger(__name__)

REJECTED = "rejected"
"""The file with the digests of what was rejected, one a line."""


class ProposalUnknown(Exception):
    """No such proposal waits; a sentence."""


class ProposalConflict(Exception):
    """A proposal and what was changed since are about the same lines; nothing was written."""

    def __init__(self, path: str, line: int) -> None:
        super().__init__(
            f"Nothing was written: {path} was changed since at line {line}, where this proposal changes it, "
            "too. Edit the proposal, or reject it."
        )


class ReviewQueue:
    """The proposals in a folder. Any number of processes may share it.

    Its methods raise `OSError` when the disk refuses, and `FileBusy` when another process holds a file.
    """

    def __init__(self, folder: Path, *, lock_dir: Path) -> None:
        self._folder = folder
        self._lock_dir = lock_dir

    async def propose(self, write: ProposedWrite) -> str:
        """Keeps a write; see `Reviewing`."""
        proposal = proposal_of(write)
        if _digests(proposal) <= await asyncio.to_thread(self._rejected):
            return ""
        data = to_bytes(proposal)
        await asyncio.to_thread(self._change, proposal.id, lambda old: old or data)
        return proposal.id

    async def waiting(self) -> tuple[Proposal, ...]:
        """What waits, the oldest first. A file that cannot be read is set aside."""
        return await asyncio.to_thread(self._all)

    async def find(self, name: str) -> Proposal:
        """The proposal of an id, or of the beginning of one. Raises `ProposalUnknown`."""
        found = [each for each in await self.waiting() if name and each.id.startswith(name.strip().lower())]
        if len(found) == 1:
            return found[0]
        why = "several begin so" if found else "it may have been answered already"
        raise ProposalUnknown(f"No proposal {name!r} waits: {why}.")

    async def diff(self, proposal: Proposal, workspace: Workspace) -> str:
        """What accepting would change now, as a unified diff. Raises as `Workspace.read`."""
        return diff(proposal, await _bytes(workspace, proposal.write.path))

    async def accept(self, proposal: Proposal, workspace: Workspace, *, edited: str | None = None) -> None:
        """Does the write, with the text that the owner made of it, if they did.

        Raises:
            ProposalConflict: the note was changed since in the same place; the proposal waits on.
            PathOutsideRoot: the note may not be written.
        """
        if edited is not None:
            proposal = replace(proposal, write=replace(proposal.write, text=edited))

        def change(old: bytes | None) -> bytes | None:
            new = applied(proposal, old)
            if isinstance(new, Conflict):
                raise ProposalConflict(proposal.write.path, new.line)
            return new

        await workspace.change(proposal.write.path, change)
        write = proposal.write
        await Sources(workspace).approve(write.path, added_lines(write), write.source)
        await asyncio.to_thread(self._remember, proposal, False)
        await self._answered(proposal)

    async def reject(self, proposal: Proposal) -> None:
        """Takes a proposal away; the note stays as it is, and its words are not proposed again."""
        await asyncio.to_thread(self._remember, proposal, True)
        await self._answered(proposal)

    async def _answered(self, proposal: Proposal) -> None:
        await asyncio.to_thread(self._change, proposal.id, lambda _old: None)

    def _rejected(self) -> frozenset[str]:
        return frozenset((whole_file(self._folder / REJECTED) or b"").decode("ascii", "replace").split())

    def _remember(self, proposal: Proposal, is_rejected: bool) -> None:
        """Adds the digests of a proposal to the rejected ones, or takes them out."""
        digests = _digests(proposal)

        def change(old: bytes | None) -> bytes | None:
            known = (old or b"").decode("ascii", "replace").split()
            left = [digest for digest in known if digest not in digests]
            return "".join(f"{digest}\n" for digest in (*left, *(sorted(digests) * is_rejected))).encode()

        if is_rejected or (self._folder / REJECTED).exists():
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            change_locked(self._folder / REJECTED, change, self._lock_dir)

    def _path(self, proposal_id: str) -> Path:
        return self._folder / f"{proposal_id}.json"

    def _change(self, proposal_id: str, change: Callable[[bytes | None], bytes | None]) -> None:
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        change_locked(self._path(proposal_id), change, self._lock_dir)

    def _all(self) -> tuple[Proposal, ...]:
        try:
            paths = sorted(self._folder.glob("*.json"), key=lambda path: (path.stat().st_mtime_ns, path.name))
        except FileNotFoundError:  # one was answered while they were listed
            paths = sorted(self._folder.glob("*.json"))
        return tuple(found for path in paths if (found := _read(path)) is not None)


def _digests(proposal: Proposal) -> frozenset[str]:
    """What names the lines that a proposal adds wherever they go; the proposal itself where it adds none."""
    keys = frozenset(key for line in added_lines(proposal.write) if (key := line_key(line)))
    return keys or frozenset((proposal.id,))


def _read(path: Path) -> Proposal | None:
    data = whole_file(path)
    if data is None:
        return None
    proposal = from_bytes(data)
    if proposal is None or proposal.id != path.stem:
        aside = path.with_suffix(".unreadable")
        path.rename(aside)
        log.warning("%s holds no proposal and was set aside as %s", path.name, aside.name)
        return None
    return proposal


async def _bytes(workspace: Workspace, name: str) -> bytes | None:
    try:
        return (await workspace.read(name, max_bytes=MAX_NOTE_BYTES)).data
    except FileNotFoundError:
        return None
