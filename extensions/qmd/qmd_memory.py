"""The memory engine for `memory.backend: "qmd"`: the program qmd before memory-core.

qmd only says where something is: the shown words come from the notes themselves. A place is shown only if it
is a file of the collection that was searched, so nothing that qmd writes reaches the model. memory-core
answers while qmd does not.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import replace
from itertools import zip_longest
from pathlib import Path, PurePosixPath

from nacre.closing import stop_tasks
from nacre.extensions.qmd.home import (
    PREFIX,
    Collection,
    QmdHome,
    SessionExports,
    Upkeep,
    holder,
    named,
    wanted_collections,
)
from nacre.extensions.qmd.program import (
    Output,
    Place,
    Program,
    QmdFailed,
    QmdSlow,
    as_argument,
    misses_collection,
    places,
    program_environment,
    refuses_option,
)
from nacre.memory.contracts.errors import MemoryIndexError, ReadRefused
from nacre.memory.contracts.notes import NoteBytes
from nacre.memory.contracts.records import (
    Excerpt,
    Fallback,
    Question,
    SearchHit,
    SearchMode,
    SearchReport,
    Source,
    citation,
)
from nacre.memory.contracts.settings import at_home
from nacre.memory.contracts.store import Scope
from nacre.memory.contracts.workspace import ReadFailed
from nacre.memory.files.note_files import content_lines, excerpt_of
from nacre.memory.text.chunker import day_in_path
from nacre.memory.text.days.day_limits import day_limits
from nacre.memory.workspace.folder import FolderWorkspace
from nacre.record import Record
from nacre.runtime.contracts.clock import Clock
from nacre.runtime.recall.memory_core import MemoryCore, memory_tools
from nacre.runtime.recall.memory_plugin import MemoryHome, MemoryPlugin, MemoryTool, Notes
from nacre.runtime.recall.open_memory import open_transcripts, unindexed_notes
from nacre.runtime.settings.config import Config
from nacre.runtime.settings.sections.memory import QmdLimits, QmdMatch, QmdScope, QmdSettings
from nacre.runtime.tools.function import ToolChat

log = logging.getLogger(__name__)

QMD = "qmd"
BUILT_IN = "memory-core"
PENDING_SECONDS = 0.5
"""How long a search waits for a running update."""
PAUSE_SECONDS = 60.0
"""How long qmd is not used after a timeout. After any other failure, the next search tries again."""
MANY_RESULTS = 100
"""The number of results to request if most of them may be from other chats or days."""
AT_ONCE = 4
"""The most processes of a search at a time."""
QUERY = "query"
"""The command that every build of qmd has."""
_MODES: dict[str, SearchMode] = {"search": "lexical", "vsearch": "vector", "query": "hybrid"}
_AGENT = re.compile(r"agent:[^:]*:")


class QmdNotes:
    """Searches with qmd. `built_in` returns the engine that replaces it, and `files` reads plain paths."""

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

    def denial(self, chat: ToolChat) -> str:
        """Why this chat may not search, as a sentence; empty if it may."""
        kind, channel = chat.policy.chat_kind, chat.channel
        if may_search(self._settings.scope, key=chat.session_key, channel=channel, chat_type=kind):
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
        days = day_limits(
            after=question.after, before=question.before, as_of=question.as_of, today=self._now().date()
        )
        scope = Scope(
            sources=("memory", "sessions") if question.sources is None else tuple(question.sources),
            after=days.after,
            before=days.before,
            undated=days.undated,
            below=question.below,
        )
        limits = self._settings.limits
        most = min(limits.max_results, max(1, question.max_results or limits.max_results))
        started = time.perf_counter()
        try:
            found, searched = await self._found(question, scope, most)
        except (QmdFailed, OSError) as error:
            return await self._without_qmd(str(error), question)
        found = [place for place in found if place.score >= (question.min_score or 0.0)]
        hits = await _hits(found, searched, scope, limits, lock_dir=self._home.folder)
        return replace(
            empty_report(self._settings.search_mode),
            hits=tuple(_within(hits[:most], limits.max_injected_chars)),
            stale=self._upkeep.is_dirty,
            elapsed_ms=(time.perf_counter() - started) * 1000,
            limited=days.sentence,
        )

    async def read(
        self, path: str, *, from_line: int | None = None, lines: int | None = None, below: str = ""
    ) -> Excerpt:
        """Like `MemoryEngine.read`, and also `qmd/<collection>/…`. Reads only Markdown in collections.

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
        found = await _note(collection, path, lock_dir=self._home.folder)
        return excerpt_of(shown, found, from_line, lines)

    async def _found(
        self, question: Question, scope: Scope, most: int
    ) -> tuple[list[Place], Sequence[Collection]]:
        loop = asyncio.get_running_loop()
        if loop.time() < self._paused_until:
            raise QmdFailed(self.problem)
        wanted = [each for each in self._collections if _is_searched(each, scope)]
        if not wanted:
            log.warning("qmd has no collection for this search")
            return [], []
        await self._upkeep.settled(PENDING_SECONDS)
        made = (await asyncio.to_thread(self._home.state)).collections
        searched = [each for each in wanted if each.name in made]
        if not made:
            raise QmdFailed(self._upkeep.problem or "qmd has not read the notes yet")
        is_narrow = bool(scope.below or scope.after or scope.before)
        try:
            found = await found_places(
                self._program,
                self._settings.search_mode,
                [question.text, *question.also[:4]],
                searched,
                most=MANY_RESULTS if is_narrow else most,
                seconds=self._settings.limits.timeout_ms / 1000,
                repair=self._upkeep.repair,
            )
        except QmdFailed as error:
            if isinstance(error, QmdSlow):
                self._paused_until = loop.time() + PAUSE_SECONDS
            await self._record(str(error))
            raise
        await self._record("")
        return found, searched

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

    async def _record(self, problem: str) -> None:
        if problem == self.problem:
            return
        if not problem:
            log.info("qmd answers again")
        self.problem = problem
        await asyncio.to_thread(self._home.change_state, problem=problem)


