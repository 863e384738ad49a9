"""Decides what becomes of each piece of a source, given what already exists here. Writes nothing."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, Literal, TypeAlias

from nacre.extensions.importers.sources.pieces import (
    KINDS,
    Kind,
    Note,
    Origin,
    Setting,
    StoredTranscript,
    Variable,
)
from nacre.extensions.importers.sources.transcript import HEAD_LINES, Line
from nacre.memory.files.sources.secrets import without_new_secrets
from nacre.memory.files.sources.sources import SecretsMode
from nacre.record import Record
from nacre.runtime.contracts.errors import ConfigError
from nacre.runtime.settings.disk.json5_edits import with_value
from nacre.runtime.settings.keys import at, field_of, hidden
from nacre.runtime.settings.settings import Settings

Outcome: TypeAlias = Literal["imported", "here", "skipped"]
_DAY = re.compile(r"memory/(?:\d{4}-\d{2}/)?\d{4}-\d{2}-\d{2}\.md")
_INSTRUCTIONS = ("AGENTS.md",)
"""Files about the other program's tools, which never replace Nacre's own."""
_REFERENCE = re.compile(r"\$\{[^}]*\}")
_HERE = re.compile(r"http://(?:localhost|127\.0\.0\.1|\[::1\])(?::\d+)?(?:/[\w./-]*)?")
_HARMLESS = (("agents", "defaults"), ("models", "providers"), ("session",), ("messages",), ("usage",))
_DECISIVE = {
    *("workspace", "tools", "sandbox", "allowPaths", "extraPaths", "remote", "local", "store", "rerank"),
    *("baseUrl", "identityLinks", "sendPolicy"),
}
"""Names below the harmless settings that say what is read, who may do what, or where keys and words go."""


class NoteStep(Record):
    """The outcome for a note. With `append`, its new lines are added to the note at `path`."""

    outcome: Outcome
    path: str
    append: bool = False
    reason: str = ""


class SessionStep(Record):
    """The outcome for a session. `data` is the whole transcript; the numbers count messages of the source."""

    outcome: Outcome
    data: bytes
    new: int = 0
    here: int = 0
    left_out: int = 0
    reason: str = ""


def fallback_path(origin: Origin, note: Note) -> str:
    """The path for a note whose own path is taken; what is not memory stays out of the index."""
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
    existing: Mapping[str, bytes | None],
    *,
    template: bytes | None,
    is_known: bool,
    secrets: SecretsMode,
) -> NoteStep:
    """Decides where a note goes. `existing` has the contents at its path and at its `fallback_path`.

    An untouched template is replaced. New lines of a daily log are appended to that day's log. Any other note
    whose path is taken goes to the fallback path. `is_known` says that the note was imported before.
    """
    text = note.data.decode("utf-8", "surrogateescape")
    filtered = text if secrets == "off" else without_new_secrets(text)
    data, own, other = filtered.encode("utf-8", "surrogateescape"), note.path, fallback_path(origin, note)
    if is_known:
        return NoteStep(outcome="here", path=own)
    if filtered != text and secrets == "refuse":
        return NoteStep(
            outcome="skipped", path=own, reason="it contains a key or a password (memory.secrets)"
        )
    if not text.strip():
        return NoteStep(outcome="skipped", path=own, reason="it is empty")
    if data in (existing[own], existing[other]):
        return NoteStep(outcome="here", path=own if data == existing[own] else other)
    present = existing[own]
    if present is not None and _DAY.fullmatch(own):
        known = set(present.decode("utf-8", "surrogateescape").splitlines())
        is_all = all(line in known for line in filtered.splitlines() if line.strip())
        return NoteStep(outcome="here" if is_all else "imported", path=own, append=True)
    if (present is None or present == template) and own not in _INSTRUCTIONS:
        return NoteStep(outcome="imported", path=own)
    if existing[other] is None:
        return NoteStep(outcome="imported", path=other)
    return NoteStep(outcome="skipped", path=own, reason=f"other notes exist at {own} and at {other}")


def plan_conversation(lines: Sequence[Line], existing: bytes | None) -> SessionStep:
    """Decides about a conversation; `existing` is its transcript here, which is only ever extended."""
    messages = {line.message for line in lines if line.message}
    if not messages:
        return SessionStep(outcome="skipped", data=b"", reason="it contains nothing to import")
    body = [line.data for line in lines[HEAD_LINES:]]
    if existing is None:
        head = [line.data for line in lines[:HEAD_LINES]]
        return SessionStep(outcome="imported", data=b"".join([*head, *body]), new=len(messages))
    present = existing.splitlines(keepends=True)
    # the title may have changed in the source, and what is read of a message with a newer Nacre
    known = {_id_in(line): line for line in present}
    data = b"".join([*present[:HEAD_LINES], *(known.get(_id_in(line), line) for line in body)])
    new = {line.message for line in lines[HEAD_LINES:] if line.message and _id_in(line.data) not in known}
    return _extend(data, existing, new=len(new), here=len(messages) - len(new))


def _id_in(line: bytes) -> bytes:
    found = re.search(rb'"id":"(\w+)"', line)
    return found[1] if found else line


def plan_transcript(transcript: StoredTranscript, existing: bytes | None) -> SessionStep:
    """Decides about a transcript that is imported unchanged."""
    imported_count = transcript.messages - sum(each.count for each in transcript.skipped)
    if existing is None:
        return SessionStep(outcome="imported", data=transcript.data, new=imported_count)
    known = set(existing.splitlines(keepends=True))
    new = sum(b'"message"' in line for line in transcript.data.splitlines(keepends=True) if line not in known)
    return _extend(transcript.data, existing, new=min(new, imported_count), here=max(0, imported_count - new))


def _extend(data: bytes, existing: bytes, *, new: int, here: int) -> SessionStep:
    if existing.startswith(data) or not new:
        return SessionStep(outcome="here", data=data, here=here + new)
    if data.startswith(existing):
        return SessionStep(outcome="imported", data=data, new=new, here=here)
    return SessionStep(
        outcome="here", data=data, here=here, left_out=new, reason="the session continued both here and there"
    )


class SettingStep(Record):
    """The outcome for a setting or a key. `secret` is stored with the keys, under `variable`."""

    outcome: Outcome
    value: Any = None
    variable: str = ""
    secret: str = field(default="", repr=False)
    reason: str = ""


def plan_variable(variable: Variable, environment: Mapping[str, str]) -> SettingStep:
    """Decides about a provider key; an existing key with its name stays."""
    present = environment.get(variable.name, "")
    if present:
        return _existing(present == variable.secret, f"another {variable.name} already exists here")
    return SettingStep(outcome="imported", variable=variable.name, secret=variable.secret)


def plan_setting(
    setting: Setting,
    text: str,
    written: Mapping[str, Any],
    *,
    environment: Mapping[str, str],
    check: Callable[[str, Mapping[str, str]], object],
) -> SettingStep:
    """Decides about a setting, which must be known, valid and not set yet.

    `written` are the values in `text`. `check` raises `ConfigError` for settings with which Nacre could not
    start, given the variables.
    """
    key, value = setting.key, setting.value
    try:
        found = field_of(key, Settings)
    except ConfigError:
        found = None
    if found is None:
        return _skipped("Nacre has no such setting")
    is_harmless = any(key[: len(each)] == each for each in _HARMLESS) and _DECISIVE.isdisjoint(key)
    if not is_harmless and not (key[-1] == "baseUrl" and _HERE.fullmatch(str(value))):
        return _skipped("it decides what runs, what is read or who is trusted: set it yourself")
    present = at(written, key)
    if present is not None:
        return _existing(found.is_secret or present == value, "it already has another value here")
    step = SettingStep(outcome="imported", value=value)
    if isinstance(value, str) and found.is_secret and value and not _REFERENCE.fullmatch(value):
        name = _variable(key)
        if environment.get(name, value) != value:
            return _skipped(f"another {name} already exists here")
        step = SettingStep(
            outcome="imported",
            value=f"${{{name}}}",
            variable="" if name in environment else name,
            secret=value,
        )
    elif hidden(value, str(key[-1])) != value and not _REFERENCE.fullmatch(str(value)):
        return _skipped("it contains a password")
    try:
        new = with_value(text, key, step.value)
    except ValueError:
        return _skipped("a parent setting has another type here")
    try:
        check(new, {**environment, **({step.variable: step.secret} if step.variable else {})})
    except ConfigError:
        return _skipped("Nacre rejects this value")
    return step


def _variable(key: tuple[str, ...]) -> str:
    """The name of the variable for a secret; a provider's usual one."""
    if key[:2] == ("models", "providers") and key[3:] == ("apiKey",):
        return f"{_upper(key[2])}_API_KEY"
    return "_".join(_upper(step) for step in key if step not in ("agents", "defaults"))


