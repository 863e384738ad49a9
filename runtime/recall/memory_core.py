"""`memory-core`, the default memory engine: search over the owner's Markdown, and its two tools."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from datetime import date
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from nacre.closing import stop_tasks
from nacre.memory.contracts.embedder import WithFallback, lack_of
from nacre.memory.contracts.errors import DayUnknown, MemoryIndexError
from nacre.memory.contracts.notes import CHATS_FOLDER
from nacre.memory.contracts.records import Question, SearchHit, SearchReport
from nacre.memory.files.sources.attribution import attributed
from nacre.memory.files.sources.source import PRIVATE, SourcedLines
from nacre.memory.files.sources.sources import Sources
from nacre.prompts import render
from nacre.runtime.contracts.clock import Clock
from nacre.runtime.contracts.policy import ChatPolicy
from nacre.runtime.providers.provider import Lend
from nacre.runtime.recall.memory_plugin import MemoryHome, MemoryPlugin, MemoryTool, Notes
from nacre.runtime.recall.memory_slot import NO_MEMORY
from nacre.runtime.recall.open_memory import (
    UnindexedNotes,
    embedder_of,
    note_files,
    open_engine,
    unindexed_notes,
    unwatched,
)
from nacre.runtime.storage.storage import storage_of
from nacre.runtime.tools.function import ToolChat
from nacre.runtime.tools.toolbox import Tool, ToolArguments, ToolFailed, ToolOutput

if TYPE_CHECKING:
    from nacre.memory.engine import MemoryEngine
    from nacre.runtime.settings.config import Config

log = logging.getLogger(__name__)

FOLLOW_SECONDS = 1.0
"""How long an index that is opened on demand waits for further notes of a turn."""


class MemoryCore(MemoryPlugin):
    """Searches notes by words and by meaning. If its index cannot be opened, files can still be read.

    With `on_demand`, the first search or the first new note opens the index, and no watch follows the files.
    """

    serves_other_chats = True

    def __init__(
        self,
        config: Config,
        open_index: Callable[[], Awaitable[MemoryEngine]],
        *,
        now: Clock,
        watch: bool,
        lack: str,
        on_demand: bool = False,
    ) -> None:
        self.config = config
        self._open_index = open_index
        self._now = now
        self._watch = watch
        self._lack = lack
        self._on_demand = OnDemand(self) if on_demand else None
        self.sources = Sources(storage_of(config).workspace())
        self.engine: MemoryEngine | None = None
        self.unindexed: UnindexedNotes | None = None
        self._languages: tuple[str, ...] = ()
        self._languages_of: date | None = None

    @property
    def problem(self) -> str:
        """Why notes cannot be searched, or only by words."""
        if self.unindexed is None:
            return f"Notes are searched by words alone. {self._lack}" if self._lack else ""
        return f"Memory cannot be searched until the next start. {self.unindexed.problem}"

    async def start(self, home: MemoryHome) -> None:  # noqa: ARG002 - the settings name the index
        """Opens the index and watches the files. Without an index, the agent still starts."""
        if self._on_demand is None:
            await self.open()

    async def open(self) -> None:
        """Opens the index unless an attempt was made."""
        if self.engine is not None or self.unindexed is not None:
            return
        try:
            self.engine = await self._open_index()
        except MemoryIndexError as error:
            log.warning("memory search is not available: %s", error)
            self.unindexed = unindexed_notes(self.config, str(error))
            return
        self._refresh_languages(self.engine)
        if self._watch or self._on_demand is not None:
            await self.engine.start_watching()

    async def close(self) -> None:
        if self._on_demand is not None:
            await self._on_demand.close()
        if self.engine is not None:
            await self.engine.close()

    def tools(self, chat: ToolChat) -> Sequence[MemoryTool]:
        """`memory_search` and `memory_get`; none before the start."""
        notes = self.searchable(chat)
        if notes is None:
            return ()
        if self.engine is not None:
            self._refresh_languages(self.engine)
        below = "" if chat.policy.is_private else chat.policy.notes_folder
        return memory_tools(
            notes,
            self.sources,
            cites=self.cites(chat.policy),
            below=below,
            languages=self._languages,
            with_conversations=self._has_conversations,
        )

    def searchable(self, chat: ToolChat) -> Notes | None:  # noqa: ARG002 - the same in every private chat
        """The index, or the files where it cannot be opened."""
        return self.engine or self.unindexed or self._on_demand

    def instructions(self, chat: ToolChat) -> str:
        """When to search memory, and how to cite what was found."""
        if not chat.policy.is_private:
            return render("system/memory_chat", folder=chat.policy.notes_folder)
        return _instructions(self.cites(chat.policy))

    def session_started(self) -> None:
        """Looks for changed notes in the background if the settings say so."""
        if self.engine is not None:
            self.engine.session_started()

    def notes_changed(self) -> None:
        """Marks the index as out of date."""
        if self.engine is not None:
            self.engine.mark_dirty()
        if self._on_demand is not None:
            self._on_demand.notes_changed()

    def transcripts_changed(self) -> None:
        """Indexes conversations that have grown enough, if they are searched."""
        if self.engine is not None and self._has_conversations:
            self.engine.transcripts_changed()

    async def sync(self) -> None:
        if self._on_demand is not None:
            await self._on_demand.open()
        if self.engine is not None:
            with suppress(MemoryIndexError):
                await self.engine.sync(reason="turn")

    async def status(self) -> str:
        """Files, chunks, the kind of search, and the latest problems."""
        if self._on_demand is not None:
            await self._on_demand.open()
        if self.unindexed is not None or self.engine is None:
            return f"{NO_MEMORY} · {self.unindexed.problem if self.unindexed else 'it is not started'}"
        status = await self.engine.status()
        files = "1 file" if status.files == 1 else f"{status.files} files"
        chunks = "1 chunk" if status.chunks == 1 else f"{status.chunks} chunks"
        parts = [
            f"{files}, {chunks}, {status.mode} search",
            status.fallback.sentence if status.fallback else "",
            status.last_sync_problem or status.embeddings_problem or "",
            status.reranker_problem,
        ]
        return " · ".join(filter(None, parts))

    @property
    def _has_conversations(self) -> bool:
        return "sessions" in self.config.settings.agent.memory_search.sources

    def _refresh_languages(self, engine: MemoryEngine) -> None:
        """Once a day, because tools that change within a conversation invalidate the provider's cache."""
        today = self._now().date()
        if self._on_demand is not None and self._languages_of is None:
            self._languages_of = today
        if self._languages_of != today:
            self._languages, self._languages_of = engine.languages, today

    def cites(self, policy: ChatPolicy) -> bool:
        """Whether search results name their source in this chat."""
        mode = self.config.settings.memory.citations
        return mode == "on" or (mode == "auto" and policy.is_private)