class ChatNotes(Record):
    """The notes in one chat: searched if the scope allows it, and shown as far as the chat's policy does."""

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
        return await self.notes.read(path, from_line=from_line, lines=lines, below=below)

    def _may_see(self, path: str) -> bool:
        # Only the owner may see what is outside of the workspace.
        policy = self.chat.policy
        return policy.is_private or policy.may_read(PurePosixPath(path))


def empty_report(mode: str) -> SearchReport:
    return SearchReport(hits=(), provider=QMD, model=QMD, mode=_MODES[mode])


def _source(collection: Collection) -> Source:
    return "sessions" if collection.kind == "sessions" else "memory"


def _is_searched(collection: Collection, scope: Scope) -> bool:
    return collection.kind == "chats" if scope.below else _source(collection) in scope.sources


def may_search(scope: QmdScope, *, key: str, channel: str, chat_type: str) -> bool:
    """Whether a search is allowed in the session `key`; the first rule that matches decides.

    `chat_type` is `direct`, `group` or `channel`; any other word counts as `group`.
    """
    kind = {"dm": "direct"}.get(chat_type, chat_type)
    kind = kind if kind in ("direct", "channel") else "group"
    for rule in scope.rules:
        if _matches(rule.match, key.strip().lower(), channel.strip().lower(), kind):
            return rule.action == "allow"
    return scope.default == "allow"


def _matches(match: QmdMatch, key: str, channel: str, kind: str) -> bool:
    plain, raw = match.key_prefix.strip().lower(), match.raw_key_prefix.strip().lower()
    former = ""
    if plain.startswith("agent:"):  # the spelling before rawKeyPrefix existed
        former, plain = plain, ""
    return (
        match.channel.strip().lower() in ("", channel)
        and match.chat_type in ("", kind)
        and _AGENT.sub("", key, count=1).startswith(plain)
        and key.startswith(raw)
        and key.startswith(former)
    )


