"""What `nacre memory status` and `search` print, from real engines; and what they print when that fails."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nacre.cli.memory.text import search_json, search_lines, search_problems, status_json, status_lines
from nacre.memory.contracts.embedder import Embedder
from nacre.memory.contracts.records import MemoryStatus
from nacre.runtime.recall.memory_core import search_result
from tests.cli.program import run_nacre
from tests.memory.doubles import DeadEmbedder, WordEmbedder, open_engine, workspace

NOTES = {"memory/2026-02-10.md": "- Lisa adopted a cat.", "memory/2026-02-11.md": "- Anna plays chess."}


async def _status(
    root: Path, embedder: Embedder | None, settings: Mapping[str, Any] | None = None, *, deep: bool = True
) -> MemoryStatus:
    workspace(root, NOTES)
    engine = await open_engine(root, dict(settings or {}), embedder=embedder)
    await engine.sync(reason="cli")
    status = await engine.status(deep=deep)
    await engine.close()
    return status


def _shown(status: MemoryStatus) -> dict[str, str]:
    lines = status_lines(status, str, agent_id="main")
    return {label.strip(): value.strip() for label, _, value in (line.partition(":") for line in lines)}


@pytest.mark.covers("CLI-1", "CLI-3")
async def test_a_healthy_status_names_every_part(tmp_path: Path) -> None:
    """CLI-1, 3: provider, counts, the vector engine with its dimensions, the cache, the probe."""
    status = await _status(tmp_path, WordEmbedder())
    shown = _shown(status)

    assert (shown["Search"], shown["Provider"], shown["Model"]) == ("hybrid", "test", "words")
    assert shown["Indexed"] == "2 files · 2 chunks"
    assert shown["memory"] == "2 files · 2 chunks"
    first, _, then = shown["Vector"].partition(" for a process's first search, then ")
    assert (first, then) == (status.vector_engine, "vectors in memory; 2 vectors, 64 dimensions")
    assert status.vector_engine.startswith("sqlite-vec ")
    assert shown["Embedding cache"].startswith("enabled (")
    assert (shown["Embeddings"], shown["Dirty"]) == ("ready", "no")
    assert {"Vector problem", "Pending", "Issues"}.isdisjoint(shown)


@pytest.mark.covers("CLI-2", "CLI-3")
async def test_a_status_says_what_is_wrong_and_why(tmp_path: Path) -> None:
    """CLI-2, 3: an extension that does not load and a dead embedder are told, for people and for scripts."""
    settings = {"store": {"vector": {"extensionPath": str(tmp_path / "none")}}, "cache": {"enabled": False}}
    status = await _status(tmp_path, DeadEmbedder(), settings)
    shown = _shown(status)
    (agent,) = status_json(status, agent_id="main")

    assert shown["Vector"] == "numpy; 0 vectors"
    assert shown["Vector problem"]
    assert shown["Embeddings"] == "unavailable: The embedding server answered 503."
    assert (shown["Pending"], shown["Embedding cache"]) == ("2 vectors", "disabled")
    assert agent["embeddingProbe"] == {"ok": False, "error": "The embedding server answered 503."}
    assert agent["status"]["vector"]["loadError"]


@pytest.mark.covers("ATT-17")
async def test_one_of_a_kind_is_no_plural(tmp_path: Path) -> None:
    """Files, chunks, vectors, what waits, and what the cache holds."""
    status = replace(
        await _status(tmp_path, WordEmbedder()),
        files=1,
        chunks=1,
        vectors=1,
        cached_vectors=1,
        pending_files=1,
        pending_vectors=1,
        waiting_transcripts=1,
    )
    shown = _shown(status)
    assert shown["Indexed"] == "1 file · 1 chunk"
    assert shown["Vector"].endswith("; 1 vector, 64 dimensions")
    assert shown["Embedding cache"].startswith("enabled (1 entry")
    assert shown["Pending"] == "1 file, 1 vector, 1 conversation until it grows or ends"


async def test_a_vector_engine_that_is_switched_off_is_no_problem_of_words(tmp_path: Path) -> None:
    """CLI-1: without a provider words are searched, and nothing is said about a probe that was not made."""
    shown = _shown(await _status(tmp_path, None, {"store": {"vector": {"enabled": False}}}, deep=False))

    assert (shown["Search"], shown["Provider"], shown["Vector"]) == ("lexical", "none", "disabled")
    assert "Embeddings" not in shown


async def test_a_hit_is_shown_with_its_score_and_place(tmp_path: Path) -> None:
    """§13: three decimals, path and lines, the snippet, a blank line; `--json` has the same and more."""
    workspace(tmp_path, NOTES)
    engine = await open_engine(tmp_path)
    await engine.sync(reason="cli")
    report = await engine.search("cat", min_score=0, explain=True)
    await engine.close()
    heading, why, *rest = search_lines(report, {})
    (hit,) = search_json(report, {})["results"]

    assert heading == f"{report.hits[0].score:.3f} memory/2026-02-10.md:1-1"
    assert why.startswith("      words #1 (")
    assert rest == ["- Lisa adopted a cat.", ""]
    assert (hit["path"], hit["startLine"], hit["citation"]) == (
        "memory/2026-02-10.md",
        1,
        "memory/2026-02-10.md#L1",
    )


async def test_what_is_superseded_is_said_to_people_scripts_and_the_model(tmp_path: Path) -> None:
    """With its line and the place of what is so now; hits without such lines have no word of it."""
    workspace(tmp_path, {f"memory/2026-0{month}-10.md": f"- Wifi password: {month}x" for month in (1, 2)})
    engine = await open_engine(tmp_path)
    await engine.sync(reason="cli")
    report = await engine.search("wifi password")
    await engine.close()

    (line,) = [line for line in search_lines(report, {}) if "is out of date" in line]
    assert line.strip() == "line 1 is out of date: see memory/2026-02-10.md#L1"
    marks = [{"line": 1, "by": "memory/2026-02-10.md#L1"}]
    for told in (
        search_json(report, {}),
        search_result(report, {}, wordings=("wifi password",), cites=False),
    ):
        newer, older = told["results"]
        assert (newer["path"], older["path"]) == ("memory/2026-02-10.md", "memory/2026-01-10.md")
        assert [dict(mark) for mark in older["superseded"]] == marks
        assert "superseded" not in newer


async def test_a_search_that_may_have_missed_something_says_so(tmp_path: Path) -> None:
    """People are told of a dead embedder and of changes that no sync has looked at; else nothing is said."""
    workspace(tmp_path, NOTES)
    engine = await open_engine(tmp_path, {"sync": {"onSearch": False}}, embedder=DeadEmbedder())
    degraded, behind = search_problems(await engine.search("cat"))
    await engine.close()
    healthy = await open_engine(tmp_path, embedder=None)
    await healthy.sync(reason="cli")

    assert "503" in degraded
    assert "nacre memory index" in behind
    assert search_problems(await healthy.search("cat")) == []
    await healthy.close()


@pytest.mark.covers("CLI-10")
def test_an_index_that_cannot_be_used_is_a_sentence_and_code_1(tmp_path: Path) -> None:
    """CLI-10: another program's database is left alone, and each command says which one failed."""
    index = tmp_path / ".nacre/memory/main.sqlite"
    index.parent.mkdir(parents=True)
    other = sqlite3.connect(index)
    other.execute("CREATE TABLE mail (subject TEXT)")
    other.close()

    for command in (["search", "cat"], ["index"]):
        run = run_nacre(tmp_path, "memory", *command)

        assert (run.returncode, run.stdout) == (1, "")
        assert run.stderr.startswith(f"Memory {command[0]} failed: ")
        assert "another program" in run.stderr
