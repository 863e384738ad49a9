"""The output of `nacre memory …`, for people and for scripts.

The JSON has the seeds' names (`dbPath`, `sourceCounts`, `startLine` …) and additional fields.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from nacre.cli.screen.json_text import camel_json, moment
from nacre.memory.contracts.records import (
    Fallback,
    HitExplanation,
    MemoryStatus,
    SearchHit,
    SearchReport,
    SyncReport,
)
from nacre.runtime.commands.wording import counted, shortened

if TYPE_CHECKING:
    from datetime import date

    from nacre.memory.files.sources.source import SourcedLines
    from nacre.runtime.agent.insight.memory_overview import MemoryOverview

_SHOWN_ISSUES = 20
_LEVEL_CELLS = 20
BUILT_IN: Mapping[str, str] = {"backend": "builtin"}

LinesOfHits: TypeAlias = "Mapping[str, Sequence[SourcedLines]]"
"""The sources of each hit's lines, by its citation."""


def search_lines(report: SearchReport, sources: LinesOfHits) -> list[str]:
    """A heading, an explanation of the rank, the snippet and a blank line for each hit."""
    lines: list[str] = []
    for hit in report.hits:
        lines.append(f"{hit.score:.3f} {hit.path}:{hit.start_line}-{hit.end_line}")
        if hit.explain is not None:
            lines.append(f"      {_explanation(hit.explain)}")
        lines.append(hit.snippet.strip())
        if hit.also:
            lines.append(f"      also in {', '.join(hit.also)}")
        lines += [f"      line {old.line} is out of date: see {old.by}" for old in hit.superseded]
        lines += [f"      {each.description()}" for each in sources.get(hit.citation, ())]
        lines.append("")
    return lines


def search_problems(report: SearchReport) -> list[str]:
    """Why a search may be incomplete, one reason a line."""
    lines = [sentence for sentence in (report.degraded, report.limited, report.absent_sentence) if sentence]
    if report.fallback is not None and report.fallback.reason not in report.degraded:
        lines.append(report.fallback.sentence)
    if report.stale:
        lines.append("The latest changes of the notes are not indexed yet; `nacre memory index` says why.")
    return lines


def search_json(report: SearchReport, sources: LinesOfHits) -> dict[str, Any]:
    hits = [_hit_json(hit, sources.get(hit.citation, ())) for hit in report.hits]
    result = {"results": hits, **camel_json(report)}
    del result["hits"]
    blank = {name: result[name] or None for name in ("model", "degraded", "rerankedBy")}
    rest = {"fallback": _fallback_json(report.fallback), "elapsedMs": round(report.elapsed_ms, 2)}
    return result | blank | rest


def index_lines(report: SyncReport, *, agent_id: str) -> list[str]:
    rebuilt = f", rebuilt: {report.rebuilt}" if report.rebuilt else ""
    made = f" · {counted(report.embedded, 'vector')} made, {report.reused_vectors} kept"
    vectors = made if report.embedded else ""
    return [
        f"Memory index updated ({agent_id}){rebuilt}.",
        f"{counted(report.indexed_files, 'file')} read, {report.removed_files} removed, "
        f"{report.unchanged_files} unchanged · {counted(report.indexed_chunks, 'chunk')} written{vectors} "
        f"· {report.elapsed_seconds:.1f} s",
    ]


def index_problems(report: SyncReport) -> list[str]:
    """What a sync could not do, one problem a line."""
    lines = [report.problem] if report.problem else []
    lines += [f"{file.path} could not be indexed: {file.problem}" for file in report.failed[:_SHOWN_ISSUES]]
    if report.fallback is not None and report.fallback.reason not in report.problem:
        lines.append(report.fallback.sentence)
    if report.held_texts:
        lines.append(f"A batch job has {report.held_texts} texts; a later pass fetches the vectors.")
    if report.pending_vectors:
        lines.append(f"{report.pending_vectors} texts have no vector yet; only their words are found.")
    return lines


