"""What a message costs of our own between a bridge and its reply: inbox, ledger, queue, turn and outbox.

    python -m benchmarks.process.chats [--chats 1 100 1000] [--messages 200] [--folder DIR]

A bridge in this process hands messages in, one after the other, and is done when it is given the reply; the
model answers at once. In turn with each message goes a turn alone, through `Agent.respond`, in the same chat.
Medians in milliseconds, and messages a second when all chats speak at once.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

from benchmarks.turn import QUESTION, SETTLED_SECONDS, InstantModel
from nacre import Agent, Inbound
from nacre.bridges.contracts.bridge import Bridge, Capabilities, Inbox, Part
from nacre.bridges.gateway import Gateway

SETTINGS = (
    '{agents: {defaults: {memorySearch: {enabled: false}}}, channels: {loop: {dmPolicy: "open"}}, '
    'messages: {queue: {mode: "followup", debounceMs: 0}}}'
)


class LoopBridge(Bridge):
    """A channel without a server: what is delivered ends somebody's waiting."""

    channel = "loop"
    capabilities = Capabilities(greatest_length=4_000, has_idempotent_sends=True)

    def __init__(self) -> None:
        self.inbox: asyncio.Future[Inbox] = asyncio.get_running_loop().create_future()
        self._waiting: dict[str, asyncio.Event] = {}
        self._stopped = asyncio.Event()
        self._count = 0

    async def start(self, inbox: Inbox) -> None:
        """Is there until it is stopped."""
        inbox.connected()
        self.inbox.set_result(inbox)
        await self._stopped.wait()

    async def stop(self) -> None:
        """Ends."""
        self._stopped.set()

    async def deliver(self, part: Part) -> str:
        """Takes a reply."""
        self._waiting[part.place.chat_id].set()
        return part.key

    async def ask(self, chat: str) -> float:
        """Says something in a chat; how long the reply took, in milliseconds."""
        self._count += 1
        self._waiting[chat] = asyncio.Event()
        begun = time.perf_counter()
        await (await self.inbox).receive(
            Inbound(
                text=QUESTION,
                chat_kind="direct",
                channel="loop",
                chat_id=chat,
                sender_id=chat,
                message_id=str(self._count),
            )
        )
        await self._waiting[chat].wait()
        return (time.perf_counter() - begun) * 1000


async def measured(folder: Path, chats: int, messages: int) -> str:
    """A line of the report."""
    await asyncio.to_thread((folder / "nacre.json5").write_text, SETTINGS, encoding="utf-8")
    bridge = LoopBridge()
    async with await Agent.open(
        state_dir=folder, model=InstantModel(), environment={"HOME": str(folder)}, watch=False
    ) as agent:
        opening = Gateway.open(agent, [bridge], state_dir=folder, now=lambda: datetime.now(UTC))
        async with await opening:
            names = [f"c{number}" for number in range(chats)]
            for name in names:
                await bridge.ask(name)
            await asyncio.sleep(SETTLED_SECONDS)
            one_by_one, alone = [], []
            for number in range(messages):
                name = names[number % chats]
                one_by_one.append(await bridge.ask(name))
                begun = time.perf_counter()
                await agent.respond(
                    Inbound(text=QUESTION, chat_kind="direct", channel="loop", chat_id=name, sender_id=name)
                )
                alone.append((time.perf_counter() - begun) * 1000)
            begun = time.perf_counter()
            await asyncio.gather(*(bridge.ask(name) for name in names))
            rate = chats / (time.perf_counter() - begun)
    through, turn = median(one_by_one), median(alone)
    return (
        f"{chats:>6,} chats: {through:6.2f} ms a message, {turn:6.2f} ms the turn alone, "
        f"x {through / turn:.2f}; {rate:,.0f} messages/s when all speak at once"
    )


async def main() -> None:
    """Prints a line for each number of chats."""
    parser = argparse.ArgumentParser(description="What a message costs between a bridge and its reply.")
    parser.add_argument("--chats", type=int, nargs="*", default=[1, 100, 1_000])
    parser.add_argument("--messages", type=int, default=200)
    parser.add_argument("--folder", type=Path, default=None)
    asked = parser.parse_args()
    for chats in asked.chats:
        with tempfile.TemporaryDirectory(dir=asked.folder) as folder:
            print(await measured(Path(folder), chats, asked.messages))


if __name__ == "__main__":
    asyncio.run(main())
