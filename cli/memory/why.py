"""`nacre memory why`: the source of a line of the notes, with the messages that it was made from."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

import click

from nacre.cli.invocation import Invocation, begin, json_option, shared_options
from nacre.cli.memory.open_index import run_with
from nacre.cli.memory.text import sourced_json
from nacre.cli.screen.json_text import print_json
from nacre.closing import using
from nacre.memory.files.sources.secrets import without_secrets
from nacre.memory.files.sources.source import PRIVATE, Source, audience_text, may_see, passages, source_text
from nacre.memory.files.sources.sources import Sources
from nacre.record import Record
from nacre.runtime.contracts.policy import readers_of
from nacre.runtime.recall.open_memory import unindexed_notes
from nacre.runtime.settings.config import Config
from nacre.runtime.storage.storage import open_sessions, storage_of
from nacre.sessions.contracts.errors import SessionError
from nacre.sessions.contracts.messages import AssistantMessage, ToolResultMessage, UserMessage, message_text
from nacre.sessions.disk.json_text import split_lines
from nacre.sessions.entries.entries import Entry, entry_from_json
from nacre.sessions.index.record import SessionRecord

MOST_WORDS = 5
"""The most messages shown for a line, the likeliest ones."""
MOST_CHARS = 400

_PLACE = re.compile(r"(?P<path>.+?)(?:#L|:)(?P<first>\d+)(?:-L?(?P<last>\d+))?")
_WORD = re.compile(r"[^\W_]+")


class SourceMessage(Record):
    """A message that a line was made from."""

    entry_id: str
    speaker: str
    text: str


@click.command("why")
@click.argument("place")
@json_option()
@shared_options
def why(context: click.Context, place: str, as_json: bool) -> int:
    """Show where a line of the notes comes from. PLACE is a citation, such as memory/2026-01-20.md#L3."""
    return run_with(begin(context), "why", lambda invocation: explain(invocation, place, as_json=as_json))


async def explain(invocation: Invocation, place: str, *, as_json: bool) -> int:
    """Prints the source of each line of a citation; returns 1 if there is no such line.

    Raises:
        ReadRefused: the path is not a memory file.
    """
    named = _PLACE.fullmatch(place.strip())
    if named is None:
        raise click.UsageError(f"{place!r} does not name a line. Write a citation, such as MEMORY.md#L3.")
    first, last = int(named["first"]), int(named["last"] or named["first"])
    config = invocation.config
    excerpt = await unindexed_notes(config).read(named["path"], from_line=first, lines=last - first + 1)
    if not excerpt.text:
        invocation.warn(f"There is no line {first} in {excerpt.path}.", tone="error")
        return 1
    lines = excerpt.text.split("\n")
    sources = Sources(storage_of(config).workspace())
    found = await sources.of_lines(excerpt.path, lines)
    explained: list[dict[str, Any]] = []
    for number, (line, source) in enumerate(zip(lines, found, strict=True), excerpt.start_line):
        messages = await _messages(config, source, line) if source is not None else ()
        explained.append(_line_json(excerpt.path, number, line, source, messages))
        if not as_json:
            invocation.say(*_line_text(excerpt.path, number, line, source, messages))
    return print_json(explained) if as_json else 0


def _line_text(
    path: str, number: int, line: str, source: Source | None, messages: Sequence[SourceMessage]
) -> list[str]:
    head = [f"{path}#L{number}  {line.strip()}"]
    readers = audience_text(readers_of(path))
    if source is None:
        return [
            *head,
            "  It has no source: it was written by hand, or by an old version of Nacre.",
            "",
        ]
    pairs = [
        ("Source", source_text(source)),
        ("Audience", audience_text(source.audience)),
        (
            "Read by",
            "" if may_see(readers_of(path), source.audience) else f"{readers}: it was moved here",
        ),
        ("Session", " ".join(filter(None, (source.session_key, source.session_id)))),
        ("Entries", " to ".join(source.entry_ids)),
        ("At", source.at),
    ]
    words = [f"  > {each.speaker}: {each.text}" for each in messages]
    if source.session_id and not messages:
        words = ["  The transcript no longer has these words."]
    return [*head, *(f"  {label + ':':<10}{value}" for label, value in pairs if value), *words, ""]


def _line_json(
    path: str, number: int, line: str, source: Source | None, messages: Sequence[SourceMessage]
) -> dict[str, Any]:
    base = {"path": path, "line": number, "text": line, "readBy": readers_of(path)}
    if source is None:
        return {**base, "source": None}
    (lines,) = passages([source], start_line=number)
    words = [{"entryId": each.entry_id, "speaker": each.speaker, "text": each.text} for each in messages]
    return {**base, "source": sourced_json(lines), "said": words}


async def _messages(config: Config, source: Source, line: str) -> Sequence[SourceMessage]:
    if not source.session_id:
        return ()
    try:
        async with using(open_sessions(config, config.clock)) as store:
            name = store.transcript_name(SessionRecord(session_id=source.session_id, updated_at_ms=0))
            data = await store.exported(name)
    except SessionError:
        return ()
    entries = (entry_from_json(each.value) for each in split_lines(data) if each.value is not None)
    return likeliest(line, between(entries, source.entry_ids), is_private=source.audience == PRIVATE)


def between(entries: Iterable[Entry], entry_ids: Sequence[str]) -> list[Entry]:
    """The entries from the first to the last of these ids, in the order of the file."""
    found: list[Entry] = []
    for entry in entries:
        if found or entry.id in entry_ids[:1]:
            found.append(entry)
            if entry.id == entry_ids[-1]:
                break
    return found


def likeliest(line: str, entries: Sequence[Entry], *, is_private: bool) -> tuple[SourceMessage, ...]:
    """The messages that share the most words with a line, in their order."""
    words = _words(line)
    messages = [each for entry in entries if (each := _message(entry, is_private)) is not None]
    ranked = sorted(range(len(messages)), key=lambda at: len(words & _words(messages[at].text)), reverse=True)
    return tuple(
        SourceMessage(
            entry_id=messages[at].entry_id, speaker=messages[at].speaker, text=_shortened(messages[at].text)
        )
        for at in sorted(ranked[:MOST_WORDS])
    )


def _message(entry: Entry, is_private: bool) -> SourceMessage | None:
    match entry.body:
        case UserMessage() as message:
            speaker = message.sender or ("User" if is_private else "Somebody")
        case AssistantMessage() as message:
            speaker = "Assistant"
        case ToolResultMessage() as message:
            speaker = f"Tool {message.tool_name}"
        case _:
            return None
    text = " ".join(message_text(message).split())
    return SourceMessage(entry_id=entry.id, speaker=speaker, text=text) if text else None


def _shortened(text: str) -> str:
    text = without_secrets(text)
    return text if len(text) <= MOST_CHARS else f"{text[:MOST_CHARS]}…"


def _words(text: str) -> frozenset[str]:
    return frozenset(_WORD.findall(text.casefold()))
