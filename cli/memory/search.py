"""`nacre memory search`, which reads the settings only if the cache of the last search is outdated."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from nacre.cli.invocation import day_option, environment_of, json_option, shared_options
from nacre.cli.memory.open_index import local_model, memory_backend, with_engine
from nacre.cli.memory.remembered_search import remembered_search

if TYPE_CHECKING:
    from nacre.cli.memory.open_index import IndexVoice
    from nacre.cli.memory.text import LinesOfHits
    from nacre.memory.contracts.records import Question
    from nacre.memory.engine import MemoryEngine


MOST_SAID = 3
MOST_READ_BYTES = 20_000_000
"""The most bytes of transcripts that are searched if no note matches, which takes about a second."""


def _words(context: click.Context, _argument: click.Parameter, value: str) -> str:
    if not value.strip():
        raise click.UsageError("The query is empty. Enter a few words to search for.", context)
    return value


@click.command("search")
@click.argument("query", callback=_words)
@click.option(
    "--also", metavar="TEXT", multiple=True, help="The question in other words or another language."
)
@click.option("--max-results", metavar="N", type=click.IntRange(min=1), help="Maximum number of results.")
@click.option("--min-score", metavar="X", type=click.FloatRange(0, 1), help="Minimum score, 0 to 1.")
@day_option("--after", "Only notes of this day or later.")
@day_option("--before", "Only notes of this day or earlier.")
@day_option("--as-of", "Search as on this day, without later notes.")
@click.option("--explain", is_flag=True, help="Show scores, whole passages and full sources.")
@json_option()
@shared_options
def search(context: click.Context, query: str, as_json: bool, **limits: Any) -> int:
    """Find the passages of the notes that fit QUERY best."""
    place = remembered_search(environment_of(context))
    local = local_model(context, query, place)  # starts before the rest of the program is imported
    is_awaited = place is not None and place.by_meaning

    async def work(engine: MemoryEngine, voice: IndexVoice) -> int:
        if is_awaited:
            # The embedding process is still working.
            import nacre.cli.memory.text
            import nacre.memory.files.note_files
            import nacre.memory.files.sources.sources  # noqa: F401 - loaded ahead
        from nacre.memory.contracts.records import Question

        return await _search_and_print(engine, voice, Question(text=query, **limits), as_json=as_json)

    return with_engine(context, "search", work, local, place)


async def _search_and_print(
    engine: MemoryEngine, voice: IndexVoice, question: Question, *, as_json: bool
) -> int:
    backend = memory_backend(voice, voice.config) if voice.config is not None else None
    if backend is None or voice.config is None:
        report = await engine.search(question)
    else:
        report = await backend.search(voice.config, engine, question)
    from nacre.cli.memory.text import search_json, search_lines, search_problems
    from nacre.cli.screen.json_text import print_json
    from nacre.runtime.commands.wording import found_lines

    sources: LinesOfHits = {}
    if report.hits:
        from nacre.memory.files.sources.attribution import attributed
        from nacre.memory.files.sources.sources import Sources
        from nacre.runtime.storage.storage import storage_of

        kept = Sources(storage_of(voice).workspace())
        report, sources = await attributed(engine, kept, report, as_of=question.as_of)
    if as_json:
        return print_json(search_json(report, sources))
    voice.warn(*search_problems(report))
    if question.explain and report.hits:
        voice.say(*search_lines(report, sources))
    elif not (report.hits or question.after or question.before or question.as_of) and (
        said := await _said(voice, question.text)
    ):
        voice.say("No note matches, but conversations do:", *said)
    else:
        voice.say(*found_lines(report, sources, query=question.text))
    return 0


async def _said(voice: IndexVoice, query: str) -> list[str]:
    """Conversations with a message that has all the words of the query."""
    from nacre.cli.screen.session_words import found_session_lines
    from nacre.closing import using
    from nacre.runtime.commands.conversation.word_search import sessions_with
    from nacre.runtime.contracts.clock import owner_clock
    from nacre.runtime.storage.storage import open_sessions
    from nacre.sessions.contracts.errors import SessionError

    settings = voice.config.settings if voice.config is not None else None
    now = owner_clock(settings.agent.user_timezone if settings else "")
    try:
        async with using(open_sessions(voice, now)) as store:
            found = await sessions_with(store, query.split(), most=MOST_SAID, most_bytes=MOST_READ_BYTES)
    except SessionError:
        return []  # `nacre sessions` says why
    main_key = settings.session.main_key if settings else "main"
    return found_session_lines(found, now=now(), main_key=main_key)
