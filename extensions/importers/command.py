"""The command `nacre import`: notes, sessions and settings of another program."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, TypeAlias

import click

from nacre.cli.invocation import Invocation, begin, json_option, shared_options
from nacre.cli.screen.json_text import print_json
from nacre.cli.screen.screen import screen_on
from nacre.cli.setup.config.changing import change_file, example
from nacre.extensions.importers.plan import (
    NoteStep,
    Report,
    SessionStep,
    SettingStep,
    fallback_path,
    plan_conversation,
    plan_note,
    plan_setting,
    plan_transcript,
    plan_variable,
    report_json,
    report_lines,
    unaccounted,
)
from nacre.extensions.importers.sources.pieces import (
    Conversation,
    Files,
    FolderFiles,
    Note,
    Origin,
    Piece,
    Reader,
    Setting,
    Skipped,
    StoredTranscript,
    Variable,
    open_source,
)
from nacre.extensions.importers.sources.transcript import session_id, session_key, transcript_lines
from nacre.memory.contracts.notes import MAX_NOTE_BYTES
from nacre.memory.contracts.workspace import FileBusy, PathOutsideRoot
from nacre.memory.files.sources.source import PRIVATE, Source
from nacre.memory.files.sources.sourced_workspace import SecretRefused, SourcedWorkspace, one_source
from nacre.memory.files.sources.sources import Sources
from nacre.memory.workspace.workspace import TEMPLATES, WorkspaceReport, ensure_workspace, template_text
from nacre.record import Record
from nacre.runtime.contracts.clock import random_id
from nacre.runtime.settings.config import SETTINGS_FILE, Config, checked_settings
from nacre.runtime.settings.disk.agent_folders import keep_private
from nacre.runtime.settings.disk.json5_edits import with_value
from nacre.runtime.settings.disk.secrets import (
    ENVIRONMENT_FILE,
    from_keyring,
    keep_in_file,
    keep_in_keyring,
    with_environment_file,
)
from nacre.runtime.settings.disk.settings_file import read_text, settings_as_written
from nacre.runtime.settings.keys import at
from nacre.runtime.storage.storage import open_sessions, storage_of
from nacre.sessions.contracts.errors import SessionError, SessionKeyInvalid, SessionNotFound
from nacre.sessions.contracts.keys import canonical_key
from nacre.sessions.disk.durable import locked, make_folder, read_plain, replace_file
from nacre.sessions.disk.json_text import split_lines, to_line
from nacre.sessions.index.record import SessionRecord, record_from_json

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
        self.now = config.clock
        self._workspace = storage_of(config).workspace()
        secrets = config.settings.memory.secrets
        self._sources = Sources(self._workspace, secrets=secrets)
        self._origin = origin
        self.store = open_sessions(config, self.now)
        """The agent's sessions."""

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
        source = Source(
            written_by="import",
            audience=PRIVATE,
            said_by=("owner", "assistant") if note.is_owners else ("unknown",),
            names=(self._origin,),
            chat=f"imported from {self._origin}",
        )
        filtered_workspace = SourcedWorkspace(self._workspace, self._sources, one_source(source, self.now))
        if append:
            await filtered_workspace.append(path, note.data.decode("utf-8", "surrogateescape"))
        else:
            await filtered_workspace.change(path, lambda _old: note.data)

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

    @property
    def _file(self) -> Path:
        return self._config.state_dir / SETTINGS_FILE


MOST_NOTES_AT_ONCE = 50
"""The ledger is written after this many notes, so that a kill loses little."""

_STRANGE_PATH = "its path is not valid in the workspace"


class ImportOptions(Record):
    origin: Origin
    is_dry: bool
    key_place: KeyPlace


