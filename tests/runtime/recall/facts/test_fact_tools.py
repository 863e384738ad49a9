"""What the model does with facts and notes in a chat, and what no other chat sees of it."""

from __future__ import annotations

import json
from typing import Any

from nacre import Agent
from nacre.runtime.models.scripted import ScriptedModel, calls, says
from nacre.sessions.contracts.messages import ToolResultMessage, message_text
from tests.runtime.agents import said

ON = {"memory": {"facts": {"enabled": True, "owner": "dipankar"}}}
GROUP = {"chat_kind": "group", "channel": "telegram", "chat_id": "7", "sender_id": "9", "is_owner": False}
ANNA = {"chat_kind": "direct", "channel": "telegram", "sender_id": "70", "is_owner": False}


async def _called(agent: Agent, model: ScriptedModel, tool: str, arguments: dict[str, Any], **chat: Any) -> Any:
    """What a tool answers when the model calls it in a chat."""
    model.expect(calls(tool, **arguments), says("Done."))
    await agent.respond(said("Go on.", **chat))
    result = [item for item in model.requests[-1].messages if isinstance(item, ToolResultMessage)][-1]
    text = message_text(result)
    return text if result.is_error else json.loads(text)


def _names(model: ScriptedModel) -> set[str]:
    return {tool.name for tool in model.requests[-1].tools if "fact" in tool.name or tool.name.startswith("memory_")}
