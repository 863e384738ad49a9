"""The silent flush: notes out of the conversation in one `append`, then `NO_REPLY`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import date

from nacre.runtime.contracts.model import ModelRequest
from nacre.runtime.contracts.silence import SILENT_TOKEN
from nacre.runtime.models.offline.answers.turn import APPEND, append_call
from nacre.runtime.models.offline.reading.notes import Known, Note, notes_of
from nacre.runtime.models.offline.reading.reading import (
    DAILY_LOG,
    appended_texts,
    conversation,
    read_request,
    today,
    tool_named,
)
from nacre.runtime.models.offline.words.answer import Answer
from nacre.runtime.models.offline.words.kinds import NoteKind

HEADING = "## Notes before compaction"
MOST_NOTES_PER_GROUP = 12

GROUPS: tuple[tuple[str, tuple[NoteKind, ...]], ...] = (
    ("Decisions", ("decision",)),
    ("Preferences", ("preference", "constraint")),
    ("People and names", ("person",)),
    ("Dates", ("date",)),
    ("Facts", ("fact",)),
    ("Open asks", ("ask", "blocked")),
)


def flush_answer(request: ModelRequest, *, clock_date: date, count_tokens: Callable[[str], int]) -> Answer:
    """The one `append` call, or `NO_REPLY` when it was made or when nothing is worth keeping."""
    reading = read_request(request)
    tool = tool_named(request, APPEND)
    if tool is None or reading.finished_call(APPEND) is not None:
        return Answer(text=SILENT_TOKEN)
    said = conversation(reading.before)
    background = [contribution.text for contribution in said if contribution.speaker == "other"]
    known = Known([request.system.joined(), *background, *appended_texts(reading.before)])
    notes = notes_of(said, known)
    per_group = MOST_NOTES_PER_GROUP
    while per_group and notes:
        block = notes_block(notes, per_group)
        if request.max_output_tokens is None or count_tokens(block) <= request.max_output_tokens:
            named = DAILY_LOG.search(reading.ask)
            path = named.group() if named else f"memory/{today(request, fallback=clock_date)}.md"
            return Answer(calls=(append_call(tool, path, block),))
        per_group //= 2
    return Answer(text=SILENT_TOKEN)


def notes_block(notes: Sequence[Note], per_group: int) -> str:
    """The notes as Markdown, grouped; each group holds its last `per_group` notes in order."""
    parts = [HEADING]
    for title, kinds in GROUPS:
        group = [note for note in notes if note.kind in kinds][-per_group:]
        if group:
            parts.append("\n".join([f"### {title}", *(f"- {note.text}" for note in group)]))
    return "\n\n".join(parts) + "\n"
