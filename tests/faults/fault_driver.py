"""Run by `test_turn_faults.py`: conversations in processes of their own, each with its fate.

    fault_driver.py full-disk   <folder>    each child may write only so many bytes of a file
    fault_driver.py long-result <folder>    each child is killed before one write of a turn with a long result
    fault_driver.py read-only   <folder>    one turn in a workspace that cannot be written
    fault_driver.py read-only-flush <folder>    turns there until history is compacted
    fault_driver.py talk <folder> <name> <turns>    some turns in the main session

The first two print one JSON line an attempt, the third one line, the last one line a turn.
"""

from __future__ import annotations

import asyncio
import ctypes
import json
import os
import resource
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from nacre.runtime.contracts.errors import AgentError
from nacre.runtime.contracts.events import CompactionEnded, FlushEnded, Warned
from nacre.runtime.contracts.model import ModelRequest, TextDelta
from nacre.sessions.contracts.messages import (
    AssistantMessage,
    Text,
    ToolCall,
    ToolResultMessage,
    Usage,
    message_text,
)
from tests.faults.crash_driver import LONG, MOST_WRITES, count_writes, reopened
from tests.faults.drivers import forked
from tests.runtime.agents import opened, said, window_settings, write_settings

LIMITS_BYTES = (0, 100, 300, 700, 1_500, *range(3_000, 60_000, 3_000))
DAC_OVERRIDE = 1
DROP_FROM_BOUNDING_SET = 24


class Answers:
    """A model that answers everything: one tool call a turn, then a word; notes and summaries when asked."""

    name = "own/model"
    context_window_tokens = None

    def __init__(self, tell: Callable[[str], None], call: tuple[str, dict[str, str]]) -> None:
        self._tell = tell
        self._call = call
        self._calls = 0

    async def stream(self, request: ModelRequest) -> AsyncIterator[TextDelta | AssistantMessage]:
        """Answers by what the request is for."""
        last = request.messages[-1]
        is_result = isinstance(last, ToolResultMessage)
        if request.purpose == "turn" and not is_result:
            self._tell(message_text(last)[:20])
        if is_result or request.purpose == "compaction":
            text = {"turn": "done", "flush": "NO_REPLY", "compaction": "## Goal\nBees"}[request.purpose]
            yield TextDelta(text=text)
            yield self._message(request, Text(text=text))
            return
        self._calls += 1
        name, arguments = ("append", {"text": "- flushed"}) if request.purpose == "flush" else self._call
        yield self._message(request, ToolCall(id=f"c{self._calls}", name=name, arguments=arguments))

    async def aclose(self) -> None:
        """Nothing to release."""

    def _message(self, request: ModelRequest, block: Text | ToolCall) -> AssistantMessage:
        size_chars = sum(len(json.dumps(message.to_json())) for message in request.messages)
        return AssistantMessage(
            content=(block,),
            api="own",
            provider="own",
            model="model",
            usage=Usage(input_tokens=1_500 + size_chars // 4, output_tokens=10),
            stop_reason="stop" if isinstance(block, Text) else "toolUse",
            timestamp_ms=1,
        )


APPEND = ("append", {"path": "memory/2026-03-14.md", "text": "- tea"})
LIST = ("list", {"path": "many"})


async def on_full_disk(state_dir: Path, tell: Callable[[str], None], limit_bytes: int) -> None:
    """Three turns, each of which may fail with a sentence, and nothing else."""
    async with opened(state_dir, Answers(tell, APPEND)) as agent:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit_bytes, resource.RLIM_INFINITY))
        try:
            for number in range(3):
                try:
                    await agent.respond(said(f"{number}: {LONG}"))
                except AgentError:
                    continue  # anything else ends this process with a code that the parent reports
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


