"""The lines of a turn on the screen: a line for each event, and the details of tool calls.

The text of the answer is not among them.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from nacre.cli.screen.plain import cut_to_cells, one_line, plain
from nacre.cli.screen.screen import Tone
from nacre.memory.files.sources.secrets import REDACTED, without_secrets
from nacre.record import Record
from nacre.runtime.commands.wording import counted, short_count
from nacre.runtime.contracts.errors import AgentError, ModelError, TurnCancelled
from nacre.runtime.contracts.events import (
    AnswerDiscarded,
    ApprovalAsked,
    CompactionEnded,
    Event,
    FallbackAnswered,
    FlushEnded,
    ModelRetried,
    ModelSlow,
    SessionReset,
    Silence,
    ToolEnded,
    ToolStarted,
    TurnFailed,
    Warned,
)

Line = tuple[str, Tone]

_SAID_CELLS = 300


def event_line(event: Event) -> Line | None:
    """The line of an event that is shown, otherwise `None`."""
    match event:
        case ToolEnded(is_error=True):
            return f"· {one_line(event.tool_name)} failed: {one_line(event.summary)}", "warning"
        case ToolEnded():
            return f"· {one_line(event.tool_name)}: {one_line(event.summary)}", "dim"
        case ApprovalAsked():
            call_id = event.approval_id
            how = f'  To answer: nacre send -m "/approve {call_id}" or "/deny {call_id}".'
            return f"{asked_text(event)}\n{how}", "warning"
        case FlushEnded(status="written"):
            count = sum(line.startswith(("- ", "* ")) for line in event.notes.splitlines())
            notes = counted(count, "note") if count else "notes"
            gone = f"; a key or password in them became {REDACTED}" if REDACTED in event.notes else ""
            return f"· saved {notes} to {one_line(event.path)}{gone}", "dim"
        case FlushEnded(status="proposed"):
            return f"· notes for {one_line(event.path)} wait for you: /review shows them", "dim"
        case FlushEnded(status="nothing"):
            return "· nothing new to note down", "dim"
        case FlushEnded(status="fallback"):
            path, problem = one_line(event.path), one_line(event.problem)
            return f"· an extract was saved to {path}, without the model: {problem}", "warning"
        case FlushEnded():
            return f"· notes could not be saved: {one_line(event.problem)}", "warning"
        case CompactionEnded(reason="manual"):
            return None  # the reply to /compact says it
        case CompactionEnded(problem=""):
            before, after = short_count(event.tokens_before), short_count(event.tokens_after)
            file = one_line(event.transcript)
            return f"· history compacted {before} → {after} tokens, every word stays in {file}", "dim"
        case CompactionEnded():
            return f"· history was not compacted: {one_line(event.problem)}", "warning"
        case SessionReset(reason="daily"):
            return "· a new day, a fresh session; /resume goes back to the one before", "dim"
        case SessionReset():
            return "· after a long silence, a fresh session; /resume goes back to the one before", "dim"
        case ModelSlow():
            return _slow_text(event), "warning"
        case ModelRetried():
            seconds = f"{event.delay_seconds:.1f}".removesuffix(".0")
            return f"· {one_line(event.problem)} Attempt {event.attempt + 1} in {seconds} s.", "warning"
        case AnswerDiscarded():
            return f"· the answer broke off and starts again: {one_line(event.problem)}", "warning"
        case FallbackAnswered():
            text = f"· answered by {one_line(event.model_name)}: {one_line(event.problem)}"
            return without_secrets(text), "warning"
        case Warned():
            return f"· {one_line(event.message)}", "warning"
        case Silence():
            return "· (nothing to say)", "dim"
        case TurnFailed(error=TurnCancelled()):
            return "· stopped", "warning"
        case TurnFailed():
            return failure_text(event.error), "error"
        case _:
            return None


def failure_text(error: AgentError) -> str:
    """The error, followed by the provider's message on its own line."""
    said = one_line(error.provider_words) if isinstance(error, ModelError) else ""
    return f"{error}\nThe provider said: {cut_to_cells(said, _SAID_CELLS)}" if said else str(error)


def _slow_text(event: ModelSlow) -> str:
    name, seconds = one_line(event.model_name), f"{event.silent_seconds:.15g}"
    what = "has begun and then sent nothing" if event.has_begun else "is slow: it has sent nothing"
    if event.is_reading:
        what = "still reads the conversation: it has said nothing"
    then = f"; else {one_line(event.next_model_name)} is asked in a while" if event.next_model_name else ""
    return without_secrets(f"· {name} {what} for {seconds} s. Ctrl-C stops the turn{then}.")


