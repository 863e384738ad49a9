"""The system prompt of an agent as it is now: workspace files, tools, sections of authors, the day.

Each piece is built once and reused while nothing changes. `session_prompt.py` decides which version a
session is sent. The stable part comes first; the part that changes with the day or the chat comes last. The
notes recalled at the start of a session are here too.
"""

from __future__ import annotations

import asyncio
import hashlib
import inspect
import json
import logging
import re
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from functools import cached_property, partial
from pathlib import Path
from typing import Any, TypeAlias

from nacre.memory.contracts.notes import MAX_NOTE_BYTES
from nacre.memory.contracts.workspace import FolderEntry, PathOutsideRoot, Workspace
from nacre.memory.files.skills import Skill, Skills
from nacre.memory.files.sources.sources import Sources
from nacre.memory.workspace.workspace import (
    CUT_MARK,
    MIN_USEFUL_CHARS,
    ContextFile,
    ContextFiles,
    daily_log_path,
    is_cut_mark,
    read_context_file,
)
from nacre.prompts import quoted, render
from nacre.record import Record
from nacre.runtime.contracts.budget import ContextBudget
from nacre.runtime.contracts.clock import Clock, epoch_ms
from nacre.runtime.contracts.model import SystemPrompt, ToolSpec, overhead_texts
from nacre.runtime.contracts.policy import ChatPolicy, WorkspaceAccess
from nacre.runtime.settings.sections.agents import AgentSettings, Profile, StartupContextSettings
from nacre.runtime.settings.sections.skills import SkillsSettings
from nacre.runtime.tools.function import ToolChat
from nacre.runtime.tools.toolbox import CHARS_PER_TOKEN, on_its_own_thread
from nacre.runtime.turn.prompt_part import PromptPart
from nacre.sessions.contracts.messages import AssistantMessage, sendable
from nacre.sessions.entries.entries import Compaction, CustomMessage, Entry
from nacre.sessions.view.sent_view import MOST_QUICK_CHARS
from nacre.sessions.view.transcript import RECALL_TYPE

log = logging.getLogger(__name__)

SECTION = "Skills"
"""The section's name. It follows the workspace files, so that its changes are reported like theirs."""


class SkillList(Record):
    """The section's text, empty without skills, and sentences for the owner."""

    text: str = ""
    notices: tuple[str, ...] = ()


def skill_list(skills: Sequence[Skill], *, most_chars: int) -> SkillList:
    """Lists skills in at most `most_chars` characters: with descriptions while they fit, then by name."""
    lines: list[str] = []
    left_chars, shortened, unnamed = most_chars, 0, 0
    for skill in skills:
        whole = f"- `{skill.name}` ({skill.path}): {skill.description}"
        short = f"- `{skill.name}` ({skill.path})"
        line = whole if len(whole) <= left_chars and not shortened else short
        if len(line) > left_chars:
            unnamed += 1
            continue
        shortened += line is short
        lines.append(line)
        left_chars -= len(line) + 1
    notices = []
    if shortened or unnamed:
        notices.append(
            f"There is no room to describe all skills: {shortened} are listed by name only, {unnamed} not at "
            "all. Raise skills.limits.maxSkillsPromptChars, or disable some in skills.entries."
        )
    text = render("system/skills", skills="\n".join(lines)) if lines else ""
    return SkillList(text=text, notices=tuple(notices))


OPTIONAL_FILES = ("MEMORY.md",)
"""Files that are left out, and not marked as missing, if they do not exist."""
MOST_PARTS = 64
"""How many stable parts of one kind of chat are cached: one for each set of sections."""
MOST_COUNTED_TEXTS = 4_096
"""How many pieces of system prompts and tool schemas have a cached token count."""

FILES_PERCENT, STARTUP_PERCENT = 15, 10
"""The most of a window for workspace files and for recalled notes, at four characters a token."""
FAIR_SHARES_TOKENS = 16_000
"""In a smaller window, each file gets at most a fifth of the files' share, so that all are shown."""

MOST_KINDS = 256
"""How many kinds of chats have cached prompts. Each chat that is not private is a kind of its own."""

_TOOLS_PLACE = "\0tools\0"
"""Marks the place of the tools in a frame."""

_Kind: TypeAlias = tuple[bool, WorkspaceAccess, tuple[str, ...], str, tuple[str, ...]]

