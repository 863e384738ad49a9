"""Reminders by topic: a line of a note comes up when a private message names its topic, and once."""

from __future__ import annotations

from pathlib import Path

import pytest

from nacre import Agent
from nacre.memory.files.sources.source import PRIVATE, Source
from nacre.memory.files.sources.sources import Sources
from nacre.memory.workspace.folder import FolderWorkspace
from nacre.memory.workspace.workspace import REMINDERS
from nacre.runtime.models.scripted import ScriptedModel, calls, says
from tests.runtime.agents import opened, said

LINE = "- [ ] boat, mooring: ask Ilse for the contract\n"


def tails(model: ScriptedModel) -> list[bool]:
    """Whether each request had a reminder at its tail; never anywhere else."""
    assert all("To bring up now" not in request.system.stable for request in model.requests)
    return ["To bring up now" in request.system.tail for request in model.requests]


def write(agent: Agent, text: str) -> Path:
    path = agent.workspace / REMINDERS
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


async def test_a_topic_brings_the_line_up_once(tmp_path: Path) -> None:
    """Another topic does not; the turn that names it gets the line with every request, then it is ticked."""
    model = ScriptedModel(
        says("Sun."), calls(("memory_search", {"query": "boat"})), says("And Ilse?"), says("It floats.")
    )
    async with opened(tmp_path, model) as agent:
        file = write(agent, f"# Mine\r\n\r\n{LINE}- [x] old: done (2026-01-01)\n")
        for text in ("How is the weather?", "Is a mooring expensive?", "And the boat?"):
            await agent.respond(said(text))
        text = file.read_bytes().decode()

    assert tails(model) == [False, True, True, False]
    assert "> - [ ] boat, mooring: ask Ilse for the contract" in model.requests[1].system.tail
    done = "- [x] boat, mooring: ask Ilse for the contract (2026-03-14)\n- [x] old: done (2026-01-01)\n"
    assert text == f"# Mine\r\n\r\n{done}"


@pytest.mark.parametrize(
    "line",
    [b"\xef\xbb\xbf- [ ] boat: ask\x0b", "- [ ] boat: ask\u2028".encode(), b"- [ ] boat: ask J\xfcrgen\n"],
)
async def test_a_line_with_odd_bytes_comes_up_once_too(tmp_path: Path, line: bytes) -> None:
    """Another end of a line, or another encoding: what is not ticked would come up forever."""
    model = ScriptedModel(says("Ask."), says("It floats."))
    async with opened(tmp_path, model) as agent:
        file = write(agent, "")
        file.write_bytes(line + b"- a\n")
        for _ in range(2):
            await agent.respond(said("And the boat?"))
        ticked = file.read_bytes()

    assert tails(model) == [True, False]
    assert len(ticked) == len(line + b"- a\n (2026-03-14)")


async def test_the_model_makes_one_with_the_tool_it_has(tmp_path: Path) -> None:
    """A line that `append` wrote for the owner comes up in the next message that names its topic."""
    model = ScriptedModel(
        calls(("append", {"path": REMINDERS, "text": LINE})), says("I will."), says("Ask Ilse.")
    )
    async with opened(tmp_path, model) as agent:
        await agent.respond(said("Remind me to ask Ilse for the contract when we talk about the boat."))
        await agent.respond(said("The boat leaks."))

    assert tails(model) == [False, False, True]


async def test_the_offline_responder_writes_one_and_brings_it_up(tmp_path: Path) -> None:
    """Its answer tells what was to come up with the topic, because the line is ticked then."""
    async with Agent.open(state_dir=tmp_path, environment={}) as agent:
        await agent.ask("Remind me when we talk about the boat: ask Jo.")
        replies = [await agent.ask(text) for text in ("My boat leaks.", "The boat sank.")]
        text = (agent.workspace / REMINDERS).read_text(encoding="utf-8")

    assert [bool(reply) and "boat: ask Jo." in reply.text for reply in replies] == [True, False]
    assert text.startswith("- [x] boat: ask Jo. (")


async def test_a_group_and_words_of_others_bring_nothing_up(tmp_path: Path) -> None:
    """No group sees a reminder, and a line that a stranger or a web page caused is none."""
    model = ScriptedModel(*[says("Yes.")] * 3)
    async with opened(tmp_path, model) as agent:
        file = write(agent, LINE)
        await agent.respond(said("The boat!", chat_kind="group", chat_id="g", is_owner=True))
        await agent.respond(said("The boat!", chat_id="s", sender_id="5", is_owner=False))
        others = Source(
            written_by="tool", audience=PRIVATE, said_by=("owner", "tool"), at="2026-03-14T10:00Z"
        )
        workspace = FolderWorkspace(agent.workspace, lock_dir=tmp_path / "locks")
        await Sources(workspace).keep_written(REMINDERS, [LINE], lambda _line: others)
        await agent.respond(said("The boat!"))
        text = file.read_text(encoding="utf-8")

    assert tails(model) == [False, False, False]
    assert text == LINE


@pytest.mark.parametrize(
    ("topic", "message"),
    [
        ("Boot", "Was machen wir mit den Booten?"),
        ("лодка, лодки", "Мы говорили о лодке вчера, и лодки дороги."),
        ("船", "我的船坏了"),
        ("犬", "犬の散歩に行きます"),
        ("비자", "비자를 신청했어요"),
        ("القارب", "كم ثمن القارب؟"),
        ("dentist; tooth", "My tooth hurts."),
        ("tax return", "Where are the papers for the tax return?"),
    ],
)
async def test_topics_of_many_languages(tmp_path: Path, topic: str, message: str) -> None:
    """Words are compared as a search compares them; one of several names is enough."""
    model = ScriptedModel(says("Yes."))
    async with opened(tmp_path, model) as agent:
        write(agent, f"* [ ] {topic}: say so\n")
        await agent.respond(said(message))

    assert tails(model) == [True]


async def test_part_of_a_name_is_another_topic(tmp_path: Path) -> None:
    """All words of a name must be there: "tax" alone is not the tax return, and a steamboat is no boat."""
    model = ScriptedModel(*[says("Yes.")] * 2)
    async with opened(tmp_path, model) as agent:
        write(agent, "- [ ] tax return: say so\n- [ ] boat: say so\n")
        await agent.respond(said("This tax is high."))
        await agent.respond(said("I saw a steamboat."))

    assert tails(model) == [False, False]
