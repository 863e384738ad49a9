"""A memory engine in a few lines: it keeps what you say in a file, and recalls it by the words it shares."""

import asyncio
import json
import re
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from nacre import (
    Agent,
    CommandContext,
    EngineCommand,
    HookTable,
    MemoryHome,
    MemoryPlugin,
    MemoryTool,
    SessionEnded,
    ToolChat,
    command,
    tool,
)


class LineMemory(MemoryPlugin):
    """One JSON line for each thing that was said, and a mark where a conversation ended."""

    async def start(self, home: MemoryHome) -> None:
        self._file: Path = home.folder() / "lines.jsonl"
        self._file.touch(mode=0o600)
        self._tools = [tool(self.memory_lines)]

    def hooks(self) -> HookTable:
        return {"session_end": self.mark_end}

    def commands(self) -> Sequence[EngineCommand]:
        return [command("lines", help="tell what the line memory holds")(self.lines_command)]

    def tools(self, chat: ToolChat) -> Sequence[MemoryTool]:
        return self._tools

    def memory_lines(self) -> list[str]:
        """Everything that the owner has said so far, the oldest first."""
        return [json.loads(line) for line in self._file.read_text().splitlines()]

    def lines_command(self, run: CommandContext) -> str:
        return "\n".join(self.memory_lines())

    def mark_end(self, event: SessionEnded) -> None:
        self._keep(f"(the conversation ended: {event.action})")

    async def capture(self, chat: ToolChat, asked: str, answered: str) -> None:
        self._keep(asked)

    def _keep(self, text: str) -> None:
        with self._file.open("a") as file:
            file.write(json.dumps(text) + "\n")

    async def recall(self, chat: ToolChat, asked: str) -> str:
        words = _words(asked)
        return "\n".join(line for line in self.memory_lines() if words & _words(line))

    async def status(self) -> str:
        return f"{len(self.memory_lines())} lines in {self._file.name}"


def _words(text: str) -> set[str]:
    return {word for word in re.findall(r"\w+", text.lower()) if len(word) > 3}


async def main(state_dir: str) -> None:
    for text in ("My boat is called Halcyon.", "/new", "/lines", "/status"):
        async with Agent.open(state_dir=state_dir, memory=LineMemory()) as agent:
            reply = await agent.ask(text)
            print(reply.text if reply else "(the assistant stays silent)")


if __name__ == "__main__":
    with TemporaryDirectory() as folder:
        asyncio.run(main(folder))