def _upper(step: str) -> str:
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", step)
    return re.sub(r"[^A-Z0-9]+", "_", words.upper()).strip("_")


def _existing(is_equal: bool, otherwise: str) -> SettingStep:
    return SettingStep(outcome="here") if is_equal else _skipped(otherwise)


def _skipped(reason: str) -> SettingStep:
    return SettingStep(outcome="skipped", reason=reason)


_RANK: Mapping[Outcome, int] = {"imported": 2, "here": 1, "skipped": 0}
_NAMES_SHOWN = 3


@dataclass
class Counts:
    """How many of a kind the source has, and what became of them."""

    found: int = 0
    imported: int = 0
    here: int = 0
    skipped: int = 0

    @property
    def unaccounted(self) -> int:
        """The number without an outcome; nonzero only if a reader has a bug."""
        return self.found - self.imported - self.here - self.skipped


@dataclass
class Report:
    counts: dict[Kind, Counts] = field(default_factory=lambda: {kind: Counts() for kind in KINDS})
    reasons: Counter[tuple[Kind, str]] = field(default_factory=Counter)
    names: dict[tuple[Kind, str], list[str]] = field(default_factory=dict)
    moved: list[tuple[str, str]] = field(default_factory=list)
    """Notes that were stored under another path: the name in the source, and the path here."""
    problems: list[str] = field(default_factory=list)
    _files: dict[str, tuple[Outcome, str]] = field(default_factory=dict)

    def found(self, kind: Kind, count: int = 1) -> None:
        self.counts[kind].found += count

    def add(
        self, kind: Kind, outcome: Outcome, *, file: str, count: int = 1, name: str = "", reason: str = ""
    ) -> None:
        """Counts an outcome, with a reason if it was skipped."""
        if not count:
            return
        counts = self.counts[kind]
        setattr(counts, outcome, getattr(counts, outcome) + count)
        if outcome == "skipped":
            self._add_reason(kind, reason, name, count)
        self.file(file, outcome, reason)

    def finish(self, files: tuple[str, ...], left_out: list[tuple[str, str]]) -> None:
        """Counts each file of the source by the best outcome of its contents."""
        for name, reason in left_out:
            self._files[name] = ("skipped", reason)
        self.found("files", len(files) + len(left_out))
        for name in (*files, *(name for name, _ in left_out)):
            if name not in self._files:
                continue
            outcome, reason = self._files[name]
            counts = self.counts["files"]
            setattr(counts, outcome, getattr(counts, outcome) + 1)
            if outcome == "skipped":
                self._add_reason("files", reason, name, 1)

    def file(self, name: str, outcome: Outcome, reason: str) -> None:
        """Records the outcome of a file, or of a part of it; the best one counts."""
        if name not in self._files or _RANK[outcome] > _RANK[self._files[name][0]]:
            self._files[name] = (outcome, reason)

    def _add_reason(self, kind: Kind, reason: str, name: str, count: int) -> None:
        self.reasons[kind, reason] += count
        self.names.setdefault((kind, reason), []).append(name)


