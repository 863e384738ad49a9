"""Each rule for rooms fails for a bad tree of rooms, and passes a good one."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.house.rules import rooms as rules
from tests.house.rules.rooms import Law, Never
from tests.house.rules.source import Source
from tests.house.rules.test_files import source

LAW = Law(
    roots=(("runtime",), ("memory", "prompts")),
    floors={
        "runtime": (("runtime/agent",), ("runtime/turn", "runtime/recall"), ("runtime/tools",)),
        "memory": (("memory",), ("memory/text",)),
    },
    nevers=(Never(("runtime/t*",), ("memory*",), "a turn knows no notes", but=("memory/text",)),),
)


MODULES = (
    *("memory/engine.py", "memory/text/words.py", "prompts/rendering.py"),
    *(f"runtime/{name}/x.py" for name in ("agent", "turn", "recall", "tools")),
)
ROOMS = [source("", path) for path in MODULES]


def problems(text: str, path: str) -> list[str]:
    return rules.unlawful_imports(rules.room_graph([*ROOMS, source(text, path)]), LAW)


@pytest.mark.parametrize(
    ("path", "text", "told"),
    [
        pytest.param("memory/a.py", "import nacre.runtime.turn.x", "not below", id="up to another root"),
        pytest.param("memory/a.py", "import nacre.prompts.rendering", "not below", id="beside it"),
        pytest.param("memory/text/a.py", "from nacre.memory import engine", "not below", id="up in its root"),
        pytest.param("runtime/turn/a.py", "from ..recall import x", "not below", id="the same floor"),
        pytest.param("runtime/attic/a.py", "import nacre.memory.engine", "no floor", id="unknown room"),
        pytest.param("runtime/turn/a.py", "import nacre.memory.engine", "no notes", id="refused by name"),
        pytest.param("memory/a.py", "def f():\n    from nacre.runtime.turn import x", "not below", id="late"),
        pytest.param(
            "memory/a.py",
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import nacre.runtime.turn.x",
            "not below",
            id="for type checkers",
        ),
        pytest.param(
            "memory/a.py", "import_module('nacre.runtime.turn.x')", "not below", id="a module's name as text"
        ),
    ],
)
def test_imports_that_do_not_lead_down_are_told(path: str, text: str, told: str) -> None:
    """Each complaint names the file, the import and the reason."""
    [complaint] = problems(text, path)

    assert complaint.startswith(f"{path} imports nacre.")
    assert told in complaint


@pytest.mark.parametrize(
    ("path", "text"),
    [
        pytest.param("runtime/agent/a.py", "from nacre.runtime.turn import x", id="down"),
        pytest.param("runtime/agent/a.py", "from nacre.runtime.tools import x", id="down two floors"),
        pytest.param("runtime/recall/a.py", "from nacre.memory.engine import y", id="a lower root"),
        pytest.param("runtime/turn/a.py", "import nacre.memory.text.words", id="an exception to a refusal"),
        pytest.param("runtime/turn/a.py", "from . import x", id="its own room"),
        pytest.param("memory/a.py", "import json, apsw", id="strangers"),
    ],
)
def test_imports_that_lead_down_are_lawful(path: str, text: str) -> None:
    """A lower floor, a lower root room and the own room may be imported."""
    assert problems(text, path) == []


def test_every_room_needs_one_floor() -> None:
    """A room without a floor, a floor without its room, two floors, and a refusal of nobody are told."""
    law = Law(
        roots=(("memory", "prompts"),),
        floors={"memory": (("memory", "memory/gone"), ("memory",))},
        nevers=(Never(("memory",), ("attic*",), "nobody goes there"),),
    )

    assert rules.misplaced_rooms(["memory", "memory/new", "prompts"], law) == [
        "memory/new has no floor",
        "memory/gone has a floor and is not there",
        "memory has two floors",
        "no room is called attic*",
    ]
    assert rules.misplaced_rooms(rules.room_graph(ROOMS), LAW) == []


def test_a_folder_of_rooms_alone_is_no_room() -> None:
    """An `__init__` that imports nothing makes no room of its folder, and nobody's floor is asked for."""
    sources = [source('"""Databases."""', "memory/stores/__init__.py"), source("", "memory/stores/one/x.py")]

    assert list(rules.room_graph(sources)) == ["memory/stores/one"]


