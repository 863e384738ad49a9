"""What becomes of each thing of a source, given what is here already. Pure: decides, and writes nothing."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Literal, TypeAlias

from nacre.extensions.importers.sources.contents import Kept, Note, Origin
from nacre.extensions.importers.sources.written import HEAD_LINES, Line
from nacre.memory.files.sources.secrets import without_new_secrets
from nacre.memory.files.sources.sources import SecretsMode
from nacre.record import Record

Outcome: TypeAlias = Literal["imported", "here", "skipped"]

_DAY = re.compile(r"memory/(?:\d{4}-\d{2}/)?\d{4}-\d{2}-\d{2}\.md")
_INSTRUCTIONS = ("AGENTS.md",)
"""Files that speak of the other program's tools; they never take the place of Nacre's own."""


class NoteStep(Record):
    """`append` adds what is new at the end of the note; otherwise it is written whole, to `path`."""

    outcome: Outcome
    path: str
    append: bool = False
    reason: str = ""


class SessionStep(Record):
    """`data` is the whole transcript. The messages of the source: how many are new, are here, stay out."""

    outcome: Outcome
    data: bytes
    new: int = 0
    here: int = 0
    left: int = 0
    reason: str = ""


def beside(origin: Origin, note: Note) -> str:
    """Where a note goes whose own place is taken; what is no memory stays out of the index."""
    path = note.path
    if path.startswith("memory/imports/"):
        stem, dot, suffix = path.rpartition(".")
        return f"{stem}-{sha256(note.data).hexdigest()[:6]}{dot}{suffix}"
    is_memory = path in ("MEMORY.md", "USER.md") or path.startswith("memory/")
    folder = "memory/imports" if is_memory else "imports"
    return f"{folder}/{origin}/{path.removeprefix('memory/')}"


def plan_note(
    note: Note,
    origin: Origin,
    there: Mapping[str, bytes | None],
    *,
    template: bytes | None,
    is_known: bool,
    secrets: SecretsMode,
) -> NoteStep:
    """Where a note goes. `there` is what stands at its path and beside; `is_known`: it was brought before.

    An untouched template gives way, as nobody wrote it. Days stay days: what a day's log does not have yet is
    added to it. Anything else goes beside what is here.
    """
    text = note.data.decode("utf-8", "surrogateescape")
    gated = text if secrets == "off" else without_new_secrets(text)
    data, own, other = gated.encode("utf-8", "surrogateescape"), note.path, beside(origin, note)
    if is_known:
        return NoteStep(outcome="here", path=own)
    if gated != text and secrets == "refuse":
        return NoteStep(outcome="skipped", path=own, reason="a key or a password is in it (memory.secrets)")
    if not text.strip():
        return NoteStep(outcome="skipped", path=own, reason="it is empty")
    if data in (there[own], there[other]):
        return NoteStep(outcome="here", path=own if data == there[own] else other)
    present = there[own]
    if present is not None and _DAY.fullmatch(own):
        known = set(present.decode("utf-8", "surrogateescape").splitlines())
        is_all = all(line in known for line in gated.splitlines() if line.strip())
        return NoteStep(outcome="here" if is_all else "imported", path=own, append=True)
    if (present is None or present == template) and own not in _INSTRUCTIONS:
        return NoteStep(outcome="imported", path=own)
    if there[other] is None:
        return NoteStep(outcome="imported", path=other)
    return NoteStep(outcome="skipped", path=own, reason=f"other notes stand at {own} and at {other}")


def plan_conversation(lines: Sequence[Line], there: bytes | None) -> SessionStep:
    """What becomes of a conversation of these lines; `there` is the transcript that it has here.

    A transcript that is here is never changed but for lines at its end.
    """
    messages = {line.message for line in lines if line.message}
    if not messages:
        return SessionStep(outcome="skipped", data=b"", reason="nothing in it can be carried")
    body = [line.data for line in lines[HEAD_LINES:]]
    if there is None:
        head = [line.data for line in lines[:HEAD_LINES]]
        return SessionStep(outcome="imported", data=b"".join([*head, *body]), new=len(messages))
    present = there.splitlines(keepends=True)
    # the name may have changed there
    data = b"".join([*present[:HEAD_LINES], *body])
    known = set(present)
    new = {line.message for line in lines[HEAD_LINES:] if line.message and line.data not in known}
    return _beside(data, there, new=len(new), here=len(messages) - len(new))


def plan_kept(kept: Kept, there: bytes | None) -> SessionStep:
    """What becomes of a transcript that is carried as it is."""
    carried = kept.messages - sum(each.count for each in kept.skipped)
    if there is None:
        return SessionStep(outcome="imported", data=kept.data, new=carried)
    known = set(there.splitlines(keepends=True))
    new = sum(b'"message"' in line for line in kept.data.splitlines(keepends=True) if line not in known)
    return _beside(kept.data, there, new=min(new, carried), here=max(0, carried - new))


def _beside(data: bytes, there: bytes, *, new: int, here: int) -> SessionStep:
    if there.startswith(data) or not new:
        return SessionStep(outcome="here", data=data, here=here + new)
    if data.startswith(there):
        return SessionStep(outcome="imported", data=data, new=new, here=here)
    return SessionStep(
        outcome="here", data=data, here=here, left=new, reason="the session went on here, and there as well"
    )
