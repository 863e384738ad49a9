"""A search program of somebody else in front of memory-core, as `memory.backend` names it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.program import run_nacre
from tests.runtime.agents import write_settings
from tests.runtime.extensions.packages import install, told

FINDER = """
from dataclasses import replace
from nacre.runtime.recall.memory_backend import BackendStatus, MemoryBackend


class Finder(MemoryBackend):
    def engine(self, config, core, now):
        core.instructions = lambda chat: "The finder looks first."
        return core

    def problem(self, config):
        return "The finder has no map."

    def status(self, config, short):
        return BackendStatus(rows=(("Backend", "finder"),), report={"backend": "finder"})

    async def search(self, config, built_in, question):
        report = await built_in.search(question)
        return replace(report, hits=tuple(replace(hit, snippet="found by the finder") for hit in report.hits))

    async def read(self, config, built_in, path, **lines):
        return await built_in.read(path, **lines)

    async def update(self, config, built_in):
        return "The finder was not updated."


def extension(host):
    host.memory_backend(Finder())
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    notes = tmp_path / ".nacre" / "workspace" / "MEMORY.md"
    notes.parent.mkdir(parents=True)
    notes.write_text("# Boat\n\nThe boat is in the shed.\n", encoding="utf-8")
    entries = {"finder": {"enabled": True}}
    write_settings(tmp_path / ".nacre", {"memory": {"backend": "finder"}, "plugins": {"entries": entries}})
    return tmp_path


def test_it_answers_in_the_terminal_and_for_the_agent(home: Path) -> None:
    """Search, status, index and the engine of the agent are the backend's; its problem is named."""
    site = home / "site"
    install(site, "finder", FINDER, manifest={"description": "Finds."})

    found = run_nacre(home, "memory", "search", "boat", PYTHONPATH=str(site))
    status = run_nacre(home, "memory", "status", PYTHONPATH=str(site))
    index = run_nacre(home, "memory", "index", PYTHONPATH=str(site))
    checked = run_nacre(home, "config", "check", PYTHONPATH=str(site))

    assert "found by the finder" in found.stdout
    assert status.stdout.splitlines()[1].split() == ["Backend:", "finder"]
    assert (index.returncode, "The finder was not updated." in index.stderr) == (1, True)
    assert "The finder has no map." in checked.stdout + checked.stderr
    assert "The finder looks first." in told(home, site, "hello")["stable"]


def test_memory_core_answers_where_it_is_not_installed(home: Path) -> None:
    """The search works, and a sentence says that the backend is missing."""
    found = run_nacre(home, "memory", "search", "boat")

    assert "The boat is in the shed." in found.stdout
    assert "memory.backend is 'finder', but no extension provides it" in found.stderr
