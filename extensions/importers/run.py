"""Runs an import: plans each piece, writes it if it is new, and counts it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from nacre.extensions.importers.plan import (
    NoteStep,
    SessionStep,
    SettingStep,
    fallback_path,
    plan_conversation,
    plan_note,
    plan_setting,
    plan_transcript,
    plan_variable,
)
from nacre.extensions.importers.report import Report
from nacre.extensions.importers.sources.pieces import (
    Conversation,
    Files,
    Note,
    Origin,
    Piece,
    Reader,
    Setting,
    Skipped,
    StoredTranscript,
    Variable,
)
from nacre.extensions.importers.sources.transcript import session_id, session_key, transcript_lines
from nacre.extensions.importers.target import FILE_NAME, ImportLedger, KeyPlace, Target
from nacre.memory.contracts.workspace import PathOutsideRoot
from nacre.memory.files.sources.sourced_workspace import SecretRefused
from nacre.memory.workspace.workspace import TEMPLATES, template_text
from nacre.record import Record
from nacre.runtime.settings.config import SETTINGS_FILE
from nacre.runtime.settings.disk.json5_edits import with_value
from nacre.runtime.settings.disk.secrets import from_keyring, with_environment_file
from nacre.runtime.settings.keys import at
from nacre.sessions.index.record import SessionRecord, record_from_json

if TYPE_CHECKING:
    from nacre.runtime.settings.config import Config

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
        await target.close()
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
                self.report.file_skipped(piece.file, piece.reason)
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
            self.report.file_used(shown, step.outcome, step.reason)
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
