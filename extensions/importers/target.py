"""What an import writes to: notes, sessions, settings, keys, and the ledger of imported notes.

The ledger prevents a note from being imported again after someone has changed it. It is a file of JSON lines
in the agent's folder: `source`, `name` in the source, `sha256` of its contents, `path` here, `at`. Unreadable
lines are ignored: at worst a note is imported again, under another path.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from nacre.cli.setup.config.changing import change_file
from nacre.cli.setup.config.editing import example
from nacre.extensions.importers.sources.pieces import Note, Origin
from nacre.memory.contracts.notes import MAX_NOTE_BYTES
from nacre.memory.files.sources.source import PRIVATE, Source
from nacre.memory.files.sources.sourced_workspace import SourcedWorkspace
from nacre.memory.files.sources.sources import Sources
from nacre.memory.workspace.workspace import WorkspaceReport, ensure_workspace
from nacre.runtime.contracts.clock import owner_clock
from nacre.runtime.contracts.ids import random_id
from nacre.runtime.settings.config import SETTINGS_FILE, checked_settings
from nacre.runtime.settings.disk.agent_folders import keep_private
from nacre.runtime.settings.disk.json5_edits import with_value
from nacre.runtime.settings.disk.secrets import ENVIRONMENT_FILE, keep_in_file, keep_in_keyring
from nacre.runtime.settings.disk.settings_file import read_text, settings_as_written
from nacre.runtime.storage.storage import storage_of
from nacre.sessions.contracts.errors import SessionKeyInvalid, SessionNotFound
from nacre.sessions.contracts.keys import canonical_key
from nacre.sessions.disk.durable import locked, make_folder, read_plain, replace_file
from nacre.sessions.disk.json_text import split_lines, to_line
from nacre.sessions.index.record import SessionRecord

if TYPE_CHECKING:
    from nacre.extensions.importers.sources.pieces import Note, Origin
    from nacre.memory.files.sources.sources import SourceOf
    from nacre.runtime.settings.config import Config

FILE_NAME = "imports.jsonl"
_TYPE = "note"
KeyPlace: TypeAlias = Literal["file", "keyring"]
"""Where provider keys are stored: in `.env` of the state folder, or in the system keyring."""
_PLACEHOLDER_KEY = "import:begun"


class ImportLedger:
    def __init__(self, file: Path, origin: Origin) -> None:
        self._file = file
        self._origin = origin
        found = read_plain(file) if file.exists() else None
        lines = split_lines(found[0]) if found else []
        values = [line.value for line in lines if line.value is not None]
        self._imported = {
            (value.get("source"), value.get("name"), value.get("sha256"))
            for value in values
            if value["type"] == _TYPE
        }

    def knows(self, note: Note) -> bool:
        """Whether this note was imported before with the same contents."""
        return (self._origin, note.path, sha256(note.data).hexdigest()) in self._imported

    def add(self, notes: list[tuple[Note, str]], *, at: datetime) -> None:
        """Adds notes, each with its path here. Raises `OSError` or `SessionError` if the disk refuses."""
        records = [
            {
                "type": _TYPE,
                "source": self._origin,
                "name": note.path,
                "sha256": sha256(note.data).hexdigest(),
                "path": path,
                "at": at.isoformat(timespec="seconds"),
            }
            for note, path in notes
        ]
        if not records:
            return
        make_folder(self._file.parent)
        with locked(self._file):
            found = read_plain(self._file) if self._file.exists() else None
            replace_file(self._file, (found[0] if found else b"") + b"".join(map(to_line, records)))


class Target:
    """The stores of one agent. Nothing is created before the first write."""

    def __init__(self, config: Config, environment: Mapping[str, str], origin: Origin) -> None:
        self._config = config
        self._environment = environment
        self._now = owner_clock(config.settings.agent.user_timezone)
        self._workspace = storage_of(config).workspace()
        secrets = config.settings.memory.secrets
        self._sources = Sources(self._workspace, secrets=secrets)
        self._origin = origin
        self.store = storage_of(config).sessions(now=self._now, new_id=random_id)
        """The agent's sessions."""

    def now(self) -> datetime:
        return self._now()

    async def notes(self, paths: Sequence[str]) -> dict[str, bytes | None]:
        """The contents at some paths of the workspace, `None` where there is no file.

        Raises:
            PathOutsideRoot, OSError: a file cannot be read.
        """
        found = await self._workspace.read_many(paths, max_bytes=MAX_NOTE_BYTES)
        contents: dict[str, bytes | None] = {}
        for path, each in found.items():
            if isinstance(each, FileNotFoundError):
                contents[path] = None
            elif isinstance(each, Exception):
                raise each
            else:
                contents[path] = each.data
        return contents

    async def write_note(self, note: Note, path: str, *, append: bool) -> None:
        """Writes a note, or appends its new lines, through the filter for secrets.

        Raises:
            PathOutsideRoot, OSError, FileBusy: it cannot be written.
        """
        filtered_workspace = SourcedWorkspace(self._workspace, self._sources, self._source(note))
        if append:
            await filtered_workspace.append(path, note.data.decode("utf-8", "surrogateescape"))
        else:
            await filtered_workspace.change(path, lambda _old: note.data)

    def _source(self, note: Note) -> Callable[[], Awaitable[SourceOf]]:
        source = Source(
            written_by="import",
            audience=PRIVATE,
            said_by=("owner", "assistant") if note.is_owners else ("unknown",),
            names=(self._origin,),
            chat=f"imported from {self._origin}",
            at=self._now().isoformat(timespec="seconds"),
        )

        async def source_of_lines() -> SourceOf:
            return lambda _line: source

        return source_of_lines

    async def transcript(self, name: str) -> bytes | None:
        """A stored transcript; `None` if there is none. Raises `SessionError`."""
        try:
            return await self.store.exported(name)
        except SessionNotFound:
            return None

    async def name_session(self, key: str, record: SessionRecord) -> None:
        """Adds an imported session to the index under its key, or to the earlier sessions of that key.

        Raises:
            SessionError: the index cannot be written.
        """

        def change(present: Mapping[str, SessionRecord]) -> Mapping[str, SessionRecord | None]:
            known = {
                name for each in present.values() for name in (each.session_id, *each.previous_session_ids)
            }
            if record.session_id in known:
                return {}
            if (current := present.get(key)) is None:
                return {key: record}
            earlier = (record.session_id, *current.previous_session_ids)
            return {key: replace(current, previous_session_ids=earlier)}

        await self.store.index.edit(change)

    def key(self, written: str) -> str:
        """Converts another agent's session key to one of this agent; empty if it is not valid."""
        rest = (
            written.split(":", 2)[2] if written.startswith("agent:") and written.count(":") > 1 else written
        )
        try:
            main_key = self._config.settings.session.main_key
            return canonical_key(rest, agent_id=self._config.agent_id, main_key=main_key)
        except SessionKeyInvalid:
            return ""

    def settings_text(self) -> tuple[str, Mapping[str, Any]]:
        """The text of the settings file, or the commented example if there is none, and its values.

        Raises:
            ConfigError: it cannot be read.
        """
        text = read_text(self._file)
        return (text if text.strip() else example()), settings_as_written(self._file)

    def check(self, text: str, environment: Mapping[str, str]) -> None:
        """Raises `ConfigError` if Nacre could not start with these settings and variables."""
        checked_settings(text, self._file, environment)

    def write_settings(
        self, keys: Mapping[str, str], values: Sequence[tuple[tuple[str, ...], Any]], *, place: KeyPlace
    ) -> None:
        """Stores keys, and writes settings to the file, whose comments stay.

        Raises:
            ConfigError: a key cannot be stored, or the file cannot be changed.
        """
        for name, secret in keys.items():
            if place == "keyring":
                keep_in_keyring(name, secret)
            else:
                keep_in_file(self._config.state_dir / ENVIRONMENT_FILE, name, secret)
        if not values:
            return

        def change(text: str) -> str:
            text = text if text.strip() else example()
            for key, value in values:
                if place == "keyring" and isinstance(value, str) and value[2:-1] in keys:
                    value = f"${{keyring:{value[2:-1]}}}"
                text = with_value(text, key, value)
            return text

        change_file(self._file, self._environment, change)

    async def prepare(self) -> None:
        """Creates the private folders, and an index of sessions before any transcript exists.

        Raises:
            OSError, SessionError: one cannot be created.
        """
        keep_private(self._config.state_dir, self._config.folders)
        index = self.store.index
        if not await index.all():
            # Transcripts without an index would look like a lost index.
            line = SessionRecord(session_id=random_id(), updated_at_ms=0)
            await index.edit(lambda _present: {_PLACEHOLDER_KEY: line})
            await index.edit(lambda _present: {_PLACEHOLDER_KEY: None})

    async def complete(self) -> WorkspaceReport:
        """Creates the missing parts of the workspace. Raises `OSError`."""
        with_templates = not self._config.settings.agent.skip_bootstrap
        return await ensure_workspace(self._workspace, with_templates=with_templates)

    async def close(self) -> None:
        await self.store.close()

    @property
    def _file(self) -> Path:
        return self._config.state_dir / SETTINGS_FILE
