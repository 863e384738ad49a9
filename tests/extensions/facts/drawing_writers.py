"""Processes that note numbers and set them as facts of one identity, all at once, while another looks.

    python -m tests.extensions.facts.drawing_writers <folder> <processes> <numbers of each>

Each number is noted first, and then set as a fact. Whoever looks, between its own writes and from outside,
must never see a fact without the note. Prints how often that was looked at.
"""

from __future__ import annotations

import asyncio
import os
import sys
import traceback
from pathlib import Path

from nacre.extensions.facts.fact_pages import FactPages
from tests.extensions.facts.pages import Clock, open_facts


async def _looked(facts: FactPages) -> None:
    known = await facts.known("anna")
    noted = {note.text for note in known.notes}
    assert all(f"Number {fact.value} was drawn." in noted for fact in known.facts), known


async def _draw(folder: Path, first: int, count: int) -> None:
    facts = open_facts(folder, Clock())
    for number in range(first, first + count):
        await facts.note("anna", f"Number {number} was drawn.")
        await facts.set_fact("anna", f"drawn {number}", number)
        await _looked(facts)
    await facts.close()


def _drawing(folder: Path, first: int, count: int, gate: tuple[int, int]) -> None:
    """In a process of its own: waits until the gate opens for all, and draws."""
    os.close(gate[1])
    os.read(gate[0], 1)
    try:
        asyncio.run(_draw(folder, first, count))
    except BaseException:  # noqa: BLE001 - a forked process must not go on as the one that forked it
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


async def _looked_on(folder: Path, children: set[int]) -> int:
    facts = open_facts(folder, Clock())
    looks = 0
    while children:
        await _looked(facts)
        looks += 1
        for child in tuple(children):
            ended, status = os.waitpid(child, os.WNOHANG)  # noqa: ASYNC222 - it does not wait
            if ended:
                children.remove(child)
                assert os.waitstatus_to_exitcode(status) == 0
    await facts.close()
    return looks


def main(folder: Path, processes: int, count: int) -> None:
    """Starts them, opens the gate, and looks on until all have ended."""
    gate = os.pipe()
    children = set()
    for process in range(processes):
        child = os.fork()
        if not child:
            _drawing(folder, process * count, count, gate)
        children.add(child)
    for end in gate:
        os.close(end)
    sys.stdout.write(f"looked {asyncio.run(_looked_on(folder, children))} times\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
