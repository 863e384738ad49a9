"""The commands `nacre memory …`: look after the index, search it, read what it found."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from functools import wraps
from typing import TYPE_CHECKING, Any

import click

from nacre.cli.bench.command import bench
from nacre.cli.invocation import Invocation, begin, day_option, environment_of, json_option, shared_options
from nacre.cli.memory.care.forgetting.forget import forget
from nacre.cli.memory.care.meter import meter
from nacre.cli.memory.care.review import review
from nacre.cli.memory.care.tidy import tidy
from nacre.cli.memory.facts import command as facts_command
from nacre.cli.memory.history import diff, log, undo
from nacre.cli.memory.reflect import reflect
from nacre.cli.screen.json_text import camel_json, print_json
from nacre.runtime.settings.config import settings_file

if TYPE_CHECKING:
    from nacre.memory.contracts.embedder import Embedder
    from nacre.memory.engine import MemoryEngine


def on_engine(work: Callable[..., Awaitable[int]]) -> Callable[..., int]:
    """A command that opens the index, does `work(engine, invocation, …)`, and closes it."""

    @wraps(work)
    def run(context: click.Context, **options: Any) -> int:
        local = _local_model(context, options.get("query", ""))
        return _run(
            begin(context), work.__name__, lambda invocation: _opened(invocation, work, local, options)
        )

    return run


def _words(context: click.Context, _argument: click.Parameter, value: str) -> str:
    if not value.strip():
        raise click.UsageError("The query is empty. Say in a few words what to look for.", context)
    return value


@click.group("memory")
def command() -> None:
    """Search the notes and look after their index."""


command.add_command(facts_command)
command.add_command(bench)
command.add_command(reflect)
command.add_command(log)
command.add_command(diff)
command.add_command(undo)
command.add_command(review)
command.add_command(forget)
command.add_command(meter)
command.add_command(tidy)


@command.command("status")
@click.option("--deep", is_flag=True, help="Also ask the embedder, and read the whole index through.")
@json_option()
@shared_options
@on_engine
async def status(engine: MemoryEngine, invocation: Invocation, deep: bool, as_json: bool) -> int:
    """Say what is indexed, what is not, and why."""
    from nacre.cli.memory.qmd import qmd_status
    from nacre.cli.memory.text import status_json, status_lines

    found, agent_id = await engine.status(deep=deep), invocation.config.agent_id
    qmd = qmd_status(invocation.config)
    if as_json:
        return print_json(status_json(found, agent_id=agent_id, qmd=qmd))
    invocation.say(*status_lines(found, invocation.short, agent_id=agent_id, qmd=qmd))
    return 0


@command.command("index")
@click.option("--force", is_flag=True, help="Build the whole index again; the old one answers meanwhile.")
@json_option()
@shared_options
@on_engine
async def index(engine: MemoryEngine, invocation: Invocation, force: bool, as_json: bool) -> int:
    """Bring the index in line with the files."""
    from nacre.cli.memory.progress import shown_progress
    from nacre.cli.memory.qmd import updated
    from nacre.cli.memory.text import index_lines, index_problems

    with shown_progress(sys.stderr, invocation.environment) as progress:
        report = await engine.sync(reason="cli", force=force, progress=progress)
    qmd_problem = await updated(invocation.config, engine)
    invocation.warn(*index_problems(report), *qmd_problem)
    if as_json:
        print_json(camel_json(report))
    else:
        invocation.say(*index_lines(report, agent_id=invocation.config.agent_id))
    return 1 if report.problem or qmd_problem else 0


@command.command("search")
@click.argument("query", callback=_words)
@click.option("--also", metavar="TEXT", multiple=True, help="The same in other words or another language.")
@click.option("--max-results", metavar="N", type=click.IntRange(min=1), help="Most results.")
@click.option("--min-score", metavar="X", type=click.FloatRange(0, 1), help="Least score, 0 to 1.")
@day_option("--after", "Only notes of this day or later.")
@day_option("--before", "Only notes of this day or earlier.")
@day_option("--as-of", "Ask as on this day, without later notes.")
@click.option("--explain", is_flag=True, help="Say how each result got its place.")
@json_option()
@shared_options
@on_engine
async def search(
    engine: MemoryEngine, invocation: Invocation, query: str, as_json: bool, **options: Any
) -> int:
    """Find the passages of the notes that fit QUERY best."""
    from nacre.cli.memory.qmd import searched
    from nacre.cli.memory.text import search_json, search_lines, search_problems
    from nacre.memory.files.sources.of_hits import sources_of_hits
    from nacre.memory.files.sources.sources import Sources
    from nacre.runtime.settings.disk.open_workspace import open_workspace

    report = await searched(invocation.config, engine, query, **options)
    kept = Sources(open_workspace(invocation.config.folders, invocation.config.state_dir))
    sources = await sources_of_hits(engine, kept, report.hits)
    if as_json:
        return print_json(search_json(report, sources))
    invocation.warn(*search_problems(report))
    invocation.say(*search_lines(report, sources))
    return 0


@command.command("get")
@click.argument("path")
@click.option("--from", "from_line", metavar="N", type=click.IntRange(min=1), help="First line, from 1.")
@click.option("--lines", metavar="N", type=click.IntRange(min=1), help="How many lines.")
@json_option()
@shared_options
def get(context: click.Context, path: str, from_line: int | None, lines: int | None, as_json: bool) -> int:
    """Print lines of a memory file, such as memory/2026-01-20.md."""

    async def read(invocation: Invocation) -> int:
        from nacre.cli.memory.qmd import read as lines_of

        excerpt = await lines_of(invocation.config, path, from_line=from_line, lines=lines)
        if as_json:
            print_json(camel_json(excerpt))
            return 1 if excerpt.missing else 0
        if excerpt.missing:
            invocation.warn(f"There is no {excerpt.path} yet.", tone="error")
            return 1
        if excerpt.truncated:
            invocation.warn(f"Cut after line {excerpt.end_line} of {excerpt.total_lines}; go on with --from.")
        if excerpt.text:
            invocation.say(excerpt.text.removesuffix("\n"))
        return 0

    return _run(begin(context), "get", read)


@command.command("qmd")
@shared_options
def qmd(context: click.Context) -> int:
    """Print lines for a shell in which your own qmd uses this agent's index."""
    from nacre.cli.memory.qmd import recipe

    invocation = begin(context)
    invocation.say(*recipe(invocation.config))
    return 0


