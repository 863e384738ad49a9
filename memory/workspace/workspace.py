"""The owner's workspace: created once from the templates, and read for the context of a conversation.

Existing files are never overwritten here.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from pathlib import PurePath

from nacre.memory.contracts.workspace import (
    FIRST_RUN_FILE,
    RACY_NS,
    FileBytes,
    Fingerprint,
    ReadFailed,
    Workspace,
)
from nacre.record import Record

log = logging.getLogger(__name__)


class _Known(Record):
    file: ContextFile
    name: str
    max_chars: int
    fingerprint: Fingerprint | None
    looked_at_ns: int

    def is_settled(self) -> bool:
        # A read error may pass by itself.
        if self.fingerprint is None or self.file.missing:
            return self.fingerprint is None
        return self.fingerprint.changed_ns < self.looked_at_ns - RACY_NS


class _Shown(Record):
    seen: Mapping[str, Fingerprint | None]
    files: tuple[ContextFile, ...]
    is_settled: bool


class ContextFiles:
    """The context files of one workspace. `now_ns` returns nanoseconds since the epoch.

    The next read sees any change, even one of the same size within the same second. If the clock is behind
    that of the workspace, files are read each time.
    """

    def __init__(self, workspace: Workspace, *, now_ns: Callable[[], int]) -> None:
        self._workspace = workspace
        self._now_ns = now_ns
        self._known: dict[str, _Known] = {}
        self._shown: dict[tuple[object, ...], _Shown] = {}

    async def read(
        self, names: Sequence[str], *, per_file_chars: int = 20_000, total_chars: int = 60_000
    ) -> tuple[ContextFile, ...]:
        """The files in the order of `names`, which is also the order in which `total_chars` is spent.

        A file beyond the total has an empty text and is marked as truncated. Unchanged files, and an
        unchanged tuple, are the same objects as before. One step reads all fingerprints, and a second one
        reads files that may have changed.
        """
        key = (*names, per_file_chars, total_chars)
        # Taken before the fingerprints, so that later changes are newer.
        looked_at_ns = self._now_ns()
        older = [OLDER_NAMES[name] for name in names if name in OLDER_NAMES]
        seen = await self._workspace.fingerprints((*names, *older))
        before = self._shown.get(key)
        if before is not None and before.is_settled and before.seen == seen:
            return before.files
        present = {name: _present(name, seen) for name in names}
        changed = [present[name] for name in names if not self._is_unchanged(name, present[name], seen)]
        read = await self._workspace.read_many(changed) if changed else {}
        shown: list[ContextFile] = []
        left_chars = total_chars
        for name in names:
            max_chars = min(per_file_chars, left_chars) if left_chars >= MIN_USEFUL_CHARS else 0
            found = present[name]
            if found not in read and self._known[name].max_chars != max_chars:
                read = {**read, **await self._workspace.read_many((found,))}
            if found in read:
                file = context_file(read[found], found, max_chars=max_chars)
                known = self._known.get(name)
                if known is not None and known.file == file:
                    file = known.file
                elif file.truncated:
                    log.warning(
                        "%s is %d characters long, %d enter the context", name, file.raw_chars, max_chars
                    )
                self._known[name] = _Known(
                    file=file,
                    name=found,
                    max_chars=max_chars,
                    fingerprint=seen.get(found),
                    looked_at_ns=looked_at_ns,
                )
            file = self._known[name].file
            left_chars -= file.injected_chars
            shown.append(file)
        files = before.files if before is not None and before.files == tuple(shown) else tuple(shown)
        is_settled = all(self._known[name].is_settled() for name in names)
        self._shown[key] = _Shown(seen=seen, files=files, is_settled=is_settled)
        return files

    def _is_unchanged(self, name: str, present: str, seen: Mapping[str, Fingerprint | None]) -> bool:
        known = self._known.get(name)
        return (
            known is not None
            and (known.name, known.fingerprint) == (present, seen.get(present))
            and known.is_settled()
        )


def _present(name: str, seen: Mapping[str, Fingerprint | None]) -> str:
    older = OLDER_NAMES.get(name, name)
    return older if seen[name] is None and seen[older] is not None else name


TEMPLATES = ("AGENTS.md", "SOUL.md", "IDENTITY.md", "TOOLS.md", "USER.md", "HEARTBEAT.md", "MEMORY.md")
SHORT_FORMS = {"AGENTS.md": "AGENTS.short.md", "SOUL.md": "SOUL.short.md"}
"""What a small window is shown of a file that still reads as its template; it fits the smallest window."""
OLDER_NAMES = {"MEMORY.md": "memory.md"}
"""Older names of files in existing workspaces; the first name has priority."""
MEMORY_FOLDER = "memory"
"""The folder of the owner's daily logs."""
FOLDERS = (MEMORY_FOLDER, "shared")
CUT_MARK = "[...truncated, read "
"""The beginning of the line that marks a cut in a context file; a second line follows it."""
MIN_USEFUL_CHARS = 64
"""With less of the total left than this, no further context file is started."""


class TemplateMissing(Exception):
    """A packaged template is missing: the install is broken."""


class WorkspaceReport(Record):
    """The result of `ensure_workspace`."""

    created: tuple[str, ...]
    is_new: bool


