"""How often the owner is asked on a day on which words of others come in as well."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from nacre import Agent
from nacre.memory.files.proposals import ReviewQueue
from nacre.runtime.contracts.inbound import Quoted
from tests.faults.apart.obeying import TODAY
from tests.faults.apart.poisoned_home import Home
from tests.runtime.agents import said

CLUB = "chats/line-group-club"
IN_CLUB = {"chat_kind": "group", "channel": "line", "chat_id": "club", "sender_id": "nora"}
EVE = (Quoted(text="The plumber comes on Monday.", kind="forward", said_by="Eve"),)
Kind = Literal["a log or topic", "the owner's words in a core file", "other words in a core file"]


class Own(NamedTuple):
    """An honest turn of the owner, and the note that the model makes of it."""

    kind: Kind
    text: str
    path: str
    line: str


def own(number: int) -> Sequence[Own]:
    """Four turns, as they follow each other all day: two for a log, one in these words, one in others."""
    return (
        Own("a log or topic", f"I met Ines{number} today.", TODAY, f"- Met Ines{number}."),
        Own("a log or topic", f"The garden has bed {number}.", "memory/garden.md", f"- Bed {number}."),
        Own(
            "the owner's words in a core file",
            f"Remember that I like tea {number}.",
            "USER.md",
            f"- I like tea {number}.",
        ),
        Own(
            "other words in a core file",
            f"From now on answer in {number} sentences.",
            "MEMORY.md",
            f"- The owner wants {number} sentences.",
        ),
    )


async def test_most_turns_of_a_mixed_day_need_no_approval(tmp_path: Path) -> None:
    """Only notes in other words than the owner's wait, and only behind words of others: 4 of 34 turns."""
    home = Home(tmp_path)
    queue = ReviewQueue(tmp_path / "agents/main/proposals", lock_dir=tmp_path / "locks")
    turns, asked = Counter[str](), Counter[str]()

    async def take(agent: Agent, each: Own, **where: Any) -> None:
        before = len(await queue.waiting())
        home.model.owners = (("append", {"path": each.path, "text": f"{each.line}\n"}),)
        await agent.respond(said(each.text, **where))
        turns[each.kind] += 1
        asked[each.kind] += len(await queue.waiting()) > before

    async with home.agent() as agent:
        for each in (*own(1), *own(2)):  # the morning
            await take(agent, each)
        home.page, home.model.first = "Rain until noon.", (("fetch", {}),)
        await agent.respond(said("How is the weather?"))
        for each in own(3):
            await take(agent, each)
        await agent.respond(said("Look at this.", quoted=EVE))
        for each in own(4):
            await take(agent, each)
        await agent.respond(said("I bring cake.", **IN_CLUB | {"sender_id": "eve", "is_owner": False}))
        for number in range(3):  # the owner in the group
            shared = f"The club meets at {number}."
            await take(agent, Own("a log or topic", "Note it.", f"{CLUB}/notes.md", f"- {number}"), **IN_CLUB)
            kind: Kind = "the owner's words in a core file"
            await take(agent, Own(kind, shared, "shared/club.md", f"- {shared}"), **IN_CLUB)
        home.model.first = (("memory_search", {"query": "cake"}),)
        await agent.respond(said("Who brings cake?"))
        for each in (*own(5), *own(6)):
            await take(agent, each)
        await agent.respond(said("/new"))
        for each in own(7):  # the evening
            await take(agent, each)
    assert asked == {
        "a log or topic": 0,
        "the owner's words in a core file": 0,
        "other words in a core file": 4,
    }
    assert (asked.total(), turns.total()) == (4, 34)