async def found_places(
    program: Program,
    mode: str,
    questions: Sequence[str],
    collections: Sequence[Collection],
    *,
    most: int,
    seconds: float,
    repair: Callable[[], Coroutine[None, None, None]],
) -> list[Place]:
    """The best place of each document for any question in any of these collections, the best first.

    A build that does not know the mode or one of its options gets `query` instead. If qmd has lost a
    collection, `repair` creates it again, once.

    Raises:
        QmdFailed: an answer is missing or invalid.
    """
    at_once = asyncio.Semaphore(AT_ONCE)
    repairs: list[asyncio.Task[None]] = []

    async def run(command: str, question: str, name: str) -> Output:
        async with at_once:
            return await program.run(
                command, question, "--json", "-n", str(most), "-c", name, seconds=seconds
            )

    async def ask(question: str, name: str) -> list[Place]:
        command = mode
        output = await run(command, question, name)
        if command != QUERY and refuses_option(output):
            command = QUERY
            output = await run(command, question, name)
        if misses_collection(output):
            if not repairs:
                repairs.append(asyncio.create_task(repair()))
            await asyncio.shield(repairs[0])
            output = await run(command, question, name)
        output.or_failed(f"qmd {command}")
        # Places in other collections are not believed.
        return [place for place in places(output, command) if place.collection == name]

    texts = dict.fromkeys(filter(None, map(as_argument, questions)))
    tasks = [asyncio.create_task(ask(text, each.name)) for text in texts for each in collections]
    try:
        answers = await asyncio.gather(*tasks)
    finally:
        await stop_tasks(*tasks, *repairs)
    best: dict[tuple[str, str], Place] = {}
    for place in (place for answer in answers for place in answer):
        key = (place.collection, place.path)
        if key not in best or best[key].score < place.score:
            best[key] = place
    return sorted(best.values(), key=lambda place: -place.score)


async def _hits(
    found: Sequence[Place],
    collections: Sequence[Collection],
    scope: Scope,
    limits: QmdLimits,
    *,
    lock_dir: Path,
) -> list[SearchHit]:
    by_name = {each.name: each for each in collections}
    hits: list[SearchHit] = []
    for place in found:
        collection = by_name[place.collection]
        shown = collection.shown(place.path)
        if shown is None or not scope.admits(_source(collection), shown, day_in_path(shown)):
            continue
        note = await _note(collection, place.path, lock_dir=lock_dir)
        if isinstance(note, NoteBytes):
            hit = _hit(collection, place, shown, content_lines(note.data), limits)
            hits += [hit] if hit is not None else []
    memory = [hit for hit in hits if hit.source != "sessions"]
    sessions = [hit for hit in hits if hit.source == "sessions"]
    # Conversations are long and many. The two alternate, so that they do not displace the notes.
    pairs = zip_longest(memory, sessions) if sessions else ((hit,) for hit in memory)
    return [hit for pair in pairs for hit in pair if hit is not None]


async def _note(collection: Collection, path: str, *, lock_dir: Path) -> NoteBytes | ReadFailed:
    """A file of a collection, or why it cannot be read. Symbolic links below the root are not followed."""
    return (await FolderWorkspace(collection.root, lock_dir=lock_dir).read_notes([path]))[path]


def _hit(
    collection: Collection, place: Place, shown: str, lines: Sequence[str], limits: QmdLimits
) -> SearchHit | None:
    end = min(place.end_line, len(lines))
    start = next((at for at in range(place.start_line, end + 1) if lines[at - 1].strip()), 0)
    if not start:
        return None
    return SearchHit(
        path=shown,
        start_line=start,
        end_line=end,
        score=place.score,
        snippet="\n".join(lines[start - 1 : end]).rstrip()[: limits.max_snippet_chars],
        source=_source(collection),
        citation=citation(shown, start, end),
    )


def _within(hits: Sequence[SearchHit], most_chars: int) -> list[SearchHit]:
    kept: list[SearchHit] = []
    left = most_chars
    for hit in hits:
        left -= len(f"\n\nSource: {hit.citation}")
        if left <= 0:
            break
        kept.append(replace(hit, snippet=hit.snippet[:left]))
        left -= len(hit.snippet)
    return kept


FIRST_SYNC_SECONDS = 5.0
"""How long the first search of the built-in engine waits for its index."""


