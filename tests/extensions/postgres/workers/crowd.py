"""Many chats on a line server, whose people say the next thing when the last one was answered."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, field

from tests.bridges.line_channel import LineServer


@dataclass
class Crowd:
    """`chats` people; each says words that no one else says."""

    server: LineServer
    chats: int
    said: Counter[str] = field(default_factory=Counter)

    def speak(self) -> None:
        """Lets everybody speak whose words were all answered."""
        answered = Counter(sent.chat for sent in list(self.server.sent))
        for chat in (f"chat-{number}" for number in range(self.chats)):
            if answered[chat] >= self.said[chat]:
                self.said[chat] += 1
                self.server.say(f"{chat} says {self.said[chat]}", chat=chat, sender=chat)

    async def answered(self, seconds: float) -> None:
        """Waits until everything was answered, so long at most."""
        ends, total = asyncio.get_running_loop().time() + seconds, sum(self.said.values())
        while len(self.server.sent) < total and asyncio.get_running_loop().time() < ends:  # noqa: ASYNC110 - it is in another thread
            await asyncio.sleep(0.1)

    async def talk(self, seconds: float) -> None:
        """Keeps everybody speaking for so long."""
        ends = asyncio.get_running_loop().time() + seconds
        while asyncio.get_running_loop().time() < ends:
            self.speak()
            await asyncio.sleep(0.1)

    def problems(self) -> list[str]:
        """What is not as it should be at the receiver: every message answered once, in order in its chat."""
        found = []
        for number in range(self.chats):
            chat = f"chat-{number}"
            wanted = [f"re: {chat} says {each}" for each in range(1, self.said[chat] + 1)]
            if (shown := self.server.shown(chat)) != wanted:
                surplus, lost = Counter(shown) - Counter(wanted), Counter(wanted) - Counter(shown)
                found.append(f"{chat}: {list(surplus)} too many, {list(lost)} lost, of {len(wanted)}")
        return found
