"""What a private session is reminded of when it begins: logs and notes of the last days, quoted as data.

Room goes to the logs first, today's before older ones, then to the newest of the notes that sessions
left (`memory/DATE-slug.md`). The model reads all of them in the order of their days.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

from nacre.memory.contracts.workspace import FolderEntry, PathOutsideRoot, Workspace
from nacre.memory.files.sources.sources import Sources
from nacre.memory.workspace.workspace import (
    CUT_MARK,
    MIN_USEFUL_CHARS,
    daily_log_path,
    read_context_file,
)
from nacre.prompts import quoted, render
from nacre.records.record import Record
from nacre.runtime.settings.sections.agents import StartupContextSettings
from nacre.sessions.contracts.messages import AssistantMessage
from nacre.sessions.entries.entries import Compaction, CustomMessage, Entry
from nacre.sessions.view.transcript import RECALL_TYPE

log = logging.getLogger(__name__)

NOTES_A_DAY = 4
"""Of one day's notes the last changed are read."""
NOTE_CHARS = 1_200
"""Most of one note: a reminder, which `memory_get` reads whole."""
LABEL_CHARS = 120

_NOTE = re.compile(r"(\d{4}-\d{2}-\d{2})-.+\.md", re.DOTALL)


def recall_is_due(branch: Sequence[Entry]) -> bool:
    """Whether a branch wants its reminder: before the first answer, and the first after a compaction."""
    for entry in reversed(branch):
        if isinstance(entry.body, Compaction):
            return True
        if isinstance(entry.body, CustomMessage) and entry.body.custom_type == RECALL_TYPE:
            return False
        if isinstance(entry.body, AssistantMessage):
            return False
    return True


class RecalledNotes(Record):
    """Logs and notes as a model reads them, and which these are."""

    text: str = ""
    paths: tuple[str, ...] = ()


class Reminder(Record):
    """A log or a note that may be read. `modified_ns` is 0 for a log, which comes before its day's notes."""

    path: str
    day: date
    max_chars: int
    modified_ns: int = 0


async def recalled_notes(
    workspace: Workspace,
    sources: Sources,
    *,
    now: datetime,
    limits: StartupContextSettings,
    log_chars: int,
) -> RecalledNotes:
    """Logs and notes of the last days as a model reads them; without text when they say nothing.

    `log_chars` is the most of one log; `now` carries the owner's zone. Lines that are not the owner's word by
    their `sources` say so.

    Raises:
        OSError: the folder of notes cannot be listed.
    """
    days = recalled_days(now, limits.daily_memory_days)
    left_chars = limits.max_total_chars
    texts: list[tuple[Reminder, str]] = []
    left_out: list[str] = []
    for reminder in reminders(days, await _entries(workspace, days), log_chars=log_chars):
        file = await read_context_file(
            workspace, reminder.path, max_chars=min(reminder.max_chars, left_chars)
        )
        if file.missing or not (file.text.strip() or file.truncated):
            continue
        if left_chars < MIN_USEFUL_CHARS or file.injected_chars > left_chars:
            left_out.append(label(reminder.path))
            continue
        left_chars -= file.injected_chars
        texts.append((reminder, await own_lines(sources, reminder.path, file.text)))
    if not texts and not left_out:
        return RecalledNotes()
    texts.sort(key=lambda item: (item[0].day, item[0].modified_ns, item[0].path))
    blocks = [render("recall/file", path=label(reminder.path), text=quoted(text)) for reminder, text in texts]
    if left_out:
        blocks.append(render("recall/left_out", paths=", ".join(left_out)))
    return RecalledNotes(
        text=render("recall/notes", files="\n\n".join(blocks)),
        paths=tuple(reminder.path for reminder, _ in texts),
    )


def recalled_days(now: datetime, count: int) -> tuple[date, ...]:
    """The last `count` days of the owner's calendar, the newest first.

    In the evening west of Greenwich the day that has begun there comes before them: programs that
    date their notes by it wrote the newest ones.
    """
    today = now.date()
    ahead = now.astimezone(UTC).date()
    days = tuple(today - timedelta(days=back) for back in range(count))
    return (ahead, *days) if ahead > today else days


def reminders(
    days: Sequence[date], entries: Iterable[FolderEntry], *, log_chars: int
) -> tuple[Reminder, ...]:
    """What may be read of the folder of notes, in the order in which room is given."""
    files = [entry for entry in entries if not entry.is_folder]
    names = {entry.name for entry in files}
    logs = [Reminder(path=daily_log_path(day), day=day, max_chars=log_chars) for day in days]
    present = [reminder for reminder in logs if Path(reminder.path).name in names]
    notes = [note for day in days for note in _notes(day, files)]
    return (*present, *notes)


def label(path: str) -> str:
    """A path as it stands beside quoted notes: one line, without anything that cannot be seen."""
    plain = "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in path)
    return plain if len(plain) <= LABEL_CHARS else f"{plain[:LABEL_CHARS]}…"


def _notes(day: date, files: Sequence[FolderEntry]) -> list[Reminder]:
    """The last changed notes of a day, the newest first."""
    notes = [file for file in files if (name := _NOTE.fullmatch(file.name)) and name[1] == day.isoformat()]
    notes.sort(key=lambda file: (file.modified_ns, file.name), reverse=True)
    return [
        Reminder(
            path=f"memory/{file.name}", day=day, max_chars=NOTE_CHARS, modified_ns=max(file.modified_ns, 1)
        )
        for file in notes[:NOTES_A_DAY]
    ]


async def _entries(workspace: Workspace, days: Sequence[date]) -> tuple[FolderEntry, ...]:
    try:
        return await workspace.list_folder("memory", beginnings=tuple(day.isoformat() for day in days))
    except FileNotFoundError:
        return ()
    except PathOutsideRoot as error:
        log.warning("the folder of notes is not read into the context: %s", error)
        return ()


async def own_lines(sources: Sources, path: str, text: str) -> str:
    """The text of the note `path` without what others, or a tool, may have said.

    A sentence stands in the place of such lines and says how to read them. They stay in the note, where tools
    find them with their source. Of a note that was cut, a line is left out at each side of the cut: nobody
    knows whose word the rest of a line is.
    """
    lines = text.split("\n")
    found = await sources.of_lines(path, lines)
    is_left_out = [source is not None and not source.is_owners_word for source in found]
    beside = _beside_cuts(lines)
    if beside and await sources.has_foreign_lines(path):
        for number in beside:
            is_left_out[number] = True
    shown: list[str] = []
    count = 0
    for line, is_out in zip((*lines, ""), (*is_left_out, False), strict=True):
        if is_out:
            count += 1
            continue
        if count:
            shown.append(render("recall/not_own_lines", path=path, count=str(count)))
        shown.append(line)
        count = 0
    return "\n".join(shown[:-1])


def _beside_cuts(lines: Sequence[str]) -> list[int]:
    """The last line with text before the mark of a cut, and the first behind it."""
    marks = [number for number, line in enumerate(lines) if line.startswith(CUT_MARK)]
    beside: list[int] = []
    for mark in marks:
        before = (number for number in range(mark - 1, -1, -1) if lines[number].strip())
        after = (number for number in range(mark + 2, len(lines)) if lines[number].strip())
        beside += [number for found in (before, after) if (number := next(found, -1)) >= 0]
    return beside
