"""The flush in turns: what it writes, and what happens when it fails."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from datetime import datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

import nacre
from nacre.extensions.curation.reflection import BankProposal, Retained, propose_bank, retained_items
from nacre.memory.files.sources.sources import Sources
from nacre.memory.workspace.folder import FolderWorkspace
from nacre.prompts import render
from nacre.runtime.contracts.errors import ContextOverflow, ModelAuthError
from nacre.runtime.contracts.events import CompactionEnded, FlushEnded, ReplyReady
from nacre.runtime.contracts.model import ModelRequest
from nacre.runtime.models.scripted import Clock, ScriptedModel, ScriptedStep, calls, fails, says
from nacre.runtime.settings.sections.agents import MemoryFlushSettings
from nacre.sessions.contracts.messages import Usage, message_text
from tests.runtime.agents import (
    LONG,
    START,
    TODAY,
    engine_of,
    entries,
    events_of,
    opened,
    said,
    transcript_file,
    used,
    user_texts,
    window_settings,
    write_settings,
)

pytestmark = pytest.mark.usefixtures("steady_frame")


def note(text: str) -> list[ScriptedStep]:
    return [
        calls(("append", {"path": "x.md", "text": text}), purpose="flush"),
        says("NO_REPLY", purpose="flush"),
    ]


def flushes(events: list[Any]) -> list[FlushEnded]:
    return [event for event in events if isinstance(event, FlushEnded)]


def texts(request: ModelRequest) -> list[str]:
    return [message_text(message) for message in request.messages]


@pytest.mark.covers("A12-11")
async def test_much_text_is_flushed_however_large_the_window(tmp_path: Path) -> None:
    """Past the limit in bytes notes are saved early, and the cycle still has its own flush later."""
    write_settings(tmp_path, window_settings(forceFlushTranscriptBytes=20_000))
    model = ScriptedModel(
        says("ok", usage=used(1_000)),
        *note("- early"),
        says("ok", usage=used(8_500)),
        *note("- at the threshold"),
        says("ok", usage=used(8_600)),
    )
    async with opened(tmp_path, model) as agent:
        await agent.respond(said(LONG))
        early = await events_of(agent, said(LONG))
        late = await events_of(agent, said("short"))
    model.assert_complete()

    assert [event.status for event in flushes(early)] == ["written"]
    assert [event.status for event in flushes(late)] == ["written"]
    recorded = [
        entry["data"].get("forced", False)
        for entry in entries(transcript_file(tmp_path))
        if entry.get("customType") == "nacre.flush"
    ]
    assert recorded == [True, False]


async def test_a_limit_of_zero_bytes_forces_nothing(tmp_path: Path) -> None:
    """The owner can switch the early flush off alone."""
    write_settings(tmp_path, window_settings(forceFlushTranscriptBytes=0))
    model = ScriptedModel(*[says("ok", usage=used(1_000))] * 3)
    async with opened(tmp_path, model) as agent:
        for _ in range(3):
            assert not flushes(await events_of(agent, said(LONG)))
    model.assert_complete()


@pytest.mark.parametrize(
    ("written", "read"),
    [(5_000, 5_000), ("2mib", 2_097_152), ("2mb", 2_000_000), (0, 0), ("soon", 2_097_152), (-1, 2_097_152)],
)
@pytest.mark.covers("A12-11")
def test_bytes_are_read_as_other_programs_write_them(written: object, read: int) -> None:
    """A number, a number with a unit, and the default for anything else."""
    settings = MemoryFlushSettings.model_validate({"forceFlushTranscriptBytes": written})
    assert settings.force_flush_transcript_bytes == read


@pytest.mark.covers("ASK-9")
async def test_one_large_message_cannot_jump_over_the_flush(tmp_path: Path) -> None:
    """The message that just came counts: notes first, then the summary, then the answer to it."""
    write_settings(tmp_path, window_settings())
    model = ScriptedModel(
        *[says("ok", usage=used(3_000))] * 2,
        says("ok", usage=used(7_500)),
        *note("- saved before the large one"),
        says("## Goal\nBees", purpose="compaction"),
        says("read it all", usage=used(9_000)),
    )
    async with opened(tmp_path, model) as agent:
        for number in range(3):
            await agent.respond(said(f"{number}: {LONG}"))
        events = await events_of(agent, said(LONG * 2))
    model.assert_complete()

    assert [event.status for event in flushes(events)] == ["written"]
    assert texts(model.requests[-1])[-1] == LONG * 2
    assert user_texts(transcript_file(tmp_path))[-1] == LONG * 2


async def test_an_overflow_is_not_sent_again_to_be_flushed(tmp_path: Path) -> None:
    """The flush gets the newest turns that surely fit, and the offline responder reads the others."""
    write_settings(tmp_path, window_settings())
    model = ScriptedModel(
        *[says("ok", usage=used(2_000))] * 3,
        fails(ContextOverflow("too long")),
        *note("- from the newest"),
        says("## Goal\nBees", purpose="compaction"),
        says("here", usage=used(3_000)),
    )
    told = [f"My locker number {number} is {number}-4711. {LONG}" for number in range(3)]
    async with opened(tmp_path, model) as agent:
        for text in told:
            await agent.respond(said(text))
        events = await events_of(agent, said("and now?"))
    model.assert_complete()

    assert [event.status for event in flushes(events)] == ["written"]
    refused, flush = texts(model.requests[3]), texts(model.requests[4])
    assert told[0] in refused
    assert told[0] not in flush
    assert flush[0] == told[1]
    assert "and now?" in flush
    notes = "".join(log.read_text("utf-8") for log in (tmp_path / "workspace/memory").glob("*.md"))
    assert "from the newest" in notes
    assert "0-4711" in notes


@pytest.mark.covers("W9-7", "ASK-14")
async def test_notes_of_a_flush_over_midnight_go_where_it_was_told(tmp_path: Path) -> None:
    """Begun before midnight and written after it: the file that was named gets them, and they are found."""
    write_settings(tmp_path, window_settings())
    clock = Clock(START)

    def midnight_passes(_request: ModelRequest) -> None:
        clock.advance(minutes=45)

    model = ScriptedModel(
        says("ok", usage=used(8_500)),
        calls(
            ("append", {"path": "memory/2026-03-15.md", "text": "- at night"}),
            purpose="flush",
            check=midnight_passes,
        ),
        says("NO_REPLY", purpose="flush"),
        says("two", usage=used(8_600)),
        *note("- on the next day"),
    )
    async with opened(tmp_path, model, clock=clock) as agent:
        await agent.respond(said("one"))
        events = await events_of(agent, said("two?"))
        await agent.respond(said("/new"))
    model.assert_complete()

    assert [event.path for event in flushes(events)] == [TODAY]
    assert (tmp_path / "workspace" / TODAY).read_text() == (
        "## Notes of the conversation, 23:30\n\n- at night\n"
    )
    assert (tmp_path / "workspace/memory/2026-03-15.md").read_text() == (
        "## Notes of the conversation, 00:15\n\n- on the next day\n"
    )


@pytest.mark.covers("A12-1", "A12-7", "A12-11", "W9-6", "ASK-15")
async def test_the_owners_prompts_get_the_owners_date(tmp_path: Path) -> None:
    """`YYYY-MM-DD` is today where the owner is, in both texts, and the rules of a flush are added."""
    write_settings(
        tmp_path, window_settings(prompt="Save to memory/YYYY-MM-DD.md.", systemPrompt="It is YYYY-MM-DD.")
    )
    model = ScriptedModel(says("ok", usage=used(8_500)), says("NO_REPLY", purpose="flush"), says("two"))
    tokyo = Clock(datetime(2026, 3, 15, 0, 30, tzinfo=ZoneInfo("Asia/Tokyo")))
    async with opened(tmp_path, model, clock=tokyo) as agent:
        await agent.respond(said("one"))
        await agent.respond(said("two?"))
    model.assert_complete()

    flush = model.requests[1]
    asked = texts(flush)[-1]
    assert asked.startswith("Save to memory/2026-03-15.md.")
    assert "append, never rewrite" in asked
    assert "NO_REPLY" in asked
    assert "It is 2026-03-15." in flush.system.changing
    assert "NO_REPLY" in flush.system.changing
    assert flush.system.stable == model.requests[0].system.stable


@pytest.mark.covers("A12-5", "W9-4")
async def test_the_persons_message_is_untouched_by_the_flush_before_it(tmp_path: Path) -> None:
    """It is on disk before the flush, once, and follows as a turn of its own."""
    write_settings(tmp_path, window_settings())
    seen: list[list[str]] = []

    def on_disk(_request: ModelRequest) -> None:
        seen.append(user_texts(transcript_file(tmp_path)))

    model = ScriptedModel(
        says("ok", usage=used(8_500)),
        says("NO_REPLY", purpose="flush", check=on_disk),
        says("two"),
    )
    async with opened(tmp_path, model) as agent:
        await agent.respond(said("one"))
        await agent.respond(said("two?"))
    model.assert_complete()

    assert seen == [["one", "two?"]]
    assert texts(model.requests[2]) == ["one", "ok", "two?"]
    assert user_texts(transcript_file(tmp_path)) == ["one", "two?"]


@pytest.mark.covers("W9-3")
async def test_turns_that_waited_are_flushed_like_any_other(tmp_path: Path) -> None:
    """Two messages at once run one after the other, and the second one's turn has its flush."""
    write_settings(tmp_path, window_settings())
    model = ScriptedModel(says("ok", usage=used(8_500)), *note("- queued"), says("two"))
    async with opened(tmp_path, model) as agent:
        events = await asyncio.gather(events_of(agent, said("one")), events_of(agent, said("two?")))
    model.assert_complete()
    assert [len(flushes(list(happened))) for happened in events] == [0, 1]


