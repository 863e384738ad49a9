"""The command `nacre memory bench`: asks every installed memory engine, and grep, the same questions.

Each engine runs in a state folder of its own, which is deleted afterwards. An engine with `memory_search`
reads copies of the notes as files. Another one receives each line of the notes, through `memory_store` if it
has that tool and otherwise as text that it may capture; it is asked through `memory_recall`, or by what it
recalls before a turn.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date, datetime, time as time_of_day
from functools import partial
from pathlib import Path
from typing import Any

import click

from nacre.cli.invocation import Invocation, begin, json_option, run_reporting, shared_options
from nacre.cli.screen.json_text import print_json
from nacre.closing import using
from nacre.extensions.memory_bench.scoring import Answer, Found, Place, Question, answered, by_kind, numbers
from nacre.extensions.qmd.program import is_installed
from nacre.memory.contracts.embedder import Embedder
from nacre.memory.contracts.notes import NoteBytes
from nacre.memory.contracts.settings import StoreSettings, index_path
from nacre.memory.contracts.workspace import Workspace
from nacre.memory.files.note_files import NoteFiles
from nacre.memory.text.chunker import day_in, day_in_path
from nacre.memory.text.markdown_blocks import HEADING
from nacre.record import Record
from nacre.runtime.contracts.clock import Clock
from nacre.runtime.contracts.errors import ConfigError
from nacre.runtime.contracts.policy import ChatPolicy
from nacre.runtime.extensions.choice import chosen
from nacre.runtime.extensions.installed.discovery import installed_extensions
from nacre.runtime.extensions.loading import load_engine
from nacre.runtime.recall.memory_core import MemoryCore, memory_core
from nacre.runtime.recall.memory_plugin import MemoryHome, MemoryPlugin
from nacre.runtime.recall.open_memory import embedder_of
from nacre.runtime.settings.config import Config
from nacre.runtime.settings.disk.agent_folders import AgentFolders, StorageChoice
from nacre.runtime.settings.sections.memory import MemorySettings, QmdScope, QmdSessions
from nacre.runtime.settings.sections.plugins import MEMORY_CORE, PluginSlots, PluginsSettings
from nacre.runtime.settings.sections.storage import StorageSettings
from nacre.runtime.storage.storage import storage_of
from nacre.runtime.tools.function import FunctionTool, ToolChat
from nacre.runtime.tools.toolbox import CallScope, Tool, ToolFailed

MOST_FOUND = 6
MakeEngine = Callable[[Config, Clock, Embedder | None], MemoryPlugin]
"""Makes an engine without starting it, for the settings of its folder, with the agent's embedder."""
QMD = "qmd"
_SHORT = 3


class Notes(Record):
    """The input of all engines: the bytes and the lines of each note, by its name in the workspace.

    `problem` says why the workspace could not be read.
    """

    files: Mapping[str, bytes]
    lines: Mapping[str, Sequence[str]]
    problem: str = ""


class EngineResult(Record):
    """The result of one engine; with a `problem` there may be no answers."""

    engine: str
    answers: tuple[Answer, ...] = ()
    index_seconds: float = 0.0
    size_bytes: int = 0
    problem: str = ""


class QuestionClock:
    """A clock for engines: noon of the day of the current question, or the real time if it has no day."""

    def __init__(self, now: Clock) -> None:
        self._now = now
        self.question: Question | None = None

    def __call__(self) -> datetime:
        now = self._now()
        day = self.question.day if self.question is not None else None
        return datetime.combine(day, time_of_day(12), tzinfo=now.tzinfo) if day else now


async def run_engine(
    name: str,
    make: MakeEngine,
    notes: Notes,
    questions: Sequence[Question],
    *,
    config: Config,
    embedder: Embedder | None,
    now: Clock,
    folder: Path,
) -> EngineResult:
    """Starts an engine in `folder`, gives it the notes, asks every question and closes it.

    An exception of the engine becomes the `problem` of its result, so that the other engines still run.
    """
    clock = QuestionClock(now)
    isolated = isolated_config(config, folder)
    folders = {name.rpartition("/")[0] for name in notes.files} - {""}
    workspace = storage_of(isolated).workspace()
    await workspace.make(notes.files, folders=sorted(folders))
    home = MemoryHome(
        agent_id=isolated.agent_id,
        workspace=isolated.workspace,
        state_dir=isolated.state_dir,
        engine_id=name,
        now=clock,
        embedder=lambda _changes: embedder,
        user_folder=folder,
    )
    try:
        async with using(make(isolated, clock, embedder)) as engine:
            await engine.start(home)
            running = _RunningEngine(name, engine, isolated.workspace)
            started = time.perf_counter()
            await running.fill(notes)
            await engine.sync()
            index_seconds = time.perf_counter() - started
            answers = [await _answer(running, question, notes, clock) for question in questions]
            problem = engine.problem
    except Exception as error:  # noqa: BLE001 - an engine is third-party code; the others still run
        return EngineResult(engine=name, problem=f"{type(error).__name__}: {error}")
    size_bytes = await asyncio.to_thread(_size_bytes, folder, isolated.workspace)
    return EngineResult(
        engine=name,
        answers=tuple(answers),
        index_seconds=index_seconds,
        size_bytes=size_bytes,
        problem=problem,
    )