@command.command("why")
@click.argument("place")
@json_option()
@shared_options
def why(context: click.Context, place: str, as_json: bool) -> int:
    """Say where a line of the notes comes from: PLACE is a citation, such as memory/2026-01-20.md#L3."""

    async def tell(invocation: Invocation) -> int:
        from nacre.cli.memory.why import tell_why

        return await tell_why(invocation, place, as_json=as_json)

    return _run(begin(context), "why", tell)


def _run(invocation: Invocation, name: str, work: Callable[[Invocation], Coroutine[Any, Any, int]]) -> int:
    from nacre.cli.signals import run_until_signal
    from nacre.memory.contracts.errors import MemoryIndexError

    invocation.warn(*invocation.config.notices)
    try:
        return run_until_signal(work(invocation))
    except MemoryIndexError as error:
        invocation.warn(f"Memory {name} failed: {error}", tone="error")
        return 1


def _local_model(context: click.Context, question: str) -> Callable[[], Embedder]:
    """What makes the embedder that arrives with the install, should the settings ask for it."""
    from nacre.memory.embedders.minilm import MiniLmEmbedder

    if not question:
        return MiniLmEmbedder
    from nacre.memory.embedders.minilm_ahead import AskedAhead
    from nacre.runtime.settings.disk.named_embedder import may_name_an_embedder

    # Unless the settings may name another embedder, the question is embedded while they and the index are
    # opened. Without the process of its own a search took 49 % longer, with one begun later 25 %.
    begun = None if may_name_an_embedder(settings_file(environment_of(context))) else AskedAhead(question)
    return lambda: begun or AskedAhead(question)


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
