"""The system prompt of a session stays what it was; changes are appended, deletions take effect at once."""

from __future__ import annotations

import asyncio
import json
import random
import shutil
from collections.abc import AsyncIterator, Sequence
from itertools import pairwise
from pathlib import Path

import pytest

from nacre import tool
from nacre.extensions.providers.completions.messages import completion_arguments
from nacre.runtime.contracts.model import ModelRequest, StreamItem, TextDelta
from nacre.runtime.models.scripted import Clock, ScriptedModel, says
from nacre.sessions.contracts.messages import AssistantMessage, Text, ToolCall, Usage, message_text
from tests.cli.program import run_nacre
from tests.runtime.agents import (
    START,
    TODAY,
    entries,
    opened,
    said,
    transcript_file,
    window_settings,
    write_settings,
)


def sent(request: ModelRequest) -> str:
    """What a provider reads of a request, tools first."""
    arguments = completion_arguments(request, model_name="openai/gpt-5-mini")
    return json.dumps([arguments.get("tools"), arguments["messages"]], ensure_ascii=False)[:-2]


def shares(texts: Sequence[str]) -> list[float]:
    """Of each request but the last, which share the next one begins with."""
    return [_shared_chars(one, following) / len(one) for one, following in pairwise(texts)]


def _shared_chars(one: str, other: str) -> int:
    # Halved again and again: a look at each character took most of the test.
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if one[:middle] == other[:middle] else (low, middle - 1)
    return low


