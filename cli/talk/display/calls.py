"""Tool calls and notes of one turn, as lines and opened. Pure."""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from nacre.cli.screen.plain import cut_to_cells, one_line, plain
from nacre.cli.screen.screen import Tone
from nacre.cli.talk.display.event_lines import Line
from nacre.record import Record
from nacre.runtime.commands.wording import counted, short_count
from nacre.runtime.contracts.events import Event, FlushEnded, ToolEnded, ToolStarted

_ARGUMENT_CELLS = 40
_DIFF_LINES = 8
_OPENED_LINES = 200
_QUICK_SECONDS = 0.05
_DIFF_TONES: Mapping[str, Tone] = {"+": "added", "-": "removed"}


class Opened(Record):
    """The title and the full text of a collapsed line."""

    title: str
    body: str


@dataclass(kw_only=True)
class Calls:
    """The calls of one turn: those that run, and what can be opened of those that ended."""

    running: dict[str, tuple[ToolStarted, float]] = field(default_factory=dict)
    opened: list[Opened] = field(default_factory=list)

    def follow(self, event: Event, now_seconds: float) -> list[Line]:
        """Takes in what happened, and when on a clock that only goes forward; gives the lines for it."""
        if isinstance(event, ToolStarted):
            self.running[event.call_id] = (event, now_seconds)
        elif isinstance(event, ToolEnded):
            started, since = self.running.pop(event.call_id, (None, now_seconds))
            return self._ended(event, started, now_seconds - since)
        elif isinstance(event, FlushEnded) and event.notes:
            self.opened.append(
                Opened(title=f"notes in {one_line(event.path)}", body=plain(event.notes.strip()))
            )
        return []

    @property
    def running_text(self) -> str:
        """The running calls: their names and subjects."""
        return ", ".join(_called(started) for started, _ in self.running.values())

    def details(self) -> list[Line]:
        """Everything that can be opened, whole but for very long texts."""
        lines: list[Line] = []
        for opened in self.opened:
            body = opened.body.split("\n")
            lines.append((f"· {opened.title}", "plain"))
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
        told = " · ".join([f"{what}: {summary}", *measures])
        arguments = dict(started.arguments) if started else {}
        self.opened.append(Opened(title=told, body=_body(arguments, ended.result or ended.summary)))
        line: Line = (f"· {told}", "warning" if ended.is_error else "dim")
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
        case "append", {"text": str(text)}:
            lines = [f"+{line}" for line in text.strip().splitlines()]
        case "write", {"content": str(text)}:
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


def _called(started: ToolStarted) -> str:
    about = subject(started.arguments)
    return f'{started.tool_name} "{about}"' if about else started.tool_name


def _body(arguments: Mapping[str, Any], result: str) -> str:
    told = [
        f"{name}: {value if isinstance(value, str) else _json(value)}" for name, value in arguments.items()
    ]
    return plain("\n".join([*told, "→ " + result.strip()]))


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)
