"""Notes that a tool of somebody else writes by itself, past the gate of `SourcedWorkspace`.

A tool is a program: one of an extension or a tool server can write into the folder of the notes. Lines that
appear there while it runs get a source, as if the session had written them, so that they are neither the
owner's word nor part of a prompt.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from nacre.memory.contracts.notes import FoundNote, NoteMarks, WantedNotes
from nacre.memory.contracts.workspace import Workspace
from nacre.memory.files.sources.stored import line_key
from nacre.runtime.tools.session_sources import SessionSources

MOST_READ_BYTES = 4 << 20
"""So many bytes of notes are read before a turn's first such call, the newest first. Of a larger note that
changes, every line counts that has no source."""


class ToolWrites:
    """What the tools of one turn write into the folder of the notes."""

    def __init__(self, workspace: Workspace, sources: SessionSources) -> None:
        self._workspace = workspace
        self._sources = sources
        self._seen: Mapping[str, NoteMarks] | None = None
        self._keys: dict[str, frozenset[str]] = {}
        self._one_at_a_time = asyncio.Lock()

    async def before(self) -> None:
        """Looks at the notes, once in a turn; a tool is about to run."""
        async with self._one_at_a_time:
            if self._seen is not None or self._workspace.folder is None or not self._workspace.is_there:
                return
            notes = await self._notes()
            self._seen = {note.name: note.marks for note in notes}
            self._keys = await self._read(_newest(notes))

    async def after(self, tool_name: str) -> None:
        """Notes where lines come from that are new since, and have no source."""
        async with self._one_at_a_time:
            if self._seen is None:
                return
            seen = {note.name: note.marks for note in await self._notes()}
            changed = [name for name, marks in seen.items() if self._seen.get(name) != marks]
            before, self._seen = self._seen, seen
            if not changed:
                return
            source_of = await self._sources.of_tool(tool_name)
            for name, found in (await self._workspace.read_notes(changed)).items():
                if isinstance(found, Exception):
                    continue
                text = found.data.decode("utf-8", "replace")
                known = self._keys.get(name, frozenset())
                lines = [line for line in text.splitlines() if line_key(line) not in known]
                await self._sources.sources.keep_written(name, lines, source_of)
                if name in self._keys or name not in before:
                    self._keys[name] = _keys_of(text)

    async def _notes(self) -> Sequence[FoundNote]:
        return (await self._workspace.list_notes([WantedNotes(name=".", is_required=True)])).notes

    async def _read(self, names: Sequence[str]) -> dict[str, frozenset[str]]:
        read = await self._workspace.read_notes(names)
        return {
            name: _keys_of(found.data.decode("utf-8", "replace"))
            for name, found in read.items()
            if not isinstance(found, Exception)
        }


def _newest(notes: Sequence[FoundNote]) -> list[str]:
    """The newest notes that may be read, those of the prompt, at the top of the workspace, before others."""
    left, names = MOST_READ_BYTES, []
    for note in sorted(notes, key=lambda note: ("/" in note.name, -note.marks.modified_ns)):
        if note.marks.size_bytes <= left:
            left -= note.marks.size_bytes
            names.append(note.name)
    return names


def _keys_of(text: str) -> frozenset[str]:
    return frozenset(map(line_key, text.splitlines()))
