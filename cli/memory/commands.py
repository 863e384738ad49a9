"""The commands `nacre memory`, `nacre memory status`, `index` and `get`, and the list of all others."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TextIO, TypeAlias

import click

from nacre.cli.invocation import Invocation, begin, json_option, shared_options
from nacre.cli.memory.open_index import memory_backend, on_engine, run_with
from nacre.cli.nouns import Noun
from nacre.cli.screen.json_text import camel_json, print_json
from nacre.cli.screen.screen import screen_on
from nacre.memory.contracts.records import SyncProgress

if TYPE_CHECKING:
    from nacre.cli.memory.open_index import IndexVoice
    from nacre.memory.engine import MemoryEngine


@click.group("memory", cls=Noun, noun="memory", invoke_without_command=True)
@json_option("Print a JSON object.")
@shared_options
def command(context: click.Context, as_json: bool) -> int:
    """Show what is known; search, inspect and maintain the notes.

    Without a command, shows the notes, topics and facts, what was learned in the last seven days, what waits
    for review, contradictions, notes that were never recalled, and the size of MEMORY.md.
    """
    if context.invoked_subcommand:
        return 0

    async def look(invocation: Invocation) -> int:
        from nacre.cli.memory.text import overview_lines
        from nacre.runtime.agent.insight.memory_overview import memory_overview

        now = invocation.config.clock
        overview = await memory_overview(invocation.config, now)
        if as_json:
            return print_json(camel_json(overview))
        invocation.say(*overview_lines(overview, now().date()))
        return 0

    return run_with(begin(context), "overview", look)


@command.command("status")
@click.option("--deep", is_flag=True, help="Also test the embedder, and check the whole index.")
@json_option()
@shared_options
@on_engine
async def status(engine: MemoryEngine, voice: IndexVoice, deep: bool, as_json: bool) -> int:
    """Show what is indexed, what is not, and why."""
    from nacre.cli.memory.text import BUILT_IN, status_json, status_lines

    found, agent_id = await engine.status(deep=deep), voice.folders.agent_id
    rows: Sequence[tuple[str, str]] = ()
    of_backend: Mapping[str, Any] = BUILT_IN
    if voice.config is not None and (backend := memory_backend(voice, voice.config)) is not None:
        backend_status = backend.status(voice.config, voice.short)
        rows, of_backend = backend_status.rows, backend_status.report
    if as_json:
        return print_json(status_json(found, agent_id=agent_id, of_backend=of_backend))
    voice.say(*status_lines(found, voice.short, agent_id=agent_id, backend=rows))
    return 0


@command.command("index")
@click.option("--force", is_flag=True, help="Build the whole index again; the old one answers meanwhile.")
@json_option()
@shared_options
@on_engine
async def index(engine: MemoryEngine, voice: IndexVoice, force: bool, as_json: bool) -> int:
    """Bring the index up to date with the files."""
    from nacre.cli.memory.text import index_lines, index_problems

    with shown_progress(sys.stderr, voice.environment) as progress:
        report = await engine.sync(reason="cli", force=force, progress=progress)
    problem = ""
    if voice.config is not None and (backend := memory_backend(voice, voice.config)) is not None:
        problem = await backend.update(voice.config, engine)
    voice.warn(*index_problems(report), *filter(None, [problem]))
    if as_json:
        print_json(camel_json(report))
    else:
        voice.say(*index_lines(report, agent_id=voice.folders.agent_id))
    return 1 if report.problem or problem else 0


@command.command("get")
@click.argument("path")
@click.option("--from", "from_line", metavar="N", type=click.IntRange(min=1), help="First line, from 1.")
@click.option("--lines", metavar="N", type=click.IntRange(min=1), help="Number of lines.")
@json_option()
@shared_options
def get(context: click.Context, path: str, from_line: int | None, lines: int | None, as_json: bool) -> int:
    """Print lines of a memory file, such as memory/2026-01-20.md."""

    async def read(invocation: Invocation) -> int:
        from nacre.runtime.recall.open_memory import unindexed_notes

        config = invocation.config
        notes, backend = unindexed_notes(config), memory_backend(invocation, config)
        if backend is None:
            excerpt = await notes.read(path, from_line=from_line, lines=lines)
        else:
            excerpt = await backend.read(config, notes, path, from_line=from_line, lines=lines)
        if as_json:
            print_json(camel_json(excerpt))
            return 1 if excerpt.missing else 0
        if excerpt.missing:
            invocation.warn(f"There is no {excerpt.path} yet.", tone="error")
            return 1
        if excerpt.truncated:
            invocation.warn(f"Cut after line {excerpt.end_line} of {excerpt.total_lines}; use --from.")
        if excerpt.text:
            invocation.say(excerpt.text.removesuffix("\n"))
        return 0

    return run_with(begin(context), "get", read)


Tell: TypeAlias = Callable[[SyncProgress], None]

_STAGES = {"scan": "Looking for files", "index": "Indexing", "embed": "Embedding", "publish": "Publishing"}
_LINES_PER_STAGE = 10
_BAR_CELLS = 20


@contextmanager
def shown_progress(stream: TextIO, environment: Mapping[str, str]) -> Iterator[Tell]:
    """A function to call with the progress of a sync. A status line is removed at the end."""
    screen = screen_on(stream, environment)
    if not screen.is_live:
        yield line_teller(stream)
        return
    try:
        yield lambda progress: screen.status(f"{_bar(progress)} {_progress_text(progress)}")
    finally:
        screen.clear_status()


def line_teller(stream: TextIO) -> Tell:
    """Writes at most ten lines per stage: `Indexing 300/1000 · 0:02 · 0:05 left`."""
    shown: set[tuple[str, int]] = set()

    def tell(progress: SyncProgress) -> None:
        part = progress.completed * _LINES_PER_STAGE // max(1, progress.total)
        if progress.completed == 0 or (progress.stage, part) in shown:
            return
        shown.add((progress.stage, part))
        stream.write(f"{_progress_text(progress)}\n")
        stream.flush()

    return tell


def _progress_text(progress: SyncProgress) -> str:
    left = "" if progress.eta_seconds is None else f" · {_clock(progress.eta_seconds)} left"
    return (
        f"{_STAGES[progress.stage]} {progress.completed}/{progress.total} "
        f"· {_clock(progress.elapsed_seconds)}{left}"
    )


def _bar(progress: SyncProgress) -> str:
    done = min(_BAR_CELLS, progress.completed * _BAR_CELLS // max(1, progress.total))
    return f"{'█' * done}{'░' * (_BAR_CELLS - done)}"


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}:{rest:02d}"
