"""Commands on the index a second time, by what the first one kept of the settings."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from nacre.memory.files.sources.source import PRIVATE, Source
from nacre.memory.files.sources.sources import Sources, StoredSource, line_key, values_in
from nacre.memory.workspace.folder import FolderWorkspace
from tests.cli.program import run_nacre
from tests.runtime.agents import write_settings


def searched(home: Path, *question: str) -> subprocess.CompletedProcess[str]:
    """A search that waited for nothing in vain: on a busy machine one is asked again."""
    while True:
        ended = run_nacre(home, "memory", "search", *question)
        told = " ".join((ended.stdout + ended.stderr).split())
        if "did not answer within" not in told and "not indexed yet" not in told:
            return ended


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home with one daily log that was searched once."""
    log = tmp_path / ".nacre/workspace/memory/2026-01-20.md"
    log.parent.mkdir(parents=True)
    log.write_text("# Boats\n\n- Halcyon needs a new mast before June.\n", encoding="utf-8")
    os.utime(log, (1_700_000_000, 1_700_000_000))  # a file that was just written is read once more
    first = searched(tmp_path, "mast")
    assert "Halcyon" in first.stdout
    assert (tmp_path / ".nacre/memory/search.json").exists()
    return tmp_path


def test_it_tells_the_same(home: Path) -> None:
    """With and without what was kept, byte for byte, also where nothing fits."""
    assert run_nacre(home, "memory", "index").returncode == 0  # or the reason depends on the time
    questions = [
        ("mast", "--json", "--explain"),
        ("quantum chromodynamics",),
        ("mast", "--after", "2026-02-01"),
    ]
    again = [searched(home, *each) for each in questions]

    for each, second in zip(questions, again, strict=True):
        (home / ".nacre/memory/search.json").unlink()
        first = searched(home, *each)
        assert (second.returncode, second.stderr) == (first.returncode, first.stderr)
        assert _without_time(second.stdout) == _without_time(first.stdout)


def _without_time(text: str) -> object:
    if not text.startswith("{"):
        return text
    told = json.loads(text)
    told.pop("elapsedMs", None)
    return told


def test_status_and_index_tell_the_same(home: Path) -> None:
    """By what a search kept, and by the settings, after which they keep it themselves."""
    assert run_nacre(home, "memory", "index").returncode == 0
    kept = home / ".nacre/memory/search.json"
    for command in (("status",), ("status", "--json"), ("index",)):
        again = run_nacre(home, "memory", *command)
        kept.unlink()
        first = run_nacre(home, "memory", *command)

        assert (again.returncode, again.stderr) == (first.returncode, first.stderr)
        assert _without_moments(again.stdout) == _without_moments(first.stdout)
        assert kept.exists()


def _without_moments(text: str) -> str:
    lines = [line for line in text.splitlines() if "ast sync" not in line and "lastSync" not in line]
    return re.sub(r"\d+\.\d s", "", "\n".join(lines))


def test_an_index_command_takes_in_what_was_written(home: Path) -> None:
    """A note, its vector too, without reading the settings again."""
    (home / ".nacre/workspace/memory/2026-01-22.md").write_text(
        "- The oars are varnished.\n", encoding="utf-8"
    )

    indexed = run_nacre(home, "memory", "index")

    assert "1 file read" in indexed.stdout
    assert "vectors made" in indexed.stdout
    assert "2 files" in run_nacre(home, "memory", "status").stdout


def test_a_note_that_was_written_since_is_found(home: Path) -> None:
    """And one that is gone is not."""
    notes = home / ".nacre/workspace/memory"
    (notes / "2026-01-21.md").write_text("- The sourdough is fed on Sundays.\n", encoding="utf-8")
    (notes / "2026-01-20.md").unlink()

    assert "sourdough" in searched(home, "sourdough").stdout
    assert searched(home, "mast").stdout.startswith("No matches.")


def test_a_line_that_the_owner_replaced_is_marked(home: Path) -> None:
    """Wherever it is found, by what was stored beside the notes; the newer line is in other words."""
    workspace = home / ".nacre/workspace"
    for day, line in (("2026-02-01", "- Anna's phone: 555-1234"), ("2026-02-10", "- Anna phone: +351 2")):
        path = f"memory/{day}.md"
        (workspace / path).write_text(line, encoding="utf-8")
        source = Source(written_by="flush", audience=PRIVATE, said_by=("owner",), at=f"{day}T10:00:00+01:00")
        stored = StoredSource(
            path=path, keys=(line_key(line),), source=source, values=values_in(path, line)[line_key(line)]
        )
        asyncio.run(Sources(FolderWorkspace(workspace, lock_dir=home / "locks")).store([stored]))

    found = searched(home, "555-1234", "--max-results", "1")
    assert "see memory/2026-02-10.md." in found.stdout
    assert "out of date" not in searched(home, "555-1234", "--as-of", "2026-02-05").stdout


def test_settings_that_were_written_since_count(home: Path) -> None:
    """Those that hold, and those that are refused with a sentence."""
    write_settings(home / ".nacre", {"agents": {"defaults": {"memorySearch": {"enabled": False}}}})
    off = run_nacre(home, "memory", "search", "mast")
    write_settings(home / ".nacre", {"agents": {"defaults": {"memorySearch": {"enabld": False}}}})
    refused = run_nacre(home, "memory", "search", "mast")

    assert (off.returncode, off.stdout) == (1, "")
    assert "Memory search is switched off." in off.stderr
    assert refused.returncode == 2
    assert "did you mean agents.defaults.memorySearch.enabled?" in refused.stderr


def test_what_is_logged_stands_in_the_log(home: Path) -> None:
    """Although the log is opened when there is something to log: here a damaged index, which is made anew."""
    log = home / ".nacre/logs/nacre.log"
    before = log.read_text(encoding="utf-8") if log.exists() else ""
    (home / ".nacre/memory/main.sqlite").write_bytes(b"no database at all, and longer than a head " * 400)

    again = searched(home, "mast")

    assert "Halcyon" in again.stdout
    assert "set aside" in log.read_text(encoding="utf-8").removeprefix(before)