def report_lines(report: Report, *, is_dry: bool) -> list[str]:
    """A table that adds up, then the reasons for skipping."""
    rows: list[tuple[str, ...]] = [
        ("", "found", "to import" if is_dry else "imported", "already here", "skipped")
    ]
    for kind, counts in report.counts.items():
        if counts.found:
            numbers = (counts.found, counts.imported, counts.here, counts.skipped)
            rows.append((kind, *map(str, numbers)))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines: list[str] = []
    for first, *others in rows:
        cells = (text.rjust(width) for text, width in zip(others, widths[1:], strict=True))
        lines.append("  ".join((first.ljust(widths[0]), *cells)).rstrip())
    if len(rows) == 1:
        return ["The source is empty."]
    if report.reasons:
        lines += ["", "Skipped:"]
    for kind in KINDS:
        for (each, reason), count in report.reasons.items():
            if each == kind:
                name = kind if count > 1 or kind == "settings" else kind.removesuffix("s")
                lines.append(f"  {count} {name}: {reason}{_names_text(report, each, reason)}")
    if report.moved:
        lines += ["", "Stored beside your own file of that name. Copy what you want to use into it:"]
        lines += [f"  {name} -> {path}" for name, path in report.moved]
    return lines


def report_json(report: Report, *, is_dry: bool) -> dict[str, object]:
    return {
        "dryRun": is_dry,
        "counts": {
            kind: {
                "found": counts.found,
                "imported": counts.imported,
                "alreadyHere": counts.here,
                "skipped": counts.skipped,
            }
            for kind, counts in report.counts.items()
        },
        "skipped": [
            {"kind": kind, "reason": reason, "count": count, "names": report.names[kind, reason]}
            for (kind, reason), count in report.reasons.items()
        ],
        "beside": [{"name": name, "path": path} for name, path in report.moved],
        "problems": report.problems,
    }


def unaccounted(report: Report) -> list[str]:
    """A sentence for each kind with unaccounted items."""
    return [
        f"{counts.unaccounted} of {counts.found} {kind} are neither imported nor skipped. Please report it."
        for kind, counts in report.counts.items()
        if counts.unaccounted
    ]


def _names_text(report: Report, kind: Kind, reason: str) -> str:
    names = list(dict.fromkeys(name for name in report.names[kind, reason] if name))
    if not names:
        return ""
    more = len(names) - _NAMES_SHOWN
    return f" ({', '.join(names[:_NAMES_SHOWN])}{f' and {more} more' if more > 0 else ''})"