class OnDemand(UnindexedNotes):
    """The notes of an engine whose index is opened when it is needed. Files are read without the index."""

    def __init__(self, core: MemoryCore) -> None:
        super().__init__(note_files(core.config, storage_of(core.config).workspace()), NO_MEMORY)
        self._core = core
        self._lock = asyncio.Lock()
        self._has_news = False
        self._following: asyncio.Task[None] | None = None
        self._closed = False

    async def open(self) -> None:
        """Opens the index unless it is open, or the agent is closed."""
        async with self._lock:
            if not self._closed:
                await self._core.open()

    async def search(self, question: Question, /) -> SearchReport:
        await self.open()
        opened = self._core.engine or self._core.unindexed
        if opened is None:
            return await super().search(question)
        return await opened.search(question)

    def notes_changed(self) -> None:
        """Makes new notes searchable soon, in the background."""

        async def follow() -> None:
            while self._has_news:
                await asyncio.sleep(FOLLOW_SECONDS)
                self._has_news = False
                await self._core.sync()

        self._has_news = True
        if self._following is None or self._following.done():
            self._following = asyncio.create_task(follow(), name="memory-follow")

    async def close(self) -> None:
        """Stops following. The next search indexes the remaining notes."""
        await stop_tasks(self._following)
        async with self._lock:
            self._closed = True


@cache
def _instructions(cites: bool) -> str:
    citations = render("system/citations_on" if cites else "system/citations_off")
    return render("system/memory_core", citations=citations)


def memory_core(
    config: Config, now: Clock, *, watch: bool, lent: Lend, on_demand: bool = False
) -> MemoryCore | None:
    """The engine, not yet started; `None` if memory search is disabled.

    `lent` returns the embedders that the agents of a process share; the engine does not close them.
    `on_demand` is as in `MemoryCore`.

    Raises:
        ConfigError: the settings name an embedder that cannot be used.
    """
    if not config.settings.agent.memory_search.enabled:
        return None
    embedder = embedder_of(config, now, lent=lent)
    return MemoryCore(
        config,
        lambda: open_engine(unwatched(config) if on_demand else config, now, embedder, owns_embedder=False),
        now=now,
        watch=watch,
        # a fallback reports itself
        lack="" if isinstance(embedder, WithFallback) else lack_of(embedder),
        on_demand=on_demand,
    )


