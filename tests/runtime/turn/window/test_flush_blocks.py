"""Each flush leaves a block of its own in the daily log, and what is noted later is no part of it."""

from __future__ import annotations

from pathlib import Path

from nacre.runtime.models.scripted import Clock
from tests.runtime.agents import START, TODAY, opened, said


async def test_what_is_told_behind_a_flush_is_no_open_question(tmp_path: Path) -> None:
    """A fact behind a flush that ended with an open question has a heading, and so has the next flush."""
    clock = Clock(START)
    async with opened(tmp_path, None, clock=clock) as agent:
        for text in ("My boss is Dan Fuller.", "Who has the ladder of the cabin?", "/compact"):
            await agent.respond(said(text))
        clock.advance(minutes=5)
        for text in (
            "Remember that my dentist is Dr. Rossi.",
            "Marco has the ladder of the cabin.",
            "/compact",
        ):
            await agent.respond(said(text))
        clock.advance(minutes=5)
        for text in ("We decided to sell the red boat.", "/compact", "What colour is the boat?"):
            reply = await agent.respond(said(text))

    log = (tmp_path / "workspace" / TODAY).read_text()
    assert log == (
        "- My boss is Dan Fuller.\n\n"
        "## Notes of the conversation, 23:30\n\n"
        "### Open asks\n- Who has the ladder of the cabin?\n\n"
        "## Noted at 23:35\n\n"
        "- my dentist is Dr. Rossi.\n\n"
        "## Notes of the conversation, 23:35\n\n"
        "### Facts\n- Marco has the ladder of the cabin.\n\n"
        "## Noted at 23:40\n\n"
        "- We decided to sell the red boat.\n"
    )
    assert reply is not None
    assert "> We decided to sell the red boat." in reply.text


async def test_an_answer_is_quoted_before_its_question(tmp_path: Path) -> None:
    """A fresh session finds the fact that was noted, not the question that was noted before it."""
    async with opened(tmp_path, None) as agent:
        for text in (
            "What is the wifi password of the cabin?",
            "/new",
            "The wifi password of the cabin: BlueHeron42, remember that",
            "/new",
        ):
            await agent.respond(said(text))
        reply = await agent.respond(said("What is the wifi password of the cabin?"))

    assert reply is not None
    assert "BlueHeron42" in reply.text
    assert "> What is the wifi password" not in reply.text
