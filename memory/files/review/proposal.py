"""A write that waits, as it is stored and as a diff, and what it makes of a note that went on since. Pure.

A contract: bytes on disk.
"""

from __future__ import annotations

import difflib
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from nacre.memory.files.sources.proposed import ProposedWrite
from nacre.memory.files.sources.stored import source_from_json, source_json
from nacre.memory.text.repeats import addition
from nacre.memory.workspace.history.commits import lines_of
from nacre.memory.workspace.history.undo import Conflict, taken_back

FORMAT_VERSION = 1
ID_CHARS = 8


@dataclass(frozen=True, kw_only=True, slots=True)
class Proposal:
    """A write that waits. `id` is a digest of it, so that one that waits already is the same one."""

    id: str
    write: ProposedWrite


def proposal_of(write: ProposedWrite) -> Proposal:
    """The proposal of a write."""
    said = json.dumps([write.path, write.text, write.before, write.is_append, write.heading])
    return Proposal(id=hashlib.sha256(said.encode()).hexdigest()[:ID_CHARS], write=write)


def to_bytes(proposal: Proposal) -> bytes:
    """A proposal as JSON."""
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


def from_bytes(data: bytes) -> Proposal | None:
    """What `to_bytes` gave; `None` for anything else."""
    try:
        raw = json.loads(data)
    except (ValueError, RecursionError):
        return None
    if not isinstance(raw, dict) or raw.get("version") != FORMAT_VERSION:
        return None
    names = ("id", "path", "heading", "below")
    if not all(isinstance(raw.get(name), str) for name in names) or not isinstance(
        raw.get("source"), Mapping
    ):
        return None
    texts = (raw.get("text"), raw.get("before"))
    if not all(text is None or isinstance(text, str) for text in texts):
        return None
    return Proposal(id=raw["id"], write=_write(raw))


def applied(proposal: Proposal, now: bytes | None) -> bytes | Conflict | None:
    """The note as the proposal would make it of what it is now; `None` is no note.

    What was changed elsewhere in the note since stays. Where the same lines were changed, it is a conflict.
    """
    write = proposal.write
    present = (now or b"").decode("utf-8", "surrogateescape")
    if write.is_append:
        added, _ = addition(
            present,
            write.text or "",
            skip_repeats=write.skip_repeats,
            heading=write.heading,
            below=write.below,
        )
        return (present + added).encode("utf-8", "surrogateescape") if added else now
    wanted = None if write.text is None else write.text.encode("utf-8", "surrogateescape")
    before = None if write.before is None else write.before.encode("utf-8", "surrogateescape")
    if now in (before, wanted):
        return wanted
    if wanted is None or before is None or now is None:
        return Conflict(line=1)
    lines = taken_back(lines_of(wanted), lines_of(before), lines_of(now))
    return lines if isinstance(lines, Conflict) else "".join(lines).encode("utf-8", "surrogateescape")


def diff(proposal: Proposal, now: bytes | None) -> str:
    """What accepting would change in the note as it is now, as a unified diff.

    Where the note was changed in the same place since, what was proposed then.
    """
    found = applied(proposal, now)
    if isinstance(found, Conflict):
        old, new = proposal.write.before or "", proposal.write.text or ""
    else:
        old, new = ((data or b"").decode("utf-8", "replace") for data in (now, found))
    name = proposal.write.path
    return "\n".join(difflib.unified_diff(old.splitlines(), new.splitlines(), name, name, lineterm="", n=2))


def _write(raw: Mapping[str, Any]) -> ProposedWrite:
    return ProposedWrite(
        path=raw["path"],
        text=raw.get("text"),
        before=raw.get("before"),
        is_append=raw.get("isAppend") is True,
        skip_repeats=raw.get("skipRepeats") is not False,
        heading=raw["heading"],
        below=raw["below"],
        source=source_from_json(raw["source"]),
    )