def status_lines(
    status: MemoryStatus,
    short: Callable[[Path], str],
    *,
    agent_id: str,
    backend: Sequence[tuple[str, str]] = (),
) -> list[str]:
    """The status as `Label: value` lines, without empty ones. The rows of a `backend` come first."""
    problem, size = status.embeddings_problem, status.index_bytes
    size_text = f"{size / 1_000:.0f} kB" if size < 1_000_000 else f"{size / 1_000_000:.1f} MB"
    pairs: list[tuple[str, str]] = [
        *backend,
        ("Search", status.mode if status.mode != "none" else "not possible"),
        ("Provider", status.provider),
        ("Model", status.model),
        ("Fallback", _fallback(status)),
        ("Sources", ", ".join(status.sources)),
        ("Extra paths", ", ".join(status.extra_paths)),
        ("Indexed", f"{counted(status.files, 'file')} · {counted(status.chunks, 'chunk')}"),
        *(
            (f"  {item.source}", f"{counted(item.files, 'file')} · {counted(item.chunks, 'chunk')}")
            for item in status.source_counts
        ),
        ("Pending", _pending(status)),
        ("Dirty", "yes" if status.dirty else "no"),
        ("Last sync", moment(status.last_sync_at_seconds) or "never"),
        ("Last sync problem", status.last_sync_problem),
        ("Store", f"{short(Path(status.index_path))} ({size_text})"),
        ("Workspace", short(Path(status.workspace))),
        ("Vector", _vector(status)),
        ("Vector problem", status.vector_problem),
        ("Embeddings", {None: "", "": "ready"}.get(problem, f"unavailable: {problem}")),
        ("Embedding cache", _cache(status)),
        ("Re-ranker", status.reranker),
        ("Re-ranker problem", status.reranker_problem),
        ("Differs", status.identity_problem),
    ]
    lines = [f"Memory Search ({agent_id})"]
    lines += [f"{label + ':':<19}{value}" for label, value in pairs if value]
    issues = [f"{file.path}: {file.problem} ({file.attempts} attempts)" for file in status.failed]
    issues += [f"{path.path}: skipped, {path.reason}" for path in status.skipped]
    issues += [f"{path}: set aside because it was damaged" for path in status.quarantined]
    issues += [f"{place}: the embedder refuses it; only its words are found" for place in status.refused]
    if issues:
        lines += ["Issues:", *(f"  {issue}" for issue in issues[:_SHOWN_ISSUES])]
    if len(issues) > _SHOWN_ISSUES:
        lines.append(f"  … and {len(issues) - _SHOWN_ISSUES} more; --json lists all")
    return lines


def status_json(
    status: MemoryStatus, *, agent_id: str, of_backend: Mapping[str, Any] = BUILT_IN
) -> list[dict[str, Any]]:
    """The status as JSON: a list with one agent. `of_backend` describes what answers first."""
    entry: dict[str, Any] = {"agentId": agent_id, "status": {**_status_json(status), **of_backend}}
    if (problem := status.embeddings_problem) is not None:
        entry["embeddingProbe"] = {"ok": False, "error": problem} if problem else {"ok": True}
    return [entry]


