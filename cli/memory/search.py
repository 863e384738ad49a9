"""`nacre memory search`: by what the last one kept of the settings, if that still holds.

The index is opened and brought up to date as ever; only the settings are not read and checked once more.
"""

from __future__ import annotations

import gc
from datetime import UTC
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nacre.cli.invocation import (
    Invocation,
    Voice,
    day_option,
    environment_of,
    json_option,
    shared_options,
)
from nacre.cli.memory.opening.engine import local_model, with_engine, with_remembered

if TYPE_CHECKING:
    from nacre.cli.memory.text import LinesOfHits
    from nacre.memory.contracts.records import SearchReport
    from nacre.memory.engine import MemoryEngine
    from nacre.runtime.settings.disk.agent_folders import AgentFolders


def _words(context: click.Context, _argument: click.Parameter, value: str) -> str:
    if not value.strip():
        raise click.UsageError("The query is empty. Say in a few words what to look for.", context)
    return value


@click.command("search")
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
def search(context: click.Context, query: str, **options: Any) -> int:
    """Find the passages of the notes that fit QUERY best."""
    from nacre.cli.memory.opening.remembered_search import remembered_search

    environment = environment_of(context)
    place = remembered_search(environment)
    if place is None:
        from nacre.runtime.contracts.clock import epoch_ms, system_clock

        began_ns = epoch_ms(system_clock(UTC)()) * 1_000_000
        work = partial(_by_settings, query=query, began_ns=began_ns)
        return with_engine(context, "search", work, local_model(context, query), options)
    ahead = None
    if place.by_meaning:
        from nacre.memory.embedders.question_ahead import QuestionAhead

        ahead = QuestionAhead(query)  # begun before the rest of the program is imported
    voice = Voice(environment=environment)

    async def again(engine: MemoryEngine, *, as_json: bool, **asked: Any) -> int:
        if ahead is not None:
            _load_what_tells()  # there is time while the question's process works
        report = await engine.search(query, **asked)
        return await _told(voice, engine, report, place.folders, place.state_dir, as_json=as_json)

    gc.disable()  # a twelfth of the time of imports; what one search leaves behind goes with its process
    try:
        return with_remembered(context, place, lambda engine: again(engine, **options), ahead)
    finally:
        gc.enable()


async def _by_settings(
    engine: MemoryEngine, invocation: Invocation, *, query: str, began_ns: int, as_json: bool, **options: Any
) -> int:
    from nacre.cli.memory.opening.qmd import searched
    from nacre.cli.memory.opening.remembered_search import remember_search
    from nacre.runtime.recall.open_memory import search_settings

    config = invocation.config
    report = await searched(config, engine, query, **options)
    code = await _told(invocation, engine, report, config.folders, config.state_dir, as_json=as_json)
    remember_search(config, search_settings(config), began_ns=began_ns)
    return code


def _load_what_tells() -> None:
    import nacre.cli.memory.text
    import nacre.memory.files.reading
    import nacre.memory.files.sources.of_hits  # noqa: F401 - loaded ahead


async def _told(
    voice: Voice,
    engine: MemoryEngine,
    report: SearchReport,
    folders: AgentFolders,
    state_dir: Path,
    *,
    as_json: bool,
) -> int:
    from nacre.cli.memory.text import search_json, search_lines, search_problems
    from nacre.cli.screen.json_text import print_json

    sources: LinesOfHits = {}
    if report.hits:
        from nacre.memory.files.sources.of_hits import sources_of_hits
        from nacre.memory.files.sources.sources import Sources
        from nacre.runtime.settings.disk.open_workspace import open_workspace

        kept = Sources(open_workspace(folders, state_dir))
        sources = await sources_of_hits(engine, kept, report.hits)
    if as_json:
        return print_json(search_json(report, sources))
    voice.warn(*search_problems(report))
    voice.say(*search_lines(report, sources))
    return 0
