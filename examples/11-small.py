"""A tool in three lines and a memory engine in eight: the minimum that an author writes."""

import asyncio
from tempfile import TemporaryDirectory

from nacre import Agent, MemoryHome, MemoryPlugin, ToolChat, tool


@tool
def moon(day: int) -> str:
    """The phase of the moon on a day of this month."""
    return "full" if day == 14 else "not full"


class Lines(MemoryPlugin):
    """Keeps every message, and recalls them all."""

    async def start(self, home: MemoryHome) -> None:
        self.file = home.folder() / "lines.txt"

    async def capture(self, chat: ToolChat, asked: str, answered: str) -> None:
        with self.file.open("a") as file:
            file.write(f"{asked}\n")

    async def recall(self, chat: ToolChat, asked: str) -> str:
        return self.file.read_text() if self.file.exists() else ""


async def main(state_dir: str) -> None:
    async with Agent.open(state_dir=state_dir, tools=[moon], memory=Lines()) as agent:
        for text in ("My boat is called Halcyon.", "What is my boat called?"):
            reply = await agent.ask(text)
            print(reply.text if reply else "(the assistant stays silent)")


if __name__ == "__main__":
    with TemporaryDirectory() as folder:
        asyncio.run(main(folder))
