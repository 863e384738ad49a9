"""What a session's model was told in front of the conversation, and what of that has changed since. Pure.

The record `nacre.prompt` of a transcript holds what the system prompt is made of, so that it is the same,
byte for byte, whatever becomes of the files; `frame` is a digest of all that is not kept in it:

    {"version": 1, "frame": "5f2c…", "now": "## Now …", "tools": {"read": "Reads a file."},
     "files": {"MEMORY.md": "- The owner likes bees."}, "logs": {"memory/2026-03-14.md": "> - Planted kale."}}

A message `nacre.changes` says what changed. Its details hold the same in a form that can be applied: of a
text the lines `[first, behind the last, new lines]` that were replaced, of a tool its description or nothing:

    {"version": 1, "now": "## Now …", "tools": {"mail": "Sends a mail.", "read": null},
     "files": {"MEMORY.md": [[1, 1, ["- The boat is Halcyon."]]]}, "logs": {}}
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from difflib import SequenceMatcher
from typing import Any, TypeAlias

from nacre.prompts import quoted, render
from nacre.records.record import Record

VERSION = 1
Edit: TypeAlias = tuple[int, int, tuple[str, ...]]
"""Lines of a text that are replaced: the first, the one behind the last, and what stands there now."""


class Known(Record):
    """What a model knows from in front of its conversation.

    `tools` are descriptions by name, `files` and `logs` texts by path, `now` says day, chat and model.
    """

    tools: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    logs: Mapping[str, str] = field(default_factory=dict)
    now: str = ""


class FrozenPrompt(Record):
    """What a system prompt is made of; `frame` is the digest of its frame."""

    frame: str
    known: Known

    def to_record(self) -> dict[str, Any]:
        """The data of a `nacre.prompt` entry."""
        known = self.known
        return {
            "version": VERSION,
            "frame": self.frame,
            "now": known.now,
            "tools": dict(known.tools),
            "files": dict(known.files),
            "logs": dict(known.logs),
        }


class Changes(Record):
    """What changed of a `Known`: the text of the message that says so, and the details that it carries."""

    text: str
    details: Mapping[str, Any]


def frozen_prompt(data: Mapping[str, Any]) -> FrozenPrompt | None:
    """Reads a record; `None` when it is none, or of a later version."""
    frame, now = data.get("frame"), data.get("now")
    maps = [_texts(data.get(name)) for name in ("tools", "files", "logs")]
    if data.get("version") != VERSION or not isinstance(frame, str) or not isinstance(now, str):
        return None
    tools, files, logs = maps
    if tools is None or files is None or logs is None:
        return None
    return FrozenPrompt(frame=frame, known=Known(tools=tools, files=files, logs=logs, now=now))


def changes_between(known: Known, present: Known) -> Changes | None:
    """What changed; `None` when nothing did.

    A log of which `present` says nothing did not change. A tool that is only described otherwise is no news.
    """
    if _is_same(known, present):
        return None
    tools: dict[str, str | None] = {
        name: text for name, text in present.tools.items() if name not in known.tools
    }
    tools.update(dict.fromkeys(name for name in known.tools if name not in present.tools))
    logs = {path: known.logs.get(path, "") for path in present.logs}
    files = {path: known.files.get(path, "") for path in {**known.files, **present.files}}
    file_edits = {path: _edits(text, present.files.get(path, "")) for path, text in files.items()}
    log_edits = {path: _edits(text, present.logs[path]) for path, text in logs.items()}
    details: dict[str, Any] = {
        "version": VERSION,
        **({"now": present.now} if present.now != known.now else {}),
        "tools": tools,
        "files": {path: edits for path, edits in file_edits.items() if edits},
        "logs": {path: edits for path, edits in log_edits.items() if edits},
    }
    told = [present.now] if "now" in details else []
    if tools:
        told.append(render("tail/changed_tools", tools=_tool_lines(tools)))
    told += [_shown(path, text, present.files.get(path, "")) for path, text in files.items()]
    told += [_shown(path, text, present.logs[path]) for path, text in logs.items()]
    text = "\n\n".join(part for part in told if part)
    return Changes(text=render("tail/changes", text=text), details=details) if text else None


def removed_lines(known: Known, present: Known) -> dict[str, list[str]]:
    """The lines of each file and log that are known and that it does not have any more."""
    pairs = {path: (text, present.files.get(path, "")) for path, text in known.files.items()}
    pairs |= {path: (known.logs[path], text) for path, text in present.logs.items() if path in known.logs}
    return {
        path: gone
        for path, (before, after) in pairs.items()
        if before != after and (gone := [*filter(str.strip, set(_lines(before)) - set(_lines(after)))])
    }


def _is_same(known: Known, present: Known) -> bool:
    """A quick look, because most often nothing changed."""
    return (
        (known.now, known.files) == (present.now, present.files)
        and known.tools.keys() == present.tools.keys()
        and all(known.logs.get(path, "") == text for path, text in present.logs.items())
    )


def applied(known: Known, details: Mapping[str, Any]) -> Known | None:
    """What is known after changes were told; `None` when their details cannot be read."""
    tools, now = details.get("tools"), details.get("now", known.now)
    if details.get("version") != VERSION or not isinstance(tools, Mapping) or not isinstance(now, str):
        return None
    files = _edited(known.files, details.get("files"))
    logs = _edited(known.logs, details.get("logs"))
    if files is None or logs is None:
        return None
    described = {name: text for name, text in {**known.tools, **tools}.items() if isinstance(text, str)}
    return replace(known, tools=described, files=files, logs=logs, now=now)


def _edits(before: str, after: str) -> list[list[Any]]:
    if before == after:
        return []
    old, new = _lines(before), _lines(after)
    matched = SequenceMatcher(None, old, new).get_opcodes()
    return [[first, end, new[start:stop]] for tag, first, end, start, stop in matched if tag != "equal"]


def _edited(texts: Mapping[str, str], edits: object) -> dict[str, str] | None:
    """The texts with their edits; `None` when one of these is none, or does not fit."""
    if not isinstance(edits, Mapping):
        return None
    changed = dict(texts)
    for path, of_text in edits.items():
        lines = _lines(changed.get(path, ""))
        read = [_edit(raw) for raw in of_text] if isinstance(of_text, list) else [None]
        for edit in reversed(read):
            if edit is None or not 0 <= edit[0] <= edit[1] <= len(lines):
                return None
            lines[edit[0] : edit[1]] = edit[2]
        changed[str(path)] = "\n".join(lines)
    return {path: text for path, text in changed.items() if text}


def _edit(raw: object) -> Edit | None:
    match raw:
        case [int(first), int(end), list(lines)] if all(isinstance(line, str) for line in lines):
            return first, end, tuple(lines)
        case _:
            return None


def _shown(path: str, before: str, after: str) -> str:
    """A text's changed lines, quoted; empty when nothing changed."""
    old, told, moved = _lines(before), list[str](), 0
    for first, end, lines in _edits(before, after):
        if end > first:
            told.append(render("tail/lines_gone", text=quoted("\n".join(old[first:end]))))
        if lines:
            line = str(first + moved + 1)
            told.append(render("tail/lines_new", line=line, text=quoted("\n".join(lines))))
        moved += len(lines) - (end - first)
    return render("tail/changed_file", path=path, text="\n".join(told)) if told else ""


def _tool_lines(tools: Mapping[str, str | None]) -> str:
    return "\n".join(
        render("tail/tool_gone", name=name) if text is None else render("tail/tool_new", name=name, text=text)
        for name, text in tools.items()
    )


def _lines(text: str) -> list[str]:
    return text.split("\n") if text else []


def _texts(raw: object) -> dict[str, str] | None:
    if not isinstance(raw, Mapping) or not all(isinstance(text, str) for text in raw.values()):
        return None
    return {str(name): text for name, text in raw.items()}