def test_cycles_are_found_however_long() -> None:
    """A circle over three modules is one complaint, and names the modules in order."""
    circle = [
        source("from nacre.memory import b", "memory/a.py"),
        source("def f():\n    from nacre.memory.c import x", "memory/b.py"),
        source("import nacre.memory.a", "memory/c.py"),
        source("from nacre.memory.a import y", "memory/d.py"),
    ]

    assert rules.import_cycles(circle) == [
        "nacre.memory.a -> nacre.memory.b -> nacre.memory.c -> nacre.memory.a"
    ]
    assert rules.import_cycles(circle[1:]) == []


def test_rooms_can_be_a_circle_where_no_modules_are() -> None:
    """Two rooms that take from each other are a circle, whichever modules do it."""
    rooms = [
        source("from nacre.memory.text.b import x", "memory/files/a.py"),
        source("", "memory/text/b.py"),
        source("import nacre.memory.files.d", "memory/text/c.py"),
        source("", "memory/files/d.py"),
    ]

    assert rules.import_cycles(rooms) == []
    assert rules.room_cycles(rules.room_graph(rooms)) == ["memory/files -> memory/text -> memory/files"]
    assert rules.room_cycles(rules.room_graph(rooms[:2])) == []


def test_package_names_are_no_detour_around_the_cycle_rule() -> None:
    """A module that takes a name from its own room's list, which imports it, is a circle."""
    pair = [
        source("from nacre.memory.a import y", "memory/__init__.py"),
        source("from nacre.memory import y", "memory/a.py"),
    ]

    assert rules.import_cycles(pair) == ["nacre.memory -> nacre.memory.a -> nacre.memory"]


def test_crowded_folders_are_counted() -> None:
    """A folder over its limit is reported with its number of entries."""
    assert rules.crowded_folders({"memory": 24, "sessions": 25}, 24) == ["sessions has 25 entries"]


def test_tests_stand_where_their_room_does() -> None:
    """Neither a folder of a room that is not there nor a kind of test that nobody named is passed."""
    folders = ["memory/text", "memory", "memory/faults", "fixtures/notes", "memory/texts", "odds"]

    assert rules.tests_without_room(folders, ["memory/text"], ["faults", "fixtures"]) == [
        "memory/texts",
        "odds",
    ]


@pytest.mark.parametrize(
    ("rule", "bad", "good"),
    [
        (rules.room_list_problems, "def f(): pass", '"""Names."""\nfrom nacre.memory.x import y'),
        (rules.taken_from_lists, "from nacre.memory import Chunk", "from nacre.memory.engine import x"),
        (rules.taken_from_lists, "from nacre import Agent", "from nacre import __version__"),
    ],
)
def test_lists_of_names_are_lists_for_users(rule: Callable[[Source], list[str]], bad: str, good: str) -> None:
    """A room's list holds no code, and no room takes its names from there."""
    assert rule(source(bad)) != []
    assert rule(source(good)) == []


def test_readme_must_list_each_file_with_a_door() -> None:
    """A file without a row, a row without a door, and a row without a file are all found."""
    readme = "\n".join(
        [
            "| File | What | Door |",
            "|---|---|---|",
            "| `a.py` | x | pure |",
            "| `a2.py` | x | pure, given its arguments |",
            "| `b.py` | y | |",
            "| `gone.py` | z | edge |",
        ]
    )

    assert rules.unlisted_files(readme, ["a.py", "a2.py", "b.py", "c.py"]) == [
        "b.py",
        "c.py",
        "gone.py (not there)",
    ]
