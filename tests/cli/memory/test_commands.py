"""`nacre memory …`: indexing, searching and reading notes from a shell."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from nacre.cli.main import nacre
from nacre.cli.memory.commands import line_teller
from nacre.memory.contracts.records import SyncProgress
from tests.cli.program import Terminal, run_nacre
from tests.runtime.agents import write_settings

NOTES = """# 2026-01-20

## Boats

The harbour master said that Halcyon needs a new mast before June.

## Bread

The sourdough starter is fed on Sundays.
"""


BY_WORDS = {"agents": {"defaults": {"memorySearch": {"provider": "none"}}}}
"""To load the model takes most of a search. The test that is about it has other settings."""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home with a workspace that has one daily log, which is searched by words."""
    write_settings(tmp_path / ".nacre", BY_WORDS)
    log = tmp_path / ".nacre/workspace/memory/2026-01-20.md"
    log.parent.mkdir(parents=True)
    log.write_text(NOTES, encoding="utf-8")
    return tmp_path


@pytest.mark.slow
@pytest.mark.parametrize("limit", ["--before", "--as-of"])
def test_conversations_are_no_answer_to_a_question_about_days(home: Path, limit: str) -> None:
    """They are shown where no note matches, but not for a day before they were."""
    run_nacre(home, "send", "-m", "We saw a quokka.")

    assert "We saw a quokka." in run_nacre(home, "search", "quokka").stdout
    assert "quokka." not in run_nacre(home, "search", "quokka", limit, "2001-01-01").stdout


def test_a_list_of_sessions_that_cannot_be_read_is_a_sentence(home: Path) -> None:
    """It belongs to root after `sudo nacre`, and nothing is to be reported."""
    (home / ".nacre/agents/main/sessions/sessions.json").mkdir(parents=True)
    ended = run_nacre(home, "memory")

    assert (ended.returncode, "unexpected" in ended.stderr) == (1, False)
    assert "sessions.json" in ended.stderr


@pytest.mark.covers("CLI-6", "CLI-7")
def test_index_search_and_get(home: Path) -> None:
    """What was indexed is found with its lines, and these lines can be read."""
    indexed = run_nacre(home, "memory", "index")
    found = run_nacre(home, "memory", "search", "which mast does the boat need?", "--json", "--explain")
    nothing = run_nacre(home, "memory", "search", "quantum chromodynamics")

    assert indexed.returncode == 0
    assert indexed.stdout.startswith("Memory index updated (main).\n1 file read")
    assert "Indexing 1/1" in indexed.stderr
    report = json.loads(found.stdout)
    hit = report["results"][0]
    assert hit["path"] == "memory/2026-01-20.md"
    assert "Halcyon needs a new mast" in hit["snippet"]
    assert hit["citation"].startswith("memory/2026-01-20.md#L")
    assert hit["explain"]["lexicalRank"] == 1
    assert hit["explain"]["final"] == pytest.approx(hit["score"], abs=1e-4)
    assert nothing.returncode == 0
    assert "`nacre sessions search " in nothing.stdout
    read = run_nacre(
        home, "memory", "get", hit["path"], "--from", str(hit["startLine"]), "--lines", str(hit["endLine"])
    )
    assert "Halcyon needs a new mast" in read.stdout


def test_a_search_takes_the_question_in_other_words(home: Path) -> None:
    """Each `--also` is searched too."""
    nothing = run_nacre(home, "memory", "search", "quantum chromodynamics", "--json")
    found = run_nacre(home, "memory", "search", "quantum chromodynamics", "--also", "sourdough", "--json")

    assert json.loads(nothing.stdout)["results"] == []
    assert json.loads(found.stdout)["results"]


def test_a_search_for_people_and_in_time(home: Path) -> None:
    """A hit is its place, day and source, and the sentence that fits; `--explain` shows its score."""
    found = run_nacre(home, "memory", "search", "sourdough", "--max-results", "1")
    explained = run_nacre(home, "search", "sourdough", "--max-results", "1", "--explain")
    later = run_nacre(home, "memory", "search", "sourdough", "--after", "2026-02-01", "--json")

    heading, sentence = found.stdout.splitlines()
    assert heading.startswith("memory/2026-01-20.md#L")
    assert heading.endswith(" · 2026-01-20 · source not recorded")
    assert sentence == "  The sourdough starter is fed on Sundays."
    heading, *snippet = explained.stdout.splitlines()
    score, place = heading.split(" ", 1)
    assert 0 < float(score) <= 1
    assert place.startswith("memory/2026-01-20.md:")
    assert "The sourdough starter is fed on Sundays." in snippet
    assert json.loads(later.stdout)["results"] == []


