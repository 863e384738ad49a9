"""The command `nacre memory bench`: asks every installed memory engine, and grep, the same questions."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nacre.cli.invocation import Invocation, begin, json_option, shared_options
from nacre.cli.screen.json_text import print_json

if TYPE_CHECKING:
    from nacre.extensions.memory_bench.engines import EngineResult, Notes
    from nacre.extensions.memory_bench.scoring import Question
    from nacre.memory.contracts.workspace import Workspace

GREP = "grep"


@click.command("bench")
@click.option(
    "--set",
    "labelled",
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False, resolve_path=True, path_type=Path),
    help="Use the labelled questions in FILE, one JSON object a line, and the notes beside it.",
)
@click.option(
    "--engine", "engines", metavar="ID", multiple=True, help="Run only this engine. May be repeated."
)
@click.option(
    "--questions",
    "most",
    metavar="N",
    type=click.IntRange(min=4),
    default=80,
    show_default=True,
    help="Ask at most N questions.",
)
@json_option()
@shared_options
def bench(
    context: click.Context, labelled: Path | None, engines: tuple[str, ...], most: int, as_json: bool
) -> int:
    """Compare the memory engines on your notes.

    Questions are made from headings, days and exact names in your notes; some have no answer. Engines work on
    copies in a temporary folder: your notes and your index are not touched.
    """
    from nacre.cli.signals import run_until_signal
    from nacre.extensions.memory_bench.questions import SetInvalid

    invocation = begin(context)
    invocation.warn(*invocation.config.notices)
    try:
        return run_until_signal(_run_bench(invocation, labelled, engines, most, as_json))
    except SetInvalid as error:
        invocation.warn(f"{labelled} cannot be used. {error}", tone="error")
        return 1


async def _run_bench(
    invocation: Invocation, labelled: Path | None, engines: Sequence[str], most: int, as_json: bool
) -> int:
    from nacre.extensions.memory_bench.engines import installed_engines

    notes, questions = await _load(invocation, labelled, most)
    if notes.problem:
        invocation.warn(notes.problem, tone="error")
        return 1
    if not any(question.answers for question in questions):
        invocation.warn(
            "No questions can be made: the notes contain no headings, days or names.", tone="error"
        )
        return 1
    makes = installed_engines(invocation.config)
    unknown = [name for name in engines if name != GREP and name not in makes]
    if unknown:
        known = ", ".join((*makes, GREP))
        invocation.warn(f"There is no engine {unknown[0]!r}. Available engines: {known}.", tone="error")
        return 1
    rows = []
    for name in [each for each in (*makes, GREP) if not engines or each in engines]:
        result = await _run(invocation, name, notes, questions)
        rows.append(result)
        if not as_json:
            invocation.say(*([_head(questions)] if len(rows) == 1 else []), _row(result))
    return print_json(_json(rows, questions, notes)) if as_json else 0


async def _load(invocation: Invocation, labelled: Path | None, most: int) -> tuple[Notes, Sequence[Question]]:
    from nacre.extensions.memory_bench.questions import labelled_questions, made_questions
    from nacre.runtime.settings.disk.agent_folders import StorageChoice
    from nacre.runtime.storage.storage import storage_of

    config = invocation.config
    if labelled is None:
        notes = await _notes(storage_of(config).workspace())
        return notes, made_questions(notes.lines, most=most)
    folders = replace(config.folders, workspace=labelled.parent, storage=StorageChoice())
    folder_of_set = storage_of(replace(config, folders=folders)).workspace()
    text = (await folder_of_set.read(labelled.name, max_bytes=64 << 20)).data.decode("utf-8", "replace")
    return await _notes(folder_of_set), list(labelled_questions(text))


async def _notes(workspace: Workspace) -> Notes:
    from nacre.extensions.memory_bench.engines import Notes
    from nacre.memory.contracts.notes import NoteBytes
    from nacre.memory.files.note_files import NoteFiles

    found = NoteFiles(workspace)
    listing = await found.listing()
    names = [note.name for note in listing.notes]
    read = await found.read(names)
    files = {name: note.data for name in names if isinstance(note := read[name], NoteBytes)}
    lines = {name: data.decode("utf-8", "replace").split("\n") for name, data in files.items()}
    problem = "; ".join(skipped.reason for skipped in listing.skipped) if "" in listing.unreadable else ""
    return Notes(files=files, lines=lines, problem=problem)


async def _run(
    invocation: Invocation, name: str, notes: Notes, questions: Sequence[Question]
) -> EngineResult:
    from tempfile import TemporaryDirectory

    from nacre.extensions.memory_bench.engines import installed_engines, run_engine
    from nacre.runtime.contracts.clock import owner_clock
    from nacre.runtime.recall.open_memory import embedder_of

    if name == GREP:
        return _grep(notes, questions)
    config = invocation.config
    now = owner_clock(config.settings.agent.user_timezone)
    embedder = embedder_of(config, now)
    try:
        with TemporaryDirectory(prefix="nacre-bench-", ignore_cleanup_errors=True) as folder:
            return await run_engine(
                name,
                installed_engines(config)[name],
                notes,
                questions,
                config=config,
                embedder=embedder,
                now=now,
                folder=Path(folder),
            )
    finally:
        if embedder is not None:
            await embedder.close()


def _grep(notes: Notes, questions: Sequence[Question]) -> EngineResult:
    from nacre.extensions.memory_bench.engines import MOST_FOUND, EngineResult, Grep
    from nacre.extensions.memory_bench.scoring import answered

    started = time.perf_counter()
    grep = Grep(notes.lines)
    index_seconds, answers = time.perf_counter() - started, []
    for question in questions:
        started = time.perf_counter()
        found = grep.ask(question.text, most=MOST_FOUND)
        answers.append(answered(question, found, notes.lines, (time.perf_counter() - started) * 1000))
    return EngineResult(engine=GREP, answers=tuple(answers), index_seconds=index_seconds)


def _head(questions: Sequence[Question]) -> str:
    unanswerable = sum(not question.answers for question in questions)
    asked = f"{len(questions) - unanswerable} questions with an answer, {unanswerable} without one"
    titles = ("recall@1", "recall@6", "abstained", "p50 ms", "p95 ms", "index s", "size MB")
    return f"{asked}\n{'ENGINE':<16}" + "".join(f"{title:>11}" for title in titles)


def _row(result: EngineResult) -> str:
    from nacre.extensions.memory_bench.scoring import numbers

    if not result.answers:
        return f"{result.engine:<16}  left out: {result.problem}"
    found = numbers(result.answers)
    shares = (found["recallAt1"], found["recallAt6"], found["abstention"])
    times = (found["p50Ms"], found["p95Ms"])
    cells = [
        *("–" if share is None else f"{share:.3f}" for share in shares),
        *("–" if each is None else f"{each:.1f}" for each in times),
        f"{result.index_seconds:.1f}",
        f"{result.size_bytes / 1_000_000:.1f}",
    ]
    row = f"{result.engine:<16}" + "".join(f"{cell:>11}" for cell in cells)
    return f"{row}\n  {result.problem}" if result.problem else row


def _json(rows: Sequence[EngineResult], questions: Sequence[Question], notes: Notes) -> Mapping[str, Any]:
    from nacre.extensions.memory_bench.scoring import by_kind, numbers

    return {
        "notes": len(notes.files),
        "questions": len(questions),
        "unanswerable": sum(not question.answers for question in questions),
        "engines": [
            {
                "engine": result.engine,
                **numbers(result.answers),
                "indexSeconds": result.index_seconds,
                "sizeBytes": result.size_bytes,
                "problem": result.problem or None,
                "byKind": by_kind(result.answers),
            }
            for result in rows
        ],
    }