class QmdMemory(MemoryPlugin):
    """Searches with qmd. `core` is started when qmd fails for the first time."""

    serves_other_chats = True

    def __init__(self, config: Config, core: MemoryCore, *, embedding: asyncio.Lock, now: Clock) -> None:
        self._core = core
        self._settings = config.settings.memory.qmd
        self._parts = qmd_parts(config, self._built_in, embedding=embedding, now=now)
        self._home_of_core: MemoryHome | None = None
        self._starting = asyncio.Lock()
        self._has_core = False
        self._first_sync: asyncio.Task[None] | None = None

    async def start(self, home: MemoryHome) -> None:
        """Creates qmd's folders and starts to follow the notes."""
        self._home_of_core = home
        await self._parts.open()
        await self._parts.upkeep.start()

    async def close(self) -> None:
        await self._parts.upkeep.close()
        await stop_tasks(self._first_sync)
        await self._core.close()

    def tools(self, chat: ToolChat) -> Sequence[MemoryTool]:
        return memory_tools(
            self.searchable(chat),
            self._core.sources,
            cites=self._core.cites(chat.policy),
            below="" if chat.policy.is_private else chat.policy.notes_folder,
            with_conversations=self._settings.sessions.enabled,
        )

    def searchable(self, chat: ToolChat) -> Notes:
        return ChatNotes(notes=self._parts.notes, chat=chat)

    def instructions(self, chat: ToolChat) -> str:
        return self._core.instructions(chat)

    def session_started(self) -> None:
        self._core.session_started()

    def notes_changed(self) -> None:
        """Updates qmd's index, at the earliest `debounceMs` after the last update."""
        self._parts.upkeep.changed.set()
        self._core.notes_changed()

    def transcripts_changed(self) -> None:
        """Exports conversations if they are searched."""
        if self._settings.sessions.enabled:
            self._parts.upkeep.changed.set()
        self._core.transcripts_changed()

    async def sync(self) -> None:
        """Updates qmd's index, and the built-in engine's if it is used, and waits."""
        await self._parts.upkeep.update()
        await self._core.sync()

    async def status(self) -> str:
        """Which engine answers, the number of collections, and the current problem."""
        state = await asyncio.to_thread(self._parts.home.state)
        if problem := self._parts.notes.problem or self._parts.upkeep.problem:
            built_in = await self._core.status() if self._has_core else "memory-core steps in"
            return f"{built_in} · qmd does not answer: {' '.join(problem.split())}"
        count = len(state.collections)
        return f"{'1 collection' if count == 1 else f'{count} collections'}, qmd {self._settings.search_mode}"

    async def _built_in(self) -> Notes:
        async with self._starting:
            if not self._has_core:
                self._has_core = True
                assert self._home_of_core is not None
                await self._core.start(self._home_of_core)
                self._first_sync = asyncio.create_task(self._core.sync(), name="qmd-fallback-sync")
                await asyncio.wait((self._first_sync,), timeout=FIRST_SYNC_SECONDS)
        notes = self._core.engine or self._core.unindexed
        assert notes is not None
        return notes


class QmdParts(Record):
    """qmd for one agent: its folder, its upkeep, and its notes."""

    home: QmdHome
    upkeep: Upkeep
    notes: QmdNotes
    shared_cache: Path

    async def open(self) -> None:
        """Creates qmd's folders, which a search needs. Raises `OSError` if they cannot be created."""
        await asyncio.to_thread(self.home.make, self.shared_cache)


def qmd_parts(
    config: Config, built_in: Callable[[], Awaitable[Notes]], *, embedding: asyncio.Lock, now: Clock
) -> QmdParts:
    """qmd as the settings say, not started. `built_in` returns the engine that replaces it."""
    settings, home = config.settings.memory.qmd, qmd_home(config)
    # One folder per agent, because two agents must not remove each other's exports.
    named = settings.sessions.export_dir.strip()
    exports_folder = (
        config.state_dir / at_home(named, config.home) / config.agent_id if named else home.sessions
    )
    exports: SessionExports | None = None
    if settings.sessions.enabled:
        exports = SessionExports(
            open_transcripts(config, now),
            exports_folder,
            retention_days=settings.sessions.retention_days,
            now=now,
        )
    collections = wanted_collections(
        agent_id=config.agent_id,
        workspace=config.workspace,
        user_folder=config.home,
        includes_default=settings.include_default_memory,
        paths=settings.paths,
        sessions=exports_folder if settings.sessions.enabled else None,
    )
    program = Program(
        settings.command,
        environment=home.environment(program_environment(config.environment)),
        user_folder=config.home,
    )
    upkeep = Upkeep(
        program,
        home,
        settings.update,
        collections=collections,
        exports=exports,
        embeds=settings.search_mode != "search",
        embedding=embedding,
        now=now,
    )
    notes = QmdNotes(
        program,
        home,
        settings,
        collections=collections,
        upkeep=upkeep,
        built_in=built_in,
        files=unindexed_notes(config),
        now=now,
    )
    cache = Path(config.environment.get("XDG_CACHE_HOME") or config.home / ".cache")
    return QmdParts(home=home, upkeep=upkeep, notes=notes, shared_cache=cache)


def qmd_home(config: Config) -> QmdHome:
    return QmdHome(config.folders.agent_dir / "qmd")