def _status_json(status: MemoryStatus) -> dict[str, Any]:
    return {
        **camel_json(status, "files", "chunks", "dirty", "syncing"),
        "workspaceDir": status.workspace,
        "dbPath": status.index_path,
        "dbSizeBytes": status.index_bytes,
        "provider": status.provider,
        "model": status.model or None,
        "fallback": _fallback_json(status.fallback),
        **camel_json(status, "mode", "sources", "extra_paths", "source_counts"),
        **camel_json(status, "pending_files", "waiting_transcripts", "pending_vectors"),
        "failedFiles": [
            {
                "path": file.path,
                "error": file.problem,
                "attempts": file.attempts,
                "retryAt": moment(file.retry_at_seconds),
            }
            for file in status.failed
        ],
        "skippedPaths": [camel_json(path) for path in status.skipped],
        **camel_json(status, "quarantined", "refused", "identity"),
        "identityProblem": status.identity_problem or None,
        "cache": {
            "enabled": status.cache_enabled,
            "entries": status.cached_vectors,
            "maxEntries": status.cache_max_entries,
        },
        "fts": {"enabled": True, "available": True},
        "vector": {
            "enabled": status.vector_enabled,
            "engine": status.vector_engine,
            "engineLater": status.vector_engine_later or None,
            "dims": status.dimensions,
            "entries": status.vectors,
            "loadError": status.vector_problem or None,
        },
        "rerank": {"model": status.reranker, "error": status.reranker_problem or None}
        if status.reranker
        else None,
        "lastSyncAt": moment(status.last_sync_at_seconds),
        "lastSyncError": status.last_sync_problem or None,
        "watching": status.watching,
    }


def sourced_json(lines: SourcedLines) -> dict[str, Any]:
    from nacre.memory.files.sources.sources import source_json

    return {
        "startLine": lines.start_line,
        "endLine": lines.end_line,
        **source_json(lines.source),
        "isOwnersWord": lines.source.is_owners_word,
    }


def _hit_json(hit: SearchHit, sources: Sequence[SourcedLines]) -> dict[str, Any]:
    result = camel_json(hit) | {"score": round(hit.score, 4)}
    if sources:
        result["comesFrom"] = [sourced_json(each) for each in sources]
    if hit.explain is None:
        del result["explain"]
    for name in ("also", "superseded"):
        if not result[name]:
            del result[name]
    return result


def _explanation(why: HitExplanation) -> str:
    parts = [
        f"words #{why.lexical_rank} ({why.lexical_score:.2f})"
        if why.lexical_rank and why.lexical_score is not None
        else "",
        f"meaning #{why.vector_rank} (cosine {why.cosine:.3f})"
        if why.vector_rank and why.cosine is not None
        else "",
        f"re-ranked ({why.relevance:.3f})" if why.relevance is not None else "",
        f"fused {why.fused:.3f}",
        f"age ×{why.decay_factor:.3f}" if why.decay_factor != 1 else "",
        f"diversity #{why.mmr_rank}" if why.mmr_rank is not None else "",
        f"final {why.final:.3f}",
    ]
    return " · ".join(part for part in parts if part)


def _pending(status: MemoryStatus) -> str:
    waiting = status.waiting_transcripts
    until = "it grows or ends" if waiting == 1 else "they grow or end"
    parts = [
        counted(status.pending_files, "file") if status.pending_files else "",
        counted(status.pending_vectors, "vector") if status.pending_vectors else "",
        f"{counted(waiting, 'conversation')} until {until}" if waiting else "",
        "a sync is running" if status.syncing else "",
    ]
    return ", ".join(part for part in parts if part)


def _vector(status: MemoryStatus) -> str:
    if not status.vector_enabled:
        return "disabled"
    dimensions = f", {status.dimensions} dimensions" if status.dimensions else ""
    later = status.vector_engine_later
    then = f" for a process's first search, then {later}" if later else ""
    return f"{status.vector_engine}{then}; {counted(status.vectors, 'vector')}{dimensions}"


def _fallback(status: MemoryStatus) -> str:
    if status.fallback is None:
        return ""
    left, again = status.fallback, moment(status.fallback.retry_at_seconds)
    when = f" `nacre memory index` tries it again, and a chat after {again}." if again else ""
    return f"for {left.provider} ({left.model}). {left.reason}{when}"


def _fallback_json(fallback: Fallback | None) -> dict[str, Any] | None:
    """The seeds' form: which embedder was replaced, and why."""
    if fallback is None:
        return None
    result = {"from": fallback.provider, "reason": fallback.reason}
    again = moment(fallback.retry_at_seconds)
    return result | {"retryAt": again} if again else result