async def with_long_result(state_dir: Path, tell: Callable[[str], None], kill_before: int) -> None:
    """One turn whose tool says more than a result may."""
    folder = state_dir / "workspace/many"
    folder.mkdir(parents=True)
    for number in range(200):
        (folder / f"{number:03d}-{'long-' * 18}name.md").touch()
    async with opened(state_dir, Answers(tell, LIST)) as agent:
        count_writes(kill_before, state_dir)
        await agent.respond(said("what is there?"))


def attempt(
    state_dir: Path, talk: Callable[[Path, Callable[[str], None], int], Coroutine[Any, Any, None]], fate: int
) -> dict[str, object]:
    """One child with its fate, and what became of its session."""
    write_settings(state_dir, window_settings())
    told, status = forked(lambda tell: talk(state_dir, tell, fate))
    write_settings(state_dir, window_settings(200_000))
    return {
        "fate": fate,
        "killed": os.WIFSIGNALED(status),
        "exit": os.waitstatus_to_exitcode(status),
        "told": len(told),
        "results": len(list(state_dir.rglob("*.results/*.txt"))),
        "problem": asyncio.run(reopened(state_dir, told)),
    }


def report(value: object) -> None:
    """One JSON line on stdout, at once."""
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


def attempts(kind: str, root: Path) -> None:
    """Every disk size, or every write until a child ends by itself."""
    fates = LIMITS_BYTES if kind == "full-disk" else range(1, MOST_WRITES)
    talk = on_full_disk if kind == "full-disk" else with_long_result
    for fate in fates:
        outcome = attempt(root / f"state-{fate}", talk, fate)
        report(outcome)
        if kind == "long-result" and not outcome["killed"]:
            return


async def talk_alone(state_dir: Path, name: str, turns: int) -> None:
    """Some turns in the main session, beside whoever else is in it."""
    async with opened(state_dir, Answers(lambda _text: None, APPEND), ids=f"{name}-") as agent:
        for number in range(turns):
            reply = await agent.respond(said(f"{name} {number}"))
            report(reply.text if reply else None)


async def in_read_only_workspace(state_dir: Path) -> None:
    """One turn whose tool cannot write."""
    async with opened(state_dir, Answers(lambda _text: None, APPEND)) as agent:
        reply = await agent.respond(said("note that"))
        report(reply.text if reply else None)


async def flushing_in_read_only_workspace(state_dir: Path) -> None:
    """Turns whose window gets full while no note can be written; tells who was asked for what."""
    asked: list[str] = []

    class Asked(Answers):
        async def stream(self, request: ModelRequest) -> AsyncIterator[TextDelta | AssistantMessage]:
            asked.append(request.purpose)
            async for item in super().stream(request):
                yield item

    async with opened(state_dir, Asked(lambda _text: None, LIST)) as agent:
        for notice in agent.notices:
            report(["Notice", notice])
        for number in range(4):
            async for event in agent.stream(said(f"{number}: {LONG}")):
                if isinstance(event, Warned | CompactionEnded | FlushEnded):
                    report([type(event).__name__, getattr(event, "message", "")])
    report(sorted(set(asked)))


def without_roots_powers() -> None:
    """Root ignores permissions; a program started without the right to override them does not."""
    if os.getuid() == 0 and "again" not in sys.argv:
        ctypes.CDLL(None).prctl(DROP_FROM_BOUNDING_SET, DAC_OVERRIDE, 0, 0, 0)
        os.execv(sys.executable, [sys.executable, *sys.argv, "again"])


if __name__ == "__main__":
    kind, folder = sys.argv[1], Path(sys.argv[2])
    if kind == "talk":
        asyncio.run(talk_alone(folder, sys.argv[3], int(sys.argv[4])))
    elif kind == "read-only":
        without_roots_powers()
        asyncio.run(in_read_only_workspace(folder))
    elif kind == "read-only-flush":
        without_roots_powers()
        asyncio.run(flushing_in_read_only_workspace(folder))
    else:
        attempts(kind, folder)
