"""The memory behind qmd as a chat sees it: what is found, what is not shown, what happens when qmd fails."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest

from nacre.extensions.qmd.qmd_memory import qmd_home
from nacre.runtime.extensions.memory_contract import MemoryContract
from nacre.runtime.models.scripted import ScriptedModel, says
from nacre.runtime.recall.memory_plugin import MemoryPlugin
from tests.extensions.qmd.homes import called, engine_of, group_chat, private_chat, ready, started, written
from tests.extensions.qmd.stand_in import StandIn, hit
from tests.runtime.agents import events_of, opened, said


class TestQmd(MemoryContract):
    """It goes through the same door as every engine."""

    @pytest.fixture(autouse=True)
    def _state(self, tmp_path: Path) -> None:
        command = StandIn(tmp_path / "program").command
        self.config = written(tmp_path, {}, command=command)

    def engine(self) -> MemoryPlugin:
        return engine_of(self.config)


@pytest.mark.covers("QMD-2", "QMD-3", "QMD-20", "QMD-22")
async def test_qmd_is_asked_and_its_notes_are_shown(tmp_path: Path) -> None:
    """One call for each collection, exactly as the first descriptions have it; paths that can be read."""
    notes = tmp_path / "home" / "docs"
    notes.mkdir(parents=True)
    (notes / "manual.md").write_text("one\nAn Omada manual.\n", encoding="utf-8")
    paths = [{"path": "~/docs", "name": "Docs"}]
    async with ready(tmp_path, paths=paths, limits={"maxResults": 4}) as (engine, program, config):
        chat = private_chat(config)
        found = await called(engine, chat, "memory_search", query="omada", maxResults=9)
        read = await called(engine, chat, "memory_get", path="qmd/docs-main/manual.md", **{"from": 2})
        status = await engine.status()

    names = ("memory-root-main", "memory-dir-main", "memory-chats-main", "docs-main")
    asked = sorted(program.calls("search"))
    assert asked == sorted(["search", "omada", "--json", "-n", "4", "-c", name] for name in names)
    assert not program.calls("query")
    assert [(item["path"], item["citation"]) for item in found["results"]] == [
        ("memory/2026-03-13.md", "memory/2026-03-13.md#L1"),
        ("qmd/docs-main/manual.md", "qmd/docs-main/manual.md#L2"),
    ]
    assert found["results"][1]["snippet"].endswith("Source: qmd/docs-main/manual.md#L2")
    assert (found["provider"], found["mode"]) == ("qmd", "lexical")
    assert read["text"] == "An Omada manual."
    assert status == "4 collections, qmd search"


@pytest.mark.covers("QMD-35", "QMD-37", "SEED-15")
async def test_nothing_leaves_a_collection(tmp_path: Path) -> None:
    """Paths that qmd invents are not shown, and none of them can be read; words come from the notes alone."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret.md").write_text("The canary sings.\n", encoding="utf-8")
    (outside / "docs").mkdir()
    (outside / "docs" / "plain.txt").write_text("The canary sings.\n", encoding="utf-8")
    (outside / "docs" / "fine.md").write_text("A fine line.\n", encoding="utf-8")
    (outside / "docs" / "link.md").symlink_to(outside / "secret.md")
    async with ready(tmp_path, paths=[{"path": str(outside / "docs"), "name": "d"}]) as (
        engine,
        program,
        config,
    ):
        names = ("../secret.md", "plain.txt", "link.md", "x/../../secret.md", ".hidden.md", "fine.md\0")
        program.answering(
            *(hit(f"qmd://d-main/{name}") for name in names), hit("qmd://d-main/fine.md"), hit("/etc/x")
        )
        chat = private_chat(config)
        found = await called(engine, chat, "memory_search", query="canary")
        read = [await called(engine, chat, "memory_get", path=f"qmd/d-main/{name}") for name in names]
        missing = await called(engine, chat, "memory_get", path="qmd/d-main/later.md")
        unknown = await called(engine, chat, "memory_get", path="qmd/other/fine.md")

    assert [(item["path"], item["snippet"].splitlines()[0]) for item in found["results"]] == [
        ("qmd/d-main/fine.md", "A fine line.")
    ]
    assert all(item["disabled"] and not item["text"] for item in (*read, unknown))
    assert missing == {"path": "qmd/d-main/later.md", "text": ""}