def _cache(status: MemoryStatus) -> str:
    if not status.cache_enabled:
        return "disabled"
    most = f" of at most {status.cache_max_entries}" if status.cache_max_entries else ""
    entries = "1 entry" if status.cached_vectors == 1 else f"{status.cached_vectors} entries"
    return f"enabled ({entries}{most})"


_SHOWN_ROWS = 6
_SHOWN_CHARS = 120


def overview_lines(overview: MemoryOverview, today: date) -> list[str]:
    """A paragraph each for what is known, new, waiting, contradictory and never recalled.

    A long list ends with the command that shows all of it.
    """
    first, last = overview.first_day, overview.last_day
    days = f", {first} to {last}" if first != last else f", {first}" if first else ""
    known = [
        ("Logs", f"{counted(overview.logs, 'note')}{days}"),
        (
            "Topics",
            ", ".join(f"{each.path} ({counted(each.lines, 'line')})" for each in overview.topics) or "none",
        ),
        ("Facts", counted(overview.facts, "value")),
        *([("Chats", f"{counted(overview.chat_notes, 'note')} of others")] * (overview.chat_notes > 0)),
        *([("Reminders", f"{overview.reminders} waiting for a topic")] * (overview.reminders > 0)),
        ("MEMORY.md", level(overview.memory_chars, overview.most_memory_chars)),
    ]
    learned = [(_day_label(line.day, today), line.text) for line in overview.learned]
    disagreeing = [
        (f"{line.path}:{line.number}", line.text) for found in overview.contradictions for line in found.lines
    ]
    waiting = [(each.id, f"{each.path}: {each.text}") for each in overview.waiting]
    since = f" since {overview.recalled_since}" if overview.recalled_since else ""
    unrecalled = f"Never recalled{since}: {len(overview.unrecalled)} of {counted(overview.older, 'note')}"
    parts = [
        (f"Known: {counted(overview.notes, 'note')}", known, ""),
        (f"Learned in seven days: {counted(len(learned), 'line')}", learned, "nacre memory log"),
        (f"Waits for you: {counted(len(waiting), 'note')}", waiting, "nacre memory review"),
        (
            f"Contradicts: {counted(len(overview.contradictions), 'thing')}",
            disagreeing,
            "nacre memory --json",
        ),
    ]
    lines = [line for heading, rows, rest in parts if rows for line in _paragraph(heading, rows, rest)][1:]
    if overview.unrecalled:
        more = len(overview.unrecalled) - _SHOWN_ROWS
        lines += ["", f"{unrecalled} older than a week", f"  {', '.join(overview.unrecalled[:_SHOWN_ROWS])}"]
        lines += [f"  … and {more} more: nacre memory --json"] if more > 0 else []
    return lines


def _paragraph(heading: str, rows: Sequence[tuple[str, str]], rest: str) -> list[str]:
    shown = rows[: _SHOWN_ROWS + (len(rows) == _SHOWN_ROWS + 1)]
    wide = max(len(label) for label, _ in shown)
    lines, above = ["", heading], ""
    for label, text in shown:
        name = "" if label == above else label
        lines.append(f"  {name:<{wide}}  {shortened(text, _SHOWN_CHARS)}".rstrip())
        above = label
    return (
        [*lines, f"  … and {len(rows) - len(shown)} more: {rest}"]
        if rest and len(rows) > len(shown)
        else lines
    )


def _day_label(day: date | None, today: date) -> str:
    if day is None:
        return ""
    return {0: "Today", 1: "Yesterday"}.get((today - day).days, f"{day:%a %d %b}")


def level(chars: int, most: int) -> str:
    """How full a file is, as a bar with numbers."""
    filled = min(_LEVEL_CELLS, round(_LEVEL_CELLS * chars / most)) if most else _LEVEL_CELLS
    return f"[{'█' * filled}{'░' * (_LEVEL_CELLS - filled)}] {chars:,} of {most:,} characters"
