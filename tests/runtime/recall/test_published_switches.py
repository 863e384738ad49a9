"""The published examples of decay, diversity and `minScore`, through the command line and the tool."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from nacre.runtime.recall.memory_core import memory_tools
from nacre.runtime.tools.toolbox import Toolbox
from nacre.sessions.contracts.messages import ToolCall, message_text
from tests.cli.program import run_nacre
from tests.memory.doubles import NO_SOURCES, open_engine, workspace
from tests.runtime.agents import write_settings

QUESTION = "what's Rod's work schedule?"
ROD = {
    148: "Rod works Mon-Fri, standup at 10am, pairing at 2pm",
    0: "Rod has standup at 14:15, 1:1 with Zeb at 14:45",
    7: "Rod started new team, standup moved to 14:15",
}
"""What is noted so many days ago, as published."""
PLAINER = {
    180: "# Work\n\nRod's work schedule is Monday to Friday, standup at 10am.",
    0: "# Today\n\n- Rod has standup at 14:15, 1:1 with Zeb at 14:45.\n- Bought oat milk.",
    7: "# Tuesday\n\n- Rod started on the new team, standup moved to 14:15.\n- Rain all day.",
}
"""The old note has the question's own words."""
NETWORK = {
    "memory/2026-02-10.md": "Configured Omada router, set VLAN 10 for IoT devices",
    "memory/2026-02-08.md": "Configured Omada router, moved IoT to VLAN 10",
    "memory/2026-02-05.md": "Set up AdGuard DNS on 192.168.10.2",
    "memory/network.md": "Router: Omada ER605, AdGuard: 192.168.10.2, VLAN 10: IoT",
}
FORMULAS = ("default", "seed")
DECAY = {"temporalDecay": {"enabled": True}}


def _dated(notes: Mapping[int, str], today: datetime) -> dict[str, str]:
    return {f"memory/{(today - timedelta(days=age)).date()}.md": text for age, text in notes.items()}


def _ages(hits: list[Any], today: datetime) -> list[int]:
    days = (datetime.fromisoformat(hit["path"][7:17]).replace(tzinfo=UTC) for hit in hits)
    return [(today.date() - day.date()).days for day in days]


def _shell(
    home: Path, notes: Mapping[str, str], hybrid: dict[str, object], *arguments: str, **settings: str
) -> list[Any]:
    workspace(home / ".nacre", notes)
    write_settings(
        home / ".nacre", {"agents": {"defaults": {"memorySearch": {"query": {"hybrid": hybrid}, **settings}}}}
    )
    assert run_nacre(home, "memory", "index").returncode == 0
    found = run_nacre(home, "memory", "search", *arguments, "--json")
    hits: list[Any] = json.loads(found.stdout)["results"]
    return hits


async def _tool(
    folder: Path, notes: Mapping[str, str], settings: dict[str, object], now: datetime, **arguments: object
) -> list[Any]:
    workspace(folder, notes)
    engine = await open_engine(folder, {"query": settings}, now=lambda: now)
    try:
        await engine.sync(reason="test")
        toolbox = Toolbox(memory_tools(engine, NO_SOURCES, cites=False), now_ms=lambda: 0)
        call = ToolCall(id="c", name="memory_search", arguments=arguments)
        hits: list[Any] = json.loads(message_text((await toolbox.run(call)).message))["results"]
        return hits
    finally:
        await engine.close()


@pytest.mark.parametrize(("fusion", "notes"), [("default", PLAINER), ("seed", ROD)])
def test_with_decay_the_newest_note_is_first_in_the_shell(
    tmp_path: Path, fusion: str, notes: Mapping[int, str]
) -> None:
    """Today's note, last week's, and the old one, which is nearest, at the end; with the model that ships."""
    today = datetime.now(UTC)
    hits = _shell(tmp_path, _dated(notes, today), {"fusion": fusion, **DECAY}, QUESTION)

    assert _ages(hits, today) == sorted(notes)
    scores = [hit["score"] for hit in hits]
    assert scores == sorted(scores, reverse=True)
    assert scores[2] < scores[1] / 3  # at high load the words alone decide, with lower scores


