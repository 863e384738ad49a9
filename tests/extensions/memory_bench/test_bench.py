"""`nacre memory bench`: engines asked side by side, apart from everything that is the owner's."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path

import pytest

from nacre import MemoryPlugin
from nacre.extensions.memory_bench.command import EngineResult, Notes, run_engine
from nacre.extensions.memory_bench.scoring import Place, Question, numbers
from nacre.runtime.settings.config import load_config
from tests.cli.program import run_here, run_nacre
from tests.extensions.qmd.stand_in import StandIn
from tests.runtime.agents import write_settings
from tests.runtime.extensions.packages import install
from tests.runtime.extensions.test_memory_contract import EXAMPLE, example_engine

LOG = "memory/2026-01-20.md"
TEXT = """# 2026-01-20

## A new mast

The harbour master said that Halcyon needs a new mast.

## Bread

Remember that invoice INV-7731 came from the mill.
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home with one log, searched by words."""
    write_settings(tmp_path / ".nacre", {"agents": {"defaults": {"memorySearch": {"provider": "none"}}}})
    log = tmp_path / ".nacre/workspace" / LOG
    log.parent.mkdir(parents=True)
    log.write_text(TEXT, encoding="utf-8")
    return tmp_path


def _files(home: Path) -> dict[str, bytes]:
    return {
        str(path): path.read_bytes() for path in home.rglob("*") if path.is_file() and path.suffix != ".log"
    }


def test_engines_and_grep_are_asked_and_nothing_is_changed(home: Path) -> None:
    """A row for each engine with its numbers; notes, index and settings stay byte for byte."""
    assert run_here(home, "memory", "index").returncode == 0
    before = _files(home)

    ended = run_here(home, "memory", "bench", "--engine", "memory-core", "--engine", "grep", "--json")

    assert ended.returncode == 0
    assert _files(home) == before
    told = json.loads(ended.stdout)
    assert (told["notes"], told["unanswerable"]) == (1, 2)
    assert [row["engine"] for row in told["engines"]] == ["memory-core", "grep"]
    core = told["engines"][0]
    assert (core["recallAt6"], core["problem"]) == (1.0, None)
    assert core["byKind"]["name"]["recallAt1"] == 1.0
    assert core["sizeBytes"] > 0


def test_the_owners_database_is_not_asked(home: Path) -> None:
    """Engines keep their copies in files, and a set's notes are files: nothing needs its database."""
    nobody = "postgresql://127.0.0.1:1/nacre?no_such_option=1"  # whoever opens it fails at once
    write_settings(
        home / ".nacre",
        {
            "storage": {"driver": "postgres", "url": nobody},
            "agents": {"defaults": {"memorySearch": {"provider": "none"}}},
        },
    )

    labeled = home / ".nacre/workspace/queries.jsonl"
    place = {"path": LOG, "startLine": 5, "endLine": 5}
    labeled.write_text(json.dumps({"query": "Halcyon mast", "relevant": [place]}), encoding="utf-8")

    ended = run_here(home, "memory", "bench", "--set", str(labeled), "--engine", "memory-core", "--json")

    if find_spec("psycopg"):
        own = run_here(home, "memory", "bench", "--engine", "memory-core")
        assert own.returncode == 1
        assert "database" in own.stderr, "and not that there are no notes"
    assert ended.returncode == 0
    [core] = json.loads(ended.stdout)["engines"]
    assert (core["recallAt6"], core["problem"]) == (1.0, None)


@pytest.mark.covers("SEED-33")
def test_qmd_is_asked_by_words_and_apart(home: Path) -> None:
    """Over the copies alone, whatever the settings add; when it does not answer, nobody answers for it."""
    program = StandIn(home / "program")
    private = home / "diary"
    private.mkdir()
    (private / "diary.md").write_text("Halcyon was sold.\n", encoding="utf-8")
    qmd = {
        "command": program.command,
        "searchMode": "query",
        "paths": [{"path": str(private), "name": "diary"}],
        "sessions": {"enabled": True, "exportDir": str(private / "exports")},
        "scope": {"default": "deny"},
        "update": {"waitForBootSync": True},
    }
    search = {"agents": {"defaults": {"memorySearch": {"provider": "none"}}}}
    write_settings(home / ".nacre", {**search, "memory": {"backend": "qmd", "qmd": qmd}})
    before = _files(home / ".nacre") | _files(private)
    asked = ("memory", "bench", "--engine", "qmd", "--json")

    ended = run_here(home, *asked)
    calls = program.calls()
    program.failing(search={"code": 1, "err": "the index is busy"})
    failed = run_here(home, *asked)

    [row] = json.loads(ended.stdout)["engines"]
    [problem] = json.loads(failed.stdout)["engines"]
    assert _files(home / ".nacre") | _files(private) == before
    assert (row["engine"], row["recallAt6"], row["problem"]) == ("qmd", 1.0, None)
    added = [call for call in calls if call[:2] == ["collection", "add"]]
    assert added
    assert not any(call[2].startswith(str(home)) for call in added)
    assert not {"query", "embed"} & {call[0] for call in calls}
    assert problem["recallAt6"] is None
    assert "another engine answered instead. qmd search ended with exit code 1" in problem["problem"]


