"""The index, opened for one command by the settings, or by what the last search kept of them, and closed."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import suppress
from functools import wraps
from typing import TYPE_CHECKING, Any

import click

from nacre.cli.invocation import Invocation, Voice, begin, environment_of
from nacre.runtime.contracts.errors import AgentError

if TYPE_CHECKING:
    from nacre.cli.memory.opening.remembered_search import SearchPlace
    from nacre.memory.contracts.embedder import Embedder
    from nacre.memory.embedders.question_ahead import QuestionAhead
    from nacre.memory.engine import MemoryEngine


def on_engine(work: Callable[..., Awaitable[int]]) -> Callable[..., int]:
    """A command that opens the index, does `work(engine, invocation, …)`, and closes it."""

    @wraps(work)
    def run(context: click.Context, **options: Any) -> int:
        from nacre.memory.embedders.minilm import MiniLmEmbedder

        return with_engine(context, work.__name__, work, MiniLmEmbedder, options)

    return run


def with_engine(
    context: click.Context,
    name: str,
    work: Callable[..., Awaitable[int]],
    local: Callable[[], Embedder],
    options: Mapping[str, Any],
) -> int:
    """Opens the index by the settings, does `work(engine, invocation, …)`, closes it, and gives its code. In
    sentences the command is called `name`.

    Raises:
        ConfigError: a setting or the settings file cannot be used.
    """
    return run_with(begin(context), name, lambda invocation: _opened(invocation, work, local, options))


def run_with(
    invocation: Invocation, name: str, work: Callable[[Invocation], Coroutine[Any, Any, int]]
) -> int:
    """Does `work`, called `name` in sentences, after what the settings have to say."""
    invocation.warn(*invocation.config.notices)
    return _until_done(invocation, name, work(invocation))


def with_remembered(
    context: click.Context,
    place: SearchPlace,
    work: Callable[[MemoryEngine], Coroutine[Any, Any, int]],
    ahead: QuestionAhead | None,
) -> int:
    """Opens the index as the last search did, does `work` with it, and closes it. With a question `ahead` the
    model that ships is asked, too.
    """
    voice = Voice(environment=environment_of(context))
    root = logging.getLogger()
    root.handlers[:] = [_LateLog(lambda: begin(context))]
    root.setLevel(logging.WARNING)
    logging.getLogger("nacre").setLevel(logging.INFO)
    return _until_done(voice, "search", _remembered(place, work, ahead))


def local_model(context: click.Context, question: str) -> Callable[[], Embedder]:
    """What makes the embedder that arrives with the install, should the settings ask for it."""
    from nacre.memory.embedders.question_ahead import QuestionAhead
    from nacre.runtime.settings.config import settings_file
    from nacre.runtime.settings.disk.named_embedder import may_name_an_embedder

    # Unless the settings may name another embedder, the question is embedded while they and the index are
    # opened. Without the process of its own a search took 49 % longer, with one begun later 25 %.
    begun = None if may_name_an_embedder(settings_file(environment_of(context))) else QuestionAhead(question)

    def asked() -> Embedder:
        from nacre.memory.embedders.minilm_ahead import AskedAhead

        return AskedAhead(begun or QuestionAhead(question))

    return asked


class _LateLog(logging.Handler):
    """Opens the log when there is something to log: only with the settings is known what is secret."""

    def __init__(self, begin: Callable[[], object]) -> None:
        super().__init__()
        self._begin = begin

    def emit(self, record: logging.LogRecord) -> None:
        root = logging.getLogger()
        root.handlers[:] = [logging.NullHandler()]
        with suppress(AgentError, OSError):  # as a log that cannot be written: it costs the log alone
            self._begin()
        root.handle(record)


def _until_done(voice: Voice, name: str, work: Coroutine[Any, Any, int]) -> int:
    from nacre.cli.signals import run_until_signal
    from nacre.memory.contracts.errors import MemoryIndexError

    try:
        return run_until_signal(work)
    except MemoryIndexError as error:
        voice.warn(f"Memory {name} failed: {error}", tone="error")
        return 1


async def _remembered(
    place: SearchPlace,
    work: Callable[[MemoryEngine], Coroutine[Any, Any, int]],
    ahead: QuestionAhead | None,
) -> int:
    from nacre.memory.contracts.index_place import FRESHNESS_WAIT_SECONDS
    from nacre.memory.engine import MemoryEngine
    from nacre.runtime.contracts.clock import brief_clock
    from nacre.runtime.settings.disk.open_workspace import open_workspace

    embedder = None
    if ahead is not None:
        from nacre.memory.embedders.minilm_ahead import AskedAhead

        embedder = AskedAhead(ahead)
    try:
        engine = await MemoryEngine.open(
            workspace=open_workspace(place.folders, place.state_dir),
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
    try:
        return await work(engine)
    finally:
        await engine.close()


async def _opened(
    invocation: Invocation,
    work: Callable[..., Awaitable[int]],
    local: Callable[[], Embedder],
    options: Mapping[str, Any],
) -> int:
    from nacre.runtime.contracts.clock import owner_zone, system_clock
    from nacre.runtime.recall.open_memory import open_memory
    from nacre.runtime.settings.sections.plugins import MEMORY_CORE

    zone = owner_zone(invocation.config.settings.agent.user_timezone or None)
    engine = await open_memory(invocation.config, system_clock(zone), local=local)
    if engine is None:
        invocation.warn(
            "Memory search is switched off. Set agents.defaults.memorySearch.enabled to true to use it.",
            tone="error",
        )
        return 1
    chosen = invocation.config.settings.plugins.slots.memory
    if chosen != MEMORY_CORE:
        invocation.warn(
            f"plugins.slots.memory is {chosen!r}, so the agent does not look into this index, which is "
            f"that of {MEMORY_CORE}."
        )
    try:
        return await work(engine, invocation, **options)
    finally:
        await engine.close()
