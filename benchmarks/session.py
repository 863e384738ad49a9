"""What a session costs as it grows: append, open, view and token count, beside a plain JSON loop.

    python -m benchmarks.session [--entries 100 10000 200000] [--compact-every 400] [--folder DIR]

Each transcript is made of turns of a question and an answer of some thirty words and is compacted as
often as a real one; `--compact-every 0` never compacts. Every reading is done in a process of its own, so
that its memory is its own. Readings are processor time, since other work on the machine must not count; the
rest are medians of the clock, because they wait for the disk.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import resource
import tempfile
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, datetime
from functools import partial
from itertools import count
from multiprocessing import get_context
from pathlib import Path
from statistics import median

from benchmarks.corpus import Words
from nacre.runtime.models.tokenizer import counted_once, estimate_tokens
from nacre.sessions.contracts.messages import AssistantMessage, Message, Text, Usage, user_message
from nacre.sessions.disk.json_text import to_line
from nacre.sessions.entries.entries import Compaction, Entry, SessionHeader, entry_to_json, header_to_json
from nacre.sessions.journal.journal import Journal
from nacre.sessions.view.sent_view import estimate_message_tokens, measure_context
from nacre.sessions.view.transcript import build_transcript

TURNS = 60
"""How many turns are measured; each appends two entries."""
KEPT = 40
STAMP = "2026-03-01T09:00:00.000Z"


def answer(text: str, *, with_usage: bool) -> AssistantMessage:
    """An answer, with or without the provider's count of its tokens."""
    return AssistantMessage(
        content=(Text(text=text),),
        api="benchmark",
        provider="benchmark",
        model="none",
        usage=Usage(input_tokens=9_000, output_tokens=150) if with_usage else None,
        stop_reason="stop",
        timestamp_ms=1,
    )


def entries(number: int, compact_every: int) -> Iterator[Entry]:
    """A session of so many entries, compacted every so many."""
    words = Words(seed=1)
    parent: str | None = None
    for place in range(number):
        entry_id = f"{place:08x}"
        if compact_every and place and place % compact_every == 0:
            kept_id = f"{place - KEPT:08x}"
            body: Message | Compaction = Compaction(
                summary=words.message(), first_kept_entry_id=kept_id, tokens_before=100_000
            )
        else:
            text = words.message()
            asked = user_message(text, timestamp_ms=1)
            body = asked if place % 2 == 0 else answer(text, with_usage=True)
        yield Entry(id=entry_id, parent_id=parent, timestamp=STAMP, body=body)
        parent = entry_id


def write_session(path: Path, number: int, compact_every: int) -> None:
    """Puts a transcript of so many entries on disk."""
    with path.open("wb") as file:
        file.write(to_line(header_to_json(SessionHeader(id="s", timestamp=STAMP, cwd=str(path.parent)))))
        for entry in entries(number, compact_every):
            file.write(to_line(entry_to_json(entry)))


async def opened(path: Path) -> Journal:
    """The transcript, read by Nacre."""
    ids = count()
    return await Journal.open(
        path,
        session_id="s",
        cwd=path.parent,
        now=lambda: datetime(2026, 3, 1, 9, tzinfo=UTC),
        new_id=lambda: f"new-{next(ids)}",
    )


async def read_plainly(path: Path) -> list[object]:
    """The transcript, read by the shortest loop there is."""
    with path.open("rb") as file:
        return [json.loads(line) for line in file]


def timed_reading(read: Callable[[Path], Awaitable[object]], path: Path) -> tuple[float, int]:
    """Processor time of one reading in milliseconds, and by how many megabytes the process grew."""
    return asyncio.run(_timed_reading(read, path))


async def _timed_reading(read: Callable[[Path], Awaitable[object]], path: Path) -> tuple[float, int]:
    warm = path.with_suffix(".warm")
    write_session(warm, 10, 0)
    await read(warm)
    before = _resident_mb()
    started = time.process_time()
    kept = await read(path)
    took = (time.process_time() - started) * 1000
    grown = _resident_mb() - before
    del kept
    return took, grown


