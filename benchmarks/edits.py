"""What an edit of the index costs with so many sessions, and a look at it, beside one synced append.

    python -m benchmarks.edits [--sessions 10 1000 10000] [--edits 200] [--folder DIR]

`mirrored` edits tell what a transcript tells as well, as each turn's do, and do not wait for the disk; `kept`
ones, such as a new session's, do. Medians, in milliseconds; `beside` is the kept edit less the append.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from statistics import median

from benchmarks.session import append_plainly
from nacre.sessions.index.index import SessionIndex
from nacre.sessions.index.record import SessionRecord

LINE = b"x" * 300 + b"\n"


def line_of(number: int) -> SessionRecord:
    """A line as a chat leaves it."""
    return SessionRecord(
        session_id=f"{number:032x}",
        updated_at_ms=1_782_000_000_000,
        chat_type="direct",
        origin={"provider": "telegram", "chatType": "direct", "from": f"{number}"},
        delivery_context={"channel": "telegram", "to": f"{number}"},
        last_channel="telegram",
        last_to=f"{number}",
        system_sent=True,
        input_tokens=4_000,
        output_tokens=40,
        total_tokens=4_040,
        total_tokens_fresh=True,
        context_tokens=200_000,
        model_provider="benchmark",
        model="instant",
        compaction_count=0,
    )


def changed(name: str, value: int, present: SessionRecord | None) -> SessionRecord:
    """The line with one field set to a number, as text where it is text."""
    assert present is not None
    return replace(present, **{name: f"{value}" if name == "label" else value})


async def timed_ms(work: Callable[[], Awaitable[object]]) -> float:
    """How long one call takes, in milliseconds."""
    begun = time.perf_counter()
    await work()
    return (time.perf_counter() - begun) * 1000


async def measured(folder: Path, sessions: int, edits: int) -> None:
    """Prints the row of one size."""
    spare = folder / "spare"
    index = SessionIndex(folder, now=lambda: datetime.now(UTC))
    lines = {f"agent:main:telegram:dm:{number}": line_of(number) for number in range(sessions)}
    await index.edit(lambda _: lines)
    took: dict[str, list[float]] = {"append": [], "mirrored": [], "kept": [], "get": []}
    key = "agent:main:telegram:dm:7"
    for number in range(edits):
        # Side by side, because a disk is now quick, now slow.
        begun = time.perf_counter()
        append_plainly(spare, LINE)
        took["append"].append((time.perf_counter() - begun) * 1000)
        for name, field in (("mirrored", "total_tokens"), ("kept", "label")):
            edit = partial(index.update, key, partial(changed, field, number))
            took[name].append(await timed_ms(edit))
        took["get"].append(await timed_ms(partial(index.get, key)))
    await index.close()
    row = {name: median(times) for name, times in took.items()}
    told = "".join(f"   {name} {ms:.3f}" for name, ms in row.items())
    print(
        f"{sessions:>7,} sessions:{told}   beside {row['kept'] - row['append']:.3f}   "
        f"kept + get × {(row['kept'] + row['get']) / row['append']:.2f}"
    )


def main() -> None:
    """Reads the arguments and measures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--sessions", type=int, nargs="+", default=[10, 1_000, 10_000])
    parser.add_argument("--edits", type=int, default=200)
    parser.add_argument("--folder", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        for sessions in arguments.sessions:
            place = Path(folder) / f"{sessions}"
            place.mkdir()
            (place / "spare").touch()
            asyncio.run(measured(place, sessions, arguments.edits))


if __name__ == "__main__":
    main()
