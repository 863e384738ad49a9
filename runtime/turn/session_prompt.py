"""The system prompt of one session: frozen in its transcript, with changes appended at the tail.

    nacre.prompt ─► question ─► answer ─► nacre.changes ─► question ─► … ─► compaction ─► nacre.prompt

A provider caches the part of a request that begins like the last one. So the prompt stays the same until
the next compaction, even after a restart, and a message of the transcript says what changed. The prompt is
rebuilt at once when its frame changes (what the chat may see, instructions of the program, a section of an
extension), when the changes get large, and when a line was removed from a file or a log: what the owner
deletes is not sent again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import field, replace
from difflib import SequenceMatcher
from typing import Any

from nacre.prompts import quoted, render
from nacre.record import Record
from nacre.runtime.contracts.model import ToolSpec
from nacre.runtime.open_sessions.open_session import OpenSession
from nacre.runtime.tools.toolbox import CHARS_PER_TOKEN
from nacre.runtime.turn.system_prompt import StablePart
from nacre.sessions.entries.entries import Compaction, CustomMessage, Entry
from nacre.sessions.view.transcript import CHANGES_TYPE, PROMPT_TYPE, RECALL_TYPE, BranchFollower

MOST_TOLD_SHARE = 10
"""When changes would fill a tenth of the window, rebuilding the prompt is cheaper."""


class RecordedPrompt:
    """What the transcript of one session says about its prompt, updated incrementally."""

    def __init__(self) -> None:
        self.frozen: FrozenPrompt | None = None
        self.known = KnownPrompt()
        self.tools: dict[str, str] = {}
        self.told_chars = 0
        self.recalled: tuple[str, ...] = ()
        """The logs and notes that the newest reminder quotes."""
        self._text: str | None = None
        self._described: tuple[tuple[ToolSpec, ...], tuple[ToolSpec, ...]] | None = None
        self._follower = BranchFollower()

    def follow(self, branch: Sequence[Entry]) -> None:
        fresh = self._follower.fresh(branch)
        if fresh is None:
            self._begin(None)
            ended = range(len(branch) - 1, -1, -1)
            begun = (
                place
                for place in ended
                if isinstance(branch[place].body, Compaction)
                or branch[place].custom_data(PROMPT_TYPE) is not None
            )
            fresh = branch[next(begun, 0) :]
        for entry in fresh:
            self._take(entry)

    def text(self, part: StablePart) -> str:
        """The stable text of the frozen prompt, in this frame; the same object while it does not change."""
        if self._text is None:
            assert self.frozen is not None
            known = self.frozen.known
            same = (dict(part.tools), dict(part.files)) == (dict(known.tools), dict(known.files))
            self._text = part.text if same else replace(part, tools=known.tools, files=known.files).text
        return self._text

    def described(self, tools: tuple[ToolSpec, ...]) -> tuple[ToolSpec, ...]:
        """The tools in the recorded order and with the recorded descriptions, new ones last."""
        if self._described is None or self._described[0] is not tools:
            told = tools
            if self.tools and any(self.tools.get(tool.name) != tool.description for tool in tools):
                places = {name: place for place, name in enumerate(self.tools)}
                told = tuple(
                    replace(tool, description=self.tools.get(tool.name, tool.description))
                    for tool in sorted(tools, key=lambda tool: places.get(tool.name, len(places)))
                )
            self._described = (tools, told)
        return self._described[1]

    def _begin(self, frozen: FrozenPrompt | None) -> None:
        self.frozen = frozen
        self.known = frozen.known if frozen is not None else KnownPrompt()
        self.tools = dict(self.known.tools)
        self.told_chars = 0
        self._text, self._described = None, None

    def _take(self, entry: Entry) -> None:
        data = entry.custom_data(PROMPT_TYPE)
        if data is not None:
            self._begin(frozen_prompt(data))
        elif isinstance(entry.body, Compaction):
            self._begin(None)
        elif isinstance(entry.body, CustomMessage) and entry.body.custom_type == RECALL_TYPE:
            paths = (entry.body.details or {}).get("paths")
            self.recalled = tuple(map(str, paths)) if isinstance(paths, list) else ()
        elif isinstance(entry.body, CustomMessage) and entry.body.custom_type == CHANGES_TYPE:
            known = applied(self.known, entry.body.details or {})
            if known is None:  # from another program: the prompt is rebuilt
                self._begin(None)
                return
            self.known = known
            self.tools, self._described = {**known.tools, **self.tools}, None
            self.told_chars += len(entry.body.content)


class SessionPrompt:
    """The prompt of one session, for one turn in a window of `window_tokens`."""

    def __init__(self, session: OpenSession, *, window_tokens: int) -> None:
        self._session = session
        self._most_told_chars = window_tokens * CHARS_PER_TOKEN // MOST_TOLD_SHARE

    def texts(self, part: StablePart, now: str) -> tuple[str, str]:
        """The stable and the changing part of the prompt: as frozen if its frame is the same, else new."""
        recorded = self.recorded()
        if recorded.frozen is None or recorded.frozen.frame != part.digest:
            return part.text, now
        return recorded.text(part), recorded.frozen.known.now

    @property
    def told_paths(self) -> frozenset[str]:
        """The logs and notes of past days that the model has been told about."""
        recorded = self.recorded()
        return frozenset((*recorded.known.logs, *(recorded.recalled if recorded.frozen is None else ())))

    async def bring_up_to_date(
        self,
        part: StablePart,
        now: str,
        logs: Mapping[str, str],
        *,
        has_lines: Callable[[str, Sequence[str]], Awaitable[bool]],
        recall_again: Callable[[], Awaitable[None]],
    ) -> None:
        """Records the prompt in the transcript, or what changed in it; nothing if nothing did.

        `has_lines` tells whether a file still has these lines, which may only have been cut from its shown
        text. `recall_again` replaces the recalled notes.

        Raises:
            SessionError: the transcript cannot be written.
        """
        recorded, journal = self.recorded(), self._session.journal
        present = KnownPrompt(tools=part.tools, files=part.files, logs=logs, now=now)
        if recorded.frozen is not None and recorded.frozen.frame == part.digest:
            changes = changes_between(recorded.known, present)
            if changes is None:
                return
            removed = removed_lines(recorded.known, present)
            is_only_cut = all([await has_lines(path, lines) for path, lines in removed.items()])
            if is_only_cut and recorded.told_chars + len(changes.text) <= self._most_told_chars:
                await journal.append(
                    CustomMessage(custom_type=CHANGES_TYPE, content=changes.text, details=changes.details)
                )
                return
        if recorded.frozen is not None:
            await recall_again()
        prompt = FrozenPrompt(frame=part.digest, known=present)
        # A prompt that is lost in a power failure is recorded again.
        await journal.append_custom(PROMPT_TYPE, prompt.to_record(), durable=False)

    def recorded(self) -> RecordedPrompt:
        recorded = self._session.journal.views.cached(RecordedPrompt)
        recorded.follow(self._session.branch)
        return recorded


VERSION = 1


class KnownPrompt(Record):
    """What a model knows from the system prompt.

    `tools` are descriptions by name, `files` and `logs` texts by path, `now` says day, chat and model.
    """

    tools: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    logs: Mapping[str, str] = field(default_factory=dict)
    now: str = ""


class FrozenPrompt(Record):
    """A recorded system prompt; `frame` is the digest of its frame."""

    frame: str
    known: KnownPrompt

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


class PromptChanges(Record):
    """What changed in a `KnownPrompt`: the text of the message about it, and the message's details."""

    text: str
    details: Mapping[str, Any]


