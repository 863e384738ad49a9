"""What the first turn in a long session costs: one that compacts it, or that begins the next day.

    python -m benchmarks.long_session [--entries 10000 100000] [--folder DIR]

Each session is made of turns of a question and an answer, no two texts alike, offline, in a process and a
state folder of its own, with the transcripts as a source of memory search. Readings are processor time, since
other work on the machine must not count, from opening the agent to the end of the turn.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, datetime, timedelta
from multiprocessing import get_context
from pathlib import Path

from benchmarks.session import entries as made_entries
from nacre import Agent
from nacre.runtime.models.scripted import Clock
from nacre.sessions.disk.json_text import split_lines, to_line
from nacre.sessions.entries.entries import entry_to_json

SETTINGS = """{ agents: { defaults: { memorySearch: {
  experimental: { sessionMemory: true }, sources: ["memory", "sessions"] } } } }
"""
START = datetime(2026, 3, 1, 9, tzinfo=UTC)


async def _said(state: Path, text: str, *, at: datetime) -> None:
    agent = await Agent.open(state_dir=state, environment={"HOME": str(state)}, clock=Clock(at), watch=False)
    async with agent:
        await agent.ask(text)


def _made(state: Path, number: int) -> None:
    """A session of so many entries that was never compacted."""
    (state / "nacre.json5").write_text(SETTINGS, encoding="utf-8")
    asyncio.run(_said(state, "Remember that my bike is green.", at=START))
    [transcript] = state.rglob("sessions/*.jsonl")
    *_, last = split_lines(transcript.read_bytes())
    assert last.value is not None
    parent = last.value["id"]
    with transcript.open("ab") as file:
        for entry in made_entries(number, 0):
            line = entry_to_json(entry)
            file.write(to_line({**line, "parentId": line["parentId"] or parent}))


def seconds_of_a_turn(state: Path, number: int, days: int) -> float:
    """Processor time of the turn that comes so many days later."""
    _made(state, number)
    before = time.process_time()
    asyncio.run(_said(state, "What colour is my bike?", at=START + timedelta(days=days, minutes=1)))
    return time.process_time() - before


def main() -> None:
    """Measures and prints a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--entries", type=int, nargs="+", default=[10_000, 100_000])
    parser.add_argument("--folder", type=Path, default=None)
    arguments = parser.parse_args()
    print("| Entries | Same day (compacts), s | Next day (new session), s |\n|---|---|---|")
    for number in arguments.entries:
        readings: list[float] = []
        for days in (0, 1):
            with (
                tempfile.TemporaryDirectory(dir=arguments.folder) as folder,
                ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process,
            ):
                readings.append(process.submit(seconds_of_a_turn, Path(folder), number, days).result())
        print(f"| {number:,} | {readings[0]:.1f} | {readings[1]:.1f} |", flush=True)


if __name__ == "__main__":
    main()
