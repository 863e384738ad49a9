"""The owner's folder: made once from the templates, and read for the context of a conversation.

A file that exists is never overwritten here.
"""

from __future__ import annotations

import asyncio
import logging
import os
from contextlib import suppress
from dataclasses import dataclass
from datetime import date
from importlib.resources import files
from pathlib import Path
from typing import Literal, TypeAlias

from nacre.memory.workspace.files import MAX_READ_BYTES, file_bytes
from nacre.memory.workspace.paths import PathOutsideRoot

log = logging.getLogger(__name__)

GitState: TypeAlias = Literal["initialised", "present", "skipped", "unavailable"]

FIRST_RUN_FILE = "BOOTSTRAP.md"
TEMPLATES = ("AGENTS.md", "SOUL.md", "IDENTITY.md", "TOOLS.md", "USER.md", "HEARTBEAT.md", "MEMORY.md")
OLDER_NAMES = {"MEMORY.md": "memory.md"}
"""Names that a file may have in a workspace that was brought along; the first name goes before it."""
FOLDERS = ("memory", "shared")
GIT_ANSWER_SECONDS = 2.0
GIT_INIT_SECONDS = 10.0
MIN_USEFUL_CHARS = 64
"""With less of the total left than this, a further context file is not begun."""


class TemplateMissing(Exception):
    """A packaged template is not there: the install is broken."""


@dataclass(frozen=True, kw_only=True)
class WorkspaceReport:
    """What `ensure_workspace` did. `notice` is a sentence for the owner, or `""`.

    `git`: `initialised` now; `present` before; `skipped` because the workspace is not new or git
    was not wanted; `unavailable` because git is not there or failed, which `notice` explains.
    """

    created: tuple[str, ...]
    is_new: bool
    git: GitState
    notice: str = ""


@dataclass(frozen=True, kw_only=True)
class ContextFile:
    """A workspace file as it enters the context.

    `name` is what was asked for, `path` where it was expected. `text` may be cut, with a visible
    mark, or be a mark that says why there is no text; then `missing` is true.
    """

    name: str
    path: Path
    text: str
    missing: bool
    raw_chars: int
    injected_chars: int
    truncated: bool


def daily_log_path(day: date) -> str:
    """The log of a day, relative to the workspace."""
    return f"memory/{day:%Y-%m-%d}.md"


async def ensure_workspace(
    directory: Path, *, with_templates: bool = True, run_git: bool = True
) -> WorkspaceReport:
    """Makes the folder and what is missing in it. Files that exist stay as they are.

    BOOTSTRAP.md and `.gitignore` go only into a workspace that is new, so that deleting them is
    final. Nor does a MEMORY.md go beside the `memory.md` of older workspaces. Without
    `with_templates` only the folders are made.

    Raises:
        TemplateMissing: a packaged template is not there.
        OSError: the folder cannot be made or written.
    """
    is_new = not any((directory / name).exists() for name in (*TEMPLATES, *OLDER_NAMES.values(), "memory"))
    for folder in (directory, *(directory / name for name in FOLDERS)):
        folder.mkdir(parents=True, exist_ok=True)
    created: list[str] = []
    if with_templates:
        # BOOTSTRAP.md first: a workspace that was begun and not finished still counts as new.
        wanted = ([(FIRST_RUN_FILE, FIRST_RUN_FILE), ("gitignore", ".gitignore")] if is_new else []) + [
            (name, name) for name in TEMPLATES if not _has_older_name(directory, name)
        ]
        for template, name in wanted:
            if _create(directory / name, template_text(template)):
                created.append(name)
    git, notice = await _git_init(directory) if run_git and is_new else ("skipped", "")
    return WorkspaceReport(created=tuple(created), is_new=is_new, git=git, notice=notice)


def template_text(name: str) -> str:
    """The text of a packaged template without its front matter.

    Raises:
        TemplateMissing: there is no such file in the install.
    """
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


async def read_context_file(root: Path, name: str, *, max_chars: int) -> ContextFile:
    """One file as it enters the context, at most `max_chars` long besides the mark of a cut.

    Never raises for what it finds: a missing file, and a symbolic link, which could put a private
    file before a group under another name, become a mark.
    """
    return await asyncio.to_thread(context_file, root, name, max_chars=max_chars)


def context_file(root: Path, name: str, *, max_chars: int) -> ContextFile:
    """What `read_context_file` gives, for whoever is on a thread already."""
    path = root / name
    try:
        content = file_bytes(root, name, max_bytes=MAX_READ_BYTES)
    except FileNotFoundError:
        return _without_text(name, path, f"[MISSING] Expected at: {path}")
    except (PathOutsideRoot, OSError) as error:
        log.warning("%s is not read into the context: %s", name, error)
        return _without_text(name, path, f"[MISSING] {name} cannot be read: {error}")
    if content.relative.as_posix() != name:
        log.warning("%s is a symbolic link to %s and is not read into the context", name, content.relative)
        return _without_text(name, path, f"[MISSING] {name} is a symbolic link, which is not followed.")
    text = content.data.decode("utf-8", errors="replace").removeprefix("\ufeff").rstrip()
    shown = cut_text(text, name, max_chars)
    return ContextFile(
        name=name,
        path=path,
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
        f"\n\n[...truncated, read {name} for full content...]\n"
        f"…(truncated {name}: kept {head_chars}+{tail_chars} chars of {len(text)})…\n\n"
    )
    return text[:head_chars] + mark + text[len(text) - tail_chars :]


def _without_text(name: str, path: Path, mark: str) -> ContextFile:
    return ContextFile(
        name=name, path=path, text=mark, missing=True, raw_chars=0, injected_chars=len(mark), truncated=False
    )


def present_name(root: Path, name: str) -> str:
    """The name under which a file is there: an older one only where the first is missing."""
    return OLDER_NAMES[name] if _has_older_name(root, name) and not os.path.lexists(root / name) else name


def _has_older_name(root: Path, name: str) -> bool:
    return name in OLDER_NAMES and (root / OLDER_NAMES[name]).is_file()


def _create(path: Path, text: str) -> bool:
    try:
        with path.open("xb") as file:
            file.write(text.encode("utf-8"))
    except FileExistsError:
        return False
    return True


async def _git_init(directory: Path) -> tuple[GitState, str]:
    if (directory / ".git").exists():
        return "present", ""
    problem = await _git(directory, "--version", within_seconds=GIT_ANSWER_SECONDS)
    if not problem:
        init = ("-c", "init.defaultBranch=main", f"--git-dir={directory / '.git'}", "init", "--quiet")
        problem = await _git(directory, *init, within_seconds=GIT_INIT_SECONDS)
    if problem:
        return "unavailable", f"The workspace {directory} has no git history: {problem}."
    return "initialised", ""


async def _git(directory: Path, *arguments: str, within_seconds: float) -> str:
    """Runs git; `""` when it worked, else why not."""
    try:
        process = await asyncio.create_subprocess_exec(
            "git",
            *arguments,
            cwd=directory,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
        )
    except OSError as error:
        return f"git cannot be started ({error.strerror or error})"
    try:
        async with asyncio.timeout(within_seconds):
            _, complaint = await process.communicate()
    except TimeoutError:
        return f"git did not answer within {within_seconds:.0f} seconds"
    finally:
        if process.returncode is None:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()
    return f"git failed: {complaint.decode(errors='replace').strip()}" if process.returncode else ""
