"""One turn in which a scripted model calls a bot author's tools."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from nacre.runtime.contracts.events import Event
from nacre.runtime.models.scripted import ScriptedModel, calls, says
from nacre.runtime.tools.function import FunctionTool
from nacre.sessions.contracts.messages import message_text
from tests.runtime.agents import events_of, opened, said


async def turn_with(
    tmp_path: Path,
    tools: Sequence[FunctionTool[..., Any] | Callable[..., Any]],
    *calling: tuple[str, dict[str, Any]],
    **inbound: Any,
) -> tuple[ScriptedModel, list[Event], str]:
    """One turn in which the model calls tools: the model, the events, and the last result."""
    model = ScriptedModel(calls(*calling), says("done"))
    async with opened(tmp_path, model, tools=tools) as agent:
        events = await events_of(agent, said("go", **inbound))
    return model, events, message_text(model.requests[-1].messages[-1])