_ACCESS: dict[WorkspaceAccess, str] = {
    "rw": "workspace/rw",
    "ro": "workspace/ro",
    "none": "workspace/none",
}


class StablePart(Record):
    """The stable part of a system prompt in pieces, and a sentence for each file that was cut.

    `frame` is everything except `tools`, descriptions by name, and `files`, the texts of the shown files.
    `digest` identifies the frame and the chat's rights.
    """

    frame: str
    digest: str
    tools: Mapping[str, str]
    files: Mapping[str, str]
    notices: tuple[str, ...]

    @cached_property
    def text(self) -> str:
        head = self.frame.replace(_TOOLS_PLACE, _tool_lines(self.tools), 1)
        shown = "\n\n".join(
            render("system/context_file", name=name, text=text) for name, text in self.files.items()
        )
        return f"{head}\n\n{render('system/context_files', files=shown)}" if shown else head


class _Made(Record):
    files: tuple[ContextFile, ...]
    texts: Mapping[str, str]
    tools: tuple[ToolSpec, ...]
    skills: SkillList
    parts: dict[tuple[str, ...], StablePart]


class SystemPrompts:
    """The system prompts of one agent, for all of its turns."""

    def __init__(
        self,
        workspace: Workspace,
        settings: AgentSettings,
        skill_settings: SkillsSettings,
        skills: Skills,
        *,
        now: Clock,
        count_tokens: Callable[[str], int],
    ) -> None:
        self._workspace = workspace
        self._sources = Sources(workspace)
        self._settings = settings
        self._profile = settings.profile
        self.skills = skills
        self._skill_settings = skill_settings
        self._count_tokens = count_tokens
        self._files = ContextFiles(workspace, now_ns=lambda: epoch_ms(now()) * 1_000_000)
        self._made: dict[_Kind, _Made] = {}
        self._texts_of: dict[tuple[str, ...], tuple[Sequence[ContextFile], Mapping[str, str]]] = {}
        self._log_days: tuple[date, ...] = ()
        self._log_paths: tuple[str, ...] = ()
        self._log_files: tuple[ContextFile, ...] = ()
        self._logs: Mapping[str, str] = {}
        self._counted: dict[str, int] = {}

    async def stable(
        self,
        policy: ChatPolicy,
        *,
        tools: tuple[ToolSpec, ...],
        memory: str,
        budget: ContextBudget,
        sections: tuple[str, ...] = (),
    ) -> StablePart:
        """The stable part for such a chat: the same object as before, unless a file or a tool changed.

        `memory` are the instructions of the memory engine, `sections` the session's prompt parts.
        In a small window of the `budget`, less of each file is shown.
        """
        per_file_chars, total_chars = file_limits(self._settings, budget.window_tokens)
        files = await self._files.read(
            () if self._profile == "bare" else policy.context_files(),
            per_file_chars=per_file_chars,
            total_chars=total_chars,
        )
        skills = await self._skill_list(policy)
        names = tuple(tool.name for tool in tools)
        kind = (policy.is_private, policy.access, policy.writable_folders, memory, names)
        made = self._made.get(kind)
        if made is None or (made.files, made.tools, made.skills) != (files, tools, skills):
            if made is None and len(self._made) >= MOST_KINDS:
                self._made.clear()
            texts = await self._texts(files)
            made = self._made[kind] = _Made(files=files, texts=texts, tools=tools, skills=skills, parts={})
        part = made.parts.get(sections)
        if part is None:
            head = _head(self._profile, self._workspace, policy, memory=memory)
            frame = joined(head, *sections)
            seen = (policy.audience, policy.access, policy.writable_folders, policy.context_files(), frame)
            shown = {file.name: made.texts[file.name] for file in files if self._is_shown(file)}
            part = StablePart(
                frame=frame,
                digest=hashlib.sha256(json.dumps(seen).encode()).hexdigest(),
                tools={tool.name: tool.description for tool in tools},
                files={**shown, **({SECTION: skills.text} if skills.text else {})},
                notices=(*_cuts(files), *skills.notices),
            )
            if len(made.parts) >= MOST_PARTS:
                made.parts.clear()
            made.parts[sections] = part
        return part

    def _is_shown(self, file: ContextFile) -> bool:
        may_be_missing = file.name in OPTIONAL_FILES or self._profile != "assistant"
        return bool(file.text.strip()) and not (file.missing and may_be_missing)

    async def logs(self, now: datetime, budget: ContextBudget) -> Mapping[str, str]:
        """The logs of the last days by path, as the model of a private session sees them."""
        limits = startup_limits(self._settings.startup_context, budget)
        if not limits.enabled:
            return {}
        days = recalled_days(now, limits.daily_memory_days)
        if self._log_days != days:
            self._log_days, self._log_paths = days, tuple(map(daily_log_path, days))
        files = await self._files.read(
            self._log_paths,
            per_file_chars=self._settings.daily_log_max_chars,
            total_chars=limits.max_total_chars,
        )
        if self._log_files is not files:
            self._log_files, self._logs = files, await self._own_texts(files)
        return self._logs

    async def other_logs(self, paths: Sequence[str]) -> Mapping[str, str]:
        """Other logs and notes by path, as the model sees them."""
        if not paths:
            return {}
        per_file_chars = self._settings.daily_log_max_chars
        files = await self._files.read(
            paths, per_file_chars=per_file_chars, total_chars=per_file_chars * (len(paths) + 1)
        )
        return await self._own_texts(files)

    async def _own_texts(self, files: Sequence[ContextFile]) -> Mapping[str, str]:
        texts = {file.name: "" if file.missing else file.text for file in files}
        return {name: await own_lines(self._sources, name, text) for name, text in texts.items()}

    async def has_lines(self, path: str, lines: Sequence[str]) -> bool:
        """Whether a file of the workspace still has all of these lines, whole or inside longer lines."""
        file = await read_context_file(self._workspace, path, max_chars=MAX_NOTE_BYTES)
        text = "" if file.missing else await own_lines(self._sources, path, file.text)
        left_out = render("recall/not_own_lines", path=path, count="\0").partition("\0")[0]
        return all(line in text or is_cut_mark(line) or line.startswith(left_out) for line in lines)

    async def _skill_list(self, policy: ChatPolicy) -> SkillList:
        """The owner's skills, for the owner's chats only: no other chat can read their files."""
        limits, entries = self._skill_settings.limits, self._skill_settings.entries
        is_owners = policy.is_private and policy.sees_notes and self._profile == "assistant"
        if not (is_owners and limits.max_skills_prompt_chars):
            return SkillList()
        found = await self.skills.found()
        on = [skill for skill in found.skills if skill.name not in entries or entries[skill.name].enabled]
        of_others = await self._of_others([skill.path for skill in on]) if on else frozenset()
        listed = skill_list(
            [skill for skill in on if skill.path not in of_others],
            most_chars=limits.max_skills_prompt_chars,
        )
        left_out = tuple(
            f"The skill {path} is left out, because you did not write all of it. To use it, move its folder "
            "to a place that skills.load.extraDirs names."
            for path in sorted(of_others)
        )
        notices = (*found.problems, *left_out)
        return replace(listed, notices=(*notices, *listed.notices)) if notices else listed

    async def _of_others(self, paths: Sequence[str]) -> frozenset[str]:
        """The paths of skills with a line that another person or a tool may have written."""
        written = [path for path in paths if path in await self._sources.paths_of_others()]
        read = await self._workspace.read_many(written, max_bytes=MAX_NOTE_BYTES) if written else {}
        found = set()
        for path, file in read.items():
            if isinstance(file, Exception):
                continue
            lines = file.text.splitlines()
            if not all(
                each is None or each.is_owners_word for each in await self._sources.of_lines(path, lines)
            ):
                found.add(path)
        return frozenset(found)

    async def _texts(self, files: Sequence[ContextFile]) -> Mapping[str, str]:
        """The texts of files as the model sees them, cached for all chats that see these files."""
        names = tuple(file.name for file in files)
        known = self._texts_of.get(names)
        if known is None or known[0] is not files:
            texts = {file.name: await own_lines(self._sources, file.name, file.text) for file in files}
            known = self._texts_of[names] = files, texts
        return known[1]

    async def overhead_tokens(
        self, system: SystemPrompt, tools: tuple[ToolSpec, ...], *, few_tokens: int = 0
    ) -> int:
        """Tokens of a system prompt and the tools' schemas. Long new texts are counted on a thread.

        Texts of fewer than `few_tokens` bytes are estimated, since a token has at least one byte.
        """
        texts = overhead_texts(system, tools)
        most_tokens = len("".join(texts).encode(errors="surrogatepass")) if few_tokens else 0
        if most_tokens < few_tokens:
            return most_tokens // CHARS_PER_TOKEN
        known = {text: self._counted[text] for text in texts if text in self._counted}
        fresh = {text for text in texts if text not in known}
        if fresh:

            def count() -> dict[str, int]:
                return {text: self._count_tokens(text) for text in fresh}

            is_little = sum(map(len, fresh)) <= MOST_QUICK_CHARS
            known |= count() if is_little else await asyncio.to_thread(count)
            if len(self._counted) >= MOST_COUNTED_TEXTS:
                self._counted.clear()
            self._counted |= known
        return sum(map(known.__getitem__, texts))


