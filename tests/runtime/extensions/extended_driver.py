"""Opens an agent with the extensions of its settings, says each argument, and prints what came of it as JSON.

The model calls each tool of an extension once, before its first answer.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

from nacre import Agent
from nacre.runtime.models.scripted import ScriptedModel, calls, says
from nacre.sessions.contracts.messages import ToolResultMessage, message_text

TOOLS: dict[str, dict[str, Any]] = {"tide": {"day": "Monday"}, "tide_log": {}}
NACRES_OWN = {"read", "write", "append", "edit", "list", "memory_search", "memory_get"}


async def main(home: Path, texts: list[str]) -> dict[str, Any]:
    model = ScriptedModel()
    async with await Agent.open(state_dir=home / ".nacre", model=model, watch=False) as agent:
        replies: list[str] = []
        for number, text in enumerate(texts):
            if not text.startswith("/"):
                model.add(*([calls(*TOOLS.items())] if number == 0 and "tide" in text else []), says("Yes."))
            reply = await agent.ask(text)
            replies.append(reply.text if reply else "")
        notices = agent.notices
    last = model.requests[-1]
    return {
        "notices": list(notices),
        "replies": replies,
        "tools": [spec.name for spec in last.tools if spec.name not in NACRES_OWN],
        "memory_tools": [spec.name for spec in last.tools if spec.name.startswith("memory_")],
        "stable": last.system.stable,
        "tail": last.system.tail,
        "results": [
            message_text(message)
            for request in model.requests[1:2]
            for message in request.messages
            if isinstance(message, ToolResultMessage)
        ],
        "imported": sorted(name for name in sys.modules if name.startswith("nacre_")),
    }


if __name__ == "__main__":
    print(json.dumps(asyncio.run(main(Path(os.environ["HOME"]), sys.argv[1:]))))  # noqa: T201 - its result