async def run_import(
    config: Config,
    environment: Mapping[str, str],
    options: ImportOptions,
    read: Reader,
    files: Files,
    *,
    on_session: Callable[[int], None],
) -> Report:
    """Imports what is new, or with `is_dry` only reports it.

    `on_session` is called with the number of sessions read so far.

    Raises:
        ConfigError: settings or keys cannot be stored.
        SessionError, OSError, FileBusy: a store refused; what was imported stays, and another run continues.
    """
    target = Target(config, environment, options.origin)
    ledger = ImportLedger(config.folders.agent_dir / FILE_NAME, options.origin)
    run = _Run(config, environment, options, target, ledger)
    try:
        if not options.is_dry:
            await target.prepare()
        for piece in read(files):
            await run.take(piece)
            on_session(run.report.counts["sessions"].found)
        if not options.is_dry:
            target.write_settings(run.keys, run.values, place=options.key_place)
            await target.complete()
    finally:
        run.update_ledger()
        await target.store.close()
    run.report.finish(files.names(), list(files.left_out))
    return run.report


class _Run:
    def __init__(
        self,
        config: Config,
        environment: Mapping[str, str],
        options: ImportOptions,
        target: Target,
        ledger: ImportLedger,
    ) -> None:
        self.report = Report()
        self.keys: dict[str, str] = {}
        self.values: list[tuple[tuple[str, ...], Any]] = []
        self._config, self._options, self._target, self._ledger = config, options, target, ledger
        self._environment = dict(with_environment_file(environment, config.state_dir / SETTINGS_FILE))
        self._text, self._written = target.settings_text()
        self._imported_notes: list[tuple[Note, str]] = []

    async def take(self, piece: Piece) -> None:
        """Plans one piece, writes it if it is new, and counts it."""
        match piece:
            case Skipped(kind="files"):
                self.report.file(piece.file, "skipped", piece.reason)
            case Skipped():
                self.report.found(piece.kind, piece.count)
                self._skipped(piece)
            case Note():
                await self._note(piece)
            case Conversation():
                await self._conversation(piece)
            case StoredTranscript():
                await self._stored_transcript(piece)
            case Variable():
                self._variable(piece)
            case Setting():
                step = plan_setting(
                    piece,
                    self._text,
                    self._written,
                    environment=self._environment,
                    check=self._target.check,
                )
                if step.outcome == "imported":
                    self._text = with_value(self._text, piece.key, step.value)
                    self.values.append((piece.key, step.value))
                self._setting(piece, ".".join(piece.key), step)

    def update_ledger(self) -> None:
        """Adds the notes imported since the last call to the ledger."""
        if not self._options.is_dry:
            self._ledger.add(self._imported_notes, at=self._target.now())
        self._imported_notes.clear()

    async def _note(self, note: Note) -> None:
        self.report.found("notes")
        fallback = fallback_path(self._options.origin, note)
        try:
            existing = await self._target.notes((note.path, fallback))
        except PathOutsideRoot:
            self.report.add("notes", "skipped", file=note.file, name=note.path, reason=_STRANGE_PATH)
            return
        step = plan_note(
            note,
            self._options.origin,
            existing,
            template=template_text(note.path).encode() if note.path in TEMPLATES else None,
            is_known=self._ledger.knows(note),
            secrets=self._config.settings.memory.secrets,
        )
        if step.outcome == "imported" and not self._options.is_dry:
            try:
                await self._target.write_note(note, step.path, append=step.append)
            except SecretRefused:
                step = NoteStep(outcome="skipped", path=step.path, reason="it contains a key or a password")
            else:
                self._imported_notes.append((note, step.path))
        if len(self._imported_notes) >= MOST_NOTES_AT_ONCE:
            self.update_ledger()
        if step.outcome == "imported" and step.path != note.path:
            self.report.moved.append((note.path, step.path))
        self.report.add("notes", step.outcome, file=note.file, name=note.path, reason=step.reason)

    async def _conversation(self, conversation: Conversation) -> None:
        lines = transcript_lines(self._options.origin, conversation, self._config.agent_id)
        identity = session_id(self._options.origin, conversation.id)
        name = self._target.store.transcript_name(SessionRecord(session_id=identity, updated_at_ms=0))
        step = plan_conversation(lines, await self._target.transcript(name))
        key = session_key(self._options.origin, conversation, self._config.agent_id)
        step = await self._write_transcript(name, key, step)
        lost_attachments = [each for each in conversation.skipped if each.kind == "attachments"]
        self.report.found("attachments", conversation.attachments)
        imported_count = conversation.attachments - sum(each.count for each in lost_attachments)
        name = conversation.title or conversation.id
        for shown in conversation.shows:
            self.report.file(shown, step.outcome, step.reason)
        self.report.add(
            "attachments",
            step.outcome,
            file=conversation.file,
            count=imported_count,
            name=name,
            reason=step.reason,
        )
        self._session(conversation, name, step)

    async def _stored_transcript(self, transcript: StoredTranscript) -> None:
        step = plan_transcript(transcript, await self._target.transcript(transcript.name))
        record = record_from_json(transcript.raw_record) if transcript.raw_record else None
        key = self._target.key(transcript.key) if transcript.key else ""
        step = await self._write_transcript(
            transcript.name, key or f"recovered:{transcript.session_id}", step
        )
        if record is not None and key and not self._options.is_dry and step.outcome != "skipped":
            is_usual = transcript.name == f"{record.session_id}.jsonl"
            await self._target.name_session(
                key, replace(record, session_file=None if is_usual else transcript.name)
            )
        self._session(transcript, transcript.file, step)

    async def _write_transcript(self, name: str, key: str, step: SessionStep) -> SessionStep:
        """Writes a transcript, unless the session is in use."""
        if step.outcome != "imported" or self._options.is_dry:
            return step
        async with self._target.store.turn_lock(key) as is_free:
            if is_free:
                await self._target.store.import_transcript(name, step.data, {})
                return step
        reason = "it is in use"
        return SessionStep(outcome="skipped", data=b"", left_out=step.new + step.here, reason=reason)

    def _session(self, piece: Conversation | StoredTranscript, name: str, step: SessionStep) -> None:
        add = self.report.add
        self.report.found("sessions")
        self.report.found("messages", piece.messages)
        for each in piece.skipped:
            self._skipped(each)
        add("sessions", step.outcome, file=piece.file, name=name, reason=step.reason)
        add("messages", "imported", file=piece.file, count=step.new)
        add("messages", "here", file=piece.file, count=step.here)
        add("messages", "skipped", file=piece.file, count=step.left_out, name=name, reason=step.reason)

    def _variable(self, piece: Variable) -> None:
        in_keyring = self._options.key_place == "keyring"
        stored_key = from_keyring(piece.name) if in_keyring else ""
        known = {**self._environment, piece.name: stored_key} if stored_key else self._environment
        step = plan_variable(piece, known)
        place = ("models", "providers", piece.name.removesuffix("_API_KEY").lower(), "apiKey")
        if in_keyring and step.variable and at(self._written, place) is None:
            # only keys that the settings name are read from the keyring
            reference = f"${{{piece.name}}}"
            self._text = with_value(self._text, place, reference)
            self.values.append((place, reference))
        self._setting(piece, piece.name, step)

    def _setting(self, piece: Setting | Variable, name: str, step: SettingStep) -> None:
        self.report.found("settings")
        if step.variable:
            self.keys[step.variable] = step.secret
            self._environment[step.variable] = step.secret
        self.report.add("settings", step.outcome, file=piece.file, name=name, reason=step.reason)

    def _skipped(self, piece: Skipped) -> None:
        self.report.add(
            piece.kind,
            "skipped",
            file=piece.file,
            count=piece.count,
            name=piece.name,
            reason=piece.reason,
        )