SHOWN_CHARS = (700, 700, 700, 600, 500, 400)
"""The length of a snippet by the rank of its hit."""
MEMORY_TOOL_NAMES = ("memory_search", "memory_get")


def _number_or_none(value: object) -> object:
    """A number that a model wrote as text; other text is ignored."""
    if isinstance(value, str):
        try:
            return float(value)
        except ValueError:
            return None
    return value


def _floored(value: object) -> object:
    value = _number_or_none(value)
    return int(value) if isinstance(value, float) and value == value and abs(value) < 2**53 else value


Whole = Annotated[int | None, BeforeValidator(_floored)]
Score = Annotated[float | None, BeforeValidator(_number_or_none)]


class SearchArguments(ToolArguments):
    query: str = Field(description="What to look for: words, a name, an id, a question.")
    queries: list[str] = Field(
        default=[],
        description="The same question in other words or in the languages of the notes, up to 4.",
    )
    max_results: Whole = Field(default=None, alias="maxResults", description="Most results, 6 unless told.")
    min_score: Score = Field(default=None, alias="minScore", description="Least score, 0 to 1.")
    after: str | None = Field(
        default=None, description="Only notes of this day or later: YYYY-MM-DD, or words such as last March."
    )
    before: str | None = Field(default=None, description="Only notes of this day or earlier.")
    as_of: str | None = Field(
        default=None, alias="asOf", description="Ask as on this day, without later notes."
    )
    source: Literal["memory", "sessions"] | None = Field(default=None, description="Only this source.")


class GetArguments(ToolArguments):
    path: str = Field(description="Path from a search result, such as memory/2026-01-20.md.")
    from_line: Whole = Field(default=None, alias="from", description="First line, from 1.")
    lines: Whole = Field(default=None, description="How many lines.")


def memory_tools(
    notes: Notes,
    sources: Sources,
    *,
    cites: bool,
    below: str = "",
    languages: Sequence[str] = (),
    with_conversations: bool = False,
) -> tuple[Tool, ...]:
    """The two tools over the notes; `cites` adds a `Source:` line to each snippet.

    With `below`, a folder of the workspace, they only reach notes in it. The descriptions of the tools name
    the `languages` of the notes, in English, and past conversations if they are searched too.
    """
    searched = (
        "MEMORY.md, memory/*.md and past conversations" if with_conversations else "MEMORY.md and memory/*.md"
    )
    *others, last = languages or ("",)
    named = f"{', '.join(others)} and {last}" if others else last
    hint = f" The notes are in {named}: put a question in another language in theirs, too, into `queries`."
    return (
        Tool(
            name="memory_search",
            description=(
                f"Search what was noted of this chat, in {below}/. Use it before answering about what was "
                "said or agreed here earlier."
                if below
                else f"Search {searched}. Use it before answering about past work, decisions, "
                f"dates, people, preferences or todos.{hint if named else ''}"
            ),
            arguments=SearchArguments,
            run=lambda arguments, _scope: _search(notes, sources, arguments, cites=cites, below=below),
        ),
        Tool(
            name="memory_get",
            description="Read lines of a memory file that a search found. Missing files give empty text.",
            arguments=GetArguments,
            run=lambda arguments, _scope: _get(notes, arguments, below=below),
        ),
    )


async def _search(
    notes: Notes, sources: Sources, arguments: SearchArguments, *, cites: bool, below: str
) -> ToolOutput:
    if not arguments.query.strip():
        raise ToolFailed("query required: say in a few words what to look for.")
    try:
        report = await notes.search(
            Question(
                text=arguments.query,
                also=arguments.queries,
                max_results=arguments.max_results,
                min_score=arguments.min_score,
                after=arguments.after or None,
                before=arguments.before or None,
                as_of=arguments.as_of or None,
                sources=("memory",) if below else None if arguments.source is None else (arguments.source,),
                below=below,
            )
        )
    except DayUnknown as error:
        raise ToolFailed(str(error)) from error
    except MemoryIndexError as error:
        return _disabled({"results": []}, error)
    report, lines = await attributed(
        notes, sources, report, as_of=arguments.as_of, listeners=below or PRIVATE
    )
    found = len(report.hits)
    wordings = (arguments.query, *arguments.queries)
    return ToolOutput(
        text=compact_json(search_result(report, lines, wordings=wordings, cites=cites)),
        summary=f"{found} {'passage' if found == 1 else 'passages'} for {arguments.query.strip()[:60]!r}",
    )


