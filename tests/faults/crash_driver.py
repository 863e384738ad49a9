"""Run by `test_crash.py`: forks a child for every write of one conversation and kills it there.

A write is an opening for writing, a rename or a truncation, as Python's audit hooks report them
before they happen. The parent then opens the session again and compares it with what the child had
told. One JSON line an attempt on stdout.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from nacre.runtime.contracts.model import ModelRequest
from nacre.runtime.models.scripted import ScriptedModel, calls, says
from nacre.sessions.contracts.messages import Usage, message_text
from tests.faults.drivers import forked
from tests.runtime.agents import (
    LONG,
    opened,
    said,
    transcript_file,
    user_texts,
    window_settings,
    write_settings,
)

MOST_WRITES = 400


def count_writes(kill_before: int, state_dir: Path) -> None:
    """Kills this process before its write number `kill_before` below the state folder."""
    seen = 0

    def hook(event: str, arguments: tuple[object, ...]) -> None:
        nonlocal seen
        if event == "open":
            path, _, flags = arguments
            is_write = isinstance(flags, int) and flags & (os.O_WRONLY | os.O_RDWR | os.O_APPEND)
        elif event in ("os.rename", "os.truncate", "os.remove", "os.link"):
            path, is_write = arguments[0], True
        else:
            return
        if is_write and (isinstance(path, int) or str(state_dir) in str(path)):
            seen += 1
            if seen == kill_before:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)


def at_each_write(root: Path, attempt: Callable[[Path, int], Mapping[str, object]]) -> None:
    """Prints what `attempt` gives for every write, one after the other, until a child ends by itself."""
    for kill_before in range(1, MOST_WRITES):
        outcome = attempt(root / f"state-{kill_before}", kill_before)
        sys.stdout.write(json.dumps(outcome) + "\n")
        sys.stdout.flush()
        if not outcome["killed"]:
            return


def conversation(tell: Callable[[str], None]) -> ScriptedModel:
    """A script with tools, a flush and a compaction; `tell` takes what must be on disk."""

    def told(request: ModelRequest) -> None:
        tell(message_text(request.messages[-1])[:20])

    def used(tokens: int) -> Usage:
        return Usage(input_tokens=tokens, output_tokens=10)

    return ScriptedModel(
        calls(("append", {"path": "memory/2026-03-14.md", "text": "- tea"}), check=told, purpose="turn"),
        says("noted", usage=used(3_000)),
        says("two", usage=used(9_500), check=told, purpose="turn"),
        calls(("append", {"path": "x", "text": "- flushed"}), purpose="flush"),
        says("NO_REPLY", purpose="flush"),
        says("## Goal\nBees", purpose="compaction"),
        says("## Original Request\nSugar", purpose="compaction"),
        says("three", usage=used(5_000), check=told, purpose="turn"),
    )


async def talk(state_dir: Path, kill_before: int, tell: Callable[[str], None]) -> None:
    """The conversation that is killed."""
    count_writes(kill_before, state_dir)
    agent_model = conversation(tell)
    async with opened(state_dir, agent_model) as agent:
        for number in range(3):
            await agent.respond(said(f"{number}: {LONG}"))
    agent_model.assert_complete()


async def reopened(state_dir: Path, told: list[str]) -> str:
    """Goes on with the session; a sentence when anything is wrong with it."""
    async with opened(state_dir, ScriptedModel(says("back", purpose="turn")), ids="after-") as agent:
        reply = await agent.respond(said("back?"))
        if reply is None or reply.text != "back":
            return f"the session did not go on: {reply}"
    texts = [text[:20] for text in user_texts(transcript_file(state_dir, -1))]
    lost = [text for text in told if text not in texts]
    if lost:
        return f"lost {lost}, left {texts}"
    if sorted(set(texts)) != sorted(texts):
        return f"a message stands there twice: {texts}"
    return ""


def attempt(state_dir: Path, kill_before: int) -> dict[str, object]:
    """One child, killed before one write, and what became of its session."""
    # Small windows while it is killed; a wide one afterwards, so that going on is one plain turn.
    write_settings(state_dir, window_settings())
    told, status = forked(lambda tell: talk(state_dir, kill_before, tell))
    write_settings(state_dir, window_settings(200_000))
    return {
        "kill_before": kill_before,
        "killed": os.WIFSIGNALED(status),
        "status": status,
        "problem": asyncio.run(reopened(state_dir, told)),
    }


if __name__ == "__main__":
    at_each_write(Path(sys.argv[1]), attempt)