_SESSIONS_PER_UPDATE = 25
"""A terminal shows the number of sessions after each batch of this size."""
_PROGRAMS = ("openclaw", "hermes", "chatgpt", "claude")


@click.command("import")
@click.argument("program", type=click.Choice(_PROGRAMS))
@click.argument("path", type=click.Path(path_type=Path))
@click.option("--dry-run", is_flag=True, help="Show what would be imported, and write nothing.")
@click.option(
    "--keys",
    "key_place",
    type=click.Choice(["file", "keyring"]),
    default="file",
    show_default=True,
    help="Store provider keys in the file .env of the state folder, or in the system keyring.",
)
@click.option(
    "--from-workspace",
    "other_workspace",
    metavar="DIR",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    help="Import the workspace of OpenClaw from DIR, if it is outside PATH.",
)
@json_option("Print one JSON object, with the name of everything skipped.")
@shared_options
def command(
    context: click.Context,
    program: Origin,
    path: Path,
    dry_run: bool,
    key_place: KeyPlace,
    other_workspace: Path | None,
    as_json: bool,
) -> int:
    """Import from OpenClaw, Hermes, ChatGPT or Claude.

    PATH is the state folder of OpenClaw (~/.openclaw) or Hermes (~/.hermes), or a data export of ChatGPT or
    Claude, as a zip archive or unpacked. Only files inside PATH are read, whatever its settings name.
    Nothing here is overwritten, and the source is not changed.
    Run the command again to import what is new; nothing is imported twice.
    """
    invocation = begin(context)
    invocation.warn(*invocation.config.notices)
    path = path.expanduser().resolve()
    if other_workspace is not None and (program != "openclaw" or not path.is_dir()):
        raise click.UsageError("Use --from-workspace only with the state folder of OpenClaw.")
    options = ImportOptions(origin=program, is_dry=dry_run, key_place=key_place)
    screen = screen_on(sys.stderr, invocation.environment)

    def show_progress(sessions: int) -> None:
        if screen.is_live and sessions % _SESSIONS_PER_UPDATE == 0:
            screen.status(f"{sessions} sessions read")

    module = import_module(f"nacre.extensions.importers.sources.{program}")
    read: Reader = getattr(module, f"read_{program}")
    files = _files(invocation, program, path, other_workspace)
    try:
        report = asyncio.run(
            run_import(
                invocation.config, invocation.environment, options, read, files, on_session=show_progress
            )
        )
    except (SessionError, FileBusy, OSError) as error:
        raise click.ClickException(
            f"{str(error).rstrip('.')}. What was imported stays; run the command again for the rest."
        ) from error
    finally:
        screen.clear_status()
    report.problems += unaccounted(report)
    if as_json:
        print_json(report_json(report, is_dry=dry_run))
    else:
        invocation.say(*report_lines(report, is_dry=dry_run), *_next_steps(report, is_dry=dry_run))
    invocation.warn(*report.problems)
    return 1 if report.problems else 0