async def _get(notes: Notes, arguments: GetArguments, *, below: str) -> ToolOutput:
    if not arguments.path.strip():
        raise ToolFailed("path required: name a file from a search result.")
    try:
        excerpt = await notes.read(
            arguments.path, from_line=arguments.from_line, lines=arguments.lines, below=below
        )
    except MemoryIndexError as error:
        return _disabled({"path": arguments.path, "text": ""}, error)
    result: dict[str, Any] = {"path": excerpt.path, "text": excerpt.text}
    if excerpt.text:
        result |= {
            "startLine": excerpt.start_line,
            "endLine": excerpt.end_line,
            "totalLines": excerpt.total_lines,
        }
    if excerpt.truncated:
        result["truncated"] = True
    return ToolOutput(
        text=json.dumps(result, ensure_ascii=False, indent=1),
        summary=f"{excerpt.path}, nothing there yet" if excerpt.missing else excerpt.path,
    )


def search_result(
    report: SearchReport,
    lines: Mapping[str, Sequence[SourcedLines]],
    *,
    wordings: Sequence[str],
    cites: bool,
) -> dict[str, Any]:
    """A report as the model sees it. `lines` are the sources of each hit by its citation.

    Lower hits have shorter snippets, cut around the words of the `wordings`.
    """
    from nacre.memory.text.evidence import Finder
    from nacre.memory.text.lexical import match_query
    from nacre.memory.text.snippet import cut_again  # slow imports that a turn without a search does not need

    query = match_query(" ".join(wordings))
    finder = Finder(query) if query is not None else None
    snippets = cut_again([hit.snippet for hit in report.hits], finder, SHOWN_CHARS)
    result: dict[str, Any] = {
        "results": [
            _hit(hit, snippet, lines.get(hit.citation, ()), cites=cites)
            for hit, snippet in zip(report.hits, snippets, strict=True)
        ],
        "provider": report.provider,
        "model": report.model or None,
        "mode": report.mode,
        "citations": "on" if cites else "off",
    }
    if report.fallback is not None:
        result["fallback"] = {"from": report.fallback.provider, "reason": report.fallback.reason}
    if report.degraded:
        result["degraded"] = report.degraded
    if report.absent:
        result["absent"] = report.absent_sentence
    if report.limited:
        result["limited"] = report.limited
    if report.stale:
        result["stale"] = True
    return result


def _hit(hit: SearchHit, snippet: str, lines: Sequence[SourcedLines], *, cites: bool) -> dict[str, Any]:
    """A hit in the format of the seed: path, lines from 1 and inclusive, score 0 to 1, snippet, source.

    `also` cites other places with the same words. `superseded` lists lines of the hit that a later line
    replaces. `comesFrom` describes the source of each line, if known; notes of a chat have `saidBy`.
    """
    superseded = [{"line": old.line, "by": old.by} for old in hit.superseded]
    others = {"saidBy": f"others, in the chat of {hit.path.rpartition('/')[0]}"}
    return {
        "path": hit.path,
        "startLine": hit.start_line,
        "endLine": hit.end_line,
        "score": round(hit.score, 2),
        "snippet": f"{snippet.strip()}\n\nSource: {hit.citation}" if cites else snippet,
        "source": hit.source,
        **({"citation": hit.citation} if cites else {}),
        **({"also": list(hit.also)} if hit.also else {}),
        **({"superseded": superseded} if superseded else {}),
        **({"comesFrom": [each.description() for each in lines]} if lines else {}),
        **(others if hit.path.startswith(f"{CHATS_FOLDER}/") else {}),
    }


def compact_json(value: Mapping[str, Any]) -> str:
    """JSON without blanks, which cost tokens."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _disabled(empty: Mapping[str, Any], error: MemoryIndexError) -> ToolOutput:
    text = json.dumps({**empty, "disabled": True, "error": str(error)}, ensure_ascii=False)
    return ToolOutput(text=text, summary=str(error)[:120])
