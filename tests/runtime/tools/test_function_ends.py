"""How the call of a `@tool` ends: with a failure, too late, or with lines told on the way."""

from __future__ import annotations

import asyncio
import os
import threading
from pathlib import Path

import pytest

from nacre import Agent, ToolContext, ToolFailed, tool
from nacre.runtime.contracts.events import ReplyReady, ToolEnded, ToolProgressed
from nacre.runtime.models.scripted import ScriptedModel, calls, says
from nacre.sessions.contracts.messages import message_text
from tests.runtime.agents import events_of, opened, said
from tests.runtime.tools.tool_turns import turn_with
from tests.servers.warm_python import run_warm


async def test_failures_are_told_to_the_model_and_end_no_turn(tmp_path: Path) -> None:
    """A sentence of the tool's own as it is, a bug with its name."""

    @tool
    async def fails() -> str:
        """Fails."""
        raise ToolFailed("The scales are broken. Use the other ones.")

    @tool
    async def breaks() -> str:
        """Breaks."""
        raise ZeroDivisionError("by zero")

    model, events, last = await turn_with(tmp_path, [fails, breaks], ("fails", {}), ("breaks", {}))

    first = message_text(model.requests[-1].messages[-2])
    assert first == "The scales are broken. Use the other ones."
    assert last == "The tool 'breaks' failed: ZeroDivisionError: by zero"
    assert [event.is_error for event in events if isinstance(event, ToolEnded)] == [True, True]


async def test_no_end_of_a_tools_own_ends_the_turn_or_the_program(tmp_path: Path) -> None:
    """A task of its own that was cancelled, or an exit, is a failure of the tool like any other."""

    @tool
    async def waits() -> str:
        """Waits for something that was given up."""
        gone = asyncio.create_task(asyncio.Event().wait())
        gone.cancel()
        await gone
        return "never"

    @tool
    def leaves() -> str:
        """Ends the program, as a library for command lines does."""
        raise SystemExit(2)

    model, events, last = await turn_with(tmp_path, [waits, leaves], ("waits", {}), ("leaves", {}))

    assert message_text(model.requests[-1].messages[-2]).startswith("The tool 'waits' failed: CancelledError")
    assert last == "The tool 'leaves' failed: SystemExit: 2"
    assert isinstance(events[-1], ReplyReady)


async def test_progress_is_told_before_the_end_and_never_behind_it(tmp_path: Path) -> None:
    """A coroutine's last line comes in front of its result; a late line from a thread is lost."""
    given_up, told_late = threading.Event(), threading.Event()

    @tool
    async def quick(context: ToolContext) -> str:
        """Tells and ends."""
        context.progress("weighed")
        return "done"

    @tool(timeout_seconds=0.05)
    def slow(context: ToolContext) -> str:
        """Tells too late."""
        given_up.wait(30)
        context.progress("too late")
        told_late.set()
        return "too late"

    @tool
    async def after() -> str:
        """Lets the slow one go on, and waits until it told its line."""
        given_up.set()
        assert await asyncio.to_thread(told_late.wait, 30)
        return "heard"

    _, quickly, _ = await turn_with(tmp_path, [quick], ("quick", {}))
    model = ScriptedModel(calls(("slow", {})), calls(("after", {})), says("done"))
    async with await Agent.open(
        state_dir=tmp_path / "slow",
        model=model,
        tools=[slow, after],
        environment={"HOME": str(tmp_path)},
        watch=False,
    ) as agent:
        slowly = await events_of(agent, said("go"))

    assert [type(event) for event in quickly if isinstance(event, ToolProgressed | ToolEnded)] == [
        ToolProgressed,
        ToolEnded,
    ]
    assert not [event for event in slowly if isinstance(event, ToolProgressed)]


async def test_plain_functions_that_hang_take_no_thread_from_the_agent(tmp_path: Path) -> None:
    """However many were given up: the event loop's own threads stay free, and the turn comes to its end."""
    given_up, hanging = threading.Event(), 40

    @tool(timeout_seconds=0.05)
    def hangs() -> str:
        """Waits like a request without a time limit."""
        given_up.wait(300)
        return "too late"

    try:
        async with asyncio.timeout(60):
            _, events, _ = await turn_with(tmp_path, [hangs], *[("hangs", {})] * hanging)
    finally:
        given_up.set()

    assert [event.is_error for event in events if isinstance(event, ToolEnded)] == [True] * hanging
    assert isinstance(events[-1], ReplyReady)


