"""An agent keeps its sessions within the owner's limits, and says so where the owner would notice."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from nacre.runtime.contracts.errors import ConfigError
from nacre.runtime.contracts.events import Warned
from nacre.runtime.models.scripted import Clock, ScriptedModel, says
from nacre.runtime.settings.config import load_config
from nacre.runtime.settings.sections.session import MaintenanceSettings, duration_ms
from tests.cli.program import run_here
from tests.runtime.agents import START, events_of, opened, said, transcript_file, write_settings

PEER = {"is_owner": False, "channel": "chat", "sender_id": "joe"}


def keys(state_dir: Path) -> list[str]:
    return list(json.loads((state_dir / "agents/main/sessions/sessions.json").read_text()))


async def test_a_guest_of_long_ago_leaves_the_index_and_not_the_disk(tmp_path: Path) -> None:
    """At the next start; when they come back they begin afresh, and what they said is still there."""
    clock = Clock(START)
    async with opened(tmp_path, ScriptedModel(says("hi"), says("hi")), clock=clock) as agent:
        first = await agent.respond(said("hello", **PEER))
        await agent.respond(said("mine"))
    clock.advance(days=31)
    async with opened(tmp_path, ScriptedModel(says("hi")), clock=clock, ids="later-") as agent:
        left = keys(tmp_path)
        events = await events_of(agent, said("me again", **PEER))

    assert first is not None
    assert left == ["agent:main:main"]
    assert transcript_file(tmp_path).name == f"{first.session_id}.jsonl"
    assert not [event for event in events if isinstance(event, Warned)]


async def test_an_agent_that_stays_open_looks_every_hour(tmp_path: Path) -> None:
    """After a turn, beside it; the session of the turn stays."""
    write_settings(tmp_path, {"session": {"reset": {"mode": "none"}}})
    clock = Clock(START)
    model = ScriptedModel(says("hi"), says("hi"), says("hi"))
    async with opened(tmp_path, model, clock=clock) as agent:
        await agent.respond(said("hello", **PEER))
        clock.advance(minutes=59)
        await agent.respond(said("mine"))
        clock.advance(days=40)
        await agent.respond(said("mine"))

    assert keys(tmp_path) == ["agent:main:main"]


@pytest.mark.covers("A4-12")
async def test_warn_mode_says_what_would_go(tmp_path: Path) -> None:
    """Once, in the next turn; nothing is changed."""
    write_settings(tmp_path, {"session": {"maintenance": {"mode": "warn"}}})
    clock = Clock(START)
    async with opened(tmp_path, ScriptedModel(says("hi")), clock=clock) as agent:
        await agent.respond(said("hello", **PEER))
    clock.advance(days=31)
    async with opened(tmp_path, ScriptedModel(says("hi"), says("hi")), clock=clock) as agent:
        events = await events_of(agent, said("mine")) + await events_of(agent, said("mine"))

    told = [event.message for event in events if isinstance(event, Warned)]
    assert told == [
        "Unused sessions that would leave the index: agent:main:chat:dm:joe. "
        "`nacre sessions list --all` still lists them."
    ]
    assert keys(tmp_path) == ["agent:main:chat:dm:joe", "agent:main:main"]


async def test_files_that_were_removed_are_told(tmp_path: Path) -> None:
    """A limit of the disk is the owner's own, but what it costs is said."""
    write_settings(tmp_path, {"session": {"maintenance": {"maxDiskBytes": 1}}})
    clock = Clock(START)
    async with opened(tmp_path, ScriptedModel(says("hi")), clock=clock) as agent:
        gone = await agent.respond(said("hello", **PEER))
    clock.advance(days=700)
    async with opened(tmp_path, ScriptedModel(says("hi")), clock=clock, ids="later-") as agent:
        events = await events_of(agent, said("mine"))

    assert gone is not None
    told = [event.message for event in events if isinstance(event, Warned)]
    assert f"removed because of session.maintenance: {gone.session_id}.jsonl" in told[0]
    assert not (tmp_path / f"agents/main/sessions/{gone.session_id}.jsonl").exists()


async def greet_long_ago(state_dir: Path) -> None:
    clock = Clock(START.replace(year=2025))
    async with opened(state_dir, ScriptedModel(says("hi")), clock=clock) as agent:
        await agent.respond(said("hello", **PEER))


def test_cleanup_does_it_at_once(tmp_path: Path) -> None:
    """From a shell: a dry run changes nothing, then it is done, and then there is nothing to do."""
    asyncio.run(greet_long_ago(tmp_path / ".nacre"))

    commands = (("--dry-run", "--json"), (), ())
    dry, done, again = [run_here(tmp_path, "sessions", "cleanup", *options).stdout for options in commands]

    assert json.loads(dry) == {
        "dryRun": True,
        "pruned": ["agent:main:chat:dm:joe"],
        "movedAside": [],
        "removed": [],
        "removedBytes": 0,
    }
    assert done.startswith("Unused sessions that left the index: agent:main:chat:dm:joe.")
    assert again == "The sessions are within their limits.\n"


@pytest.mark.parametrize(
    ("written", "milliseconds"),
    [
        ("30d", 2_592_000_000),
        ("12h", 43_200_000),
        ("1.5 m", 90_000),
        ("2w", 1_209_600_000),
        ("3", 259_200_000),
    ],
)
def test_durations_are_read_as_people_write_them(written: str, milliseconds: int) -> None:
    """A number and a unit; days without one."""
    assert duration_ms(written) == milliseconds


def test_limits_are_read_from_the_settings() -> None:
    """With OpenClaw's names and forms; what is not set has the default."""
    limits = MaintenanceSettings.model_validate(
        {"pruneAfter": 7, "maxEntries": 60, "resetArchiveRetention": "1h", "maxDiskBytes": "500mb"}
    ).limits()
    usual = MaintenanceSettings().limits()

    assert (limits.prune_after_ms, limits.most_entries) == (7 * 86_400_000, 60)
    assert (limits.archive_retention_ms, limits.most_bytes) == (3_600_000, 500_000_000)
    assert (usual.prune_after_ms, usual.most_entries) == (30 * 86_400_000, 500)
    assert (usual.archive_retention_ms, usual.most_bytes, usual.high_water_bytes) == (None, None, None)
    off = MaintenanceSettings.model_validate({"pruneAfter": False, "maxDiskBytes": False}).limits()
    assert (off.prune_after_ms, off.most_bytes) == (None, None)


@pytest.mark.parametrize(
    "maintenance",
    [
        {"pruneAfter": "soon"},
        {"pruneAfter": "0d"},
        {"pruneAfter": True},
        {"maxEntries": 0},
        {"mode": "delete"},
        {"maxDiskBytes": "much"},
        {"maxDiskBytes": True},
    ],
)
def test_a_limit_that_cannot_be_read_is_refused(tmp_path: Path, maintenance: dict[str, Any]) -> None:
    """A slip in a setting that removes things stops the start; it is not taken for another limit."""
    write_settings(tmp_path, {"session": {"maintenance": maintenance}})
    with pytest.raises(ConfigError, match=r"session\.maintenance"):
        load_config({"NACRE_STATE_DIR": str(tmp_path)})
