"""Each flush leaves a block of its own in the daily log, and what is noted later is no part of it.

With a bank, the owner's flush is asked for lines that pages are made of, and nobody else's is.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import nacre
from nacre.extensions.curation.reflection import BankProposal, propose_bank
from nacre.extensions.curation.retain import Retained, retained_items
from nacre.memory.workspace.folder import FolderWorkspace
from nacre.prompts import render
from nacre.runtime.models.scripted import Clock, ScriptedModel, calls, says
from nacre.sessions.contracts.messages import Usage, message_text
from tests.runtime.agents import START, TODAY, opened, said, window_settings, write_settings

RETAIN = "\n\n" + render("flush/retain")
NEARLY_FULL = Usage(input_tokens=8_490, output_tokens=10)


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
    """A fresh session finds the fact that was noted, not the question that was noted before it.

    An agent that closes has written the notes of the sessions that ended, which come behind the reply.
    """
    async with opened(tmp_path, None) as agent:
        for text in (
            "What is the wifi password of the cabin?",
            "/new",
            "The wifi password of the cabin: BlueHeron42, remember that",
            "/new",
        ):
            await agent.respond(said(text))
    async with opened(tmp_path, None, ids="later") as agent:
        reply = await agent.respond(said("What is the wifi password of the cabin?"))

    assert reply is not None
    assert "BlueHeron42" in reply.text
    assert "> What is the wifi password" not in reply.text


def _settings(state_dir: Path, *, has_bank: bool, prompt: str = "") -> None:
    bank: dict[str, Any] = {"memory": {"bank": {"enabled": True}}} if has_bank else {}
    write_settings(state_dir, window_settings(prompt=prompt) | bank)


async def _proposed(state_dir: Path) -> BankProposal:
    return await propose_bank(FolderWorkspace(state_dir / "workspace", lock_dir=state_dir / "locks"))


def _noting(text: str) -> ScriptedModel:
    """A model whose second turn has a flush that notes `text`."""
    return ScriptedModel(
        says("ok", usage=NEARLY_FULL),
        calls(("append", {"path": TODAY, "text": text}), purpose="flush"),
        says("NO_REPLY", purpose="flush"),
        says("yes", usage=NEARLY_FULL),
    )


def test_the_prompt_shows_lines_that_can_be_read() -> None:
    """Each kind of line stands in it as the pages take it."""
    shown = "".join(line for line in RETAIN.splitlines(keepends=True) if line.startswith("- "))
    read = [*retained_items(TODAY, f"## Retain\n\n{shown}")]

    assert [line.kind for line in read if isinstance(line, Retained)] == ["W", "B", "O", "S"]
    assert "`## Retain`" in RETAIN


@pytest.mark.parametrize("prompt", ["", "Save what matters to memory/YYYY-MM-DD.md."])
async def test_a_flush_is_asked_for_lines_of_the_bank(tmp_path: Path, prompt: str) -> None:
    """Behind our request and behind the owner's own; what it notes is proposed; without a bank nothing is."""
    asked: dict[bool, str] = {}
    for has_bank in (False, True):
        state_dir = tmp_path / str(has_bank)
        _settings(state_dir, has_bank=has_bank, prompt=prompt)
        model = _noting("- Bees.\n\n## Retain\n\n- W @Peter: Keeps bees in Faro.")
        async with opened(state_dir, model) as agent:
            await agent.respond(said("Peter keeps bees in Faro."))
            await agent.respond(said("and now?"))
        model.assert_complete()
        asked[has_bank] = message_text(model.requests[1].messages[-1])
    found = await _proposed(tmp_path / "True")

    assert asked[True] == asked[False] + RETAIN
    assert f"+- @Peter: Keeps bees in Faro. ({TODAY}#L7)" in found.diff
    assert found.unparsed == ()


async def test_the_offline_responder_notes_as_without_a_bank(tmp_path: Path) -> None:
    """It takes the request for what it is: none of its words are noted, and no line is marked."""
    logs: list[str] = []
    for has_bank in (False, True):
        state_dir = tmp_path / str(has_bank)
        _settings(state_dir, has_bank=has_bank)
        async with opened(state_dir, None) as agent:
            for text in ("My sister Ann lives in Faro.", "/compact", "We decided to sell the boat.", "/new"):
                await agent.respond(said(text))
        logs.append((state_dir / "workspace" / TODAY).read_text(encoding="utf-8"))

    assert logs[0] == logs[1]
    assert "sell the boat" in logs[1]


async def test_no_line_of_a_group_reaches_the_bank(tmp_path: Path) -> None:
    """A group's flush is not asked, and what its model marks all the same stays in the group's own notes."""
    _settings(tmp_path, has_bank=True)
    model = _noting("## Retain\n\n- W @Peter: Owes Eve ten pounds.\n- O(c=1) @Peter: Is a cheat.")
    async with opened(tmp_path, model) as agent:
        for text in ("Peter owes me ten pounds.", "Peter is a cheat."):
            await agent.respond(
                said(text, chat_kind="group", channel="line", chat_id="club", sender_id="eve", is_owner=False)
            )
    model.assert_complete()
    root = tmp_path / "workspace"
    holding = [
        path.relative_to(root).as_posix()
        for path in root.rglob("*.md")
        if re.search("cheat|ten pounds", path.read_text(encoding="utf-8"))
    ]

    assert "Retain" not in message_text(model.requests[1].messages[-1])
    assert len(holding) == 1
    assert holding[0].startswith("chats/")
    assert (await _proposed(tmp_path)).changes == ()


async def test_what_the_owner_said_is_theirs_beside_a_page(tmp_path: Path) -> None:
    """A marked line in the owner's own words is kept, though a tool was heard; the tool's words are not."""
    _settings(tmp_path, has_bank=True)
    model = ScriptedModel(
        calls(("browse", {})),
        says("ok", usage=NEARLY_FULL),
        calls(
            ("append", {"text": "## Retain\n\n- W @Peter: Keeps bees.\n- W @Peter: Is a cheat."}),
            purpose="flush",
        ),
        says("NO_REPLY", purpose="flush"),
        says("yes", usage=NEARLY_FULL),
    )

    @nacre.tool
    def browse() -> str:
        """Look at a page."""
        return "Peter is a cheat."

    async with opened(tmp_path, model, tools=[browse]) as agent:
        await agent.respond(said("Peter keeps bees."))
        await agent.respond(said("and now?"))
    found = await _proposed(tmp_path)

    assert "Keeps bees." in found.diff
    assert "cheat" not in found.diff
    assert "not the owner's word" in str(found.unparsed[0])