FLUSHING = """
import asyncio, sys
from pathlib import Path
from nacre import Agent, Inbound
from nacre.runtime.models.scripted import Clock, ScriptedModel, calls, says
from tests.runtime.agents import START

async def main(state_dir, name):
    steps = []
    for number in range(8):
        text = "- " + name + " " + str(number) + "\\n- known to all"
        steps += [says("ok"), calls(("append", {"path": "x", "text": text}), purpose="flush"),
                  says("NO_REPLY", purpose="flush")]
    model = ScriptedModel(*steps)
    agent = await Agent.open(state_dir=state_dir, model=model, environment={"HOME": state_dir},
                             clock=Clock(START), watch=False)
    async with agent:
        for number in range(8):
            for text in ("word", "/new"):
                await agent.respond(Inbound(text=text, chat_kind="direct", is_owner=True,
                                            session_key="agent:main:dm:" + name))
    model.assert_complete()

asyncio.run(main(*sys.argv[1:]))
"""


@pytest.mark.slow
@pytest.mark.covers("ASK-13")
async def test_two_processes_that_flush_at_once_lose_no_note(tmp_path: Path) -> None:
    """Sixteen flushes from two agents into one log: every line whole and once, the common one once."""
    write_settings(tmp_path, {"agents": {"defaults": {"memorySearch": {"enabled": False}}}})
    processes = [
        await asyncio.create_subprocess_exec(sys.executable, "-c", FLUSHING, str(tmp_path), name)
        for name in ("left", "right")
    ]
    assert [await process.wait() for process in processes] == [0, 0]

    lines = (tmp_path / "workspace" / TODAY).read_text(encoding="utf-8").splitlines()
    wanted = [f"- {name} {number}" for name in ("left", "right") for number in range(8)]
    assert sorted(line for line in lines if line[:1] not in "#") == sorted([*wanted, "- known to all"])