def frozen_prompt(data: Mapping[str, Any]) -> FrozenPrompt | None:
    """Parses the data of an entry; `None` if they are invalid or of a later version."""
    frame, now = data.get("frame"), data.get("now")
    maps = [_texts(data.get(name)) for name in ("tools", "files", "logs")]
    if data.get("version") != VERSION or not isinstance(frame, str) or not isinstance(now, str):
        return None
    tools, files, logs = maps
    if tools is None or files is None or logs is None:
        return None
    return FrozenPrompt(frame=frame, known=KnownPrompt(tools=tools, files=files, logs=logs, now=now))


def changes_between(known: KnownPrompt, present: KnownPrompt) -> PromptChanges | None:
    """What changed, or `None`.

    A log that `present` lacks did not change. A new description of a known tool is not reported.
    """
    if (  # a quick check, because most often nothing changed
        (known.now, known.files) == (present.now, present.files)
        and known.tools.keys() == present.tools.keys()
        and all(known.logs.get(path, "") == text for path, text in present.logs.items())
    ):
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
        lines = (
            render("tail/tool_gone", name=name)
            if text is None
            else render("tail/tool_new", name=name, text=text)
            for name, text in tools.items()
        )
        told.append(render("tail/changed_tools", tools="\n".join(lines)))
    told += [_shown(path, text, present.files.get(path, "")) for path, text in files.items()]
    told += [_shown(path, text, present.logs[path]) for path, text in logs.items()]
    text = "\n\n".join(part for part in told if part)
    return PromptChanges(text=render("tail/changes", text=text), details=details) if text else None