def _files(invocation: Invocation, program: Origin, path: Path, workspace: Path | None) -> Files:
    """The files of PATH. Its settings may choose a workspace among them; only the owner names another."""
    files = open_source(path)
    if program != "openclaw" or not isinstance(files, FolderFiles):
        return files
    if workspace is not None:
        return FolderFiles(path, replacements={"workspace": workspace.resolve()})
    from nacre.extensions.importers.sources.openclaw import OTHER_WORKSPACE, chosen_workspace, named_workspace

    named = named_workspace(files)
    chosen = chosen_workspace(path, named, home=invocation.config.home) if named else "workspace"
    if chosen is None:
        files.left_out.append((named, OTHER_WORKSPACE))
    elif chosen != "workspace":
        files = FolderFiles(path, replacements={"workspace": path / chosen})
    return files


def _next_steps(report: Report, *, is_dry: bool) -> list[str]:
    counts = report.counts
    if is_dry:
        return (
            ["", "Nothing was written. Run the command without --dry-run to import."]
            if counts["files"].found
            else []
        )
    lines = []
    if counts["sessions"].imported:
        lines.append(
            "`nacre sessions search WORD` finds what was said in the sessions, `nacre sessions` "
            "lists them, and `nacre sessions resume ID` continues one."
        )
    if counts["notes"].imported:
        lines.append("`nacre search WORD` finds the notes.")
    return ["", *lines] if lines else []
