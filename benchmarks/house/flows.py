"""How many files and how deep a call runs, for the flows that a reader of the code follows.

    python -m benchmarks.house.flows [--show FLOW]

Counts source files of Nacre in which a function runs, and the deepest nesting of their functions, under
`sys.setprofile`. Each flow runs once before it is counted. `--show` lists the files and functions of a flow.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FrameType

import nacre
from nacre import Agent, Inbound
from nacre.runtime.contracts.model import ModelRequest, TextDelta
from nacre.sessions.contracts.messages import AssistantMessage, Text, ToolCall, ToolResultMessage, Usage
from tests.bridges.chats import FOLLOW_UP, gateway
from tests.bridges.line_channel import LineBridge, LineServer

PACKAGE = Path(nacre.__file__ or "").resolve().parent.as_posix() + "/"
LONG = "The hive in the garden has enough honey. " * 480
SHORTER = LONG[: len(LONG) // 3]


@dataclass
class Walk:
    """The files of Nacre that a flow ran through, with their functions, and the deepest call."""

    files: dict[str, set[str]] = field(default_factory=dict)
    depth: int = 0

    @property
    def functions(self) -> int:
        """How many functions ran."""
        return sum(len(names) for names in self.files.values())


@contextmanager
def walked() -> Iterator[Walk]:
    """Counts what runs on this thread, on the loop's pool and on all threads that start within the block."""
    walk = Walk()
    # Only a pool that starts its threads within the block is counted whatever ran before.
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor())
    known: dict[CodeType, str] = {}
    is_over = False

    def place(code: CodeType) -> str:
        if code not in known:
            name = code.co_filename.replace("/build/typed/nacre/", "/")
            here = name[len(PACKAGE) :] if name.startswith(PACKAGE) else ""
            outside = here.startswith(("tests/", "benchmarks/", ".venv/", "build/")) or here.endswith(
                "__init__.py"
            )
            known[code] = "" if outside or code.co_name == "<module>" else here
        return known[code]

    def on_call(frame: FrameType, event: str, _arg: object) -> None:
        if is_over or event != "call" or not (file := place(frame.f_code)):
            return  # threads that began within the block keep this function
        walk.files.setdefault(file, set()).add(frame.f_code.co_qualname)
        depth, above = 0, frame
        while above is not None:
            depth += bool(place(above.f_code))
            above = above.f_back  # type: ignore[assignment]  # None ends the loop
        walk.depth = max(walk.depth, depth)

    threading.setprofile(on_call)
    sys.setprofile(on_call)
    try:
        yield walk
    finally:
        is_over = True
        sys.setprofile(None)
        threading.setprofile(None)


class ScriptedModel:
    """Answers at once: searches if the words say so, writes a note in a flush, and summarizes."""

    name = "benchmark/scripted"
    context_window_tokens = 32_000

    def __init__(self) -> None:
        self.purposes: list[str] = []
        """Why each request was made."""

    async def stream(self, request: ModelRequest) -> AsyncIterator[TextDelta | AssistantMessage]:
        """One answer or one tool call."""
        self.purposes.append(request.purpose)
        last = request.messages[-1]
        is_result = isinstance(last, ToolResultMessage)
        call = None
        if request.purpose == "flush" and not is_result:
            call = ToolCall(
                id="call_1", name="append", arguments={"path": "x.md", "text": "- The queen: Friday"}
            )
        elif request.purpose == "turn" and not is_result and "SEARCH" in str(last):
            call = ToolCall(id="call_1", name="memory_search", arguments={"query": "the queen"})
        yield AssistantMessage(
            content=(call or Text(text=ANSWERS.get(request.purpose, "The queen was seen on Friday.")),),
            api="benchmark",
            provider="benchmark",
            model="scripted",
            usage=Usage(
                input_tokens=1_000 + sum(len(str(each)) for each in request.messages) // 4, output_tokens=40
            ),
            stop_reason="toolUse" if call else "stop",
            timestamp_ms=int(time.time() * 1000),
        )

    async def aclose(self) -> None:
        """Holds nothing."""


ANSWERS = {"flush": "NO_REPLY", "compaction": "## Goal\n\nBees.\n\n## Done\n\nThe queen was seen on Friday."}


def _said(text: str) -> Inbound:
    return Inbound(text=text, chat_kind="direct", is_owner=True, session_key="agent:main:cron:here")


@dataclass(frozen=True)
class Flow:
    """The messages before a flow, the one that is counted, the purposes of its requests, and the beginning of
    its reply."""

    before: tuple[str, ...]
    text: str
    purposes: tuple[str, ...]
    reply: str = ""

    async def run(self, agent: Agent, model: ScriptedModel) -> Walk:
        """Counts it. Raises `RuntimeError` when it did something else than its name says."""
        for words in self.before:
            await agent.respond(_said(words))
        model.purposes.clear()
        with walked() as walk:
            reply = await agent.respond(_said(self.text))
        if tuple(model.purposes) != self.purposes or reply is None or not reply.text.startswith(self.reply):
            raise RuntimeError(
                f"{self.text[:40]!r} asked the model for {model.purposes}, not for {self.purposes}: {reply}"
            )
        return walk


FLOWS = {
    "plain turn": Flow(("Hello.", "Hello again."), "And now?", ("turn",)),
    "turn with memory_search": Flow(("Hello.", "SEARCH first."), "SEARCH the notes.", ("turn", "turn")),
    "turn with a flush": Flow(("Hello.", *[LONG] * 2), LONG, ("flush", "flush", "turn")),
    "/compact": Flow(("Hello.", *[SHORTER] * 8), "/compact", ("flush", "flush", "compaction"), "⚙️ Compacted"),
    "/status": Flow(("Hello.", "/status"), "/status", ()),
}
LINE = "line of a chat to its delivery"


async def flows() -> dict[str, Walk]:
    """Every flow, counted in an agent of its own."""
    found = {}
    for name, flow in FLOWS.items():
        with tempfile.TemporaryDirectory() as folder:
            model = ScriptedModel()
            opening = Agent.open(
                state_dir=Path(folder), model=model, environment={"HOME": folder}, watch=False
            )
            async with await opening as agent:
                found[name] = await flow.run(agent, model)
    found[LINE] = await _line_to_delivery()
    return found


async def _line_to_delivery() -> Walk:
    """From the bridge of a chat through ledger and turn to the message that answers there.

    The bridge is that of the tests; IRC has two files more.
    """
    with tempfile.TemporaryDirectory() as folder, LineServer() as server:
        bridges = [LineBridge(server.port)]
        async with gateway(Path(folder), ScriptedModel(), bridges, settings=FOLLOW_UP):
            for number in range(1, 3):
                server.say("Hello.")
                await server.until(lambda at, number=number: len(at.sent) == number)
            with walked() as walk:
                server.say("And now?")
                await server.until(lambda at: len(at.sent) == 3)
        return walk


def main() -> None:
    """Prints a table, or the files of one flow."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--show", choices=[*FLOWS, LINE])
    arguments = parser.parse_args()
    found = asyncio.run(flows())
    if arguments.show:
        for file, functions in sorted(found[arguments.show].files.items()):
            print(f"{file}: {', '.join(sorted(functions))}")
        return
    for name, walk in found.items():
        print(f"{name}: {len(walk.files)} files, {walk.functions} functions, depth {walk.depth}")


if __name__ == "__main__":
    main()