class Recorder:
    """A model with a large window that answers at once, and keeps what it was sent."""

    name = "recorder/model"
    context_window_tokens = 2_000_000

    def __init__(self) -> None:
        self.sent: list[str] = []

    async def stream(self, request: ModelRequest) -> AsyncIterator[StreamItem]:
        """A short answer."""
        self.sent.append(sent(request))
        yield TextDelta(text="Noted.")
        yield AssistantMessage(
            content=(Text(text="Noted."),),
            api="",
            provider="",
            model="",
            usage=Usage(input_tokens=len(self.sent[-1]) // 4, output_tokens=2),
            stop_reason="stop",
            timestamp_ms=1,
        )

    async def aclose(self) -> None:
        """Holds nothing."""


def told(request: ModelRequest) -> str:
    """What stands in front of the newest words."""
    return message_text(request.messages[-2])


def changes(file: Path) -> list[str]:
    """What a transcript says of changes."""
    return [entry["content"] for entry in entries(file) if entry.get("customType") == "nacre.changes"]


def prompts(file: Path) -> int:
    """How often a transcript says what the system prompt is made of."""
    return sum(entry.get("customType") == "nacre.prompt" for entry in entries(file))


def noted(file: Path, text: str) -> None:
    """Adds a text to a note."""
    with file.open("a", encoding="utf-8") as opened_file:
        opened_file.write(text)


@pytest.mark.parametrize("turns", [40, pytest.param(200, marks=pytest.mark.slow)])
async def test_over_many_turns_with_writes_each_request_begins_like_the_last(
    tmp_path: Path, turns: int
) -> None:
    """Notes and logs are written by hand, days pass, and each fact stands in the very next request."""
    dice, clock, model = random.Random(4), Clock(START), Recorder()
    write_settings(tmp_path, {"session": {"reset": {"mode": "idle", "idleMinutes": 100_000}}})
    async with opened(tmp_path, model, clock=clock) as agent:
        for number in range(turns):
            name = dice.choice(["MEMORY.md", "USER.md", f"memory/{clock():%Y-%m-%d}.md"])
            with (agent.workspace / name).open("a", encoding="utf-8") as file:
                file.write(f"- Fact {number}: hive {dice.randrange(10**6)} stands by gate {number}.\n")
            await agent.respond(said(f"Question {number}?"))
            assert model.sent[-1].count(f"Fact {number}: hive") == 1
            if dice.random() < 0.05:
                clock.advance(hours=24)

    assert len(model.sent) == turns
    assert min(shares(model.sent)) >= 0.99
    assert prompts(transcript_file(tmp_path)) == 1


async def test_a_restart_changes_nothing_although_files_did(tmp_path: Path) -> None:
    """The prompt is the one that was told, byte for byte, and the change is told once, after it."""
    models = [ScriptedModel(says("ok"), says("ok")) for _ in range(2)]
    for number, model in enumerate(models):
        async with opened(tmp_path, model, ids=f"{number}-") as agent:
            await agent.respond(said("hi"))
            noted(agent.workspace / "MEMORY.md", f"- The boat is Halcyon {number}.\n")
            await agent.respond(said("and now?"))

    first, second, third, fourth = (request for model in models for request in model.requests)
    assert first.system == second.system == third.system == fourth.system
    assert told(second).count("> - The boat is Halcyon 0.") == 1
    assert told(third) == "ok"
    assert fourth.messages[: len(third.messages)] == third.messages
    assert len(changes(transcript_file(tmp_path))) == 2


async def test_a_group_is_told_of_its_own_files_alone(tmp_path: Path) -> None:
    """What changes in private memory and in the logs is nothing that others are told of."""
    model = ScriptedModel(says("ok"), says("ok"))
    async with opened(tmp_path, model) as agent:
        await agent.respond(said("hi", chat_kind="group", chat_id="club"))
        for name in ("MEMORY.md", "USER.md", TODAY):
            (agent.workspace / name).write_text("SECRET\n", encoding="utf-8")
        noted(agent.workspace / "SOUL.md", "Be curt.\n")
        await agent.respond(said("and now?", chat_kind="group", chat_id="club"))

    assert "> Be curt." in told(model.requests[1])
    assert "SECRET" not in transcript_file(tmp_path).read_text(encoding="utf-8")


async def test_a_new_tool_is_told_and_comes_last(tmp_path: Path) -> None:
    """The prompt stays; the tool stands behind those that were there, and one that goes is told as well."""

    @tool
    def barometer() -> str:
        """Reads the pressure in hectopascals."""
        return "1013"

    models = [ScriptedModel(says("ok")) for _ in range(3)]
    for model, tools in zip(models, ([], [barometer], []), strict=True):
        async with opened(tmp_path, model, tools=tools, ids=f"{len(tools)}-") as agent:
            await agent.respond(said("hi"))

    first, second, third = (model.requests[0] for model in models)
    assert first.system == second.system == third.system
    assert second.tools[:-1] == first.tools == third.tools
    assert "- `barometer` is new: Reads the pressure" in told(second)
    assert "`barometer`" in told(third)


async def test_what_is_forbidden_is_gone_at_once(tmp_path: Path) -> None:
    """Security goes before the cache: with less access the prompt is made anew, without the changes."""
    model, later = ScriptedModel(says("ok"), says("ok")), ScriptedModel(says("ok"))
    async with opened(tmp_path, model) as agent:
        noted(agent.workspace / "MEMORY.md", "- The code is 4711.\n")
        await agent.respond(said("hi"))
        noted(agent.workspace / "MEMORY.md", "- The code is 4712.\n")
        await agent.respond(said("hi"))
    write_settings(
        tmp_path, {"agents": {"defaults": {"sandbox": {"mode": "all", "workspaceAccess": "none"}}}}
    )
    async with opened(tmp_path, later, ids="later-") as agent:
        await agent.respond(said("hi"))

    assert "The code is 4712." in sent(model.requests[1])
    assert "The code is" not in sent(later.requests[0])
    assert prompts(transcript_file(tmp_path)) == 2


async def test_changes_are_folded_in_by_a_compaction(tmp_path: Path) -> None:
    """The next request has them in its prompt, and no message about them any more."""
    summary = says("## Goal\nKeep bees.\n", purpose="compaction")
    model = ScriptedModel(says("ok"), says("ok"), summary, says("ok"))
    compaction = {"memoryFlush": {"enabled": False}, "keepRecentTokens": 1_000}
    write_settings(tmp_path, {"agents": {"defaults": {"compaction": compaction}}})
    async with opened(tmp_path, model) as agent:
        await agent.respond(said("hi " * 4_000))
        noted(agent.workspace / "MEMORY.md", "- The boat is Halcyon.\n")
        await agent.respond(said("hi " * 4_000))
        await agent.respond(said("/compact"))
        await agent.respond(said("and now?"))

    assert "The boat is Halcyon." not in model.requests[1].system.joined()
    assert "The boat is Halcyon." in model.requests[-1].system.stable
    assert sent(model.requests[-1]).count("The boat is Halcyon.") == 1


async def test_large_changes_are_folded_in_at_once(tmp_path: Path) -> None:
    """A tenth of the window at most; then the prompt is made anew, and the earlier messages are left out."""
    write_settings(tmp_path, {"agents": {"defaults": {"contextTokens": 40_000}}})
    model = ScriptedModel(*(says("ok") for _ in range(3)))
    async with opened(tmp_path, model) as agent:
        await agent.respond(said("hi"))
        for text in ("- short\n", "- a line about bees\n" * 1_000):
            noted(agent.workspace / "MEMORY.md", text)
            await agent.respond(said("hi"))

    assert told(model.requests[1]).count("- short") == 1
    assert [
        message_text(message) for message in model.requests[2].messages if "short" in message_text(message)
    ] == []
    assert model.requests[2].system.stable.count("- a line about bees") > 500


@pytest.mark.parametrize("reopens", [False, True])
async def test_what_the_owner_deletes_is_not_sent_again(tmp_path: Path, reopens: bool) -> None:
    """A line or a file that goes leaves system prompt and messages, and all else is there once."""
    write_settings(tmp_path, {"session": {"reset": {"mode": "idle", "idleMinutes": 100_000}}})
    notes = {
        "MEMORY.md": "- Lisa plays the cello.\n- PASSPORT-1 in the desk.\n",
        TODAY: "- Planted kale.\n- PASSPORT-2 in the car.\n",
        f"{TODAY[:-3]}-trip.md": "PASSPORT-3 in the boat.\n",
    }
    clock = Clock(START)
    first = ScriptedModel(*(says("ok") for _ in range(6)))
    async with opened(tmp_path, first, clock=clock) as agent:
        for name, text in notes.items():
            (agent.workspace / name).parent.mkdir(exist_ok=True)
            (agent.workspace / name).write_text(text, encoding="utf-8")
        await agent.respond(said("hi"))
        (agent.workspace / "USER.md").write_text("- PASSPORT-4 at home.\n- Likes bees.\n", encoding="utf-8")
        await agent.respond(said("hi again"))
        before = sent(first.requests[-1])
        clock.advance(hours=96)  # behind the days that a session begins with
        for name in (*notes, "USER.md"):
            file = agent.workspace / name
            lines = file.read_text(encoding="utf-8").splitlines(keepends=True)
            file.write_text("".join(line for line in lines if "PASSPORT" not in line), encoding="utf-8")
        model = first
        if not reopens:
            await agent.respond(said("and now?"))
    if reopens:
        model = ScriptedModel(says("ok"))
        async with opened(tmp_path, model, clock=clock, ids="later-") as agent:
            await agent.respond(said("and now?"))

    after = sent(model.requests[-1])
    assert [before.count(f"PASSPORT-{number}") for number in (1, 2, 3, 4)] == [1, 1, 1, 1]
    assert "PASSPORT" not in after
    assert (after.count("plays the cello"), after.count("Likes bees")) == (1, 1)


async def test_a_log_whose_middle_is_cut_costs_no_new_prompt(tmp_path: Path) -> None:
    """Where a large log is shown in part, a line that moves out of sight was not deleted."""
    agents = {"defaults": {"dailyLogMaxChars": 500}}
    write_settings(tmp_path, {"agents": agents})
    model = Recorder()
    async with opened(tmp_path, model) as agent:
        log = agent.workspace / TODAY
        log.parent.mkdir(exist_ok=True)
        log.write_text("".join(f"- Fact {number} of the day.\n" for number in range(100)), encoding="utf-8")
        for number in range(5):
            await agent.respond(said("hi"))
            with log.open("a", encoding="utf-8") as file:
                file.write(f"- Fact {100 + number} of the day.\n")
        await agent.respond(said("hi"))

    assert prompts(transcript_file(tmp_path)) == 1


async def test_status_says_what_was_read_from_the_cache(tmp_path: Path) -> None:
    """Of the last request, as the provider counted it; nothing before it has counted anything."""
    usage = Usage(input_tokens=200, output_tokens=9, cache_read_tokens=11_700, cache_write_tokens=100)
    async with opened(tmp_path, ScriptedModel(says("ok", usage=usage))) as agent:
        before = await agent.respond(said("/status"))
        await agent.respond(said("hi"))
        after = await agent.respond(said("/status"))

    assert before is not None
    assert after is not None
    assert "Prompt cache" not in before.text
    assert "11.7k of 12.0k tokens (98%)" in after.text


async def test_what_cannot_be_read_is_made_anew(tmp_path: Path) -> None:
    """Details of changes that do not fit are somebody else's: the prompt says all of it again."""
    model, later = ScriptedModel(says("ok"), says("ok")), ScriptedModel(says("ok"))
    async with opened(tmp_path, model) as agent:
        await agent.respond(said("hi"))
        (agent.workspace / "MEMORY.md").write_text("- The boat is Halcyon.\n", encoding="utf-8")
        await agent.respond(said("hi"))
    file = transcript_file(tmp_path)
    text = file.read_text(encoding="utf-8")
    file.write_text(text.replace('"files":{"MEMORY.md":[[', '"files":{"MEMORY.md":[[9'), encoding="utf-8")
    async with opened(tmp_path, later, ids="later-") as agent:
        await agent.respond(said("hi"))

    assert prompts(file) == 2
    assert sent(later.requests[0]).count("The boat is Halcyon.") == 1


FACT = "The boat is called Halcyon."
LONG = ("a long message",)
REST = "Lisa plays the cello."


class Hearing:
    """Keeps every request by its purpose. `note` is a line that it appends to MEMORY.md in the next turn."""

    name = "test/hearing"
    context_window_tokens: int | None = 24_000

    def __init__(self) -> None:
        self.requests: list[tuple[str, str]] = []
        self.note = ""

    async def stream(self, request: ModelRequest) -> AsyncIterator[TextDelta | AssistantMessage]:
        """The answer to one request."""
        self.requests.append((request.purpose, f"{request.system.joined()}{request.messages}"))
        text = {"flush": "NO_REPLY", "compaction": "## Goal\nTo sail.\n"}.get(request.purpose, "Noted.")
        content: tuple[Text | ToolCall, ...] = (Text(text=text),)
        if self.note and request.purpose == "turn":
            arguments = {"path": "MEMORY.md", "text": f"- {self.note}\n"}
            content, self.note = (ToolCall(id="1", name="append", arguments=arguments),), ""
        yield TextDelta(text=text)
        yield AssistantMessage(
            content=content,
            api="test",
            provider="test",
            model="hearing",
            usage=Usage(input_tokens=10, output_tokens=10),
            stop_reason="stop" if isinstance(content[0], Text) else "toolUse",
            timestamp_ms=0,
        )

    async def aclose(self) -> None:
        """Holds nothing."""


@pytest.mark.parametrize("path", ["MEMORY.md", "AGENTS.md", TODAY, "memory/2026-03-13.md"])
@pytest.mark.parametrize("then", ["/compact", "/new", "/reset", LONG[0]])
async def test_what_is_deleted_is_in_no_later_request(tmp_path: Path, path: str, then: str) -> None:
    """Neither a flush nor a summary nor an ending is sent a line that the owner took out of a file."""
    write_settings(tmp_path, window_settings())
    model = Hearing()
    async with opened(tmp_path, model) as agent:
        await agent.respond(said("/status"))
        file = agent.workspace / path
        file.parent.mkdir(exist_ok=True)
        file.write_text(f"- {FACT}\n- {REST}\n", encoding="utf-8")
        await agent.respond(said("Hello."))
        await agent.respond(said("How are you?" + " word" * 3000))
        assert FACT in model.requests[0][1]
        file.write_text(f"- {REST}\n", encoding="utf-8")
        model.requests.clear()
        await agent.respond(said("word " * 9000 if then in LONG else then))
        await agent.respond(said("And now?"))
    assert model.requests
    assert [purpose for purpose, text in model.requests if FACT in text] == []
    assert then in LONG or {"flush", "compaction"} & {purpose for purpose, _text in model.requests}


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
@pytest.mark.parametrize("how", ["undo", "forget"])
async def test_what_is_undone_or_forgotten_is_in_no_later_request(tmp_path: Path, how: str) -> None:
    """A line that an earlier session noted goes from the session that is open, its flush and its summary."""
    state = tmp_path / ".nacre"
    write_settings(state, window_settings())
    model = Hearing()
    async with opened(state, model) as agent:
        await agent.respond(said("Hello."))
        workspace, model.note = agent.workspace, FACT
        await agent.respond(said("Note it."))
        await agent.respond(said("/new"))
        await agent.respond(said("Hello again."))
        for _ in range(4):
            await agent.respond(said("word " * 2500))
        assert FACT in model.requests[-1][1]
        # The newest change is the note of the session that ended.
        for words in {"undo": (("undo",),) * 2, "forget": (("forget", "halcyon boat", "--yes"),)}[how]:
            done = await asyncio.to_thread(run_nacre, tmp_path, "memory", *words)
        assert FACT not in (workspace / "MEMORY.md").read_text(), done.stdout + done.stderr
        model.requests.clear()
        for text in ("/compact", "And now?", "/new", "And then?"):
            await agent.respond(said(text))
    assert {purpose for purpose, _text in model.requests} >= {"turn", "flush", "compaction"}
    assert [purpose for purpose, text in model.requests if FACT in text] == []
