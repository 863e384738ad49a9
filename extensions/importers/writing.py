"""What an import writes to, each through what else writes there: notes, sessions, settings, keys. Edge."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from nacre.cli.setup.config.changing import change_file
from nacre.cli.setup.config.editing import example
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
from nacre.sessions.index.record import SessionRecord

if TYPE_CHECKING:
    from nacre.extensions.importers.sources.contents import Note, Origin
    from nacre.memory.files.sources.sources import SourceOf
    from nacre.runtime.settings.config import Config

KeyPlace: TypeAlias = Literal["file", "keyring"]
"""Where keys of providers are put: the file `.env` of the state folder, or the system's keyring."""
_FIRST = "import:begun"


class Target:
    """Where one agent keeps its things. Nothing is made before the first write."""

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
        """The owner's time."""
        return self._now()

    async def notes(self, paths: Sequence[str]) -> dict[str, bytes | None]:
        """What stands at some paths of the workspace, `None` where nothing does.

        Raises:
            PathOutsideRoot, OSError: one cannot be read.
        """
        found = await self._workspace.read_many(paths, max_bytes=MAX_NOTE_BYTES)
        there: dict[str, bytes | None] = {}
        for path, each in found.items():
            if isinstance(each, FileNotFoundError):
                there[path] = None
            elif isinstance(each, Exception):
                raise each
            else:
                there[path] = each.data
        return there

    async def write_note(self, note: Note, path: str, *, append: bool) -> None:
        """Writes a note through the gate that lets no secrets in, or adds to it what it does not have.

        Raises:
            PathOutsideRoot, OSError, FileBusy: it cannot be written.
        """
        gated = SourcedWorkspace(self._workspace, self._sources, self._source(note))
        if append:
            await gated.append(path, note.data.decode("utf-8", "surrogateescape"))
        else:
            await gated.change(path, lambda _old: note.data)

    def _source(self, note: Note) -> Callable[[], Awaitable[SourceOf]]:
        source = Source(
            written_by="import",
            audience=PRIVATE,
            said_by=("owner", "assistant") if note.is_owners else ("unknown",),
            names=(self._origin,),
            chat=f"imported from {self._origin}",
            at=self._now().isoformat(timespec="seconds"),
        )

        async def begin() -> SourceOf:
            return lambda _line: source

        return begin

    async def transcript(self, name: str) -> bytes | None:
        """A transcript as it is kept, `None` where there is none. Raises `SessionError`."""
        try:
            return await self.store.exported(name)
        except SessionNotFound:
            return None

    async def name_session(self, key: str, record: SessionRecord) -> None:
        """Gives a session that was brought over its key, or the key's earlier sessions if it has one.

        Raises:
            SessionError: the index cannot be written.
        """

        def change(present: Mapping[str, SessionRecord]) -> Mapping[str, SessionRecord | None]:
            known = {
                name for each in present.values() for name in (each.session_id, *each.previous_session_ids)
            }
            if record.session_id in known:
                return {}
            if (there := present.get(key)) is None:
                return {key: record}
            earlier = (record.session_id, *there.previous_session_ids)
            return {key: replace(there, previous_session_ids=earlier)}

        await self.store.index.edit(change)

    def key(self, written: str) -> str:
        """A key of another program's agent as one of this agent; empty where it cannot be one."""
        rest = (
            written.split(":", 2)[2] if written.startswith("agent:") and written.count(":") > 1 else written
        )
        try:
            main_key = self._config.settings.session.main_key
            return canonical_key(rest, agent_id=self._config.agent_id, main_key=main_key)
        except SessionKeyInvalid:
            return ""

    def settings_text(self) -> tuple[str, Mapping[str, Any]]:
        """The text of the settings, the commented example where there is none, and its values.

        Raises:
            ConfigError: it cannot be read.
        """
        text = read_text(self._file)
        return (text if text.strip() else example()), settings_as_written(self._file)

    def check(self, text: str, environment: Mapping[str, str]) -> None:
        """Raises `ConfigError` for a text that Nacre could not start with, given these variables."""
        checked_settings(text, self._file, environment)

    def keep_settings(
        self, keys: Mapping[str, str], values: Sequence[tuple[tuple[str, ...], Any]], *, place: KeyPlace
    ) -> None:
        """Puts keys where they are kept, and settings that name them into the file, whose comments stay.

        Raises:
            ConfigError: one cannot be kept, or the file cannot be changed.
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

    async def begin(self) -> None:
        """Makes the private folders, and an index of sessions before there are transcripts.

        Raises:
            OSError, SessionError: one cannot be made.
        """
        keep_private(self._config.state_dir, self._config.folders)
        index = self.store.index
        if not await index.all():
            # A folder of transcripts without an index would be taken for one that lost it.
            line = SessionRecord(session_id=random_id(), updated_at_ms=0)
            await index.edit(lambda _present: {_FIRST: line})
            await index.edit(lambda _present: {_FIRST: None})

    async def complete(self) -> WorkspaceReport:
        """Makes what a workspace has and this one does not have yet. Raises `OSError`."""
        with_templates = not self._config.settings.agent.skip_bootstrap
        return await ensure_workspace(self._workspace, with_templates=with_templates)

    async def close(self) -> None:
        """Finishes what the session store writes behind."""
        await self.store.close()

    @property
    def _file(self) -> Path:
        return self._config.state_dir / SETTINGS_FILE