def isolated_config(config: Config, folder: Path) -> Config:
    """The agent's configuration with every path moved into `folder` and nothing outside it read."""
    agent = config.agent_id
    agents = config.settings.agents
    search = agents.defaults.memory_search.model_copy(
        update={"extra_paths": (), "sources": ("memory",), "store": StoreSettings()}
    )
    defaults = agents.defaults.model_copy(update={"memory_search": search})
    settings = config.settings.model_copy(
        update={
            "agents": agents.model_copy(update={"defaults": defaults}),
            "memory": _isolated_memory(config.settings.memory),
            "storage": StorageSettings(),
        }
    )
    # without a cache of its own, qmd would use the models that the owner's qmd has loaded
    environment = {**config.environment, "XDG_CACHE_HOME": str(folder / "cache")}
    folders = AgentFolders(
        agent_id=agent,
        workspace=folder / "workspace",
        agent_dir=folder / "agents" / agent,
        sessions_file=folder / "agents" / agent / "sessions" / "sessions.json",
        index_file=index_path(search, state_dir=folder, agent_id=agent, home=folder),
    )
    return replace(config, state_dir=folder, folders=folders, settings=settings, environment=environment)


def _isolated_memory(memory: MemorySettings) -> MemorySettings:
    """Settings for qmd: search by words, over the notes only, updated on request."""
    qmd = memory.qmd.model_copy(
        update={
            "search_mode": "search",
            "include_default_memory": True,
            "paths": (),
            "sessions": QmdSessions(),
            "scope": QmdScope(default="allow"),
            "update": memory.qmd.update.model_copy(
                update={"on_boot": False, "interval": "0", "embed_interval": "0"}
            ),
        }
    )
    return memory.model_copy(update={"qmd": qmd})


class _RunningEngine:
    """A started engine, filled and asked through its tools if it has them."""

    def __init__(self, name: str, engine: MemoryPlugin, workspace: Path) -> None:
        self._name = name
        self._engine = engine
        self._chat = ToolChat(
            session_key="agent:main:main",
            session_id="00000000-0000-4000-8000-000000000000",
            channel="terminal",
            policy=ChatPolicy(chat_kind="direct", is_owner=True, session_key_is_private=True),
            workspace=workspace,
        )
        tools = (
            tool.bound(self._chat) if isinstance(tool, FunctionTool) else tool
            for tool in engine.tools(self._chat)
        )
        self._tools: Mapping[str, Tool] = {tool.name: tool for tool in tools}

    async def fill(self, notes: Notes) -> None:
        """Passes the lines of the notes to the engine, unless the engine reads the files."""
        if "memory_search" in self._tools:
            return
        for line in (line.strip().removeprefix("- ") for lines in notes.lines.values() for line in lines):
            if not line or line.startswith("#"):
                continue
            if "memory_store" in self._tools:
                try:
                    await self._call("memory_store", text=line)
                except ToolFailed:  # it is too long, or looks like an instruction
                    continue
            else:
                await self._engine.capture(self._chat, line, "")

    async def ask(self, question: str) -> list[Found]:
        """Up to `MOST_FOUND` results of the engine, the best first."""
        if "memory_search" in self._tools:
            found = await self._call("memory_search", query=question, maxResults=MOST_FOUND)
            if found.get("disabled"):
                raise RuntimeError(found.get("error", "the search is disabled"))
            fallback = found.get("fallback", {})
            if fallback.get("from") == self._name:
                raise RuntimeError(f"another engine answered instead. {fallback['reason']}")
            return [_found(hit) for hit in found["results"]]
        if "memory_recall" in self._tools:
            found = await self._call("memory_recall", query=question, limit=MOST_FOUND)
            return [Found(text=str(memory["text"])) for memory in found["memories"]]
        recalled = await self._engine.recall(self._chat, question)
        return [Found(text=line) for line in recalled.splitlines() if line.strip()][:MOST_FOUND]

    async def _call(self, name: str, **arguments: Any) -> dict[str, Any]:
        tool = self._tools[name]
        scope = CallScope(call_id=name, progress=lambda _line: None, cancelled=threading.Event())
        output = await tool.run(tool.arguments.model_validate(arguments), scope)
        result: dict[str, Any] = json.loads(output.text)
        return result


async def _answer(running: _RunningEngine, question: Question, notes: Notes, clock: QuestionClock) -> Answer:
    clock.question = question
    started = time.perf_counter()
    found = await running.ask(question.text)
    return answered(question, found, notes.lines, (time.perf_counter() - started) * 1000)


def _found(hit: Mapping[str, Any]) -> Found:
    place = Place(path=hit["path"], start_line=hit["startLine"], end_line=hit["endLine"])
    return Found(text=hit["snippet"], place=place)