@pytest.mark.covers("QMD-34", "QMD-41", "SEED-15")
async def test_a_group_gets_what_is_its_own_whatever_qmd_answers(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A denied search starts nothing and is logged; an allowed one shows the chat's own folder alone."""
    async with ready(tmp_path) as (engine, program, config):
        denied = await called(engine, group_chat(config), "memory_search", query="boat")
        assert not program.calls("search")
        assert denied["results"] == []
        assert "memory.qmd.scope" in denied["degraded"]
        assert "channel=telegram, chatType=group" in caplog.text
    scope = {"default": "allow"}
    async with ready(tmp_path / "open", scope=scope) as (engine, program, config):
        chat = group_chat(config)
        own = await called(engine, chat, "memory_search", query="boat")
        assert [item["path"] for item in own["results"]] == ["chats/telegram-group-7/notes.md"]
        program.answering(
            hit("qmd://memory-root-main/MEMORY.md"),
            hit("qmd://memory-chats-main/telegram-group-8/notes.md"),
            hit("qmd://memory-chats-main/../MEMORY.md"),
            hit(
                "qmd://memory-chats-main/telegram-group-7/notes.md", "@@ -1,1 @@\nThe boat is called Halcyon."
            ),
        )
        forged = await called(engine, chat, "memory_search", query="boat")
        read = await called(engine, chat, "memory_get", path="qmd/memory-root-main/MEMORY.md")

    assert [item["snippet"] for item in forged["results"]] == ["- The boat trip of this group is in May."]
    assert read["disabled"]


BROKEN: dict[str, dict[str, Any]] = {
    "no JSON": {"out": "Segmentation fault"},
    "an object": {"out": '{"results": []}'},
    "nothing": {"out": ""},
    "an exit code": {"code": 3, "err": "SqliteError: database is locked\n"},
    "without end": {"out": "[" * 1000, "repeat": 3_000},
    "never": {"hangs": True},
}


@pytest.mark.parametrize("rule", BROKEN.values(), ids=BROKEN.keys())
@pytest.mark.covers("QMD-39", "QMD-42", "QMD-48", "SEED-15")
async def test_the_built_in_engine_answers_until_qmd_does(
    tmp_path: Path, rule: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    """Whatever is wrong becomes a sentence, a warning and the other engine; the status says so, too."""
    limits = {"timeoutMs": 300 if "hangs" in rule else 10_000}
    async with ready(tmp_path, includeDefaultMemory=True, limits=limits) as (engine, program, config):
        program.failing(search=rule)
        chat = private_chat(config)
        found = await called(engine, chat, "memory_search", query="Omada")
        state = qmd_home(config).state()
        status = await engine.status()
        assert found["results"][0]["path"] == "memory/2026-03-13.md"
        assert found["fallback"]["from"] == "qmd"
        assert found["fallback"]["reason"] in found["degraded"]
        assert state.problem
        assert "qmd does not answer" in status
        assert any(record.levelno == logging.WARNING for record in caplog.records)
        program.failing()
        again = await called(engine, chat, "memory_search", query="Omada")

    is_paused = "hangs" in rule
    assert (again["provider"] == "qmd") is not is_paused
    assert bool(qmd_home(config).state().problem) is is_paused


@pytest.mark.covers("QMD-28")
async def test_without_the_program_there_is_still_memory(tmp_path: Path) -> None:
    """An agent whose qmd is not installed opens, searches with the other engine, and says what to install."""
    written(tmp_path, {"command": "qmd-that-is-not-there", "update": {"waitForBootSync": True}})
    model = ScriptedModel(says("Fine."))
    async with opened(tmp_path, model) as agent:
        await events_of(agent, said("Hello"))
    assert {tool.name for tool in model.requests[0].tools} >= {"memory_search", "memory_get"}
    config = written(tmp_path, {"command": "qmd-that-is-not-there"})
    async with started(config) as engine:
        found = await called(engine, private_chat(config), "memory_search", query="Halcyon")
    assert found["results"][0]["path"] == "MEMORY.md"
    assert "npm install -g @tobilu/qmd" in found["degraded"]


@pytest.mark.covers("QMD-7", "QMD-21", "QMD-23", "QMD-24")
async def test_a_mode_that_the_build_does_not_know_becomes_query(tmp_path: Path) -> None:
    """Each collection is asked again with `query`, with the same arguments."""
    async with ready(tmp_path, searchMode="vsearch", update={"embedInterval": "0"}) as (
        engine,
        program,
        config,
    ):
        program.failing(vsearch={"code": 2, "err": "error: unknown option '--json'\n"})
        found = await called(engine, private_chat(config), "memory_search", query="--help omada")

    assert found["results"][0]["path"] == "memory/2026-03-13.md"
    assert [call[1:] for call in sorted(program.calls("vsearch"))] == [
        call[1:] for call in sorted(program.calls("query"))
    ]
    assert {call[1] for call in program.calls("query")} == {"help omada"}


@pytest.mark.covers("TOOL-5")
async def test_limits_and_days_bound_what_is_given(tmp_path: Path) -> None:
    """Snippets, their sum, how many, and from when; best first."""
    async with ready(tmp_path, limits={"maxSnippetChars": 40, "maxInjectedChars": 90, "maxResults": 3}) as (
        engine,
        _program,
        config,
    ):
        for day in range(10, 20):
            file = config.workspace / f"memory/2026-02-{day}.md"
            file.write_text(f"- A regatta with many words, day {day} of them all.\n", encoding="utf-8")
        await engine.sync()
        chat = private_chat(config)
        found = await called(engine, chat, "memory_search", query="regatta")
        later = await called(engine, chat, "memory_search", query="regatta", after="2026-02-19")

    snippets = [item["snippet"] for item in found["results"]]
    assert sum(map(len, snippets)) <= 90
    assert snippets[0].startswith("- A regatta with many words, day 10 of t")
    assert [item["path"] for item in later["results"]] == ["memory/2026-02-19.md"]
    assert "from 2026-02-19" in later["limited"]


async def test_a_lost_collection_is_made_again(tmp_path: Path) -> None:
    """Someone removed it behind the agent's back: the search mends it and asks once more."""
    async with ready(tmp_path) as (engine, _program, config):
        made = qmd_home(config).config / "qmd" / "stand-in.json"
        made.write_text(json.dumps({}), encoding="utf-8")
        found = await called(engine, private_chat(config), "memory_search", query="Halcyon")

    assert found["results"][0]["path"] == "MEMORY.md"
    assert found["provider"] == "qmd"


async def test_keys_of_providers_do_not_reach_it(tmp_path: Path) -> None:
    """qmd gets its own folders and where things are, and no more."""
    async with ready(tmp_path) as (_engine, _program, config):
        home = qmd_home(config)
        environment = home.environment({"PATH": "/bin"})
    assert environment["XDG_CACHE_HOME"] == str(config.folders.agent_dir / "qmd" / "xdg-cache")
    assert "OPENAI_API_KEY" not in environment
    assert home.recipe()[0] == f"export XDG_CONFIG_HOME={home.config}"
