"""What a long session costs: its turns no more than others, counted in function calls; its opening memory."""

from __future__ import annotations

import cProfile
import json
import pstats
import subprocess
import sys
from pathlib import Path

import pytest

from nacre.sessions.contracts.messages import Usage
from nacre.sessions.disk.json_text import to_line
from nacre.sessions.entries.entries import Compaction, Entry, SessionHeader, entry_to_json, header_to_json
from nacre.sessions.journal.journal import JournalFile
from nacre.sessions.view.sent_view import measure_context
from nacre.sessions.view.transcript import TranscriptView
from tests.sessions.talk import STAMP, answer, counted_ids, ticking_clock, user, words

HEADER = SessionHeader(id="s-1", timestamp=STAMP, cwd="/w")


def write_long(path: Path, count: int) -> None:
    """A session of so many entries, compacted every fifty."""
    lines, parent = [to_line(header_to_json(HEADER))], None
    for place in range(count):
        if place % 50 == 49:
            kept = f"e{place - 10}"
            body = Compaction(summary="S", first_kept_entry_id=kept, tokens_before=1)
        else:
            body = user("q") if place % 2 else answer("a", usage=Usage(input_tokens=9))
        entry = Entry(id=f"e{place}", parent_id=parent, timestamp=STAMP, body=body)
        lines.append(to_line(entry_to_json(entry)))
        parent = entry.id
    path.write_bytes(b"".join(lines))


def calls_of_a_turn(path: Path) -> int:
    """How many functions are called for a question, the view of it and the measure of its window."""
    file = JournalFile(path, fresh_header=HEADER, now=ticking_clock(), new_id=counted_ids())
    file.load()
    view = TranscriptView()
    view.follow(file.linker.tree.branch())
    profile = cProfile.Profile()
    profile.enable()
    file.append(user("next"))
    items = view.follow(file.linker.tree.branch())
    measure_context(items, file.linker.tree.branch(), words)
    profile.disable()
    return int(pstats.Stats(profile).total_calls)


def test_a_turn_costs_the_same_in_a_long_session(tmp_path: Path) -> None:
    """Thirty times the history adds nothing to what a turn does."""
    short, long = tmp_path / "short.jsonl", tmp_path / "long.jsonl"
    write_long(short, 120)
    write_long(long, 3_620)
    calls_of_a_turn(short)  # what is done once in a process, such as imports
    assert abs(calls_of_a_turn(long) - calls_of_a_turn(short)) < 30


@pytest.mark.slow
def test_a_large_transcript_opens_in_little_more_memory_than_its_size(tmp_path: Path) -> None:
    """60 MB of it are read line by line: a process grows by less than twice the file."""
    path = tmp_path / "large.jsonl"
    script = (
        "import asyncio, resource, sys\n"
        "from pathlib import Path\n"
        "from tests.sessions.talk import opened\n"
        "def peak_mb():\n"
        "    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024\n"
        "async def main(path):\n"
        "    await opened(path.with_name('small.jsonl'))\n"
        "    before = peak_mb()\n"
        "    journal = await opened(path)\n"
        "    print(len(journal.tree.entries), len(journal.transcript()), peak_mb() - before)\n"
        "asyncio.run(main(Path(sys.argv[1])))\n"
    )
    with path.open("w", encoding="utf-8") as file:
        file.write('{"type":"session","version":3,"id":"s","timestamp":"","cwd":""}\n')
        for place in range(60_000):
            text = f"{place} " + "words and more words " * 42
            message = {"role": "user", "content": text, "timestamp": 1}
            entry = {"type": "message", "id": f"{place:08x}", "timestamp": "", "message": message}
            file.write(json.dumps({**entry, "parentId": f"{place - 1:08x}" if place else None}) + "\n")
    run = subprocess.run(
        [sys.executable, "-c", script, str(path)],
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert run.returncode == 0, run.stderr[-2000:]
    count, shown, grown_mb = run.stdout.split()
    assert (int(count), int(shown)) == (60_000, 60_000)
    assert float(grown_mb) < 2 * path.stat().st_size / 1e6
