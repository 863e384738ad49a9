"""`memory_search` and `memory_get`: the model's two ways into the notes. Results are JSON text.

Shapes: the memory seed's (`results[] {path, startLine, endLine, score, snippet, source}`, `{path,
text}`). A search never fails a turn: what is wrong comes back as `disabled` with the reason.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from pydantic import BeforeValidator, Field

from nacre.memory.contracts.errors import DayUnknown, MemoryIndexError
from nacre.memory.contracts.notes import CHATS_FOLDER
from nacre.memory.contracts.records import SearchHit, SearchReport
from nacre.memory.files.sources.of_hits import sources_of_hits
from nacre.memory.files.sources.source import PRIVATE
from nacre.memory.files.sources.sources import Sources
from nacre.memory.files.sources.telling import SourcedLines
from nacre.runtime.tools.toolbox import Tool, ToolArguments, ToolFailed, ToolOutput

if TYPE_CHECKING:
    from nacre.memory.engine import MemoryEngine
    from nacre.runtime.recall.unindexed import UnindexedNotes

MEMORY_TOOL_NAMES = ("memory_search", "memory_get")


def _number_or_none(value: object) -> object:
    """Models write numbers as text, and sometimes as words; what is no number is ignored."""
    if isinstance(value, str):
        try:
            return float(value)
        except ValueError:
            return None
    return value


Whole = Annotated[int | None, BeforeValidator(lambda value: _floored(_number_or_none(value)))]
Score = Annotated[float | None, BeforeValidator(_number_or_none)]


def _floored(value: object) -> object:
    return int(value) if isinstance(value, float) and value == value and abs(value) < 2**53 else value


class SearchArguments(ToolArguments):
    """Arguments of `memory_search`."""

    query: str = Field(description="What to look for: words, a name, an id, a question.")
    queries: list[str] = Field(
        default=[],
        description="The same question in other words or in the languages of the notes, up to 4.",
    )
    max_results: Whole = Field(default=None, alias="maxResults", description="Most results, 6 unless told.")
    min_score: Score = Field(default=None, alias="minScore", description="Least score, 0 to 1.")
    after: str | None = Field(
        default=None, description="Only notes of this day or later: YYYY-MM-DD, or words such as last March."
    )
    before: str | None = Field(default=None, description="Only notes of this day or earlier.")
    as_of: str | None = Field(
        default=None,
        alias="asOf",
        description="Ask as on this day, without later notes.",
    )
    source: Literal["memory", "sessions"] | None = Field(default=None, description="Only this source.")


class GetArguments(ToolArguments):
    """Arguments of `memory_get`."""

    path: str = Field(description="Path from a search result, such as memory/2026-01-20.md.")
    from_line: Whole = Field(default=None, alias="from", description="First line, from 1.")
    lines: Whole = Field(default=None, description="How many lines.")


Notes: TypeAlias = "MemoryEngine | UnindexedNotes"
"""What the tools ask: memory, or what is left without its index. Both raise `MemoryIndexError`."""


def memory_tools(
    notes: Notes,
    sources: Sources,
    *,
    cites: bool,
    below: str = "",
    languages: Sequence[str] = (),
    with_conversations: bool = False,
) -> tuple[Tool, ...]:
    """The two tools over the notes; `cites` adds a `Source:` line to each snippet.

    `sources` says where their lines come from.
    With `below`, a folder of the workspace, they reach what lies there and nothing else. `languages` are
    those of the notes, by their English names; the model is told them, and whether past conversations are
    searched too.
    """
    searched = (
        "MEMORY.md, memory/*.md and past conversations" if with_conversations else "MEMORY.md and memory/*.md"
    )
    return (
        Tool(
            name="memory_search",
            description=(
                f"Search what was noted of this chat, in {below}/. Use it before answering about what was "
                "said or agreed here earlier."
                if below
                else f"Search {searched}. Use it before answering about past work, decisions, "
                f"dates, people, preferences or todos.{_written_in(languages)}"
            ),
            arguments=SearchArguments,
            run=lambda arguments, _scope: _search(notes, sources, arguments, cites=cites, below=below),
        ),
        Tool(
            name="memory_get",
            description="Read lines of a memory file that a search found. Missing files give empty text.",
            arguments=GetArguments,
            run=lambda arguments, _scope: _get(notes, arguments, below=below),
        ),
    )


def _written_in(languages: Sequence[str]) -> str:
    """What the model needs to know to ask in a language that is found; nothing where that is unknown."""
    if not languages:
        return ""
    *others, last = languages
    named = f"{', '.join(others)} and {last}" if others else last
    return f" The notes are in {named}: put a question in another language in theirs, too, into `queries`."


async def _search(
    notes: Notes, sources: Sources, arguments: SearchArguments, *, cites: bool, below: str
) -> ToolOutput:
    if not arguments.query.strip():
        raise ToolFailed("query required: say in a few words what to look for.")
    try:
        report = await notes.search(
            arguments.query,
            also=arguments.queries,
            max_results=arguments.max_results,
            min_score=arguments.min_score,
            after=arguments.after or None,
            before=arguments.before or None,
            as_of=arguments.as_of or None,
            sources=("memory",) if below else None if arguments.source is None else (arguments.source,),
            below=below,
        )
    except DayUnknown as error:
        raise ToolFailed(str(error)) from error
    except MemoryIndexError as error:
        return _disabled({"results": []}, error)
    found = len(report.hits)
    lines = await sources_of_hits(notes, sources, report.hits, listeners=below or PRIVATE)
    return ToolOutput(
        text=json.dumps(search_result(report, lines, cites=cites), ensure_ascii=False, indent=1),
        summary=f"{found} {'passage' if found == 1 else 'passages'} for {arguments.query.strip()[:60]!r}",
    )


async def _get(notes: Notes, arguments: GetArguments, *, below: str) -> ToolOutput:
    if not arguments.path.strip():
        raise ToolFailed("path required: name a file from a search result.")
    try:
        excerpt = await notes.read(
            arguments.path, from_line=arguments.from_line, lines=arguments.lines, below=below
        )
    except MemoryIndexError as error:
        return _disabled({"path": arguments.path, "text": ""}, error)
    result: dict[str, Any] = {"path": excerpt.path, "text": excerpt.text}
    if excerpt.text:
        result |= {
            "startLine": excerpt.start_line,
            "endLine": excerpt.end_line,
            "totalLines": excerpt.total_lines,
        }
    if excerpt.truncated:
        result["truncated"] = True
    return ToolOutput(
        text=json.dumps(result, ensure_ascii=False, indent=1),
        summary=f"{excerpt.path}, nothing there yet" if excerpt.missing else excerpt.path,
    )


def search_result(
    report: SearchReport, lines: Mapping[str, Sequence[SourcedLines]], *, cites: bool
) -> dict[str, Any]:
    """A report in the shape that the model gets; `lines` have the sources of each hit by its citation."""
    result: dict[str, Any] = {
        "results": [_hit(hit, lines.get(hit.citation, ()), cites=cites) for hit in report.hits],
        "provider": report.provider,
        "model": report.model or None,
        "mode": report.mode,
        "citations": "on" if cites else "off",
    }
    if report.fallback is not None:
        result["fallback"] = {"from": report.fallback.provider, "reason": report.fallback.reason}
    if report.degraded:
        result["degraded"] = report.degraded
    if report.absent:
        result["absent"] = report.absent_sentence
    if report.limited:
        result["limited"] = report.limited
    if report.stale:
        result["stale"] = True
    return result


def _hit(hit: SearchHit, lines: Sequence[SourcedLines], *, cites: bool) -> dict[str, Any]:
    """The seed's shape: path, lines from 1 and inclusive, score 0…1, snippet, source.

    `also` cites further places with the same words; `superseded` has lines of the hit that are not so any
    more, with the later line that says so. What stands among the notes of a chat says whose words it is;
    `comesFrom` says it of each line whose source is known.
    """
    superseded = [{"line": old.line, "by": old.by} for old in hit.superseded]
    others = {"saidBy": f"others, in the chat of {hit.path.rpartition('/')[0]}"}
    return {
        "path": hit.path,
        "startLine": hit.start_line,
        "endLine": hit.end_line,
        "score": round(hit.score, 4),
        "snippet": f"{hit.snippet.strip()}\n\nSource: {hit.citation}" if cites else hit.snippet,
        "source": hit.source,
        **({"citation": hit.citation} if cites else {}),
        **({"also": list(hit.also)} if hit.also else {}),
        **({"superseded": superseded} if superseded else {}),
        **({"comesFrom": [each.told() for each in lines]} if lines else {}),
        **(others if hit.path.startswith(f"{CHATS_FOLDER}/") else {}),
    }


def _disabled(empty: Mapping[str, Any], error: MemoryIndexError) -> ToolOutput:
    text = json.dumps({**empty, "disabled": True, "error": str(error)}, ensure_ascii=False)
    return ToolOutput(text=text, summary=str(error)[:120])
