"""The command `nacre memory bench`: asks every installed memory engine, and grep, the same questions."""

from __future__ import annotations

import json
import re
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nacre.cli.invocation import Invocation, begin, json_option, shared_options
from nacre.cli.screen.json_text import print_json
from nacre.extensions.memory_bench.scoring import Place, Question
from nacre.memory.text.chunker import day_in, day_in_path
from nacre.memory.text.markdown_blocks import HEADING

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


_WORD = re.compile(r"[^\W_][\w-]*[^\W_]")
_LEAST_NAME_CHARS = 4


class SetInvalid(ValueError):
    """A line of a labelled set is not valid; the message is a sentence."""


def labelled_questions(text: str) -> Iterator[Question]:
    """Yields the questions of a labelled set.

    Raises:
        SetInvalid: a line is not a question.
    """
    for number, line in enumerate(text.splitlines(), start=1):
        if line.strip():
            try:
                yield _question(json.loads(line))
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                raise SetInvalid(
                    f"Line {number} is not a question: {type(error).__name__}: {error}. It needs query, "
                    "category and relevant: a list of path, startLine and endLine."
                ) from error


def _question(value: dict[str, Any]) -> Question:
    kind = str(value.get("category", "question"))
    relevant = () if kind == "adversarial" else value["relevant"]
    return Question(
        text=str(value["query"]),
        kind=kind,
        answers=tuple(
            Place(path=str(at["path"]), start_line=int(at["startLine"]), end_line=int(at["endLine"]))
            for at in relevant
        ),
        day=date.fromisoformat(value["date"]) if value.get("date") else None,
    )


def made_questions(notes: Mapping[str, Sequence[str]], *, most: int) -> list[Question]:
    """Up to `most` questions about the lines of these notes, spread over all of them."""
    names = list(_names(notes))
    known_words = {
        word.casefold() for lines in notes.values() for line in lines for word in _WORD.findall(line)
    }
    kinds = (list(_headings(notes)), list(_days(notes)), names, list(_unknown(names, known_words)))
    return [question for kind in kinds for question in _spread(kind, most // len(kinds))]


def _headings(notes: Mapping[str, Sequence[str]]) -> Iterator[Question]:
    """Yields unique headings of at least two words, with the lines below them as the answer."""
    found = [section for path, lines in notes.items() for section in _sections(path, lines)]
    counts = Counter(title.casefold() for title, _ in found)
    for title, place in found:
        if counts[title.casefold()] == 1 and len(_WORD.findall(title)) > 1 and day_in(title) is None:
            yield Question(text=title, kind="heading", answers=(place,))


def _sections(path: str, lines: Sequence[str]) -> Iterator[tuple[str, Place]]:
    marks = [(number, found) for number, line in enumerate(lines, 1) if (found := HEADING.match(line))]
    for at, (number, found) in enumerate(marks):
        last = marks[at + 1][0] - 1 if at + 1 < len(marks) else len(lines)
        if any(line.strip() for line in lines[number:last]):
            title = lines[number - 1][found.end() :].strip(" \t\r#")
            yield title, Place(path=path, start_line=number, end_line=last)


def _days(notes: Mapping[str, Sequence[str]]) -> Iterator[Question]:
    days = {path: day for path in notes if (day := day_in_path(path))}
    counts = Counter(days.values())
    for path, day in days.items():
        if counts[day] == 1 and any(line.strip() for line in notes[path]):
            place = Place(path=path, start_line=1, end_line=len(notes[path]))
            yield Question(text=f"What was noted on {day.isoformat()}?", kind="day", answers=(place,))


def _names(notes: Mapping[str, Sequence[str]]) -> Iterator[Question]:
    """Yields names, numbers and IDs that occur in exactly one line, and not as its first word."""
    places: dict[str, list[tuple[str, Place]]] = {}
    for path, lines in notes.items():
        for number, line in enumerate(lines, 1):
            place = Place(path=path, start_line=number, end_line=number)
            words = list(_WORD.finditer(line))
            for at, word in enumerate(words):
                is_name = at > 0 and _looks_like_a_name(word[0]) and not HEADING.match(line)
                places.setdefault(word[0].casefold(), []).append((word[0] if is_name else "", place))
    for found in places.values():
        name, place = found[0]
        if len(found) == 1 and name:
            yield Question(text=name, kind="name", answers=(place,))


def _looks_like_a_name(word: str) -> bool:
    if len(word) < _LEAST_NAME_CHARS:
        return False
    return word[0].isupper() or (any(map(str.isdigit, word)) and any(map(str.isalpha, word)))


def _unknown(names: Sequence[Question], known_words: set[str]) -> Iterator[Question]:
    for name in names:
        backwards = name.text[::-1].casefold()
        if backwards not in known_words:
            yield Question(text=backwards.capitalize(), kind="nothing", answers=())


def _spread(questions: Sequence[Question], most: int) -> list[Question]:
    count = min(most, len(questions))
    return [questions[at * len(questions) // count] for at in range(count)]
