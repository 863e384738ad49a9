"""Memory engines that extensions bring: what is there while one is chosen, and when one is broken."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.runtime.agents import write_settings
from tests.runtime.extensions.packages import install, told

ENGINE = """
import nacre

class Engine(nacre.MemoryPlugin):
    async def recall(self, chat, asked):
        return "The boat is Halcyon."

def register(host):
    host.memory_engine(Engine())
"""

BRINGS = """
import nacre

class Engine(nacre.MemoryPlugin):
    async def start(self, home):
        self.word = home.settings.get("word", "nothing")

    def hooks(self):
        return {{"before_model": self.hook}}

    def hook(self, event):
        return "The hook of {name} says " + self.word

    def commands(self):
        return [nacre.command("{name}", help="say who is here")(lambda context: "{name}: " + self.word)]

def register(host):
    host.memory_engine(Engine())
"""
KEEN = """
import nacre

class Engine(nacre.MemoryPlugin):
    async def recall(self, chat, asked):
        return "It goes on all the same."

    def {method}(self):
        return {brought}

def register(host):
    host.memory_engine(Engine())
"""


@pytest.mark.parametrize(
    ("manifest", "problem"),
    [
        ({"kind": "memory"}, ""),
        (
            {},
            "The extension 'engine' was not loaded. It could not be loaded: ValueError: its manifest",
        ),
        (
            None,
            "The extension 'engine' was not loaded. Its package 'nacre_engine' has no nacre.extension",
        ),
        ("gone", "plugins.slots.memory is 'engine', but no extension with this id is installed."),
    ],
)
@pytest.mark.covers("CFG-12")
def test_an_engine_of_an_extension_has_the_slot(tmp_path: Path, manifest: Any, problem: str) -> None:
    """It recalls; one that is broken or not there is told, and the agent talks without memory tools."""
    home, site = tmp_path / "home", tmp_path / "site"
    home.mkdir()
    site.mkdir()
    if manifest != "gone":
        install(site, "engine", ENGINE, manifest=manifest, entry="register")
    write_settings(home / ".nacre", {"plugins": {"slots": {"memory": "engine"}}})

    came = told(home, site, "which boat?")

    assert came["memory_tools"] == []
    assert came["replies"] == ["Yes."]
    assert ("> The boat is Halcyon." in came["tail"]) is (problem == "")
    assert bool([notice for notice in came["notices"] if notice.startswith(problem)]) or not problem


@pytest.mark.parametrize("chosen", ["ebb", "flow", "none"])
@pytest.mark.covers("CFG-12")
def test_an_engine_brings_its_hook_and_its_command_while_it_is_chosen(tmp_path: Path, chosen: str) -> None:
    """With its settings; of an engine that is not in the slot there is neither."""
    home, site = tmp_path / "home", tmp_path / "site"
    home.mkdir()
    schema = {"type": "object", "properties": {"word": {"type": "string"}}}
    for name in ("ebb", "flow"):
        install(
            site,
            name,
            BRINGS.format(name=name),
            manifest={"kind": "memory", "configSchema": schema},
            entry="register",
        )
    entries = {name: {"enabled": True, "config": {"word": f"{name} tide"}} for name in ("ebb", "flow")}
    write_settings(home / ".nacre", {"plugins": {"slots": {"memory": chosen}, "entries": entries}})

    came = told(home, site, "/ebb", "/flow", "/help", "hi")

    for number, name in enumerate(("ebb", "flow")):
        is_there = name == chosen
        assert (came["replies"][number] == f"{name}: {name} tide") is is_there
        assert (f"\n  /{name} " in came["replies"][2]) is is_there
        assert (f"> The hook of {name} says {name} tide" in came["tail"]) is is_there


@pytest.mark.parametrize(
    ("method", "brought", "problem"),
    [
        (
            "hooks",
            "{'before_tol': print}",
            "There is no hook named 'before_tol'. Did you mean 'before_tool'?",
        ),
        ("hooks", "{'before_tool': 3}", "The hook 'before_tool' has the value 3. Use a function"),
        ("commands", "[print]", "<built-in function print> is not a chat command"),
        (
            "commands",
            "[nacre.command('new', help='begin')(print)]",
            "There are two chat commands '/new'. Give yours another name",
        ),
    ],
)
def test_an_engine_that_brings_what_cannot_be_taken_is_left_out(
    tmp_path: Path, method: str, brought: str, problem: str
) -> None:
    """As a whole: the owner is told why, and the agent talks without memory tools."""
    home, site = tmp_path / "home", tmp_path / "site"
    home.mkdir()
    code = KEEN.format(method=method, brought=brought)
    install(site, "keen", code, manifest={"kind": "memory"}, entry="register")
    write_settings(home / ".nacre", {"plugins": {"slots": {"memory": "keen"}}})

    came = told(home, site, "hi")

    assert came["replies"] == ["Yes."]
    assert "It goes on all the same." not in came["tail"]
    [notice] = [notice for notice in came["notices"] if "'keen'" in notice]
    assert problem in notice
    assert notice.endswith("The agent runs without memory tools until the next start.")