def removed_lines(known: KnownPrompt, present: KnownPrompt) -> dict[str, list[str]]:
    """The known lines that each file and log no longer has."""
    pairs = {path: (text, present.files.get(path, "")) for path, text in known.files.items()}
    pairs |= {path: (known.logs[path], text) for path, text in present.logs.items() if path in known.logs}
    return {
        path: gone
        for path, (before, after) in pairs.items()
        if before != after and (gone := [*filter(str.strip, set(_lines(before)) - set(_lines(after)))])
    }


def applied(known: KnownPrompt, details: Mapping[str, Any]) -> KnownPrompt | None:
    """What is known after recorded changes; `None` if their details are invalid."""
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
    # The lines that are replaced: the first, the one after the last, and the new lines.
    if before == after:
        return []
    old, new = _lines(before), _lines(after)
    matched = SequenceMatcher(None, old, new).get_opcodes()
    return [[first, end, new[start:stop]] for tag, first, end, start, stop in matched if tag != "equal"]


def _edited(texts: Mapping[str, str], edits: object) -> dict[str, str] | None:
    """The texts with their edits; `None` if an edit is invalid or does not fit."""
    if not isinstance(edits, Mapping):
        return None
    changed = dict(texts)
    for path, of_text in edits.items():
        lines = _lines(changed.get(path, ""))
        for edit in reversed(of_text if isinstance(of_text, list) else [None]):
            match edit:
                case [int(first), int(end), list(new)] if 0 <= first <= end <= len(lines) and all(
                    isinstance(line, str) for line in new
                ):
                    lines[first:end] = new
                case _:
                    return None
        changed[str(path)] = "\n".join(lines)
    return {path: text for path, text in changed.items() if text}


def _shown(path: str, before: str, after: str) -> str:
    """A text's changed lines, quoted; empty if nothing changed."""
    old, told, moved = _lines(before), list[str](), 0
    for first, end, lines in _edits(before, after):
        if end > first:
            told.append(render("tail/lines_gone", text=quoted("\n".join(old[first:end]))))
        if lines:
            line = str(first + moved + 1)
            told.append(render("tail/lines_new", line=line, text=quoted("\n".join(lines))))
        moved += len(lines) - (end - first)
    return render("tail/changed_file", path=path, text="\n".join(told)) if told else ""


def _lines(text: str) -> list[str]:
    return text.split("\n") if text else []


def _texts(raw: object) -> dict[str, str] | None:
    if not isinstance(raw, Mapping) or not all(isinstance(text, str) for text in raw.values()):
        return None
    return {str(name): text for name, text in raw.items()}