def _resident_mb() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def timed(calls: int, work: Callable[[], object]) -> float:
    """The median of so many calls, in milliseconds."""
    took = []
    for _ in range(calls):
        started = time.perf_counter()
        work()
        took.append((time.perf_counter() - started) * 1000)
    return median(took)


def append_plainly(path: Path, line: bytes) -> None:
    """What no transcript can do without: one write, one wait for the disk."""
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND)
    try:
        os.write(descriptor, line)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


async def measured_turns(path: Path) -> dict[str, float]:
    """Turns on an open transcript: question and answer are appended, and the view is measured twice."""
    journal = await opened(path)
    text = " ".join(Words(seed=2).question() for _ in range(6))

    spare = path.with_suffix(".plain")
    spare.touch()
    took: dict[str, list[float]] = defaultdict(list)
    for _ in range(TURNS):
        # Side by side, because a disk is now quick, now slow.
        took["plain append"].append(timed(1, partial(append_plainly, spare, b"x" * 600 + b"\n")))
        marks = [time.perf_counter()]
        await journal.append(user_message(text, timestamp_ms=1))
        marks.append(time.perf_counter())
        items = journal.transcript()
        marks.append(time.perf_counter())
        measure_context(items, journal.tree.branch(), estimate_tokens)
        marks.append(time.perf_counter())
        await journal.append(answer(text, with_usage=True))
        measure_context(journal.transcript(), journal.tree.branch(), estimate_tokens)
        marks.append(time.perf_counter())
        for name, begun, ended in zip(("append", "view", "count"), marks, marks[1:], strict=False):
            took[name].append((ended - begun) * 1000)
        took["turn"].append((marks[-1] - marks[0]) * 1000)
    branch, items = journal.tree.branch(), journal.transcript()

    remembering = counted_once(estimate_tokens)

    def estimate_all(count_tokens: Callable[[str], int]) -> int:
        return sum(estimate_message_tokens(item.message, count_tokens) for item in items)

    estimate_all(remembering)

    return {
        **{name: median(times) for name, times in took.items()},
        "view anew": timed(3, lambda: build_transcript(branch)),
        "estimate": timed(3, partial(estimate_all, estimate_tokens)),
        "estimate again": timed(3, partial(estimate_all, remembering)),
        "view items": float(len(items)),
    }


def measure(path: Path, number: int, compact_every: int) -> None:
    """Prints the rows of one size."""
    write_session(path, number, compact_every)
    readings = {}
    for name, read in (("plain", read_plainly), ("open", opened)):
        with ProcessPoolExecutor(max_workers=1, mp_context=get_context("spawn")) as process:
            readings[name] = process.submit(timed_reading, read, path).result()
    turns = asyncio.run(measured_turns(path))
    (plain_ms, plain_mb), (open_ms, open_mb) = readings["plain"], readings["open"]
    size_mb = path.stat().st_size / 1e6
    print(f"\n{number} entries, {size_mb:.1f} MB, {turns['view items']:.0f} messages in view")
    _row("open", open_ms, "plain JSON loop", plain_ms)
    print(f"  {'memory':22} {open_mb:9d} MB   {'plain JSON loop':16} {plain_mb:9d} MB")
    _row("append", turns["append"], "write and fsync", turns["plain append"])
    _row("view after an append", turns["view"], "view anew", turns["view anew"])
    print(f"  {'tokens, with usage':22} {turns['count']:9.3f} ms")
    _row("tokens without usage", turns["estimate again"], "counted anew", turns["estimate"])
    print(f"  {'a whole turn':22} {turns['turn']:9.3f} ms")


def _row(name: str, took_ms: float, beside: str, beside_ms: float) -> None:
    ratio = took_ms / beside_ms
    print(f"  {name:22} {took_ms:9.3f} ms   {beside:16} {beside_ms:9.3f} ms   × {ratio:.2f}")


def main() -> None:
    """Reads the arguments and measures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--entries", type=int, nargs="+", default=[100, 10_000, 200_000])
    parser.add_argument("--compact-every", type=int, default=400)
    parser.add_argument("--folder", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        for number in arguments.entries:
            measure(Path(folder) / f"{number}.jsonl", number, arguments.compact_every)


if __name__ == "__main__":
    main()