def _size_bytes(folder: Path, workspace: Path) -> int:
    return sum(
        (Path(place) / name).stat().st_size
        for place, _, names in os.walk(folder)
        if not Path(place).is_relative_to(workspace)
        for name in names
    )


def installed_engines(config: Config) -> Mapping[str, MakeEngine]:
    """A factory for each available engine, by its ID. Runs no code of extensions."""
    found: dict[str, MakeEngine] = {MEMORY_CORE: _core}
    command = config.settings.memory.qmd.command
    if is_installed(command, environment=config.environment, user_folder=config.home):
        found[QMD] = _qmd
    for item in installed_extensions():
        kind = item.manifest.kind if item.manifest else None
        if kind == "memory" and chosen(item.id, kind, _with_engine(item.id, config.settings.plugins)).is_on:
            found[item.id] = partial(_extension, item.id)
    return found


def _core(config: Config, now: Clock, embedder: Embedder | None) -> MemoryCore:
    core = memory_core(config, now, watch=False, lent=lambda _key, make: embedder or make())
    if core is None:
        raise ConfigError("Memory search is disabled by agents.defaults.memorySearch.enabled.")
    return core


def _qmd(config: Config, now: Clock, embedder: Embedder | None) -> MemoryPlugin:
    from nacre.extensions.qmd.qmd_memory import QmdMemory

    return QmdMemory(config, _core(config, now, embedder), embedding=asyncio.Lock(), now=now)


def _extension(name: str, config: Config, _now: Clock, _embedder: Embedder | None) -> MemoryPlugin:
    return load_engine(name, _with_engine(name, config.settings.plugins))


def _with_engine(name: str, plugins: PluginsSettings) -> PluginsSettings:
    """Settings with this engine as the memory and no other extension enabled by its entry.

    Its own settings are left out, because they may name the folder that holds the owner's memories.
    """
    return plugins.model_copy(
        update={
            "slots": PluginSlots(memory=name),
            "entries": {
                each: entry.model_copy(update={"config": {}})
                for each, entry in plugins.entries.items()
                if each == name
            },
        }
    )


class Grep:
    """Searches all lines for the longer words of a question, as a careful person would with grep."""

    def __init__(self, notes: Mapping[str, Sequence[str]]) -> None:
        self._lines = [
            (path, number, line, line.lower())
            for path, lines in sorted(notes.items())
            for number, line in enumerate(lines, 1)
        ]

    def ask(self, question: str, *, most: int) -> list[Found]:
        """The lines that contain the most words, the best first."""
        words = {
            word
            for word in re.findall(r"\w+", question.lower())
            if len(word) > _SHORT or not word.isascii() or word.isdigit()
        }
        scored = (
            (sum(word in lower_line for word in words), path, number, line)
            for path, number, line, lower_line in self._lines
        )
        best = sorted((each for each in scored if each[0]), key=lambda each: -each[0])[:most]
        return [
            Found(text=line, place=Place(path=path, start_line=number, end_line=number))
            for _, path, number, line in best
        ]


GREP = "grep"


@click.command("bench")
@click.option(
    "--set",
    "labeled",
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False, resolve_path=True, path_type=Path),
    help="Use the labeled questions in FILE, one JSON object a line, and the notes beside it.",
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
    context: click.Context, labeled: Path | None, engines: tuple[str, ...], most: int, as_json: bool
) -> int:
    """Compare the memory engines on your notes.

    Questions are made from headings, days and exact names in your notes; some have no answer. Engines work on
    copies in a temporary folder: your notes and your index are not touched.
    """
    invocation = begin(context)
    invocation.warn(*invocation.config.notices)
    work = _run_bench(invocation, labeled, engines, most, as_json)
    return run_reporting(invocation, work, SetInvalid, prefix=f"{labeled} cannot be used. ")


async def _run_bench(
    invocation: Invocation, labeled: Path | None, engines: Sequence[str], most: int, as_json: bool
) -> int:
    notes, questions = await _load(invocation, labeled, most)
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


async def _load(invocation: Invocation, labeled: Path | None, most: int) -> tuple[Notes, Sequence[Question]]:
    config = invocation.config
    if labeled is None:
        notes = await _notes(storage_of(config).workspace())
        return notes, made_questions(notes.lines, most=most)
    folders = replace(config.folders, workspace=labeled.parent, storage=StorageChoice())
    folder_of_set = storage_of(replace(config, folders=folders)).workspace()
    text = (await folder_of_set.read(labeled.name, max_bytes=64 << 20)).data.decode("utf-8", "replace")
    return await _notes(folder_of_set), list(labeled_questions(text))


async def _notes(workspace: Workspace) -> Notes:
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

    if name == GREP:
        return _grep(notes, questions)
    config = invocation.config
    now = config.clock
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
    """A line of a labeled set is not valid; the message is a sentence."""


def labeled_questions(text: str) -> Iterator[Question]:
    """Yields the questions of a labeled set. Raises `SetInvalid` if a line is not a question."""
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