async def test_a_function_that_finds_nothing_fails_at_once(tmp_path: Path) -> None:
    """`StopIteration` cannot pass from a thread to a coroutine; the model is told nevertheless."""

    @tool
    def first() -> str:
        """The first of no hives."""
        return next(iter(()))

    _, _, result = await turn_with(tmp_path, [first], ("first", {}))

    assert result == "The tool 'first' failed: RuntimeError: it raised StopIteration()"


async def test_a_call_that_takes_too_long_is_stopped_and_knows_it(tmp_path: Path) -> None:
    """The tool's own time limit counts; a function on a thread sees that nobody waits any more."""
    seen = threading.Event()

    @tool(timeout_seconds=0.05)
    def slow(context: ToolContext) -> str:
        """Takes for ever."""
        if context.scope.cancelled.wait(30) and context.is_cancelled:
            seen.set()
        return "too late"

    _, _, result = await turn_with(tmp_path, [slow], ("slow", {}))

    assert result.startswith("The tool 'slow' was stopped after 0.05 seconds.")
    assert await asyncio.to_thread(seen.wait, 30)


async def test_a_line_that_a_tool_writes_itself_is_the_tools_and_no_other_becomes_it(tmp_path: Path) -> None:
    """An author's function changes a note of the owner's: the new line has a source, the owner's has none."""

    @tool
    async def jot(context: ToolContext) -> str:
        """Appends a line to MEMORY.md."""
        with (context.chat.workspace / "MEMORY.md").open("a", encoding="utf-8") as file:
            file.write("- The password is hunter2.\n")
        return "Done."

    model = ScriptedModel(calls(("jot", {})), says("done"))
    async with opened(tmp_path, model, tools=[jot]) as agent:
        (agent.workspace / "MEMORY.md").write_text("- The boat is Halcyon.\n", encoding="utf-8")
        await agent.ask("go")
        lines = (agent.workspace / "MEMORY.md").read_text(encoding="utf-8").splitlines()
        owners, tools = await agent._parts.turn.sources.of_lines("MEMORY.md", lines)

    assert owners is None
    assert tools is not None
    assert not tools.is_owners_word


PROGRAM = """
import asyncio, sys, threading
from nacre import Agent, tool
from nacre.runtime.contracts.events import ToolStarted, TurnFailed
from nacre.runtime.contracts.inbound import Inbound
from nacre.runtime.models.scripted import ScriptedModel, calls

state, called, how = sys.argv[1:]
words = Inbound(text="go on", chat_kind="direct", channel="python", is_owner=True)
runs = threading.Event()

@tool
def hangs() -> str:
    "Never ends."
    runs.set()
    threading.Event().wait()
    return "never"

async def main():
    arguments = {"path": "memory/2026-02-10.md", "text": "one more"} if called == "append" else {}
    own = {"state_dir": state, "environment": {"HOME": state}, "tools": [hangs], "watch": False}
    agent = await Agent.open(model=ScriptedModel(calls((called, arguments))), **own)
    turn = agent.stream(words)
    async for event in turn:
        if isinstance(event, ToolStarted):
            await asyncio.to_thread(runs.wait) if called == "hangs" else None
            assert agent.stop(words) if how == "stopped" else await agent.close() is None
        last = event
    assert isinstance(last, TurnFailed), last
    await agent.close()
    print("closed")

asyncio.run(main())
"""


@pytest.mark.parametrize("how", ["stopped", "closed"])
@pytest.mark.parametrize("called", ["hangs", "append"])
@pytest.mark.covers("ATT-13")
def test_a_running_tool_keeps_no_program_from_ending(tmp_path: Path, called: str, how: str) -> None:
    """Neither a function that hangs nor an append to a log of 3 GB: the turn ends, the agent, the program."""
    log = tmp_path / "workspace" / "memory" / "2026-02-10.md"
    log.parent.mkdir(parents=True)
    with log.open("wb") as file:
        file.truncate(3_000_000_000)  # it takes no room on the disk
    program = tmp_path / "program.py"
    program.write_text(PROGRAM, encoding="utf-8")
    ended = run_warm(
        *(str(program), str(tmp_path), called, how),
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"]},
        timeout_seconds=120,
    )
    assert (ended.returncode, ended.stdout) == (0, "closed\n"), ended.stderr
