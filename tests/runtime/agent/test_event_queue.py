"""What waits for a slow reader of a turn's events."""

from __future__ import annotations

import asyncio

from nacre.runtime.agent.event_queue import EventQueue
from nacre.runtime.contracts.events import TextStreamed, ToolStarted


async def test_text_that_waits_is_read_at_once_and_keeps_its_place() -> None:
    """No character is lost or passes a tool; a reader who waits gets each piece as it comes."""
    queue = EventQueue()
    tool = ToolStarted(call_id="1", tool_name="read", arguments={})
    for event in (
        TextStreamed(text="I "),
        TextStreamed(text="look."),
        tool,
        TextStreamed(text="Done."),
        None,
    ):
        queue.put(event)
    assert [await queue.get() for _ in range(4)] == [
        TextStreamed(text="I look."),
        tool,
        TextStreamed(text="Done."),
        None,
    ]
    waiting = asyncio.ensure_future(queue.get())
    await asyncio.sleep(0)
    queue.put(TextStreamed(text="a"))
    assert await waiting == TextStreamed(text="a")
