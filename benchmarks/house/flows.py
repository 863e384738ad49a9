"""How many files and how deep a call runs, for the flows that a reader of the code follows.

    python -m benchmarks.house.flows [--show FLOW]

Counts source files of Nacre in which a function runs, and the deepest nesting of their functions, under
`sys.setprofile`. Each flow runs once before it is counted. `--show` lists the files of a flow with the functions.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FrameType

import nacre
from nacre import Agent, Inbound
from nacre.runtime.contracts.model import ModelRequest, TextDelta
from nacre.sessions.contracts.messages import AssistantMessage, Text, ToolCall, Usage

PACKAGE = Path(nacre.__file__ or "").resolve().parent.as_posix() + "/"
LONG = "The hive in the garden has enough honey. " * 900


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
    """Counts what runs on all threads that start within the block."""
    walk = Walk()
    known: dict[CodeType, str] = {}

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
        if event != "call" or not (file := place(frame.f_code)):
            return
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
        sys.setprofile(None)
        threading.setprofile(None)


class ScriptedModel:
    """Answers at once; calls `memory_search` first when the words ask for a search."""

    name = "benchmark/scripted"
    context_window_tokens = 32_000

    async def stream(self, request: ModelRequest) -> AsyncIterator[TextDelta | AssistantMessage]:
        """One answer or one tool call."""
        said = str(request.messages[-1])
        content: tuple[Text | ToolCall, ...] = (Text(text="The queen was seen on Friday."),)
        if "SEARCH" in said:
            content = (ToolCall(id="call_1", name="memory_search", arguments={"query": "the queen"}),)
        yield AssistantMessage(
            content=content,
            api="benchmark",
            provider="benchmark",
            model="scripted",
            usage=Usage(input_tokens=1_000, output_tokens=40),
            stop_reason="toolUse" if "SEARCH" in said else "stop",
            timestamp_ms=int(time.time() * 1000),
        )

    async def aclose(self) -> None:
        """Holds nothing."""


def _said(text: str, session: str = "main") -> Inbound:
    return Inbound(text=text, chat_kind="direct", is_owner=True, session_key=f"agent:main:cron:{session}")


def _flow(before: list[str], text: str) -> Callable[[Agent], Awaitable[Walk]]:
    async def run(agent: Agent) -> Walk:
        for words in before:
            await agent.respond(_said(words, text))
        with walked() as walk:
            await agent.respond(_said(text, text))
        return walk

    return run


FLOWS: dict[str, Callable[[Agent], Awaitable[Walk]]] = {
    "plain turn": _flow(["Hello.", "Hello again."], "And now?"),
    "turn with memory_search": _flow(["Hello.", "SEARCH first."], "SEARCH the notes."),
    "turn with a flush": _flow(
        ["Hello.", LONG[:20_000], LONG[:20_000], LONG[:20_000], LONG[:20_000]], "And now? Flush."
    ),
    "/compact": _flow(["Hello.", "One.", "Two."], "/compact"),
    "/status": _flow(["Hello.", "/status"], "/status"),
}


async def flows() -> dict[str, Walk]:
    """Every flow, counted in an agent of its own."""
    found = {}
    for name, flow in FLOWS.items():
        with tempfile.TemporaryDirectory() as folder:
            opening = Agent.open(
                state_dir=Path(folder), model=ScriptedModel(), environment={"HOME": folder}, watch=False
            )
            async with await opening as agent:
                found[name] = await flow(agent)
    return found


def main() -> None:
    """Prints a table, or the files of one flow."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--show", choices=list(FLOWS))
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
