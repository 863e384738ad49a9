"""The notes as qmd finds them, with the built-in engine behind it for as long as qmd does not answer."""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from pathlib import PurePosixPath

from nacre.extensions.qmd.home import PREFIX, Collection, QmdHome, holder, named
from nacre.extensions.qmd.program import Place, Program, QmdFailed, QmdSlow
from nacre.extensions.qmd.searching import Wanted, found_places, read_note, shown_hits
from nacre.extensions.qmd.upkeep import Upkeep
from nacre.memory.contracts.errors import MemoryIndexError, ReadRefused
from nacre.memory.contracts.notes import NoteBytes
from nacre.memory.contracts.records import Excerpt, Fallback, Question, SearchMode, SearchReport, Source
from nacre.memory.files.note_files import content_lines, excerpt_of
from nacre.memory.text.days.day_limits import day_limits
from nacre.record import Record
from nacre.runtime.contracts.clock import Clock
from nacre.runtime.recall.memory_core import Notes
from nacre.runtime.settings.sections.memory import QmdMatch, QmdScope, QmdSettings
from nacre.runtime.tools.function import ToolChat

log = logging.getLogger(__name__)

QMD = "qmd"
BUILT_IN = "memory-core"
PENDING_SECONDS = 0.5
"""How long a search waits for an update that is running."""
PAUSE_SECONDS = 60.0
"""How long qmd is not asked after it took too long; any other failure is over with the next search."""
MOST_ASKED = 100
"""How many results qmd is asked for where most of them may be of other chats or other days."""
_MODES: dict[str, SearchMode] = {"search": "lexical", "vsearch": "vector", "query": "hybrid"}


class QmdNotes:
    """Searches with qmd. `built_in` gives the engine that steps in, and `files` what reads plain paths."""

    def __init__(
        self,
        program: Program,
        home: QmdHome,
        settings: QmdSettings,
        *,
        collections: Sequence[Collection],
        upkeep: Upkeep,
        built_in: Callable[[], Awaitable[Notes]],
        files: Notes,
        now: Clock,
    ) -> None:
        self._program = program
        self._home = home
        self._settings = settings
        self._collections = collections
        self._by_name = {each.name: each for each in collections}
        self._upkeep = upkeep
        self._built_in = built_in
        self._files = files
        self._now = now
        self._paused_until = 0.0
        self.problem = ""

    def of_chat(self, chat: ToolChat) -> ChatNotes:
        """What the tools of a chat ask."""
        return ChatNotes(notes=self, chat=chat)

    def denial(self, chat: ToolChat) -> str:
        """Why qmd is not asked in this chat, as a sentence; empty when it may be."""
        kind, channel = chat.policy.chat_kind, chat.channel
        if may_ask(self._settings.scope, key=chat.session_key, channel=channel, chat_type=kind):
            return ""
        log.warning(
            "memory.qmd.scope denies a search in %s (channel=%s, chatType=%s)",
            chat.session_key,
            channel,
            kind,
        )
        return "Memory is not searched in this chat: memory.qmd.scope does not allow it."

    async def search(self, question: Question, /) -> SearchReport:
        """Searches with qmd. If qmd fails, the built-in engine answers, and the report says why."""
        limits = self._settings.limits
        days = day_limits(
            after=question.after, before=question.before, as_of=question.as_of, today=self._now().date()
        )
        wanted = Wanted(
            most=min(limits.max_results, max(1, question.max_results or limits.max_results)),
            min_score=question.min_score or 0.0,
            after=days.after,
            before=days.before,
            below=question.below,
        )
        begun = time.perf_counter()
        try:
            found, asked = await self._found(question, wanted)
        except (QmdFailed, OSError) as error:
            return await self._without_qmd(str(error), question)
        hits = await shown_hits(found, asked, wanted, limits, lock_dir=self._home.folder)
        report = empty_report(self._settings.search_mode)
        elapsed_ms = (time.perf_counter() - begun) * 1000
        stale = self._upkeep.is_dirty
        return replace(report, hits=hits, stale=stale, elapsed_ms=elapsed_ms, limited=days.sentence)

    async def read(
        self, path: str, *, from_line: int | None = None, lines: int | None = None, below: str = ""
    ) -> Excerpt:
        """As `MemoryEngine.read`, and `qmd/<collection>/…`; only Markdown, and never out of a collection.

        Raises:
            ReadRefused: the path is neither a note nor in a collection.
        """
        text = path.strip()
        if not below and text.startswith(PREFIX):
            place = named(text, self._by_name)
            if place is None:
                raise ReadRefused(
                    f"path required: {text!r} is no Markdown file of a collection. "
                    "Use a path that memory_search gave."
                )
            return await self._read(text, *place, from_line=from_line, lines=lines)
        try:
            return await self._files.read(text, from_line=from_line, lines=lines, below=below)
        except ReadRefused:
            held = None if below else holder(text, self._collections)
            if held is None:
                raise
            return await self._read(text, *held, from_line=from_line, lines=lines)

    async def _read(
        self, shown: str, collection: Collection, path: str, *, from_line: int | None, lines: int | None
    ) -> Excerpt:
        found = await read_note(collection, path, lock_dir=self._home.folder)
        if isinstance(found, NoteBytes):
            return excerpt_of(shown, content_lines(found.data), from_line or 1, lines or None)
        if isinstance(found, FileNotFoundError | NotADirectoryError):
            return Excerpt(path=shown, text="", start_line=0, end_line=0, total_lines=0, missing=True)
        raise ReadRefused(f"{shown} cannot be read: {str(found).removesuffix('.')}.") from found

    async def _found(self, question: Question, wanted: Wanted) -> tuple[list[Place], Sequence[Collection]]:
        """What qmd finds, and where it was asked."""
        loop = asyncio.get_running_loop()
        if loop.time() < self._paused_until:
            raise QmdFailed(self.problem)
        asked = [each for each in self._collections if _is_asked(each, wanted.below, question.sources)]
        if not asked:
            log.warning("qmd has no collection for this search")
            return [], []
        await self._upkeep.settled(PENDING_SECONDS)
        made = (await asyncio.to_thread(self._home.state)).collections
        there = [each for each in asked if each.name in made]
        if not made:
            raise QmdFailed(self._upkeep.problem or "qmd has not read the notes yet")
        is_narrow = bool(wanted.below or wanted.after or wanted.before)
        try:
            found = await found_places(
                self._program,
                self._settings.search_mode,
                [question.text, *question.also[:4]],
                there,
                most=MOST_ASKED if is_narrow else wanted.most,
                seconds=self._settings.limits.timeout_ms / 1000,
                mend=self._upkeep.mend,
            )
        except QmdFailed as error:
            if isinstance(error, QmdSlow):
                self._paused_until = loop.time() + PAUSE_SECONDS
            await self._tell(str(error))
            raise
        await self._tell("")
        return found, there

    async def _without_qmd(self, problem: str, question: Question) -> SearchReport:
        reason = f"{problem.rstrip('.')}."
        log.warning("qmd did not answer, so the built-in engine does: %s", reason)
        try:
            engine = await self._built_in()
            report = await engine.search(question)
        except MemoryIndexError as error:
            raise QmdFailed(f"{reason} The built-in engine cannot answer either: {error}") from error
        fallback = Fallback(provider=QMD, model=QMD, reason=reason, to=BUILT_IN)
        degraded = " ".join(filter(None, (f"{reason} The built-in engine answered.", report.degraded)))
        return replace(report, fallback=fallback, degraded=degraded)

    async def _tell(self, problem: str) -> None:
        """Notes for the status what stands between the owner and qmd; nothing when it is what was noted."""
        if problem == self.problem:
            return
        if not problem:
            log.info("qmd answers again")
        self.problem = problem
        state = await asyncio.to_thread(self._home.state)
        await asyncio.to_thread(self._home.note, replace(state, problem=problem))