def file_limits(settings: AgentSettings, window_tokens: int) -> tuple[int, int]:
    """How many characters of one workspace file, and of all together, a request may carry."""
    total_chars = min(settings.bootstrap_total_max_chars, window_tokens * FILES_PERCENT // 25)
    share_chars = total_chars // 5 if window_tokens < FAIR_SHARES_TOKENS else total_chars
    return min(settings.bootstrap_max_chars, share_chars), total_chars


def changing_part(*, now: datetime, channel: str, chat_kind: str, model_name: str) -> str:
    """The changing part of the system prompt: the owner's date and time zone, the chat, the model."""
    return render(
        "system/changing",
        date=now.strftime("%Y-%m-%d"),
        weekday=now.strftime("%A"),
        time_zone=str(now.tzinfo),
        channel=channel or "unknown",
        chat_kind=chat_kind,
        model=model_name,
    )


def sub_agent_part(
    name: str, instructions: str, *, tools: Sequence[ToolSpec], memory: str, hand_off: bool
) -> str:
    """The stable part of a sub-agent's system prompt, without files of the workspace."""
    return render(
        "session/hand_off" if hand_off else "session/sub_agent",
        name=name,
        tools=_tool_lines({tool.name: tool.description for tool in tools}),
        memory=f"{memory}\n\n" if memory else "",
        text=instructions,
    )


def joined(*sections: str) -> str:
    return "\n\n".join(section for section in sections if section)


def _head(profile: Profile, workspace: Workspace, policy: ChatPolicy, *, memory: str) -> str:
    if profile != "assistant":
        others = "" if policy.is_private else render("system/short_group")
        return joined(render("system/bot" if profile == "bot" else "system/bare"), others, memory)
    memory = f"{memory}\n\n" if memory else ""
    if policy.is_private:
        access = render(_ACCESS[policy.access])
        return render(
            "system/private", tools=_TOOLS_PLACE, memory=memory, access=access, workspace=workspace.place
        )
    folders = " and ".join(f"`{folder}/`" for folder in policy.writable_folders) or "no folder"
    return render("system/group", tools=_TOOLS_PLACE, memory=memory, folders=folders)


def _tool_lines(tools: Mapping[str, str]) -> str:
    return "\n".join(f"- `{name}`: {text}" for name, text in tools.items()) or "(none)"


def _cuts(files: Sequence[ContextFile]) -> tuple[str, ...]:
    cut = [file for file in files if file.truncated]
    if not cut:
        return ()
    names = " and ".join(file.name for file in cut)
    shown = ", ".join(f"{file.injected_chars} of {file.raw_chars} characters" for file in cut)
    return (f"{names} {'is' if len(cut) == 1 else 'are'} too long for the context: {shown} are included.",)


PART_SECONDS = 5.0
"""How long a part may take. A slower part is left out."""
PART_CHARS = 40_000
"""The most characters of one part in the prompt."""
KEPT_SESSIONS = 1_000
"""For how many sessions the stable sections are cached."""

_Kept: TypeAlias = dict[PromptPart, str]


class PromptParts:
    """The prompt parts of an agent, and their sections for recently open sessions."""

    def __init__(self, parts: Sequence[PromptPart]) -> None:
        self._parts = tuple(parts)
        self._kept: OrderedDict[tuple[str, int, ChatPolicy], _Kept] = OrderedDict()

    async def stable(
        self, chat: ToolChat, *, cycle: int, tell: Callable[[Sequence[str]], None]
    ) -> tuple[str, ...]:
        """The sections of the cached part.

        `cycle` counts the session's compactions. Each compaction breaks the provider's cache anyway, so the
        parts are then called again.
        """
        key = (chat.session_id, cycle, chat.policy)
        kept = self._kept.setdefault(key, {})
        self._kept.move_to_end(key)
        if len(self._kept) > KEPT_SESSIONS:
            self._kept.popitem(last=False)
        for part in self._of(chat, changing=False):
            if part not in kept:
                text = await _section(part, chat, tell)
                if text is not None:
                    kept[part] = text
        return tuple(kept[part] for part in self._of(chat, changing=False) if kept.get(part))

    async def changing(self, chat: ToolChat, *, tell: Callable[[Sequence[str]], None]) -> tuple[str, ...]:
        """The sections that follow the conversation, as they are in this turn."""
        texts = [await _section(part, chat, tell) for part in self._of(chat, changing=True)]
        return tuple(text for text in texts if text)

    def _of(self, chat: ToolChat, *, changing: bool) -> list[PromptPart]:
        return [part for part in self._parts if part.changing is changing and part.is_for(chat.policy)]


def instructions_part(text: str) -> PromptPart:
    """The instructions of the embedding program, as a stable part of every chat."""
    section = render("system/instructions", text=text.strip()) if text.strip() else ""
    return PromptPart(
        function=lambda _chat: section,
        name="instructions",
        changing=False,
        chats=frozenset({"private", "direct", "group"}),
    )


async def _section(part: PromptPart, chat: ToolChat, tell: Callable[[Sequence[str]], None]) -> str | None:
    """A part's section; `None` if the part failed."""
    call: Callable[[], Any] = partial(part.function, chat)
    try:
        async with asyncio.timeout(PART_SECONDS):
            # A plain function runs on a thread, because it may read a slow file.
            is_async = inspect.iscoroutinefunction(part.function)
            text = call() if is_async else await on_its_own_thread(call)
            if inspect.isawaitable(text):
                text = await text
    except Exception as error:
        log.exception("the prompt part %s failed", part.name)
        problem = (
            "it took too long" if isinstance(error, TimeoutError) else f"{type(error).__name__}: {error}"
        )
        tell((f"The prompt part {part.name!r} was left out: {problem}.",))
        return None
    if text is None or isinstance(text, str):
        section = sendable((text or "").strip())
        if len(section) <= PART_CHARS:
            return section
        log.warning("the prompt part %s returned %d characters and was cut", part.name, len(section))
        return f"{section[:PART_CHARS]}\n[…]"
    log.error("the prompt part %s returned %s", part.name, type(text).__name__)
    tell((f"The prompt part {part.name!r} was left out: it returned {type(text).__name__}, not text.",))
    return None


NOTES_A_DAY = 4
"""How many notes of a day are read, the most recently changed first."""

NOTE_CHARS = 1_200
"""The most characters of one note. `memory_get` reads all of it."""

LABEL_CHARS = 120

_NOTE = re.compile(r"(\d{4}-\d{2}-\d{2})-.+\.md", re.DOTALL)


def recall_is_due(branch: Sequence[Entry]) -> bool:
    """Whether notes are recalled: before the first answer, and before the first after a compaction."""
    for entry in reversed(branch):
        if isinstance(entry.body, Compaction):
            return True
        if isinstance(entry.body, CustomMessage) and entry.body.custom_type == RECALL_TYPE:
            return False
        if isinstance(entry.body, AssistantMessage):
            return False
    return True


class RecalledNotes(Record):
    """Logs and notes as a model reads them, and their paths."""

    text: str = ""
    paths: tuple[str, ...] = ()


class RecentNote(Record):
    """A log or a note. `modified_ns` is 0 for a log, so that it precedes its day's notes."""

    path: str
    day: date
    max_chars: int
    modified_ns: int = 0


def startup_limits(settings: StartupContextSettings, budget: ContextBudget) -> StartupContextSettings:
    """The settings, limited to a tenth of the window."""
    room_chars = budget.window_tokens * STARTUP_PERCENT // 25
    if room_chars >= settings.max_total_chars:
        return settings
    return settings.model_copy(update={"max_total_chars": room_chars})


async def recalled_notes(
    workspace: Workspace,
    sources: Sources,
    *,
    now: datetime,
    limits: StartupContextSettings,
    log_chars: int,
) -> RecalledNotes:
    """Logs and notes of the last days as a model reads them; without text if they are empty.

    `log_chars` is the most of one log; `now` is in the owner's time zone. `sources` say which lines are not
    the owner's; a sentence replaces those.

    Raises:
        OSError: the folder of notes cannot be listed.
    """
    days = recalled_days(now, limits.daily_memory_days)
    left_chars = limits.max_total_chars
    texts: list[tuple[RecentNote, str]] = []
    left_out: list[str] = []
    for recent in recent_notes(days, await _entries(workspace, days), log_chars=log_chars):
        file = await read_context_file(workspace, recent.path, max_chars=min(recent.max_chars, left_chars))
        if file.missing or not (file.text.strip() or file.truncated):
            continue
        if left_chars < MIN_USEFUL_CHARS or file.injected_chars > left_chars:
            left_out.append(label(recent.path))
            continue
        left_chars -= file.injected_chars
        texts.append((recent, await own_lines(sources, recent.path, file.text)))
    if not texts and not left_out:
        return RecalledNotes()
    texts.sort(key=lambda item: (item[0].day, item[0].modified_ns, item[0].path))
    blocks = [render("recall/file", path=label(recent.path), text=quoted(text)) for recent, text in texts]
    if left_out:
        blocks.append(render("recall/left_out", paths=", ".join(left_out)))
    return RecalledNotes(
        text=render("recall/notes", files="\n\n".join(blocks)),
        paths=tuple(recent.path for recent, _ in texts),
    )


def recalled_days(now: datetime, count: int) -> tuple[date, ...]:
    """The last `count` days of the owner's calendar, newest first.

    In the evening west of Greenwich, the next UTC day precedes them, because programs that date notes by UTC
    write the newest notes under it.
    """
    today = now.date()
    ahead = now.astimezone(UTC).date()
    days = tuple(today - timedelta(days=back) for back in range(count))
    return (ahead, *days) if ahead > today else days


def recent_notes(
    days: Sequence[date], entries: Iterable[FolderEntry], *, log_chars: int
) -> tuple[RecentNote, ...]:
    """The files of the notes folder that may be read, by priority."""
    files = [entry for entry in entries if not entry.is_folder]
    names = {entry.name for entry in files}
    logs = [RecentNote(path=daily_log_path(day), day=day, max_chars=log_chars) for day in days]
    present = [recent for recent in logs if Path(recent.path).name in names]
    notes = [note for day in days for note in _notes(day, files)]
    return (*present, *notes)


def label(path: str) -> str:
    """A path as it is shown above quoted notes: one line of printable characters."""
    plain = "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in path)
    return plain if len(plain) <= LABEL_CHARS else f"{plain[:LABEL_CHARS]}…"


def _notes(day: date, files: Sequence[FolderEntry]) -> list[RecentNote]:
    notes = [file for file in files if (name := _NOTE.fullmatch(file.name)) and name[1] == day.isoformat()]
    notes.sort(key=lambda file: (file.modified_ns, file.name), reverse=True)
    return [
        RecentNote(
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
    """The text of the note `path` without lines that other people or a tool may have written.

    A sentence replaces such lines and says how to read them. They stay in the note, where tools find them
    with their source. The lines beside each cut of a shortened note are left out too, because the author of
    the rest of such a line is unknown.
    """
    lines = text.split("\n")
    found = await sources.of_lines(path, lines)
    is_left_out = [source is not None and not source.is_owners_word for source in found]
    beside = _beside_cuts(lines)
    if beside and path in await sources.paths_of_others():
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
    """The last line with text before the mark of a cut, and the first after it."""
    marks = [number for number, line in enumerate(lines) if line.startswith(CUT_MARK)]
    beside: list[int] = []
    for mark in marks:
        before = (number for number in range(mark - 1, -1, -1) if lines[number].strip())
        after = (number for number in range(mark + 2, len(lines)) if lines[number].strip())
        beside += [number for found in (before, after) if (number := next(found, -1)) >= 0]
    return beside