@pytest.mark.covers("CLI-12", "SEED-1")
def test_status_for_people_and_for_scripts(home: Path) -> None:
    """Before the first index everything is pending, and both forms say so."""
    text = run_nacre(home, "memory", "status")
    (agent,) = json.loads(run_nacre(home, "memory", "status", "--json").stdout)

    assert text.stdout.startswith("Memory Search (main)\n")
    assert "Dirty:             yes\n" in text.stdout
    assert "Workspace:         ~/.nacre/workspace\n" in text.stdout
    assert agent["agentId"] == "main"
    assert agent["status"]["dirty"] is True
    assert agent["status"]["pendingFiles"] == 1
    assert agent["status"]["dbPath"] == str(home / ".nacre/memory/main.sqlite")
    assert "embeddingProbe" not in agent


def test_get_refuses_what_is_not_memory_and_says_what_is_missing(home: Path) -> None:
    """Other files stay closed, also the settings; a missing log is told, both with code 1."""
    (home / ".nacre/nacre.json5").write_text("{}", encoding="utf-8")

    refused = run_nacre(home, "memory", "get", "../nacre.json5")
    missing = run_nacre(home, "memory", "get", "memory/2020-01-01.md")

    assert (refused.returncode, refused.stdout) == (1, "")
    assert refused.stderr.startswith("Memory get failed: ")
    assert (missing.returncode, missing.stdout) == (1, "")
    assert "memory/2020-01-01.md" in missing.stderr


def test_a_search_that_is_switched_off_says_which_setting_does_it(home: Path) -> None:
    """With memorySearch.enabled false the command fails in a sentence."""
    settings = {"agents": {"defaults": {"memorySearch": {"enabled": False}}}}
    (home / ".nacre/nacre.json5").write_text(json.dumps(settings), encoding="utf-8")

    run = run_nacre(home, "memory", "search", "boat")

    assert (run.returncode, run.stdout) == (1, "")
    assert "agents.defaults.memorySearch.enabled" in run.stderr


def test_commands_say_when_the_agent_has_another_memory(home: Path) -> None:
    """They are about the notes and their index, which an agent with another engine, or none, does not ask."""
    write_settings(home / ".nacre", {"plugins": {"slots": {"memory": "none"}}})
    status, found = run_nacre(home, "memory", "status"), run_nacre(home, "memory", "search", "sourdough")

    for run in (status, found):
        assert run.returncode == 0
        assert "plugins.slots.memory is 'none', so the agent does not search this index" in run.stderr


def test_a_terminal_gets_a_bar_that_goes_away(home: Path) -> None:
    """On a terminal the progress is a bar, and only the result stays."""
    with Terminal(home, "memory", "index", "--force") as terminal:
        terminal.wait_for("Memory index updated (main)")
        assert terminal.exit_code() == 0
    assert "█ Indexing 1/1 · " in terminal.raw
    assert "\r\x1b[K" in terminal.raw


@pytest.mark.parametrize(
    "arguments",
    [
        ["search", " "],
        ["search", "x", "--after", "someday"],
        ["search", "x", "--min-score", "2"],
        ["search", "x", "--max-results", "0"],
        ["get", "memory/a.md", "--from", "0"],
    ],
)
def test_values_that_cannot_be_are_wrong_usage(arguments: list[str]) -> None:
    """Numbers out of range and days that are none are refused before anything is opened."""
    assert CliRunner().invoke(nacre, ["memory", *arguments]).exit_code == 2


@pytest.mark.covers("CLI-4")
def test_progress_lines_are_few() -> None:
    """Ten thousand files make about ten lines, each with what is done and what is left."""
    stream = io.StringIO()
    tell = line_teller(stream)
    for done in range(10_001):
        tell(
            SyncProgress(
                stage="index",
                completed=done,
                total=10_000,
                elapsed_seconds=done / 100,
                eta_seconds=(10_000 - done) / 100,
            )
        )
    lines = stream.getvalue().splitlines()
    assert len(lines) == 11
    assert lines[5] == "Indexing 5000/10000 · 0:50 · 0:50 left"


@pytest.mark.parametrize("settings", ["", "{session: {dmScope: 'main'}}"])
def test_a_search_uses_words_and_meaning_with_and_without_settings(home: Path, settings: str) -> None:
    """The question's vector is begun early or late, and comes in time for the same hits."""
    (home / ".nacre" / "nacre.json5").unlink()
    if settings:
        (home / ".nacre" / "nacre.json5").write_text(settings, encoding="utf-8")
    run_nacre(home, "memory", "index")

    for _ in range(5):  # a search waits for the model for some seconds only
        found = run_nacre(
            home, "memory", "search", "  which mast does  the boat need?", "--json", "--explain"
        )
        report = json.loads(found.stdout)
        if report["mode"] == "hybrid":
            break

    assert (report["mode"], found.stderr) == ("hybrid", "")
    hit = report["results"][0]
    assert "Halcyon needs a new mast" in hit["snippet"]
    assert hit["explain"]["vectorRank"] == 1


def test_a_search_does_not_ask_the_shipped_model_when_another_is_wanted(home: Path) -> None:
    """With the provider `none`, words alone are searched, and nothing is said of it."""
    found = run_nacre(home, "memory", "search", "mast", "--json")

    assert json.loads(found.stdout)["mode"] == "lexical"
    assert found.stderr == ""