@pytest.mark.parametrize("fusion", FORMULAS)
@pytest.mark.parametrize("notes", [ROD, PLAINER])
async def test_with_decay_the_newest_note_is_first_for_the_model(
    tmp_path: Path, fusion: str, notes: Mapping[int, str]
) -> None:
    """The same through the tool, searched by words alone."""
    now = datetime(2026, 2, 10, 12, tzinfo=UTC)
    query = {"hybrid": {"fusion": fusion, **DECAY}}
    hits = await _tool(tmp_path, _dated(notes, now), query, now, query=QUESTION)

    assert _ages(hits, now) == sorted(notes)


@pytest.mark.parametrize("fusion", FORMULAS)
def test_no_hit_scores_less_than_the_shell_asked_for(tmp_path: Path, fusion: str) -> None:
    """`--min-score` leaves out each hit below it and keeps each hit above it, whatever stands first."""
    today = datetime.now(UTC)
    notes = _dated(PLAINER, today)
    every = _shell(
        tmp_path, notes, {"fusion": fusion, **DECAY}, QUESTION, "--min-score", "0", provider="none"
    )
    least = (every[1]["score"] + every[2]["score"]) / 2
    some = run_nacre(tmp_path, "memory", "search", QUESTION, "--min-score", str(least), "--json")

    assert json.loads(some.stdout)["results"] == every[:2]


@pytest.mark.parametrize("fusion", FORMULAS)
@pytest.mark.parametrize("by_setting", [False, True])
async def test_no_hit_scores_less_than_the_model_or_the_owner_asked_for(
    tmp_path: Path, fusion: str, by_setting: bool
) -> None:
    """`minScore` of the tool or of the settings asks each hit for its own score."""
    now = datetime(2026, 2, 10, 12, tzinfo=UTC)
    notes, hybrid = _dated(PLAINER, now), {"fusion": fusion, **DECAY}
    every = await _tool(tmp_path / "all", notes, {"hybrid": hybrid}, now, query=QUESTION, minScore=0)
    least = (every[1]["score"] + every[2]["score"]) / 2
    query = {"hybrid": hybrid} | ({"minScore": least} if by_setting else {})
    asked = {} if by_setting else {"minScore": least}
    some = await _tool(tmp_path / "some", notes, query, now, query=QUESTION, **asked)

    assert [hit["path"] for hit in some] == [hit["path"] for hit in every[:2]]


@pytest.mark.parametrize("fusion", FORMULAS)
async def test_diversity_drops_the_near_duplicate(tmp_path: Path, fusion: str) -> None:
    """Of the published notes, the one of two days before says what the newest says, and gives way."""
    now = datetime(2026, 2, 10, 12, tzinfo=UTC)
    asked = {"query": "Omada router VLAN IoT", "maxResults": 2}
    plain = await _tool(tmp_path / "plain", NETWORK, {"hybrid": {"fusion": fusion}}, now, **asked)
    hybrid = {"fusion": fusion, "mmr": {"enabled": True}}
    diverse = await _tool(tmp_path / "diverse", NETWORK, {"hybrid": hybrid}, now, **asked)

    alike = {"memory/2026-02-10.md", "memory/2026-02-08.md"}
    assert {hit["path"] for hit in plain} == alike or fusion == "default"
    assert diverse[0] == plain[0]
    assert diverse[1]["path"] == "memory/network.md"


async def test_the_second_score_says_how_good_the_second_hit_is(tmp_path: Path) -> None:
    """Three notes that have all of the question score alike; one that has little of it scores little."""
    now = datetime(2026, 2, 10, 12, tzinfo=UTC)
    hits = await _tool(tmp_path, NETWORK, {}, now, query="Omada router VLAN IoT", minScore=0)
    scores = [hit["score"] for hit in hits]

    assert all(score > 0.8 * scores[0] for score in scores[1:3])
    assert all(score < 0.5 * scores[0] for score in scores[3:])
