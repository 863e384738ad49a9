"""The rooms drawn floor by floor for docs/engineering/rooms.md, from the imports as they are.

`python -m tests.house.drawing` writes the drawing into the document; `make fix` does so too.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from tests.house.law import LAW
from tests.house.rules.rooms import Floors, Law, RoomGraph
from tests.house.tree import ROOT, graph

DOCUMENT = ROOT / "docs" / "engineering" / "rooms.md"
START = "<!-- rooms: drawn from the code by `make fix` -->"
END = "<!-- rooms: end -->"

_SENTENCE_END = re.compile(r"(?<=[.!?])\s")


def drawing(graph: RoomGraph, law: Law, what: Callable[[str], str]) -> str:
    """A table for each root room: its rooms from top to bottom, what each is (`what`) and rests on."""
    roots = [root for floor in law.roots for root in floor]
    return "\n\n".join(
        _picture(root, law.floors.get(root, ((root,),)), graph, what) for root in roots if root in law.floors
    )


def with_drawing(text: str, drawn: str) -> str:
    """The document with a new drawing between its markers; `ValueError` without markers."""
    before, start, rest = text.partition(START)
    _, end, after = rest.partition(END)
    if not start or not end:
        raise ValueError(f"{START!r} and {END!r} must stand in the document, each once and in this order.")
    return f"{before}{START}\n\n{drawn}\n\n{END}{after}"


def first_sentence(room: str) -> str:
    """What a room is, in the first sentence of its README."""
    paragraph = (ROOT / room / "README.md").read_text(encoding="utf-8").split("\n\n")[1]
    return _SENTENCE_END.split(paragraph)[0].rstrip(".")


def current() -> str:
    """The drawing of this checkout."""
    return drawing(graph(), LAW, first_sentence)


def write(document: Path = DOCUMENT) -> None:
    """Put the drawing of this checkout into the document."""
    document.write_text(with_drawing(document.read_text(encoding="utf-8"), current()), encoding="utf-8")


def _picture(root: str, floors: Floors, graph: RoomGraph, what: Callable[[str], str]) -> str:
    rows = [f"| `{root}`, floor | Room | What it is | Rests on |", "|---|---|---|---|"]
    for at, floor in enumerate(floors):
        rows += [
            f"| {len(floors) - at if room == floor[0] else ''} | [`{room}`](../../{room}/) | {what(room)} "
            f"| {_rests_on(room, root, graph)} |"
            for room in floor
        ]
    return "\n".join(rows)


def _rests_on(room: str, root: str, graph: RoomGraph) -> str:
    """Rooms that it imports and that no other of these imports already; of other root rooms the names."""
    imported = set(graph.get(room, {}))
    inside = {name for name in imported if _root(name) == root}
    direct = {name for name in inside if not any(name in _below(other, graph) for other in inside - {name})}
    outside = {_root(name) for name in imported} - {root}
    names = [f"`{_short(name, root)}`" for name in sorted(direct)]
    return ", ".join(names + [f"*{name}*" for name in sorted(outside)]) or "nothing"


def _short(room: str, root: str) -> str:
    """A room's name without its root's, unless it would be a path in another root room then."""
    short = room.removeprefix(f"{root}/")
    is_elsewhere = "/" in short and short.partition("/")[0] in {name for row in LAW.roots for name in row}
    return room if is_elsewhere else short


def _below(room: str, graph: RoomGraph) -> set[str]:
    found: set[str] = set()
    waiting = [room]
    while waiting:
        fresh = set(graph.get(waiting.pop(), {})) - found
        found |= fresh
        waiting += fresh
    return found


def _root(room: str) -> str:
    return room.split("/", 1)[0]


if __name__ == "__main__":
    write()
