"""The drawing of the rooms in docs/engineering/rooms.md is true, and is made from the imports alone."""

from __future__ import annotations

import pytest

from tests.house import drawing
from tests.house.rules.rooms import Law

LAW = Law(
    roots=(("runtime",), ("memory", "prompts")),
    floors={"runtime": (("runtime/turn",), ("runtime/loop", "runtime/sets"), ("runtime/tools",))},
)


def test_the_page_shows_the_rooms_as_they_are() -> None:
    """The drawing in the document is the one of the code; `make fix` draws it anew."""
    text = drawing.DOCUMENT.read_text(encoding="utf-8")

    assert drawing.with_drawing(text, drawing.current()) == text, "draw it anew with `make fix`"


def test_a_room_shows_only_what_it_rests_on_directly() -> None:
    """What a room reaches through another one is left out; other root rooms are named as such."""
    graph = {
        "runtime/turn": {
            "runtime/loop": ["x"],
            "runtime/tools": ["x"],
            "memory/text": ["x"],
            "prompts": ["x"],
        },
        "runtime/loop": {"runtime/tools": ["x"]},
        "runtime/sets": {},
        "runtime/tools": {},
    }

    assert drawing.drawing(graph, LAW, lambda room: f"the room {room}").splitlines()[2:] == [
        "| 3 | [`runtime/turn`](../../runtime/turn/) | the room runtime/turn | `loop`, *memory*, *prompts* |",
        "| 2 | [`runtime/loop`](../../runtime/loop/) | the room runtime/loop | `tools` |",
        "|  | [`runtime/sets`](../../runtime/sets/) | the room runtime/sets | nothing |",
        "| 1 | [`runtime/tools`](../../runtime/tools/) | the room runtime/tools | nothing |",
    ]


def test_only_the_text_between_the_markers_changes() -> None:
    """The story around the drawing stays, and an old drawing goes."""
    text = f"Before.\n{drawing.START}\nold\n{drawing.END}\nAfter.\n"

    assert drawing.with_drawing(text, "new") == (
        f"Before.\n{drawing.START}\n\nnew\n\n{drawing.END}\nAfter.\n"
    )


def test_a_document_without_markers_is_refused() -> None:
    """Nothing is written where nobody asked for a drawing."""
    with pytest.raises(ValueError, match="must stand in the document"):
        drawing.with_drawing("A story.\n", "new")