@pytest.mark.covers("A12-5", "A12-9")
async def test_the_index_tells_when_and_in_which_cycle_notes_were_saved(tmp_path: Path) -> None:
    """The cycle is the one that the flush belongs to, not the one that the compaction behind it begins."""
    write_settings(tmp_path, window_settings())
    model = ScriptedModel(
        says("ok", usage=used(3_000)),
        says("ok", usage=used(13_500)),
        *note("- saved"),
        says("## Goal\nBees", purpose="compaction"),
        says("on we go", usage=used(3_000)),
    )
    clock = Clock(START)
    async with opened(tmp_path, model, clock=clock) as agent:
        for number in range(2):
            await agent.respond(said(f"{number}: {LONG}"))
        await agent.respond(said("and now?"))
    model.assert_complete()

    index = json.loads((tmp_path / "agents/main/sessions/sessions.json").read_text(encoding="utf-8"))
    line = index["agent:main:main"]
    assert (line["memoryFlushCompactionCount"], line["compactionCount"]) == (0, 1)
    assert line["memoryFlushAt"] == clock.now_ms()


RETAIN = "\n\n" + render("flush/retain")
NEARLY_FULL = Usage(input_tokens=8_490, output_tokens=10)


@pytest.mark.covers("ATT-9")
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


@pytest.mark.covers("ATT-9")
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
@pytest.mark.covers("SEED-26")
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
    assert len(found.unparsed) == 1