class ChatNotes(Record):
    """The notes in one chat: asked where the scope allows it, shown where the chat's policy does."""

    notes: QmdNotes
    chat: ToolChat

    async def search(self, question: Question, /) -> SearchReport:
        """Searches, or finds nothing where the scope denies it."""
        if denial := self.notes.denial(self.chat):
            return replace(empty_report("search"), mode="none", degraded=denial)
        report = await self.notes.search(question)
        return replace(report, hits=tuple(hit for hit in report.hits if self._may_see(hit.path)))

    async def read(
        self, path: str, *, from_line: int | None = None, lines: int | None = None, below: str = ""
    ) -> Excerpt:
        """As `QmdNotes.read`."""
        return await self.notes.read(path, from_line=from_line, lines=lines, below=below)

    def _may_see(self, path: str) -> bool:
        """What lies outside of the workspace is for the owner alone."""
        policy = self.chat.policy
        return policy.is_private or policy.may_read(PurePosixPath(path))


def empty_report(mode: str) -> SearchReport:
    """A report of qmd without a hit."""
    return SearchReport(hits=(), provider=QMD, model=QMD, mode=_MODES[mode])


def _is_asked(collection: Collection, below: str, sources: Sequence[Source] | None) -> bool:
    if below:
        return collection.kind == "chats"
    source: Source = "sessions" if collection.kind == "sessions" else "memory"
    return sources is None or source in sources


_AGENT = re.compile(r"agent:[^:]*:")


def may_ask(scope: QmdScope, *, key: str, channel: str, chat_type: str) -> bool:
    """Whether a search is allowed in the session `key`; the first rule that fits decides.

    `chat_type` is `direct`, `group` or `channel`; any other word counts as `group`.
    """
    kind = {"dm": "direct"}.get(chat_type, chat_type)
    kind = kind if kind in ("direct", "channel") else "group"
    for rule in scope.rules:
        if _fits(rule.match, key.strip().lower(), channel.strip().lower(), kind):
            return rule.action == "allow"
    return scope.default == "allow"


def _fits(match: QmdMatch, key: str, channel: str, kind: str) -> bool:
    plain, raw = match.key_prefix.strip().lower(), match.raw_key_prefix.strip().lower()
    former = ""
    if plain.startswith("agent:"):  # as it was written before there was rawKeyPrefix
        former, plain = plain, ""
    return (
        match.channel.strip().lower() in ("", channel)
        and match.chat_type in ("", kind)
        and _AGENT.sub("", key, count=1).startswith(plain)
        and key.startswith(raw)
        and key.startswith(former)
    )