class ContextFile(Record):
    """A workspace file for the context.

    `name` is the requested name. `text` may be cut, with a visible mark, or may be a mark that says why there
    is no text; then `missing` is true.
    """

    name: str
    text: str
    missing: bool
    raw_chars: int
    injected_chars: int
    truncated: bool


REMINDERS = "memory/reminders.md"
"""What the owner wants to be reminded of when a topic comes up."""


def daily_log_path(day: date, *, folder: str = MEMORY_FOLDER) -> str:
    """The log of a day, relative to the workspace; `folder` is the owner's by default, or that of a chat."""
    return f"{folder}/{day:%Y-%m-%d}.md"


def workspace_gone(workspace: Workspace) -> str:
    """Why a missing workspace is neither read nor written, as a clause without its full path."""
    return f"the workspace folder {PurePath(workspace.place).name!r} is gone"


async def ensure_workspace(workspace: Workspace, *, with_templates: bool = True) -> WorkspaceReport:
    """Creates the workspace and what it lacks. Existing files stay as they are.

    BOOTSTRAP.md and `.gitignore` are only written to a new workspace, so that deleting them is final. No
    MEMORY.md is added beside the `memory.md` of older workspaces. Without `with_templates`, only folders are
    made.

    Raises:
        TemplateMissing: a packaged template is missing.
        OSError: the folder cannot be created or written.
    """
    older = tuple(OLDER_NAMES.values())
    seen = await workspace.fingerprints((*TEMPLATES, *older, "memory"))
    is_new = not any(seen.values())
    wanted: list[tuple[str, str]] = []
    if with_templates:
        # BOOTSTRAP.md comes first: an unfinished workspace still counts as new.
        wanted = [(FIRST_RUN_FILE, FIRST_RUN_FILE), ("gitignore", ".gitignore")] if is_new else []
        wanted += [(name, name) for name in TEMPLATES if seen.get(OLDER_NAMES.get(name, "")) is None]
    created = await workspace.make(
        {name: template_text(template).encode() for template, name in wanted}, folders=FOLDERS
    )
    return WorkspaceReport(created=created, is_new=is_new)


def template_text(name: str) -> str:
    """The text of a packaged template without its front matter.

    Raises:
        TemplateMissing: the install does not have it.
    """
    from importlib.resources import files  # this import is slow, and searches do not need it

    resource = files("nacre.workspace_template") / name
    if not resource.is_file():
        raise TemplateMissing(
            f"The template nacre/workspace_template/{name} is missing from this install. Install Nacre again."
        )
    return without_front_matter(resource.read_text(encoding="utf-8"))


def without_front_matter(text: str) -> str:
    """`text` without a leading `---` block and the white space after it."""
    lines = text.removeprefix("\ufeff").splitlines(keepends=True)
    if not lines or lines[0].strip() != "---":
        return text
    for number, line in enumerate(lines[1:], start=1):
        if line.strip() == "---":
            return "".join(lines[number + 1 :]).lstrip()
    return text


async def read_context_file(workspace: Workspace, name: str, *, max_chars: int) -> ContextFile:
    """A file for the context with at most `max_chars` characters besides the mark of a cut.

    Never raises for the file's state: a missing file becomes a mark, and so does a symbolic link, which could
    show a private file to a group under another name.
    """
    found = await workspace.read_many((name,))
    return context_file(found[name], name, max_chars=max_chars)


def context_file(content: FileBytes | ReadFailed, name: str, *, max_chars: int) -> ContextFile:
    if isinstance(content, FileNotFoundError):
        return _without_text(name, f"[MISSING] Expected at: {name}")
    if not isinstance(content, FileBytes):
        log.warning("%s is not read into the context: %s", name, content)
        return _without_text(name, f"[MISSING] {name} cannot be read: {content}")
    if content.relative.as_posix() != name:
        log.warning("%s is a symbolic link to %s and is not read into the context", name, content.relative)
        return _without_text(name, f"[MISSING] {name} is a symbolic link, which is not followed.")
    text = content.text.rstrip()
    whole = text
    if len(text) > max_chars and name in SHORT_FORMS and text == template_text(name).rstrip():
        whole = template_text(SHORT_FORMS[name]).rstrip()
    shown = cut_text(whole, name, max_chars)
    return ContextFile(
        name=name,
        text=shown,
        missing=False,
        raw_chars=len(text),
        injected_chars=len(shown),
        truncated=shown != whole or content.is_cut,
    )


def cut_text(text: str, name: str, max_chars: int) -> str:
    """`text`, or 70 % of `max_chars` from its start and 20 % from its end around a visible mark."""
    if len(text) <= max_chars or max_chars <= 0:
        return text if max_chars > 0 else ""
    head_chars, tail_chars = max_chars * 7 // 10, max_chars * 2 // 10
    mark = (
        f"\n\n{CUT_MARK}{name} for full content...]\n"
        f"…(truncated {name}: kept {head_chars}+{tail_chars} chars of {len(text)})…\n\n"
    )
    return text[:head_chars] + mark + text[len(text) - tail_chars :]


def is_cut_mark(line: str) -> bool:
    """Whether a line is part of the mark that `cut_text` inserts."""
    return line.startswith((CUT_MARK, "…(truncated "))


def _without_text(name: str, mark: str) -> ContextFile:
    return ContextFile(
        name=name, text=mark, missing=True, raw_chars=0, injected_chars=len(mark), truncated=False
    )
