"""Opens the index for one command, by the settings or by their cache of the last search."""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine
from contextlib import suppress
from datetime import UTC
from functools import partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import click

from nacre.cli.invocation import Invocation, Voice, begin, environment_of, run_reporting
from nacre.cli.memory.remembered_search import SearchPlace, remember_search, remembered_search
from nacre.closing import using
from nacre.runtime.contracts.errors import AgentError
from nacre.runtime.settings.config import settings_file

if TYPE_CHECKING:
    from nacre.memory.contracts.embedder import Embedder
    from nacre.memory.engine import MemoryEngine
    from nacre.runtime.recall.memory_backend import MemoryBackend
    from nacre.runtime.settings.config import Config
    from nacre.runtime.settings.disk.agent_folders import AgentFolders


class IndexVoice(Voice):
    """What a command needs besides the open index.

    `config` is `None` if the command uses cached settings; then there is no backend.
    """

    folders: AgentFolders
    state_dir: Path
    config: Config | None


Work: TypeAlias = "Callable[[MemoryEngine, IndexVoice], Coroutine[Any, Any, int]]"


def on_engine(work: Callable[..., Coroutine[Any, Any, int]]) -> Callable[..., int]:
    """Makes a command that opens the index, runs `work(engine, voice, …)`, and closes the index."""

    @wraps(work)
    def run(context: click.Context, **options: Any) -> int:
        def local() -> Embedder:
            from nacre.memory.embedders.e5 import E5Embedder

            return E5Embedder()

        place = remembered_search(environment_of(context))
        return with_engine(context, work.__name__, partial(work, **options), local, place)

    return run


def with_engine(
    context: click.Context, name: str, work: Work, local: Callable[[], Embedder], place: SearchPlace | None
) -> int:
    """Opens the index, runs `work`, closes the index, and returns the exit code. Messages use `name`.

    The cached `place` says where the index is, otherwise the settings do. `local` makes the embedder that
    comes with Nacre, if the settings choose it.

    Raises:
        ConfigError: a setting or the settings file cannot be used.
    """
    if place is None:
        from nacre.runtime.contracts.clock import epoch_ms, system_clock

        began_ns = epoch_ms(system_clock(UTC)()) * 1_000_000
        return run_with(
            begin(context), name, lambda invocation: _with_settings(invocation, work, local, began_ns)
        )
    environment = environment_of(context)
    voice = IndexVoice(environment=environment, folders=place.folders, state_dir=place.state_dir, config=None)
    root = logging.getLogger()
    root.handlers[:] = [_LateLog(lambda: begin(context))]
    root.setLevel(logging.WARNING)
    logging.getLogger("nacre").setLevel(logging.INFO)
    return _run(voice, name, _with_cache(place, voice, work, local))


def run_with(
    invocation: Invocation, name: str, work: Callable[[Invocation], Coroutine[Any, Any, int]]
) -> int:
    """Shows the notices of the settings and runs `work`, which messages call `name`."""
    invocation.warn(*invocation.config.notices)
    return _run(invocation, name, work(invocation))


def local_model(context: click.Context, question: str, place: SearchPlace | None) -> Callable[[], Embedder]:
    """A function that makes the embedder that comes with Nacre, and begins to embed the question now."""
    from nacre.memory.embedders.question_ahead import QuestionAhead, is_loaded_here

    if is_loaded_here():
        from nacre.memory.embedders.e5 import E5Embedder

        return E5Embedder
    # Unless the settings may name another embedder, a process embeds the question while the settings are
    # read and the index is opened. Without it, a search takes 49 % longer; if it starts later, 25 %.
    begun = QuestionAhead(question) if _may_embed_here(context, place) else None

    def embedder() -> Embedder:
        from nacre.memory.embedders.e5 import AskedAhead

        return AskedAhead(begun or QuestionAhead(question))

    return embedder


def _may_embed_here(context: click.Context, place: SearchPlace | None) -> bool:
    if place is not None:
        return place.by_meaning
    from nacre.runtime.settings.disk.settings_file import may_name_an_embedder

    return not may_name_an_embedder(settings_file(environment_of(context)))


def memory_backend(voice: Voice, config: Config) -> MemoryBackend | None:
    """The extension that answers before the index; warns if it is missing."""
    if not config.settings.memory.has_backend:
        return None
    from nacre.runtime.extensions.loading import load_backend

    backend, problems = load_backend(config.settings)
    voice.warn(*problems)
    return backend


class _LateLog(logging.Handler):
    """Opens the log with the first record, because only the settings say what is secret."""

    def __init__(self, begin: Callable[[], object]) -> None:
        super().__init__()
        self._begin = begin

    def emit(self, record: logging.LogRecord) -> None:
        root = logging.getLogger()
        root.handlers[:] = [logging.NullHandler()]
        with suppress(AgentError, OSError):  # without a log, the command continues
            self._begin()
        root.handle(record)


def _run(voice: Voice, name: str, work: Coroutine[Any, Any, int]) -> int:
    from nacre.memory.contracts.errors import MemoryIndexError

    return run_reporting(voice, work, MemoryIndexError, prefix=f"Memory {name} failed: ")


async def _with_cache(
    place: SearchPlace, voice: IndexVoice, work: Work, local: Callable[[], Embedder]
) -> int:
    from nacre.memory.contracts.store import FRESHNESS_WAIT_SECONDS
    from nacre.memory.engine import MemoryEngine
    from nacre.runtime.contracts.clock import brief_clock
    from nacre.runtime.storage.storage import storage_of

    embedder = local() if place.by_meaning else None
    try:
        engine = await MemoryEngine.open(
            workspace=storage_of(place).workspace(),
            index_path=place.folders.index_file,
            settings=place.settings,
            embedder=embedder,
            owns_embedder=True,
            now=brief_clock(place.time_zone),
        )
    except BaseException:
        if embedder is not None:
            await embedder.close()
        raise
    engine.freshness_wait_seconds = FRESHNESS_WAIT_SECONDS
    async with using(engine):
        return await work(engine, voice)


async def _with_settings(
    invocation: Invocation, work: Work, local: Callable[[], Embedder], began_ns: int
) -> int:
    from nacre.runtime.contracts.clock import owner_zone, system_clock
    from nacre.runtime.recall.open_memory import open_memory, search_settings
    from nacre.runtime.settings.sections.plugins import MEMORY_CORE

    config = invocation.config
    zone = owner_zone(config.settings.agent.user_timezone or None)
    engine = await open_memory(config, system_clock(zone), local=local)
    if engine is None:
        invocation.warn(
            "Memory search is switched off. Set agents.defaults.memorySearch.enabled to true to use it.",
            tone="error",
        )
        return 1
    chosen = config.settings.plugins.slots.memory
    if chosen != MEMORY_CORE:
        invocation.warn(
            f"plugins.slots.memory is {chosen!r}, so the agent does not search this index, which belongs to "
            f"{MEMORY_CORE}."
        )
    voice = IndexVoice(
        environment=invocation.environment,
        folders=config.folders,
        state_dir=config.state_dir,
        config=config,
    )
    async with using(engine):
        code = await work(engine, voice)
    remember_search(config, search_settings(config), began_ns=began_ns)
    return code
