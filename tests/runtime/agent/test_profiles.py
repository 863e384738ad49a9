"""Profiles: how long the prompt of a first message is, and what each leaves out."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import get_args

import pytest

from nacre import Agent, Inbound, tool
from nacre.runtime.contracts.errors import ConfigError
from nacre.runtime.contracts.model import ModelRequest
from nacre.runtime.models.scripted import Clock, ScriptedModel, calls, says
from nacre.runtime.settings.sections.agents import Profile
from tests.runtime.agents import START, write_settings

MEMORY = ["append", "memory_get", "memory_search"]
OFFERED = {"assistant": sorted(["edit", "list", "read", "write", *MEMORY]), "bot": MEMORY, "bare": []}


BOTS = Path(__file__).parents[3] / "docs" / "bots.md"


def number(text: str) -> int:
    """The first number of a text such as `9,340 characters`."""
    return int(re.findall(r"\d[\d,]*", text)[0].rstrip(",").replace(",", ""))


def prompt_chars(request: ModelRequest) -> int:
    """The length of the system prompt."""
    return len(request.system.joined())


async def first_request(state_dir: Path, profile: Profile, inbound: Inbound) -> ModelRequest:
    """What the model is sent for a first message."""
    model = ScriptedModel(says("Hello."))
    async with Agent.open(
        state_dir=state_dir, environment={}, model=model, profile=profile, clock=Clock(START), watch=False
    ) as agent:
        await agent.respond(inbound)
    return model.requests[0]


async def test_the_page_states_what_profiles_cost(tmp_path: Path) -> None:
    """Prompt and tools of a first "hi", in private and in a group, as docs/bots.md says them."""
    section = BOTS.read_text(encoding="utf-8").partition("## Choose a profile\n")[2].partition("\n## ")[0]
    rows = [row.split("|") for row in section.splitlines() if row.startswith(("| a", "| b"))]
    cells = [[number(cell) for cell in row[2:4]] for row in rows]
    groups = re.findall(r"[\d,]*\d(?=,| and| char)", section.partition("In a group")[2])
    for (prompt, tools), in_group, profile in zip(cells, groups, get_args(Profile), strict=True):
        for kind, stated in (("direct", prompt), ("group", number(in_group))):
            inbound = Inbound(
                text="hi", chat_kind=kind, chat_id="g", sender_id="ann", is_owner=kind == "direct"
            )
            folder = tmp_path / profile / kind
            folder.mkdir(parents=True)
            request = await first_request(folder, profile, inbound)
            assert prompt_chars(request) == pytest.approx(
                stated, rel=0.015
            )  # the path of the workspace is in it
            if kind == "direct":
                specs = [
                    {"name": each.name, "description": each.description, "parameters": each.parameters}
                    for each in request.tools
                ]
                assert (len(json.dumps(specs)) if specs else 0) == tools


@pytest.mark.parametrize("profile", ["assistant", "bot", "bare"])
@pytest.mark.parametrize("kind", ["direct", "group"])
async def test_a_profile_has_its_length(tmp_path: Path, profile: Profile, kind: str) -> None:
    """A short one stays short in private and in a group, and offers only its tools."""
    inbound = Inbound(text="hi", chat_kind=kind, chat_id="g", sender_id="ann", is_owner=kind == "direct")
    request = await first_request(tmp_path, profile, inbound)
    longest = {"assistant": 12_000, "bot": 2_000, "bare": 800}[profile]
    assert prompt_chars(request) <= longest
    names = sorted(spec.name for spec in request.tools)
    assert names == OFFERED[profile]
    assert "NO_REPLY" in request.system.stable
    assert (tmp_path / "workspace" / "SOUL.md").exists() == (profile == "assistant")
    assert ("typed by somebody" in request.system.stable) == (kind == "group")


async def test_an_author_adds_to_a_bare_profile(tmp_path: Path) -> None:
    """Instructions and tools of the program are all that there is; nothing is noted or searched."""

    @tool
    def moon() -> str:
        """How the moon stands."""
        return "waxing"

    model = ScriptedModel(calls(("moon", {})), says("Waxing."))
    async with Agent.open(
        state_dir=tmp_path,
        environment={},
        model=model,
        profile="bare",
        tools=[moon],
        instructions="You know the moon.",
        clock=Clock(START),
    ) as agent:
        await agent.ask("How is the moon?")
    assert [spec.name for spec in model.requests[0].tools] == ["moon"]
    assert "You know the moon." in model.requests[0].system.stable
    assert prompt_chars(model.requests[0]) <= 800
    assert not list(tmp_path.rglob("*.sqlite"))


async def test_a_bot_has_the_files_that_its_author_wrote(tmp_path: Path) -> None:
    """Files of the workspace go in if they are there; a setting of its own replaces what the profile says."""
    write_settings(tmp_path, {"agents": {"defaults": {"profile": "bot", "tools": {"deny": ["append"]}}}})
    (tmp_path / "workspace").mkdir()
    (tmp_path / "workspace" / "SOUL.md").write_text("You are a lighthouse keeper.", encoding="utf-8")
    model = ScriptedModel(says("Ahoy."))
    async with Agent.open(
        state_dir=tmp_path, environment={}, model=model, clock=Clock(START), watch=False
    ) as agent:
        await agent.ask("hi")
    stable = model.requests[0].system.stable
    assert "lighthouse keeper" in stable
    assert "## AGENTS.md" not in stable
    assert "read" in {spec.name for spec in model.requests[0].tools}


async def test_another_word_is_no_profile(tmp_path: Path) -> None:
    """The sentence names the profiles, and blames no settings file, where nothing of it stands."""
    with pytest.raises(ConfigError, match=r"^profile='tiny' does not exist.*'bot', 'bare'\.$"):
        await Agent.open(state_dir=tmp_path, environment={}, profile="tiny")  # type: ignore[arg-type]