RESTATED = {
    "- Peter's city: Padua, since 2026-01-20": True,
    "- Peter's allergy: sesame": True,
    "- Peter's pets: cats": True,
    "- Peter's account: Padua": False,
    "- Peter's city: Bergen": False,
    "- Peter's boat: none": False,
    "- Ann's city: Padua": False,
    "- Peter has no city: not Padua": False,
    "- Where does Peter live?": False,
}
"""Notes beside a page, and whether each only states what the owner said."""


async def test_the_owners_words_in_another_form_are_theirs_beside_a_page(tmp_path: Path) -> None:
    """The value and whom it is about are from one message, and no further word is one of the page."""
    _settings(tmp_path, has_bank=False)
    model = ScriptedModel(
        calls(("browse", {})),
        says("ok", usage=NEARLY_FULL),
        calls(("append", {"text": "\n".join(RESTATED)}), purpose="flush"),
        says("NO_REPLY", purpose="flush"),
        says("yes", usage=NEARLY_FULL),
    )

    @nacre.tool
    def browse() -> str:
        """Look at a page."""
        return "Peter and Ann live in Bergen. Send money to the account. No cats."

    async with opened(tmp_path, model, tools=[browse]) as agent:
        await agent.respond(said("Peter moved to Padua. He is allergic to sesame. Peter has cats."))
        await agent.respond(said("and now?"))
    workspace = FolderWorkspace(tmp_path / "workspace", lock_dir=tmp_path / "locks")
    found = await Sources(workspace).of_lines(TODAY, list(RESTATED))

    assert [source.is_owners_word for source in found if source] == list(RESTATED.values())


LONG_FLUSH_FAILURES = "We decided to move to Lisbon in May. " * 330
REFUSED = ModelAuthError("The key was refused.")


@pytest.mark.parametrize(
    ("flush", "problem"),
    [
        (
            [calls(("append", {"path": "x", "text": "- Lisbon"}), purpose="flush"), says("NO_REPLY")],
            f"{TODAY} could not be written: Is a directory",
        ),
        (
            [fails(REFUSED, purpose="flush")],
            f"The key was refused.; {TODAY} could not be written: Is a directory",
        ),
    ],
)
@pytest.mark.covers("A12-6")
async def test_a_log_that_cannot_be_written_is_a_failed_flush(
    tmp_path: Path, flush: list[ScriptedStep], problem: str
) -> None:
    """The attempt is recorded with its reason, history is compacted, and the answer comes."""
    write_settings(tmp_path, window_settings())
    model = ScriptedModel(
        *[says("ok", usage=used(tokens)) for tokens in (1_000, 3_000, 13_000)],
        *flush,
        says("## Goal\nLisbon", purpose="compaction"),
        says("done", usage=used(5_000)),
    )
    async with opened(tmp_path, model) as agent:
        (agent.workspace / TODAY).mkdir()
        for _ in range(3):
            await agent.respond(said(LONG_FLUSH_FAILURES))
        events = await events_of(agent, said("and now?"))
    model.assert_complete()

    assert [event for event in events if isinstance(event, FlushEnded)] == [
        FlushEnded(status="failed", path=TODAY, problem=problem)
    ]
    assert [event.problem for event in events if isinstance(event, CompactionEnded)] == [""]
    assert isinstance(events[-1], ReplyReady)
    recorded = [entry["data"] for entry in entries(transcript_file(tmp_path)) if _is_flush(entry)]
    assert [(data["status"], data["problem"]) for data in recorded] == [("failed", problem)]


