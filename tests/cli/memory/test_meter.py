"""`nacre memory meter`: how full the files of the context are, and which one is cut."""

from __future__ import annotations

import json
from pathlib import Path

from nacre.cli.screen.screen import WordWrap
from tests.cli.program import run_here
from tests.runtime.agents import write_settings

NAMES = ("AGENTS.md", "IDENTITY.md", "MEMORY.md", "SOUL.md", "TOOLS.md", "USER.md", "together")


def test_a_file_above_its_limit_is_named(tmp_path: Path) -> None:
    """What is cut has exit code 1 and says how much is seen; with room for it all is well."""
    state = tmp_path / ".nacre"
    limits = {"bootstrapMaxChars": 1_000, "bootstrapTotalMaxChars": 10_000}
    write_settings(state, {"agents": {"defaults": limits}})
    (state / "workspace").mkdir()
    (state / "workspace/MEMORY.md").write_text("- The boat is called Halcyon.\n" * 50)
    (state / "workspace/USER.md").write_text("x" * 950)

    cut = run_here(tmp_path, "memory", "meter")
    told = json.loads(run_here(tmp_path, "memory", "meter", "--json").stdout)
    write_settings(state, {"agents": {"defaults": {}}})
    well = run_here(tmp_path, "memory", "meter")

    narrow = WordWrap(hangs=True)
    for row in (narrow.feed(well.stdout, 60) + narrow.finish(60)).splitlines():
        assert row.startswith((" " * 11, *NAMES)), "a row of 60 columns goes on under its bar"
    lines = {line.split()[0]: line for line in cut.stdout.splitlines()}
    assert (cut.returncode, well.returncode) == (1, 0)
    assert "1,499 of 1,000 characters" in lines["MEMORY.md"]
    assert "cut: " in lines["MEMORY.md"]
    assert "950 of 1,000 characters" in lines["USER.md"]
    assert lines["USER.md"].endswith("almost full")
    assert "2,449 of 10,000 characters" in lines["together"]
    memory = next(file for file in told["files"] if file["name"] == "MEMORY.md")
    assert (memory["chars"], memory["isCut"], memory["seenChars"] < 1_100) == (1_499, True, True)
    assert (told["maxChars"], told["totalMaxChars"]) == (1_000, 10_000)
    assert "1,499 of 20,000 characters" in well.stdout
    assert "cut" not in well.stdout


def test_memory_alone_shows_what_is_known(tmp_path: Path) -> None:
    """Without a command there is a page to read, and JSON with the same; a command below it still runs."""
    workspace = tmp_path / ".nacre/workspace"
    workspace.mkdir(parents=True)
    (workspace / "MEMORY.md").write_text("- Boat: Halcyon\n")

    shown = run_here(tmp_path, "memory")
    told = json.loads(run_here(tmp_path, "memory", "--json").stdout)
    below = run_here(tmp_path, "memory", "get", "MEMORY.md")

    assert (shown.returncode, told["facts"], told["memoryChars"]) == (0, 1, 15)
    assert shown.stdout.startswith("Known: 1 note\n")
    assert below.stdout == "- Boat: Halcyon\n"