def asked_text(event: ApprovalAsked) -> str:
    """A line about a call that waits for the owner."""
    name, _, arguments = event.call.partition(" ")
    return f"· {name} waits for your approval: {one_line(event.why)} {arguments}"


_ARGUMENT_CELLS = 40
_DIFF_LINES = 8
_OPENED_LINES = 200
_QUICK_SECONDS = 0.05
_DIFF_TONES: Mapping[str, Tone] = {"+": "added", "-": "removed"}


class Detail(Record):
    """The title and the text of a call or of saved notes, for `/details`."""

    title: str
    body: str


@dataclass(kw_only=True)
class Calls:
    """The calls of one turn: those that run, and the details of those that ended."""

    running: dict[str, tuple[ToolStarted, float]] = field(default_factory=dict)
    ended_details: list[Detail] = field(default_factory=list)

    def follow(self, event: Event, now_seconds: float) -> list[Line]:
        """Notes an event at a time of a monotonic clock, and returns its lines."""
        if isinstance(event, ToolStarted):
            self.running[event.call_id] = (event, now_seconds)
        elif isinstance(event, ToolEnded):
            started, since = self.running.pop(event.call_id, (None, now_seconds))
            return self._ended(event, started, now_seconds - since)
        elif isinstance(event, FlushEnded) and event.notes:
            self.ended_details.append(
                Detail(title=f"notes in {one_line(event.path)}", body=plain(event.notes.strip()))
            )
        return []

    @property
    def running_text(self) -> str:
        """The running calls: their names and subjects."""
        started = [(each.tool_name, subject(each.arguments)) for each, _ in self.running.values()]
        return ", ".join(f'{name} "{about}"' if about else name for name, about in started)

    def details(self) -> list[Line]:
        """The details as lines, cut if they are very long."""
        lines: list[Line] = []
        for detail in self.ended_details:
            body = detail.body.split("\n")
            lines.append((f"· {detail.title}", "plain"))
            lines += [(f"  {line}", "dim") for line in body[:_OPENED_LINES]]
            if len(body) > _OPENED_LINES:
                lines.append((f"  … {len(body) - _OPENED_LINES} more lines", "dim"))
        return lines

    def _ended(self, ended: ToolEnded, started: ToolStarted | None, seconds: float) -> list[Line]:
        summary = one_line(ended.summary)
        name = f"{one_line(ended.tool_name)} failed" if ended.is_error else one_line(ended.tool_name)
        about = subject(started.arguments) if started else ""
        what = f'{name} "{about}"' if about and about.rstrip("…") not in summary else name
        measures = [f"{seconds:.1f} s"] if seconds >= _QUICK_SECONDS else []
        if ended.result and ended.result.strip() != ended.summary.strip():
            measures.append(f"{short_count(len(ended.result))} characters")
        text = " · ".join([f"{what}: {summary}", *measures])
        arguments = dict(started.arguments) if started else {}
        values = {
            name: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
            for name, value in arguments.items()
        }
        parts = [f"{name}: {value}" for name, value in values.items()]
        body = plain("\n".join([*parts, "→ " + (ended.result or ended.summary).strip()]))
        self.ended_details.append(Detail(title=text, body=body))
        line: Line = (f"· {text}", "warning" if ended.is_error else "dim")
        return [line] if ended.is_error else [line, *changed_lines(ended.tool_name, arguments)]


def subject(arguments: Mapping[str, Any]) -> str:
    """The subject of a call: its first text argument, shortened."""
    for value in arguments.values():
        if isinstance(value, str) and value.strip():
            return cut_to_cells(one_line(value), _ARGUMENT_CELLS)
    return ""


def changed_lines(tool_name: str, arguments: Mapping[str, Any]) -> list[Line]:
    """The change of a file tool as up to eight lines of a diff, and the number of further lines."""
    match tool_name, arguments:
        case "edit", {"old_text": str(old), "new_text": str(new)}:
            lines = list(difflib.unified_diff(old.splitlines(), new.splitlines(), n=1, lineterm=""))[2:]
        case ("append", {"text": str(text)}) | ("write", {"content": str(text)}):
            lines = [f"+{line}" for line in text.strip().splitlines()]
        case _:
            return []
    lines = [line for line in lines if not line.startswith("@@")]
    shown: list[Line] = [
        (f"  {line[0]} {plain(line[1:])}", _DIFF_TONES.get(line[0], "dim")) for line in lines[:_DIFF_LINES]
    ]
    if len(lines) > _DIFF_LINES:
        shown.append((f"  … {counted(len(lines) - _DIFF_LINES, 'more line')}", "dim"))
    return shown