@pytest.mark.covers("SEED-33")
def test_an_engine_that_was_installed_is_asked(home: Path) -> None:
    """That of examples/06-engine.py, packed as an extension of somebody."""
    code = EXAMPLE.read_text(encoding="utf-8").partition('if __name__ == "__main__":')[0]
    code += (
        "class Extension:\n"
        "    def register(self, host):\n"
        "        host.memory_engine(LineMemory())\n\n\n"
        "extension = Extension()\n"
    )
    manifest = {"description": "Keeps lines.", "kind": "memory", "configSchema": {"type": "object"}}
    install(home / "site", "lines", code, manifest=manifest)

    ended = run_nacre(
        *(home, "memory", "bench", "--engine", "lines", "--engine", "grep", "--json"),
        PYTHONPATH=str(home / "site"),
    )

    assert ended.returncode == 0, ended.stderr
    [lines, grep] = json.loads(ended.stdout)["engines"]
    assert (lines["engine"], lines["problem"]) == ("lines", None)
    assert lines["byKind"]["name"]["recallAt6"] == 1.0
    assert lines["sizeBytes"] > 0
    assert grep["engine"] == "grep"


def test_a_labeled_set_is_asked_over_its_own_notes(home: Path) -> None:
    """The table has a line for each engine; a set that is none, and an unknown engine, are told."""
    labeled = home / ".nacre/workspace/queries.jsonl"
    place = {"path": LOG, "startLine": 5, "endLine": 5}
    labeled.write_text(
        json.dumps({"query": "Halcyon mast", "category": "name", "date": "2026-01-21", "relevant": [place]}),
        encoding="utf-8",
    )

    table = run_here(home, "memory", "bench", "--set", str(labeled), "--engine", "memory-core")
    unknown = run_here(home, "memory", "bench", "--engine", "oracle")
    labeled.write_text("nonsense", encoding="utf-8")
    broken = run_here(home, "memory", "bench", "--set", str(labeled), "--engine", "grep")

    assert "1 questions with an answer, 0 without one" in table.stdout
    assert table.stdout.splitlines()[2].split()[:4] == ["memory-core", "1.000", "1.000", "–"]
    assert (unknown.returncode, broken.returncode) == (1, 1)
    assert "There is no engine 'oracle'" in unknown.stderr
    assert "Line 1 is not a question" in broken.stderr


def _told(engine: MemoryPlugin, folder: Path) -> EngineResult:
    line = "Remember that invoice INV-7731 came from the mill."
    question = Question(
        text="invoice INV-7731", kind="name", answers=(Place(path=LOG, start_line=1, end_line=1),)
    )
    return asyncio.run(
        run_engine(
            "tested",
            lambda _config, _now, _embedder: engine,
            Notes(files={LOG: line.encode()}, lines={LOG: [line]}),
            [question],
            config=load_config({"HOME": str(folder)}, state_dir=folder),
            embedder=None,
            now=lambda: datetime(2026, 3, 14, tzinfo=UTC),
            folder=folder / "apart",
        )
    )


def test_an_engine_of_others_is_asked_by_what_it_captures_and_recalls(tmp_path: Path) -> None:
    """One without tools is handed each line, and its recalled words are looked at."""
    told = _told(example_engine(), tmp_path)

    assert told.problem == ""
    assert numbers(told.answers)["recallAt1"] == 1.0


def test_a_broken_engine_takes_nobody_along(tmp_path: Path) -> None:
    """What it raises is told in its row."""

    class Broken(MemoryPlugin):
        async def sync(self) -> None:
            raise RuntimeError("the tide is out")

    assert _told(Broken(), tmp_path).problem == "RuntimeError: the tide is out"