@pytest.mark.covers("A12-11", "ASK-13")
async def test_a_flush_has_one_tool_whatever_the_model_calls(tmp_path: Path) -> None:
    """Reading or writing elsewhere is an error result, and an answer in words writes nothing."""
    write_settings(tmp_path, window_settings())
    model = ScriptedModel(
        says("ok", usage=used(8_500)),
        calls(("write", {"path": "MEMORY.md", "content": "gone"}), ("read", {"path": "x"}), purpose="flush"),
        says("I have saved everything.", purpose="flush"),
        says("two", usage=used(8_600)),
    )
    async with opened(tmp_path, model) as agent:
        before = (agent.workspace / "MEMORY.md").read_text(encoding="utf-8")
        await agent.respond(said("hello"))
        events = await events_of(agent, said("go on"))
        assert (agent.workspace / "MEMORY.md").read_text(encoding="utf-8") == before
    model.assert_complete()

    assert [event.status for event in events if isinstance(event, FlushEnded)] == ["nothing"]
    results = [message_text(message) for message in model.requests[2].messages[-2:]]
    assert [f"'{name}'" in result for name, result in zip(("write", "read"), results, strict=True)] == [
        True
    ] * 2


def _is_flush(entry: dict[str, object]) -> bool:
    return entry.get("customType") == "nacre.flush"


async def test_notes_of_an_earlier_day_are_dated_by_it(tmp_path: Path) -> None:
    """The session ends on the next morning: "tomorrow" is that day, and a search knows when it was said."""
    model = ScriptedModel(says("ok"), *note("- Ann comes tomorrow."), says("ok"))
    clock = Clock(START)
    async with opened(tmp_path, model, clock=clock) as agent:
        await agent.respond(said("Ann comes tomorrow."))
        clock.advance(hours=12)
        await agent.respond(said("Good morning."))
        engine = engine_of(agent._parts)
        await engine.sync(reason="test")
        as_of = await engine.search("When does Ann come?", as_of="2026-03-14")
    model.assert_complete()

    assert "Today is 2026-03-14" in message_text(model.requests[1].messages[-1])
    [hit] = [hit for hit in as_of.hits if hit.path == "memory/2026-03-15.md"]
    assert hit.snippet == (
        "## Notes of the conversation of 2026-03-14, 23:30\n\n- Ann comes tomorrow (2026-03-15)."
    )


async def test_notes_say_which_day_was_meant(tmp_path: Path) -> None:
    """The date stands behind "tomorrow" where all of the conversation is of today; else it may be any day."""
    write_settings(tmp_path, {"session": {"reset": {"mode": "none"}}})
    model = ScriptedModel(
        says("ok"), *note("- Ann comes tomorrow."), says("ok"), says("ok"), *note("- Ben comes tomorrow.")
    )
    clock = Clock(START)
    async with opened(tmp_path, model, clock=clock) as agent:
        for text in ("Ann comes tomorrow.", "/new", "Ben comes tomorrow."):
            await agent.respond(said(text))
        clock.advance(hours=12)
        for text in ("hi", "/new"):
            await agent.respond(said(text))
        first, second = (
            (agent.workspace / "memory" / f"2026-03-{day}.md").read_text(encoding="utf-8") for day in (14, 15)
        )
    model.assert_complete()
    assert "- Ann comes tomorrow (2026-03-15).\n" in first
    assert "- Ben comes tomorrow.\n" in second


async def test_each_line_of_a_flush_names_its_message(tmp_path: Path) -> None:
    """Word for word or in other words; a line that no message is clearly the source of has all of them."""
    write_settings(tmp_path, window_settings(forceFlushTranscriptBytes=20_000))
    lines = ("- Lost my job.", "- The dance studio: opens in June", "- Anna likes tea.", "- Gate: green, 2 m")
    model = ScriptedModel(says("ok"), says("ok"), says("ok"), *note("\n".join(lines)), says("ok"))
    async with opened(tmp_path, model) as agent:
        await agent.respond(said("I lost my job. What now?"))
        await agent.respond(said("I lost it because of the move. I open a dance studio in June."))
        await agent.respond(said(LONG))
        await agent.respond(said(LONG))
        folder = FolderWorkspace(agent.workspace, lock_dir=tmp_path / "locks")
        sources = await Sources(folder).of_lines(TODAY, lines)
    asked = [
        entry["id"]
        for entry in entries(transcript_file(tmp_path))
        if entry["type"] == "message" and entry["message"]["role"] == "user"
    ]

    named = [source.entry_ids if source else () for source in sources]
    assert named[:2] == [(asked[0],), (asked[1],)]
    assert [ids[0] for ids in named[2:]] == [asked[0]] * 2
    assert all(len(ids) == 2 for ids in named[2:])
    assert [source.said_by for source in sources if source] == [("owner",), *[("owner", "assistant")] * 3]
