"""The owner's folder: made once from the templates, and read for the context of a conversation.

A file that exists is never overwritten here.
"""

from __future__ import annotations

import logging
from datetime import date
from pathlib import PurePath

from nacre.memory.contracts.workspace import FIRST_RUN_FILE, FileBytes, ReadFailed, Workspace
from nacre.records.record import Record

log = logging.getLogger(__name__)

TEMPLATES = ("AGENTS.md", "SOUL.md", "IDENTITY.md", "TOOLS.md", "USER.md", "HEARTBEAT.md", "MEMORY.md")
OLDER_NAMES = {"MEMORY.md": "memory.md"}
"""Names that a file may have in a workspace that was brought along; the first name goes before it."""
MEMORY_FOLDER = "memory"
"""Where the owner's daily logs lie."""
FOLDERS = (MEMORY_FOLDER, "shared")
CUT_MARK = "[...truncated, read "
"""How the line begins that stands where a context file was cut; a second line of the mark follows."""
MIN_USEFUL_CHARS = 64
"""With less of the total left than this, a further context file is not begun."""


class TemplateMissing(Exception):
    """A packaged template is not there: the install is broken."""


class WorkspaceReport(Record):
    """What `ensure_workspace` did."""

    created: tuple[str, ...]
    is_new: bool


class ContextFile(Record):
    """A workspace file as it enters the context.

    `name` is what was asked for. `text` may be cut, with a visible
    mark, or be a mark that says why there is no text; then `missing` is true.
    """

    name: str
    text: str
    missing: bool
    raw_chars: int
    injected_chars: int
    truncated: bool


def daily_log_path(day: date, *, folder: str = MEMORY_FOLDER) -> str:
    """The log of a day, relative to the workspace; `folder` is the owner's unless a chat's own is named."""
    return f"{folder}/{day:%Y-%m-%d}.md"


def workspace_gone(workspace: Workspace) -> str:
    """Why nothing is read or written of a workspace that is not there, as a clause without its whole path."""
    return f"the workspace folder {PurePath(workspace.place).name!r} is gone"


async def ensure_workspace(workspace: Workspace, *, with_templates: bool = True) -> WorkspaceReport:
    """Makes the workspace and what is missing in it. Files that exist stay as they are.

    BOOTSTRAP.md and `.gitignore` go only into a workspace that is new, so that deleting them is
    final. Nor does a MEMORY.md go beside the `memory.md` of older workspaces. Without
    `with_templates` only the folders are made.

    Raises:
        TemplateMissing: a packaged template is not there.
        OSError: the folder cannot be made or written.
    """
    older = tuple(OLDER_NAMES.values())
    seen = await workspace.fingerprints((*TEMPLATES, *older, "memory"))
    is_new = not any(seen.values())
    wanted: list[tuple[str, str]] = []
    if with_templates:
        # BOOTSTRAP.md first: a workspace that was begun and not finished still counts as new.
        wanted = [(FIRST_RUN_FILE, FIRST_RUN_FILE), ("gitignore", ".gitignore")] if is_new else []
        wanted += [(name, name) for name in TEMPLATES if seen.get(OLDER_NAMES.get(name, "")) is None]
    created = await workspace.make(
        {name: template_text(template).encode() for template, name in wanted}, folders=FOLDERS
    )
    return WorkspaceReport(created=created, is_new=is_new)


def template_text(name: str) -> str:
    """The text of a packaged template without its front matter.

    Raises:
        TemplateMissing: there is no such file in the install.
    """
    from importlib.resources import files  # with it comes a lot that searches have no use for

    resource = files("nacre.workspace_template") / name
    if not resource.is_file():
        raise TemplateMissing(
            f"The template nacre/workspace_template/{name} is missing from this install. Install Nacre again."
        )
    return without_front_matter(resource.read_text(encoding="utf-8"))


def without_front_matter(text: str) -> str:
    """`text` without a leading `---` block and the white space behind it."""
    lines = text.removeprefix("\ufeff").splitlines(keepends=True)
    if not lines or lines[0].strip() != "---":
        return text
    for number, line in enumerate(lines[1:], start=1):
        if line.strip() == "---":
            return "".join(lines[number + 1 :]).lstrip()
    return text


async def read_context_file(workspace: Workspace, name: str, *, max_chars: int) -> ContextFile:
    """One file as it enters the context, at most `max_chars` long besides the mark of a cut.

    Never raises for what it finds: a missing file, and a symbolic link, which could put a private
    file before a group under another name, become a mark.
    """
    found = await workspace.read_many((name,))
    return context_file(found[name], name, max_chars=max_chars)


def context_file(content: FileBytes | ReadFailed, name: str, *, max_chars: int) -> ContextFile:
    """What was read of a file, as it enters the context."""
    if isinstance(content, FileNotFoundError):
        return _without_text(name, f"[MISSING] Expected at: {name}")
    if not isinstance(content, FileBytes):
        log.warning("%s is not read into the context: %s", name, content)
        return _without_text(name, f"[MISSING] {name} cannot be read: {content}")
    if content.relative.as_posix() != name:
        log.warning("%s is a symbolic link to %s and is not read into the context", name, content.relative)
        return _without_text(name, f"[MISSING] {name} is a symbolic link, which is not followed.")
    text = content.data.decode("utf-8", errors="replace").removeprefix("\ufeff").rstrip()
    shown = cut_text(text, name, max_chars)
    return ContextFile(
        name=name,
        text=shown,
        missing=False,
        raw_chars=len(text),
        injected_chars=len(shown),
        truncated=shown != text or content.is_cut,
    )


def cut_text(text: str, name: str, max_chars: int) -> str:
    """`text`, or 70 % of `max_chars` from its head and 20 % from its tail around a visible mark."""
    if len(text) <= max_chars or max_chars <= 0:
        return text if max_chars > 0 else ""
    head_chars, tail_chars = max_chars * 7 // 10, max_chars * 2 // 10
    mark = (
        f"\n\n{CUT_MARK}{name} for full content...]\n"
        f"…(truncated {name}: kept {head_chars}+{tail_chars} chars of {len(text)})…\n\n"
    )
    return text[:head_chars] + mark + text[len(text) - tail_chars :]


def is_cut_mark(line: str) -> bool:
    """Whether a line is part of the mark that `cut_text` makes."""
    return line.startswith(("[...truncated, read ", "…(truncated "))


def _without_text(name: str, mark: str) -> ContextFile:
    return ContextFile(
        name=name, text=mark, missing=True, raw_chars=0, injected_chars=len(mark), truncated=False
    )
