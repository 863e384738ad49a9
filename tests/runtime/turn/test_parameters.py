"""Parameters of model calls: from the settings, or for one call."""

from __future__ import annotations

from pathlib import Path

import pytest

from nacre import ConfigError, ModelParameters, tool
from nacre.extensions.providers.completions.messages import completion_arguments
from nacre.runtime.contracts.model import ModelRequest, SystemPrompt, ToolSpec
from nacre.runtime.models.scripted import ScriptedModel, calls, says
from tests.runtime.agents import opened, write_settings


@tool
def depth() -> str:
    """How deep the water is."""
    return "four metres"


@pytest.mark.covers("A10-4")
async def test_the_settings_are_for_each_turn_and_a_call_replaces_them(tmp_path: Path) -> None:
    """A call without parameters of its own has those of the settings."""
    params = {"temperature": 0.2, "reasoningEffort": "low"}
    write_settings(tmp_path, {"agents": {"defaults": {"params": params}}})
    model = ScriptedModel(says("a"), says("b"))
    async with opened(tmp_path, model) as agent:
        await agent.ask("one")
        await agent.ask("two", parameters=ModelParameters(temperature=1))
    assert [request.parameters for request in model.requests] == [
        ModelParameters(temperature=0.2, reasoning_effort="low"),
        ModelParameters(temperature=1),
    ]


async def test_a_choice_of_tools_holds_until_the_first_call(tmp_path: Path) -> None:
    """A model that must call a tool in each step would never answer."""
    model = ScriptedModel(calls(("depth", {})), says("Four metres."))
    async with opened(tmp_path, model, tools=[depth]) as agent:
        await agent.ask("How deep?", parameters=ModelParameters(temperature=0, tool_choice="required"))
    assert [request.parameters.fields() for request in model.requests] == [
        {"temperature": 0, "tool_choice": "required"},
        {"temperature": 0},
    ]


async def test_a_choice_of_a_tool_that_is_not_here_is_refused(tmp_path: Path) -> None:
    """A provider would only call the request malformed."""
    model = ScriptedModel(says("a"))
    async with opened(tmp_path, model, tools=[depth]) as agent:
        with pytest.raises(ConfigError, match=r"tool_choice='dept' is not a tool of this chat: .*, depth\."):
            await agent.ask("How deep?", parameters=ModelParameters(tool_choice="dept"))
        await agent.ask("How deep?", parameters=ModelParameters(tool_choice="depth"))
    assert len(model.requests) == 1


@pytest.mark.covers("A10-4")
def test_a_provider_gets_them_in_its_fields() -> None:
    """A choice of tools is sent only beside tools."""
    parameters = ModelParameters(reasoning_effort="low", tool_choice="depth")
    spec = ToolSpec(name="depth", description="Depth.", parameters={"type": "object"})
    request = ModelRequest(system=SystemPrompt(stable=""), messages=(), parameters=parameters)
    assert "tool_choice" not in completion_arguments(request, model_name="openai/x")
    sent = completion_arguments(
        ModelRequest(system=SystemPrompt(stable=""), messages=(), tools=(spec,), parameters=parameters),
        model_name="openai/x",
    )
    assert sent["reasoning_effort"] == "low"
    assert sent["tool_choice"] == {"type": "function", "function": {"name": "depth"}}
