"""When qmd reads the files again, and what happens when it does not come to an end."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nacre.extensions.qmd.program import QmdFailed
from nacre.extensions.qmd.qmd_memory import qmd_home
from tests.extensions.qmd.homes import engine_of, private_chat, ready, started, written
from tests.extensions.qmd.stand_in import StandIn


async def until(holds: Callable[[], bool]) -> None:
    """Waits for something that can be seen."""
    async with asyncio.timeout(60):
        while not holds():  # noqa: ASYNC110 - a process writes what is waited for
            await asyncio.sleep(0.01)


@pytest.mark.covers("QMD-9", "QMD-10", "SEED-15")
async def test_opening_waits_for_the_first_update_only_if_told(tmp_path: Path) -> None:
    """It runs in the background; `waitForBootSync` waits, and `onBoot: false` leaves it out."""
    program = StandIn(tmp_path / "program")
    for update, most in (({"onBoot": False}, 0), ({}, 0), ({"waitForBootSync": True}, 1)):
        config = written(tmp_path, {"update": update}, command=program.command)
        before = len(program.calls("update"))
        async with started(config):
            done = len(program.calls("update")) - before
            assert done == most
            if update.get("onBoot", True):
                await until(lambda before=before: len(program.calls("update")) > before)  # type: ignore[misc]


@pytest.mark.covers("QMD-8")
async def test_a_note_that_is_written_is_indexed_and_the_interval_counts(tmp_path: Path) -> None:
    """A write wakes it, no more often than `debounceMs`; a short interval goes on by itself."""
    async with ready(tmp_path, update={"debounceMs": 50}) as (engine, program, _config):
        for _ in range(20):
            engine.notes_changed()
        await until(lambda: len(program.calls("update")) == 2)
    async with ready(tmp_path / "timer", update={"interval": "50ms"}) as (_engine, timed, _config):
        await until(lambda: len(timed.calls("update")) >= 3)


@pytest.mark.covers("QMD-25", "QMD-26")
async def test_who_asks_while_one_runs_gets_the_next(tmp_path: Path) -> None:
    """Updates never overlap; several who wait share one that began after they asked."""
    async with ready(tmp_path) as (engine, program, _config):
        before = len(program.calls("update"))
        await asyncio.gather(*(engine.sync() for _ in range(4)))
        assert len(program.calls("update")) - before == 2


@pytest.mark.parametrize(
    ("failure", "updates", "is_made_anew"),
    [
        ({"code": 1, "err": "SqliteError: database is locked\n", "times": 1}, 2, False),
        ({"code": 1, "err": "Error: ENOTDIR: not a directory, path has a \\u0000\n", "times": 1}, 2, True),
        ({"code": 1, "err": "UNIQUE constraint failed: documents.collection\n", "times": 1}, 2, True),
        ({"code": 1, "err": "Error: no space left\n"}, 1, False),
    ],
    ids=["locked", "null byte", "duplicate", "anything else"],
)
@pytest.mark.covers("QMD-18", "QMD-19", "QMD-32")
async def test_the_first_update_mends_what_it_can(
    tmp_path: Path, failure: dict[str, Any], updates: int, is_made_anew: bool
) -> None:
    """A lock is waited for, a broken index is made again, once; other failures stay."""
    program = StandIn(tmp_path / "program")
    program.failing(update=failure)
    config = written(tmp_path, {"update": {"waitForBootSync": True}}, command=program.command)
    async with started(config) as engine:
        assert len(program.calls("update")) == updates
        assert any(call[1] == "remove" for call in program.calls("collection")) is is_made_anew
        assert ("no space left" in await engine.status()) is (updates == 1)


@pytest.mark.covers("QMD-6", "QMD-12", "QMD-17")
async def test_what_takes_too_long_is_ended(tmp_path: Path) -> None:
    """The sentence names the command and the time; closing kills what still runs."""
    program = StandIn(tmp_path / "program")
    program.failing(update={"hangs": True})
    update = {"onBoot": False, "updateTimeoutMs": 300}
    async with started(written(tmp_path, {"update": update}, command=program.command)) as engine:
        with pytest.raises(QmdFailed, match="qmd update timed out after 300ms"):
            await engine.sync()
    async with started(written(tmp_path, {}, command=program.command)):
        await until(lambda: len(program.calls("update")) == 2)


@pytest.mark.covers("QMD-4", "QMD-13", "QMD-14")
async def test_collections_follow_the_settings(tmp_path: Path) -> None:
    """Another pattern makes a collection again, a path that is gone removes it, others' stay."""
    program = StandIn(tmp_path / "program")
    docs = tmp_path / "docs"
    docs.mkdir()
    for paths in (
        [{"path": str(docs)}, {"path": "notes/one.md"}],
        [{"path": str(docs), "pattern": "*.md"}],
        [],
    ):
        config = written(tmp_path, {"paths": paths, "update": {"onBoot": False}}, command=program.command)
        (config.workspace / "notes").mkdir(exist_ok=True)
        async with started(config) as engine:
            await engine.sync()
        made: dict[str, list[str]] = json.loads(
            (qmd_home(config).config / "qmd" / "stand-in.json").read_text(encoding="utf-8")
        )
        extra = {name: made[name] for name in made if name.startswith("custom")}
        if not paths:
            assert extra == {}
        elif len(paths) == 1:
            assert extra == {"custom-1-main": [str(docs), "*.md"]}
        else:
            assert extra["custom-2-main"] == [str(config.workspace / "notes"), "one.md"]
    assert made["memory-root-main"] == [str(config.workspace), "MEMORY.md"]


@pytest.mark.covers("QMD-30", "QMD-31")
async def test_vectors_are_made_where_they_are_used(tmp_path: Path) -> None:
    """Not for `search`; a failure is only a warning, and is not tried again at once."""
    async with ready(tmp_path) as (engine, program, _config):
        await engine.sync()
        assert program.calls("embed") == []
    program = StandIn(tmp_path / "query" / "program")
    program.failing(embed={"code": 1, "err": "Error: no model\n"})
    config = written(
        tmp_path / "query", {"searchMode": "query", "update": {"onBoot": False}}, command=program.command
    )
    async with started(config) as engine:
        await engine.sync()
        await engine.sync()
        assert len(program.calls("embed")) == 1
        assert "no model" not in await engine.status()


@pytest.mark.covers("QMD-11")
def test_a_status_starts_nothing(tmp_path: Path) -> None:
    """Neither making the engine nor its folder runs the program."""
    program = StandIn(tmp_path / "program")
    config = written(tmp_path, {}, command=program.command)
    engine = engine_of(config)
    assert engine.tools(private_chat(config))
    assert qmd_home(config).state().collections == {}
    assert program.calls() == []
