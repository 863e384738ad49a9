"""One import: each piece of a source is held against what is here, carried or not, and counted. Edge."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from nacre.extensions.importers.ledger import FILE_NAME, ImportLedger
from nacre.extensions.importers.planning import (
    NoteStep,
    SessionStep,
    beside,
    plan_conversation,
    plan_kept,
    plan_note,
)
from nacre.extensions.importers.report import Report
from nacre.extensions.importers.settings_fit import SettingStep, plan_setting, plan_variable
from nacre.extensions.importers.sources.contents import (
    Conversation,
    Files,
    Kept,
    Note,
    Origin,
    Piece,
    Reader,
    Setting,
    Skipped,
    Variable,
)
from nacre.extensions.importers.sources.written import session_id, session_key, transcript_lines
from nacre.extensions.importers.writing import KeyPlace, Target
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
"""After so many notes the ledger is written, so that a kill in between costs little."""

_STRANGE_PATH = "its path cannot be one of the workspace"


class Wanted(Record):
    """What is to be imported, and how."""

    origin: Origin
    is_dry: bool
    key_place: KeyPlace


async def run_import(
    config: Config,
    environment: Mapping[str, str],
    wanted: Wanted,
    read: Reader,
    files: Files,
    *,
    tell: Callable[[int], None],
) -> Report:
    """Carries over what is new, or finds out what that would be. `tell` hears how many sessions were read.

    Raises:
        ConfigError: settings or keys cannot be kept.
        SessionError, OSError, FileBusy: a store refused; what was carried stays, and another run goes on.
    """
    target = Target(config, environment, wanted.origin)
    ledger = ImportLedger(config.folders.agent_dir / FILE_NAME, wanted.origin)
    run = _Run(config, environment, wanted, target, ledger)
    try:
        if not wanted.is_dry:
            await target.begin()
        for piece in read(files):
            await run.take(piece)
            tell(run.report.counts["sessions"].found)
        if not wanted.is_dry:
            target.keep_settings(run.keys, run.values, place=wanted.key_place)
            await target.complete()
    finally:
        run.keep_notes_known()
        await target.close()
    run.report.finish(files.names(), list(files.left_out))
    return run.report


class _Run:
    """The state of one import."""

    def __init__(
        self,
        config: Config,
        environment: Mapping[str, str],
        wanted: Wanted,
        target: Target,
        ledger: ImportLedger,
    ) -> None:
        self.report = Report()
        self.keys: dict[str, str] = {}
        self.values: list[tuple[tuple[str, ...], Any]] = []
        self._config, self._wanted, self._target, self._ledger = config, wanted, target, ledger
        self._environment = dict(with_environment_file(environment, config.state_dir / SETTINGS_FILE))
        self._text, self._written = target.settings_text()
        self._brought: list[tuple[Note, str]] = []

    async def take(self, piece: Piece) -> None:
        """Decides about one piece, carries it if it is new, and counts it."""
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
            case Kept():
                await self._kept(piece)
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

    def keep_notes_known(self) -> None:
        """Writes into the ledger which notes were brought over since the last time."""
        if not self._wanted.is_dry:
            self._ledger.keep(self._brought, at=self._target.now())
        self._brought.clear()

    async def _note(self, note: Note) -> None:
        self.report.found("notes")
        other = beside(self._wanted.origin, note)
        try:
            there = await self._target.notes((note.path, other))
        except PathOutsideRoot:
            self.report.add("notes", "skipped", file=note.file, name=note.path, reason=_STRANGE_PATH)
            return
        step = plan_note(
            note,
            self._wanted.origin,
            there,
            template=template_text(note.path).encode() if note.path in TEMPLATES else None,
            is_known=self._ledger.knows(note),
            secrets=self._config.settings.memory.secrets,
        )
        if step.outcome == "imported" and not self._wanted.is_dry:
            try:
                await self._target.write_note(note, step.path, append=step.append)
            except SecretRefused:
                step = NoteStep(outcome="skipped", path=step.path, reason="a key or a password is in it")
            else:
                self._brought.append((note, step.path))
        if len(self._brought) >= MOST_NOTES_AT_ONCE:
            self.keep_notes_known()
        if step.outcome == "imported" and step.path != note.path:
            self.report.moved.append((note.path, step.path))
        self.report.add("notes", step.outcome, file=note.file, name=note.path, reason=step.reason)

    async def _conversation(self, conversation: Conversation) -> None:
        lines = transcript_lines(self._wanted.origin, conversation, self._config.agent_id)
        identity = session_id(self._wanted.origin, conversation.id)
        name = self._target.store.transcript_name(SessionRecord(session_id=identity, updated_at_ms=0))
        step = plan_conversation(lines, await self._target.transcript(name))
        key = session_key(self._wanted.origin, conversation, self._config.agent_id)
        step = await self._brought_in(name, key, step)
        lost = [each for each in conversation.skipped if each.kind == "attachments"]
        self.report.found("attachments", conversation.attachments)
        carried = conversation.attachments - sum(each.count for each in lost)
        name = conversation.title or conversation.id
        for shown in conversation.shows:
            self.report.file_used(shown, step.outcome, step.reason)
        self.report.add(
            "attachments",
            step.outcome,
            file=conversation.file,
            count=carried,
            name=name,
            reason=step.reason,
        )
        self._session(conversation, name, step)

    async def _kept(self, kept: Kept) -> None:
        step = plan_kept(kept, await self._target.transcript(kept.name))
        record = record_from_json(kept.raw_record) if kept.raw_record else None
        key = self._target.key(kept.key) if kept.key else ""
        step = await self._brought_in(kept.name, key or f"recovered:{kept.session_id}", step)
        if record is not None and key and not self._wanted.is_dry and step.outcome != "skipped":
            is_usual = kept.name == f"{record.session_id}.jsonl"
            await self._target.name_session(
                key, replace(record, session_file=None if is_usual else kept.name)
            )
        self._session(kept, kept.file, step)

    async def _brought_in(self, name: str, key: str, step: SessionStep) -> SessionStep:
        """Writes a transcript, unless somebody talks in the session now."""
        if step.outcome != "imported" or self._wanted.is_dry:
            return step
        async with self._target.store.turn_lock(key) as is_free:
            if is_free:
                await self._target.store.import_transcript(name, step.data, {})
                return step
        reason = "somebody talks in it now"
        return SessionStep(outcome="skipped", data=b"", left=step.new + step.here, reason=reason)

    def _session(self, piece: Conversation | Kept, name: str, step: SessionStep) -> None:
        add = self.report.add
        self.report.found("sessions")
        self.report.found("messages", piece.messages)
        for each in piece.skipped:
            self._skipped(each)
        add("sessions", step.outcome, file=piece.file, name=name, reason=step.reason)
        add("messages", "imported", file=piece.file, count=step.new)
        add("messages", "here", file=piece.file, count=step.here)
        add("messages", "skipped", file=piece.file, count=step.left, name=name, reason=step.reason)

    def _variable(self, piece: Variable) -> None:
        in_keyring = self._wanted.key_place == "keyring"
        kept = from_keyring(piece.name) if in_keyring else ""
        step = plan_variable(piece, {**self._environment, piece.name: kept} if kept else self._environment)
        place = ("models", "providers", piece.name.removesuffix("_API_KEY").lower(), "apiKey")
        if in_keyring and step.variable and at(self._written, place) is None:
            # the keyring is asked for what the settings name, and for nothing else
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
