"""Opens the memory engine that the settings describe, for agents and for commands without one."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from nacre.memory.contracts.embedder import has_fallback
from nacre.memory.contracts.errors import IndexUnusable
from nacre.memory.contracts.notes import BANK_FOLDER
from nacre.memory.contracts.records import Excerpt, Question, SearchReport
from nacre.memory.contracts.settings import MemorySearchSettings, at_home, resolve_settings
from nacre.memory.contracts.store import FRESHNESS_WAIT_SECONDS
from nacre.memory.embedders.e5 import E5Embedder
from nacre.memory.files.note_files import NoteFiles, read_excerpt
from nacre.runtime.contracts.clock import Clock
from nacre.runtime.contracts.errors import ConfigError
from nacre.runtime.providers.opening import new_for_each, open_embedder, open_reranker
from nacre.runtime.settings.config import Config
from nacre.runtime.storage.storage import open_sessions, storage_of

if TYPE_CHECKING:
    from nacre.memory.contracts.embedder import Embedder
    from nacre.memory.contracts.transcripts import TranscriptSource
    from nacre.memory.contracts.workspace import Workspace
    from nacre.memory.engine import MemoryEngine
    from nacre.runtime.providers.provider import Lend
    from nacre.runtime.recall.memory_plugin import MemoryHome


async def open_memory(
    config: Config,
    now: Clock,
    *,
    local: Callable[[], Embedder] = E5Embedder,
    lent: Lend | None = None,
) -> MemoryEngine | None:
    """The engine over this agent's notes, or `None` if memory search is disabled.

    `local` creates the embedder that ships with Nacre. The engine closes its embedder unless it was `lent`.

    Raises:
        ConfigError: the settings name an embedder that cannot be used.
        MemoryIndexError: the index can be neither opened nor replaced by a new one.
    """
    if not config.settings.agent.memory_search.enabled:
        return None
    embedder = embedder_of(config, now, local=local, lent=lent)
    return await open_engine(config, now, embedder, owns_embedder=lent is None)


def embedder_of(
    config: Config,
    now: Clock,
    *,
    local: Callable[[], Embedder] = E5Embedder,
    lent: Lend | None = None,
    changes: Mapping[str, Any] | None = None,
) -> Embedder | None:
    """The embedder that the settings name, if any; `lent` returns shared ones.

    `changes` are keys of `memorySearch`, as in the settings file, that replace those of the settings.

    Raises:
        ConfigError: the embedder cannot be used.
    """
    settings = _with(config.settings.agent.memory_search, changes or {})
    return open_embedder(config, settings, now, local=local, lent=lent or new_for_each)


def memory_home(config: Config, engine_id: str, now: Clock, *, lent: Lend) -> MemoryHome:
    """The home of the engine with this id. `lent` creates its embedders and closes them."""
    # A slow import that a search of the notes does not need.
    from nacre.runtime.recall.memory_plugin import MemoryHome

    entry = config.settings.plugins.entries.get(engine_id)
    return MemoryHome(
        agent_id=config.agent_id,
        workspace=config.workspace,
        state_dir=config.state_dir,
        engine_id=engine_id,
        now=now,
        settings=entry.config if entry is not None else {},
        embedder=lambda changes: embedder_of(config, now, lent=lent, changes=changes),
        user_folder=config.home,
    )


@asynccontextmanager
async def own_memory_home(config: Config, engine_id: str, now: Clock) -> AsyncIterator[MemoryHome]:
    """Like `memory_home`, without an agent. The embedders are closed at the end of the block."""
    async with AsyncExitStack() as closing:

        def lent(_key: object, make: Callable[[], Embedder]) -> Embedder:
            embedder = make()
            closing.push_async_callback(embedder.close)
            return embedder

        yield memory_home(config, engine_id, now, lent=lent)


def _with(settings: MemorySearchSettings, changes: Mapping[str, Any]) -> MemorySearchSettings:
    if not changes:
        return settings
    there = settings.model_dump(by_alias=True, exclude_unset=True)
    if "provider" in changes:  # model and address are those of the old provider
        there = {key: value for key, value in there.items() if key not in ("model", "remote", "local")}
    try:
        return resolve_settings(there, changes)
    except ValueError as error:
        raise ConfigError(f"These settings of an embedder cannot be used: {error}.") from error


async def open_engine(
    config: Config, now: Clock, embedder: Embedder | None, *, owns_embedder: bool
) -> MemoryEngine:
    """The engine over this agent's notes. With `owns_embedder`, it closes the embedder.

    Raises:
        ConfigError: the settings name a re-ranker that cannot be used.
        MemoryIndexError: the index can be neither opened nor replaced by a new one.
    """
    settings = config.settings.agent.memory_search
    # Imported late, because another process may be embedding a question meanwhile.
    from nacre.memory.engine import MemoryEngine

    storage = storage_of(config)
    wanted = search_settings(config)
    try:
        reranker = open_reranker(config, settings.query.rerank, now)
        engine = await MemoryEngine.open(
            workspace=storage.workspace(),
            index_path=config.folders.index_file,
            settings=wanted,
            embedder=embedder,
            owns_embedder=owns_embedder,
            reranker=reranker,
            now=now,
            place=storage.index(wanted, now=now),
            transcripts=open_transcripts(config, now) if "sessions" in settings.sources else None,
        )
    except BaseException:
        if embedder is not None and owns_embedder:
            await embedder.close()
        raise
    engine.freshness_wait_seconds = FRESHNESS_WAIT_SECONDS
    if has_fallback(embedder):
        embedder.on_switch = engine.embedder_changed
    return engine


def unwatched(config: Config) -> Config:
    """The settings for an index without a watch over the files and without periodic updates."""
    sync = config.settings.agent.memory_search.sync
    return with_search(config, sync=sync.model_copy(update={"watch": False, "interval_minutes": 0}))


def with_search(config: Config, **sections: Any) -> Config:
    """The settings with other sections of `memorySearch`."""
    agent = config.settings.agent
    search = agent.memory_search.model_copy(update=sections)
    defaults = agent.model_copy(update={"memory_search": search})
    agents = config.settings.agents.model_copy(update={"defaults": defaults})
    return replace(config, settings=config.settings.model_copy(update={"agents": agents}))


def search_settings(config: Config) -> MemorySearchSettings:
    """The search settings, with all extra paths."""
    return config.settings.agent.memory_search.model_copy(update={"extra_paths": _extra_paths(config)})


def unindexed_notes(config: Config, problem: str = "") -> UnindexedNotes:
    """The same notes without their index; `problem` says why."""
    return UnindexedNotes(note_files(config, storage_of(config).workspace()), problem)


def note_files(config: Config, workspace: Workspace) -> NoteFiles:
    """The notes of this agent: its workspace and the extra paths of the settings."""
    return NoteFiles(workspace, _extra_paths(config))


def _extra_paths(config: Config) -> tuple[str, ...]:
    named = (at_home(path, config.home) for path in config.settings.agent.memory_search.extra_paths)
    return (*named, BANK_FOLDER) if config.settings.memory.bank.enabled else tuple(named)


def open_transcripts(config: Config, now: Clock) -> TranscriptSource:
    """The transcripts of this agent as a source of search."""
    # Slow imports that a search of the notes does not need.
    from nacre.runtime.recall.transcripts import SessionTranscripts

    return SessionTranscripts(
        open_sessions(config, now),
        agent_id=config.agent_id,
        main_key=config.settings.session.main_key,
        now=now,
    )


class UnindexedNotes:
    """Replaces the memory engine if its index cannot be opened; `problem` is the reason, as a sentence.

    Files can still be read, because a conversation must not depend on the index.
    """

    def __init__(self, notes: NoteFiles, problem: str) -> None:
        self.problem = problem
        self._notes = notes

    async def search(self, _question: Question, /) -> SearchReport:
        """Raises `IndexUnusable` with the problem."""
        raise IndexUnusable(self.problem)

    async def read(
        self, path: str, *, from_line: int | None = None, lines: int | None = None, below: str = ""
    ) -> Excerpt:
        return await read_excerpt(self._notes, path, from_line=from_line, lines=lines, below=below)
