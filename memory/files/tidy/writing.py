"""Writes a tidied note through the one gate of what is noted, while it is still what the owner looked at."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace

from nacre.memory.contracts.workspace import FileBusy, PathOutsideRoot, Workspace
from nacre.memory.files.sources.secrets import without_new_secrets
from nacre.memory.files.sources.source import PRIVATE, Source
from nacre.memory.files.sources.sourced_workspace import SourcedWorkspace
from nacre.memory.files.sources.sources import SourceOf, Sources
from nacre.memory.files.tidy.edits import Tidied
from nacre.memory.files.tidy.reading import TidyFailed


def gated(change: Tidied) -> Tidied:
    """The change as the gate lets it in: keys and passwords that come with new lines are redacted."""
    return replace(change, after=without_new_secrets(change.after, change.before or ""))


async def write(workspace: Workspace, change: Tidied, *, at: str) -> None:
    """Writes the note, and where its lines come from, `at` an ISO time.

    Raises:
        TidyFailed: nothing was changed: the note is not what the proposal was made of, or cannot be written.
    """
    new = change.after.encode("utf-8")
    was = None if change.before is None else change.before.encode("utf-8")

    def replaced(old: bytes | None) -> bytes:
        if old != was:
            raise TidyFailed(
                f"Nothing was changed: {change.path} was changed since the proposal was made. Run it again."
            )
        return new

    gate = SourcedWorkspace(workspace, Sources(workspace), _sources(change, at))
    try:
        await gate.change(change.path, replaced)
    except (OSError, FileBusy, PathOutsideRoot) as error:
        raise TidyFailed(f"Nothing was changed: {change.path} could not be written: {error}") from error


def _sources(change: Tidied, at: str) -> Callable[[], Awaitable[SourceOf]]:
    """What was folded in comes from a reflection; what the owner typed instead is theirs."""
    added = {line for edit in change.done for line in edit.added}
    reflected = Source(written_by="reflection", audience=PRIVATE, said_by=("owner", "assistant"), at=at)
    typed = Source(written_by="hand", audience=PRIVATE, said_by=("owner",), at=at)

    async def begin() -> SourceOf:
        return lambda line: reflected if line.rstrip() in added or not line else typed

    return begin
